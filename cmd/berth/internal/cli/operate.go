package cli

import (
	"cmp"
	"context"
	"errors"
	"os"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/berthadmin"
	"github.com/berth-go/berth/berthwatch"
	"github.com/berth-go/berth/cmd/berth/internal/exit"
	"github.com/berth-go/berth/cmd/berth/internal/screen"
	"github.com/berth-go/berth/cmd/berth/internal/value"
	"github.com/berth-go/berth/internal/words"
)

// The operator's verbs change a setting of one semaphore or of several, and
// print what it was and what is in force now.

// patternHelp is in the help of every verb that takes patterns.
const patternHelp = `

Several names can be given. A quoted pattern stands for the names in use that it
matches: * for any characters, ? for one, [a-z] for one of these; \ takes the
next character literally. With a pattern it asks first; --yes does not.`

// setting is a verb that changes a setting.
type setting struct {
	use, short, long, example string
	already                   string // why nothing has changed
	unused                    string // what to do about a name that is not in use, after a semicolon
}

var settings = []setting{{
	use:   "resize NAME... LIMIT",
	short: "Declare another limit, or other rates",
	long: `Declare another limit, as a program would: it is in force until the next program
declares its own. With a larger limit waiters get permits at once; with a
smaller one nothing is granted until there is room again. A pinned limit stays
in force: then it exits with 1. To override programs use "berth pin". The limit
none is no limit.

With --rate it declares rates, without LIMIT: those given replace all rates of
their units, and "none" removes them. Other units keep theirs. All are in force
until the next program declares rates. What was granted before counts for at
most one new window. Pinned rates stay: then it exits with 1.`,
	example: "  berth resize github-api 10\n  berth resize --rate 60/1m --rate tokens=90000/1m llm\n  berth resize --rate tokens=none llm",
	already: "it was declared so",
	unused:  `; "berth pin --create" sets a limit before its first use`,
}, {
	use:   "pin NAME... LIMIT",
	short: "Fix the limit, whatever programs declare",
	long: `Fix the limit, whatever programs declare, until "berth unpin". With a limit of 0
nothing is granted; holders keep their permits. A name that is not in use needs
--create.

With --rate it fixes rates, without LIMIT: those given replace all rates of
their units, and then all rates of the semaphore are fixed, those of other units
too, until "berth unpin --rate".`,
	example: "  berth pin github-api 2\n  berth pin --rate tokens=50000/1m llm\n  berth pin --yes 'api/*' 0",
	already: "it was pinned so",
	unused:  "; to pin it before its first use, add --create",
}, {
	use:     "unpin NAME...",
	short:   "Let programs declare the limit, or the rates, again",
	long:    "Let programs declare the limit again, or with --rate the rates.",
	example: "  berth unpin github-api\n  berth unpin --rate llm",
	already: "it was not pinned",
}, {
	use:   "pause NAME...",
	short: "Grant nothing until resumed",
	long: `Grant nothing until "berth resume", or for a time. Holders keep their permits,
and waiters their places. A longer pause is not shortened by --for. A name that
is not in use needs --create.`,
	example: "  berth pause deploy\n  berth pause --for 30s github-api\n  berth pause --yes 'api/*'",
	already: "it was paused",
	unused:  "; to pause it before its first use, add --create",
}, {
	use:     "resume NAME...",
	short:   "Grant permits again after a pause",
	long:    "Grant permits again after \"berth pause\".",
	example: "  berth resume deploy",
	already: "it was not paused",
}}

// change is one call of a verb.
type change struct {
	setting
	verb   string
	create bool
	limit  int           // that is to be in force, -1: any
	rates  value.Rates   // pin, resize: those of their units, in place of the limit
	rated  bool          // unpin: the rates, and not the limit
	lasts  time.Duration // pause: how long; 0: until resumed
}

