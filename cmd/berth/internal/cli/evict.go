package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berth-go/berth/berthadmin"
	"github.com/berth-go/berth/berthwatch"
	"github.com/berth-go/berth/cmd/berth/internal/exit"
	"github.com/berth-go/berth/cmd/berth/internal/screen"
	"github.com/berth-go/berth/internal/words"
)

// eviction has the flags of "berth evict".
type eviction struct {
	label, tenant, host string
	pid                 int
	force               bool
}

// selects reports whether leases are chosen by flags, not by ids.
func (e *eviction) selects() bool {
	return e.label != "" || e.tenant != "" || e.host != "" || e.pid != 0
}

// check refuses a process that nobody is.
func (e *eviction) check(cmd *cobra.Command) error {
	if cmd.Flags().Changed("pid") && e.pid < 1 {
		return exit.Usagef("--pid %d: a process has a number from 1", e.pid)
	}
	return nil
}

// evictee is a lease or a waiter to evict. A waiter is described as a holder, held since it
// waits.
type evictee struct {
	berthadmin.Holder
	semaphore, role string
}

// who describes it in a sentence.
func (v *evictee) who() string {
	return fmt.Sprintf("%s %s (%s, pid %s), lease %s", v.role, cmp.Or(v.Label, "-"), cmp.Or(v.Host, "-"), pidOrDash(v.PID), v.ID)
}

