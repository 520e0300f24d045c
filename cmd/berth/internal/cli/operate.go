package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/cmd/berth/internal/exit"
	"github.com/berth-go/berth/cmd/berth/internal/screen"
	"github.com/berth-go/berth/internal/words"
)

// The operator's verbs change a setting of one semaphore or of several, and
// print what it was and what is in force now.

// patternHelp is in the help of every verb that takes patterns.
const patternHelp = `

Several names can be given. A quoted pattern stands for the names in use that it
matches: * for any characters, ? for one, [a-z] for one of these, \ before what
is to be taken as it is. With a pattern it asks first; --yes does not.`

// setting is a verb: what it does to one semaphore, and what to say if that changes
// nothing.
type setting struct {
	name    string
	do      func(ctx context.Context, in *berth.Inspector, name string) error
	already string // why nothing has changed
	unused  string // what to do about a name that is not in use, after a semicolon
	create  bool   // such a name is taken all the same
	yes     bool
	limit   int // that is to be in force, -1: any
}

func (a *app) resizeCommand() *cobra.Command {
	return a.limitVerb(cobra.Command{
		Use:   "resize NAME... LIMIT",
		Short: "Declare another limit",
		Long: `Declare another limit, as a program would: it is in force until the next program
declares its own. With a larger limit waiters get permits at once; with a
smaller one nothing is granted until there is room again. A pinned limit stays
in force: then it exits with 1. To override programs use "berth pin".` + patternHelp,
		Example: "  berth resize github-api 10",
	}, setting{
		already: "it was declared so",
		unused:  `; "berth pin --create" sets a limit before its first use`,
	}, (*berth.Inspector).Resize)
}

func (a *app) pinCommand() *cobra.Command {
	return a.limitVerb(cobra.Command{
		Use:   "pin NAME... LIMIT",
		Short: "Fix the limit, whatever programs declare",
		Long: `Fix the limit, whatever programs declare, until "berth unpin". With a limit of 0
nothing is granted; holders keep their permits. A name that is not in use needs
--create.` + patternHelp,
		Example: "  berth pin github-api 2\n  berth pin --yes 'api/*' 0",
	}, setting{
		already: "it was pinned so",
		unused:  "; to pin it before its first use, add --create",
	}, (*berth.Inspector).Pin)
}

func (a *app) unpinCommand() *cobra.Command {
	return a.nameVerb(cobra.Command{
		Use:     "unpin NAME...",
		Short:   "Let programs declare the limit again",
		Long:    "Let programs declare the limit again." + patternHelp,
		Example: "  berth unpin github-api",
	}, setting{already: "it was not pinned"}, (*berth.Inspector).Unpin)
}

func (a *app) pauseCommand() *cobra.Command {
	return a.nameVerb(cobra.Command{
		Use:   "pause NAME...",
		Short: "Grant nothing until resumed",
		Long: `Grant nothing until "berth resume". Holders keep their permits, and waiters
their places. A name that is not in use needs --create.` + patternHelp,
		Example: "  berth pause deploy\n  berth pause --yes 'api/*'",
	}, setting{
		already: "it was paused",
		unused:  "; to pause it before its first use, add --create",
	}, (*berth.Inspector).Pause)
}

func (a *app) resumeCommand() *cobra.Command {
	return a.nameVerb(cobra.Command{
		Use:     "resume NAME...",
		Short:   "Grant permits again after a pause",
		Long:    "Grant permits again after \"berth pause\"." + patternHelp,
		Example: "  berth resume deploy",
	}, setting{already: "it was not paused"}, (*berth.Inspector).Resume)
}

// nameVerb is a verb with nothing but names.
func (a *app) nameVerb(cmd cobra.Command, v setting, do func(*berth.Inspector, context.Context, string) error) *cobra.Command {
	v.limit = -1
	v.do = func(ctx context.Context, in *berth.Inspector, name string) error { return do(in, ctx, name) }
	cmd.Args = takes(1, -1, "the semaphore's name is")
	cmd.RunE = runs(func(_ *cobra.Command, names []string) error { return a.set(v, names) })
	return a.verbFlags(&cmd, &v)
}