func (a *app) settingCommand(s setting) *cobra.Command {
	cmd := &cobra.Command{
		Use: s.use, Short: s.short, Long: s.long + patternHelp, Example: s.example, GroupID: groupRule,
		Args: takes(1, -1, "the semaphore's name is"),
	}
	c := change{setting: s, verb: cmd.Name(), limit: -1}
	limited := strings.HasSuffix(s.use, "LIMIT")
	if limited {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			if c.rates != nil {
				return takes(1, -1, "the semaphore's name is")(cmd, args)
			}
			return takes(2, -1, "the semaphore's name or the limit is")(cmd, args)
		}
	}
	a.verbFlags(cmd)
	switch c.verb {
	case "resize":
		cmd.Flags().Var(&c.rates, "rate", "declare the rates of a unit, `[UNIT=]N/DURATION[+BURST]`, and\nno limit: 60/1m, tokens=90000/min, tokens=none; can be\nrepeated")
	case "pin":
		cmd.Flags().Var(&c.rates, "rate", "fix the rates, with `[UNIT=]N/DURATION[+BURST]` for those of a\nunit, and no limit: 60/1m, tokens=90000/min, tokens=none;\ncan be repeated")
	case "unpin":
		cmd.Flags().BoolVar(&c.rated, "rate", false, "the rates, and not the limit")
	}
	if c.verb == "pin" || c.verb == "pause" {
		cmd.Flags().BoolVar(&c.create, "create", false, "also if the name is not in use")
	}
	if c.verb == "pause" {
		cmd.Flags().Var(value.Duration(&c.lasts, 0), "for", "end it after this `DURATION`: 30s, 10m (default: only\n\"berth resume\" ends it)")
		cmd.Flags().Lookup("for").DefValue = "" // 0 means nothing to a reader
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		if cmd.Flags().Changed("for") && c.lasts < berth.MinTTL {
			return exit.Usagef("--for %v: it must be at least %v", c.lasts, berth.MinTTL)
		}
		if limited {
			if args, err = c.takeLimit(cmd, args); err != nil {
				return err
			}
		}
		switch {
		case c.verb == "resize" && c.limit == 0 && c.rates == nil:
			return exit.Usagef(`a limit is at least 1: "berth pause" grants nothing, and so does "berth pin" with 0`)
		case c.verb == "pause" && slices.ContainsFunc(args, isDuration):
			c.unused = "; use --for to say for how long: berth pause --for 30s NAME" + c.unused
		case !limited && slices.ContainsFunc(args, isNumber):
			c.unused = "; berth " + c.verb + " takes no limit" + c.unused
		}
		return a.change(&c, args)
	}
	return cmd
}

// takeLimit takes the limit, which is the last argument, and returns the others.
func (c *change) takeLimit(cmd *cobra.Command, args []string) (names []string, err error) {
	before, last := args[:len(args)-1], args[len(args)-1]
	limit, err := value.ParseLimit(last)
	switch {
	case c.rates != nil && err == nil && len(before) > 0:
		return nil, exit.Usagef("with --rate there is no LIMIT: leave %q out, or name it first if it is a name", last)
	case c.rates != nil:
		return args, nil
	case err != nil:
		return nil, notLimit(cmd, args)
	}
	c.limit = limit
	return before, nil
}

func isNumber(arg string) bool {
	_, err := strconv.Atoi(arg)
	return err == nil
}

// isDuration reports whether an argument looks like one more than like a name.
func isDuration(arg string) bool {
	_, err := words.ParseDuration(arg)
	return err == nil
}

// notLimit refuses arguments of which the last is not a limit.
func notLimit(cmd *cobra.Command, args []string) error {
	names := slices.DeleteFunc(slices.Clone(args), isNumber)
	if len(names) == len(args)-1 {
		return exit.Usagef("the limit %q is neither a number nor none: it comes after the names: berth %s", args[len(args)-1], cmd.Use)
	}
	return exit.Usagef("the limit %q is neither a number nor none", args[len(args)-1])
}

// verbFlags defines the flags of every verb.
func (a *app) verbFlags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&a.reason, "reason", "", "why; \"berth audit\" shows it, as do a pause and a pin")
	mayBeEmpty(cmd.Flags(), "reason")
	cmd.Flags().BoolVarP(&a.yes, "yes", "y", false, "do not ask")
	cmd.Flags().BoolVar(&a.asJSON, "json", false, "print the outcome as JSON")
}

// change executes a verb. It changes nothing unless all names can be used. What a pattern
// matches and cannot be read is left out, and the error at the end.
func (a *app) change(c *change, args []string) error {
	asks := slices.ContainsFunc(args, isPattern)
	if asks && c.create {
		return exit.Usagef("--create needs names, not a pattern")
	}
	if asks {
		if err := a.mustAsk("a pattern can match more than was meant"); err != nil {
			return err
		}
	}
	return a.operate(func(in *berthadmin.Inspector) error {
		names, left, err := a.chosen(in, args)
		if err != nil {
			return err
		}
		before, err := a.targets(in, names, args, c.create, ", nothing was changed"+c.unused)
		if err != nil {
			return err
		}
		if asks {
			var plan strings.Builder
			for _, t := range before {
				plan.WriteString(sentence(t.name, standing(t.state), screen.Width(a.stderr)))
			}
			if err := a.confirm(plan.String(), c.question(len(before))); err != nil {
				return err
			}
		}
		var errs []error
		for _, t := range before {
			errs = append(errs, a.changeOne(in, c, t))
		}
		return cmp.Or(errors.Join(errs...), left)
	})
}