func (a *app) evictCommand() *cobra.Command {
	var e eviction
	cmd := &cobra.Command{
		Use:   "evict NAME LEASE... | evict [flags] NAME...",
		Short: "Evict holders and waiters",
		Long: `Evict holders from their permits, and waiters from the queue: those with the
given ids, which "berth show" prints, or all with a label, or of a tenant, a
host or a process. It shows which, and asks; without a terminal it needs --yes.

A holder is asked to stop, and its lease is no longer renewed: its permits are
free when it gives them back, or when its lease expires. With --force they are
free at once, whether or not the holder has stopped: for a short time the limit
can be exceeded.

With --label, --tenant, --host or --pid a NAME can be a quoted pattern, '*' for
all.`,
		Example: `  berth evict github-api 4dpzgv5b.nw2v575kk6ad2by5ei-1
  berth evict --host web-3 '*'
  berth evict --yes --force --label sync github-api`,
		GroupID: groupRule,
		Args: func(cmd *cobra.Command, args []string) error {
			if err := cmp.Or(noEmptyFlags(cmd), e.check(cmd)); err != nil {
				return err
			}
			if len(args) == 0 || len(args) == 1 && !e.selects() {
				return exit.Usagef("name the leases, or choose them by --label, --tenant, --host or --pid: berth evict NAME LEASE...")
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&e.label, "label", "", "those with this label")
	f.StringVar(&e.tenant, "tenant", "", "those of this tenant")
	f.StringVar(&e.host, "host", "", "those of this host")
	f.IntVar(&e.pid, "pid", 0, "those of the process with this number")
	f.BoolVar(&e.force, "force", false, "free the permits at once")
	a.verbFlags(cmd)
	cmd.RunE = func(_ *cobra.Command, args []string) error { return a.evict(&e, args) }
	return cmd
}

func (a *app) evict(e *eviction, args []string) error {
	if err := a.mustAsk("an eviction cannot be undone"); err != nil {
		return err
	}
	return a.operate(func(in *berthadmin.Inspector) (err error) {
		names, ids := args[:1], args[1:]
		var left error
		if e.selects() {
			if names, left, err = a.chosen(in, args); err != nil {
				return err
			}
			ids = nil
		}
		before, err := a.targets(in, names, args, false, "")
		if err != nil {
			return err
		}
		list, err := e.find(before, ids)
		if err != nil {
			return err
		}
		if err := a.confirm(evicteesTable(list).text(screen.Width(a.stderr)), e.question(list)); err != nil {
			return err
		}
		return cmp.Or(a.evictAll(in, e, list, before), left)
	})
}

// find returns the leases and waiters to evict, by ids or by flags.
func (e *eviction) find(before []target, ids []string) (found []evictee, err error) {
	for _, t := range before {
		for _, v := range everybody(t.state) {
			if e.wants(&v, ids) {
				found = append(found, v)
			}
		}
	}
	for _, id := range ids {
		if !slices.ContainsFunc(found, func(v evictee) bool { return v.ID == id }) {
			return nil, exit.Errorf(exit.Failure, "%q is neither a holder nor a waiter of %q%s", id, before[0].name, flagFor(id, before[0].state))
		}
	}
	if len(found) == 0 {
		return nil, exit.Errorf(exit.Failure, "no holder and no waiter is chosen by these flags")
	}
	return found, nil
}

// flagFor tells the flag for what was given in place of an id.
func flagFor(word string, s *berthadmin.State) string {
	for _, v := range everybody(s) {
		switch word {
		case "": // what an unset variable of a shell leaves
		case v.Label:
			return "; to choose by label, use --label"
		case v.Tenant:
			return "; to choose by tenant, use --tenant"
		case v.Host:
			return "; to choose by host, use --host"
		case strconv.Itoa(v.PID):
			return "; to choose by process, use --pid"
		}
	}
	return ""
}

func (e *eviction) wants(v *evictee, ids []string) bool {
	if !e.selects() {
		return slices.Contains(ids, v.ID)
	}
	return (e.label == "" || e.label == v.Label) && (e.tenant == "" || e.tenant == v.Tenant) &&
		(e.host == "" || e.host == v.Host) && (e.pid == 0 || e.pid == v.PID)
}

// everybody returns the waiters and the holders of a semaphore, in this order:
// a permit that is freed must not go to somebody who is evicted next.
func everybody(s *berthadmin.State) (all []evictee) {
	for _, w := range s.Queue {
		all = append(all, evictee{
			berthadmin.Holder{ID: w.ID, Label: w.Label, Tenant: w.Tenant, Host: w.Host, PID: w.PID, Weight: w.Weight, Held: w.Waited}, s.Name, "waiter",
		})
	}
	for _, h := range s.Leases {
		all = append(all, evictee{h, s.Name, "holder"})
	}
	return all
}

func evicteesTable(list []evictee) *table {
	t := newTable("NAME", "ROLE", "LABEL", tenantColumn, "HOST", "PID", "WEIGHT", "SINCE", "LEASE")
	for _, v := range list {
		t.row(v.semaphore, v.role, cmp.Or(v.Label, "-"), v.Tenant, cmp.Or(v.Host, "-"),
			pidOrDash(v.PID), strconv.Itoa(v.Weight), screen.Age(v.Held), v.ID)
	}
	return t.optional(tenantColumn)
}

func (e *eviction) question(list []evictee) string {
	count := map[string]int{}
	for _, v := range list {
		count[v.role]++
	}
	var who []string
	for _, role := range []string{"holder", "waiter"} {
		if count[role] > 0 {
			who = append(who, words.Plural(count[role], role))
		}
	}
	question := "Evict " + strings.Join(who, " and ")
	if e.force && count["holder"] > 0 {
		question += ", whose permits are free even while they still work"
	}
	return question + "?"
}

// evictAll evicts them one by one, and describes each semaphore afterwards.
func (a *app) evictAll(in *berthadmin.Inspector, e *eviction, list []evictee, before []target) error {
	var errs []error
	all := map[string][]evicted{}
	for _, v := range list {
		action := berthwatch.Action{Verb: "evict", Name: v.semaphore, ID: v.ID, Force: e.force}
		err := a.ask(func(ctx context.Context) error { return action.Do(ctx, in) })
		gone := errors.Is(err, berthadmin.ErrNotFound)
		if err == nil || gone {
			word, text := e.outcome(&v, gone)
			all[v.semaphore] = append(all[v.semaphore], evicted{v.ID, v.role, v.Label, v.Tenant, v.Host, v.PID, word})
			err = a.tell(v.semaphore, v.who()+": "+text)
		}
		errs = append(errs, err)
	}
	for _, t := range before {
		now, err := look(in, t.name)
		if err == nil {
			o := outcomeOf("evict", t.name, t.state, now)
			o.Evicted = all[t.name]
			o.Changed = slices.ContainsFunc(o.Evicted, func(v evicted) bool { return v.Outcome != outcomeGone && v.Outcome != outcomeTold })
			err = a.result(o, difference(t.state, now))
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// Outcomes of an eviction, in a word.
const (
	outcomeGone    = "gone"    // already
	outcomeRemoved = "removed" // from the queue
	outcomeFreed   = "freed"   // at once
	outcomeTold    = "told"    // before, and nothing changed
	outcomeAsked   = "asked"   // to stop
)

func (e *eviction) outcome(v *evictee, gone bool) (word, text string) {
	switch {
	case gone:
		return outcomeGone, "had gone already"
	case v.role == "waiter":
		return outcomeRemoved, "is out of the queue"
	case e.force:
		return outcomeFreed, "its permits are free"
	case v.Evicting:
		return outcomeTold, "nothing changed, it was told to stop before; --force frees its permits"
	default:
		return outcomeAsked, "is told to stop; its permits are free when it does, or in " + screen.Age(v.ExpiresIn)
	}
}