// limitVerb is a verb with names and a limit.
func (a *app) limitVerb(cmd cobra.Command, v setting, do func(*berth.Inspector, context.Context, string, int) error) *cobra.Command {
	cmd.Args = takes(2, -1, "the semaphore's name or the limit is")
	cmd.RunE = runs(func(_ *cobra.Command, args []string) error {
		names, last := args[:len(args)-1], args[len(args)-1]
		limit, err := strconv.Atoi(last)
		if err != nil {
			return exit.Usagef("the limit %q is not a number", last)
		}
		v.limit = limit
		v.do = func(ctx context.Context, in *berth.Inspector, name string) error { return do(in, ctx, name, limit) }
		return a.set(v, names)
	})
	return a.verbFlags(&cmd, &v)
}

func (a *app) verbFlags(cmd *cobra.Command, v *setting) *cobra.Command {
	v.name = cmd.Name()
	cmd.GroupID = groupRule
	cmd.Flags().BoolVarP(&v.yes, "yes", "y", false, "do not ask")
	a.reasonFlag(cmd)
	if v.name == "pin" || v.name == "pause" {
		cmd.Flags().BoolVar(&v.create, "create", false, "also if the name is not in use")
	}
	return cmd
}

// set executes a verb. It changes nothing unless all names can be used.
func (a *app) set(v setting, args []string) error {
	if anyPattern(args) {
		if v.create {
			return exit.Usagef("--create needs names, not a pattern")
		}
		if err := a.mustAsk(v.yes, "a pattern can match more than was meant"); err != nil {
			return err
		}
	}
	return a.operate(func(in *berth.Inspector) error {
		names, err := a.expand(in, args)
		if err != nil {
			return err
		}
		names, before, err := a.standings(in, names, args, v)
		if err != nil {
			return err
		}
		if anyPattern(args) {
			if err := a.confirm(v.yes, a.plan(names, before), v.question(len(names))); err != nil {
				return err
			}
		}
		var errs []error
		for i, name := range names {
			errs = append(errs, a.setOne(in, v, name, before[i]))
		}
		return errors.Join(errs...)
	})
}

func (v *setting) question(n int) string {
	question := strings.ToUpper(v.name[:1]) + v.name[1:] + " " + words.Plural(n, "semaphore")
	if v.limit >= 0 {
		question += fmt.Sprintf(" to %d", v.limit)
	}
	return question + "?"
}

// standings returns the semaphores as they are, nil for one that is not in use and may
// be created. Others that are not in use are refused if args name them, and left out,
// with a message, if only a pattern has matched them.
func (a *app) standings(in *berth.Inspector, names, args []string, v setting) (kept []string, states []*berth.State, err error) {
	for _, name := range names {
		state, err := look(in, name)
		switch {
		case err != nil:
			return nil, nil, err
		case state != nil || v.create:
			kept, states = append(kept, name), append(states, state)
		case slices.Contains(args, name):
			return nil, nil, exit.Errorf(exit.Failure, "semaphore %q is not in use, nothing was changed%s", name, v.unused)
		default:
			a.leftOut(name)
		}
	}
	if len(kept) == 0 {
		return nil, nil, errNoneLeft
	}
	return kept, states, nil
}

// plan shows the semaphores that are to be changed.
func (a *app) plan(names []string, states []*berth.State) (text string) {
	for i, name := range names {
		text += fill(screen.Clean(name+": "+standing(states[i])), screen.Width(a.stderr)) + "\n"
	}
	return text
}

func (a *app) setOne(in *berth.Inspector, v setting, name string, before *berth.State) error {
	if err := ask(func(ctx context.Context) error { return v.do(ctx, in, name) }); err != nil {
		return err
	}
	after, err := look(in, name)
	if err != nil {
		return err
	}
	line := change(before, after)
	if sameSettings(before, after) {
		line += " (nothing changed: " + v.already + ")"
	}
	if err := a.tell(name, line); err != nil {
		return err
	}
	if v.limit >= 0 && after != nil && after.Pinned && after.Limit != v.limit {
		return exit.Errorf(exit.Failure, "the limit of %q stays %d: it is pinned; use \"berth pin\" or \"berth unpin\"", name, after.Limit)
	}
	return nil
}

// tell prints the new state of a semaphore.
func (a *app) tell(name, what string) error {
	if a.quiet {
		return nil
	}
	return a.print(fill(screen.Clean(name+": "+what), a.columns()) + "\n")
}