func (c *change) question(n int) string {
	question := strings.ToUpper(c.verb[:1]) + c.verb[1:] + " " + words.Plural(n, "semaphore")
	switch {
	case c.rates != nil:
		question += " to the rate " + c.rates.String()
	case c.limit >= 0:
		question += " to " + screen.Declared(c.limit)
	}
	return question + "?"
}

func (a *app) changeOne(in *berthadmin.Inspector, c *change, t target) error {
	action := berthwatch.Action{Verb: c.verb, Name: t.name, Limit: c.limit, Rates: c.rates.String(), Rated: c.rated, For: c.lasts}
	if err := a.ask(func(ctx context.Context) error { return action.Do(ctx, in) }); err != nil {
		return err
	}
	after, err := look(in, t.name)
	if err != nil {
		return err
	}
	line := difference(t.state, after)
	if sameSettings(t.state, after) {
		line += " (nothing changed: " + c.already
		if a.reason != "" {
			line += "; the reason is not recorded"
		}
		line += ")"
	}
	if err := a.result(outcomeOf(c.verb, t.name, t.state, after), line); err != nil {
		return err
	}
	if c.limit >= 0 && after != nil && after.Pinned && after.Limit != c.limit {
		return exit.Errorf(exit.Failure, "the limit of %q stays %d: it is pinned; use \"berth pin\" or \"berth unpin\"", t.name, after.Limit)
	}
	return nil
}

// operate runs an operator's verb, which may ask a person in between.
func (a *app) operate(f func(in *berthadmin.Inspector) error) error {
	return a.with(func(s *session) error { return a.printOutcomes(f(s.operator(a.reason))) })
}

// operator returns an Inspector that records changes as this user's.
func (s *session) operator(why string) *berthadmin.Inspector {
	return s.in.Because(whoami(), why)
}

// whoami is this user at this machine.
func whoami() string {
	name := os.Getenv("USER")
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	host, _ := os.Hostname()
	who := strings.Map(func(r rune) rune {
		if unicode.IsGraphic(r) && r != unicode.ReplacementChar {
			return r
		}
		return -1
	}, cmp.Or(name, "somebody")+"@"+cmp.Or(host, "unknown"))
	return strings.ToValidUTF8(who[:min(len(who), 100)], "")
}

func (a *app) purgeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "purge NAME...",
		Short: "Delete semaphores with everything in them",
		Long: `Delete semaphores with everything in them: leases, queue, pins, pause. Holders
learn of their loss when they renew, at the latest; until then the limit can be
exceeded. It shows what there is, and asks; without a terminal it needs --yes.
It takes names, not patterns.`,
		Example: "  berth purge old-name\n  berth purge --yes test-1 test-2",
		GroupID: groupRule,
		Args:    takes(1, -1, "the semaphore's name is"),
	}
	a.verbFlags(cmd)
	cmd.RunE = func(_ *cobra.Command, names []string) error { return a.purge(names) }
	return cmd
}

func (a *app) purge(args []string) error {
	if err := a.mustAsk("this deletes semaphores with their leases and queues"); err != nil {
		return err
	}
	names := slices.Compact(slices.Sorted(slices.Values(args)))
	return a.operate(func(in *berthadmin.Inspector) (err error) {
		before, is, plan := make([]*berthadmin.State, len(names)), make([]string, len(names)), ""
		for i, name := range names {
			if before[i], is[i], err = remains(in, name); err != nil {
				return err
			}
			plan += sentence(name, is[i], screen.Width(a.stderr))
		}
		if err := a.confirm(plan, "Delete "+words.Plural(len(names), "semaphore")+", with leases and queues?"); err != nil {
			return err
		}
		var errs []error
		for i, name := range names {
			err := a.ask(func(ctx context.Context) error { return in.Purge(ctx, name) })
			if err == nil {
				o := outcomeOf("purge", name, before[i], nil)
				o.Changed = true
				err = a.result(o, is[i]+" → deleted")
			}
			errs = append(errs, err)
		}
		return errors.Join(errs...)
	})
}

// remains describes what there is to delete. A damaged semaphore is not an error here,
// because purge is the way to repair it. One that a newer berth wrote is: its permits are
// in order, and in use.
func remains(in *berthadmin.Inspector, name string) (state *berthadmin.State, text string, err error) {
	state, err = look(in, name)
	if bad, ok := errors.AsType[*berth.CorruptError](err); ok && !bad.Newer {
		return nil, "damaged", nil
	}
	if err == nil && state == nil {
		err = unusedf("semaphore %q is not in use, nothing was changed", name)
	}
	return state, standing(state), err
}

// tell prints the new state of a semaphore, except where JSON is wanted.
func (a *app) tell(name, what string) error {
	if a.quiet || a.asJSON {
		return nil
	}
	return a.print(sentence(name, what, a.columns()))
}

func sentence(name, what string, columns int) string {
	return fill(screen.Clean(name+": "+what), columns) + "\n"
}
