package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/cmd/berth/internal/exit"
	"github.com/berth-go/berth/cmd/berth/internal/screen"
	"github.com/berth-go/berth/internal/words"
)

// eviction has the flags of "berth evict".
type eviction struct {
	label, host string
	pid         int
	force, yes  bool
}

// selects reports whether leases are chosen by flags, not by ids.
func (e *eviction) selects() bool { return e.label != "" || e.host != "" || e.pid != 0 }

// evictee is a lease or a waiter to evict.
type evictee struct {
	semaphore, id, label, host string
	pid, weight                int
	since, left                time.Duration
	holds                      bool
	told                       bool // evicted before, and still there
}

func (v *evictee) role() string {
	if v.holds {
		return "holder"
	}
	return "waiter"
}

// who describes it in a sentence.
func (v *evictee) who() string {
	return fmt.Sprintf("%s %s (%s, pid %d), lease %s", v.role(), cmp.Or(v.label, "-"), cmp.Or(v.host, "-"), v.pid, v.id)
}

func (a *app) evictCommand() *cobra.Command {
	var e eviction
	cmd := &cobra.Command{
		Use:   "evict NAME LEASE... | evict [flags] NAME...",
		Short: "Evict holders and waiters",
		Long: `Evict holders from their permits, and waiters from the queue: those with the
given ids, which "berth show" prints, or all with a label, of a host or of a
process. It shows which, and asks; without a terminal it needs --yes.

A holder is told to stop, and its lease is no longer renewed: its permits are
free when it gives them back, or when its lease expires. With --force they are
free at once, whether or not the holder has stopped: for a short time the limit
can be exceeded.

With --label, --host or --pid a NAME can be a quoted pattern, '*' for all.`,
		Example: `  berth evict github-api 4dpzgv5b.nw2v575kk6ad2by5ei-1
  berth evict --host web-3 '*'
  berth evict --yes --force --label sync github-api`,
		GroupID: groupRule,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 || len(args) == 1 && !e.selects() {
				return exit.Usagef("name the leases, or choose them by --label, --host or --pid: berth evict NAME LEASE...")
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&e.label, "label", "", "those with this label")
	f.StringVar(&e.host, "host", "", "those of this host")
	f.IntVar(&e.pid, "pid", 0, "those of the process with this number")
	f.BoolVar(&e.force, "force", false, "free the permits at once")
	f.BoolVarP(&e.yes, "yes", "y", false, "do not ask")
	a.reasonFlag(cmd)
	cmd.RunE = runs(func(_ *cobra.Command, args []string) error { return a.evict(&e, args) })
	return cmd
}

func (a *app) evict(e *eviction, args []string) error {
	if err := a.mustAsk(e.yes, "an eviction cannot be undone"); err != nil {
		return err
	}
	return a.operate(func(in *berth.Inspector) (err error) {
		names, ids := args[:1], args[1:]
		if e.selects() {
			if names, err = a.expand(in, args); err != nil {
				return err
			}
			ids = nil
		}
		before, err := a.inUse(in, names, args)
		if err != nil {
			return err
		}
		list, err := e.find(before, ids)
		if err != nil {
			return err
		}
		if err := a.confirm(e.yes, evicteesTable(list).text(screen.Width(a.stderr)), e.question(list)); err != nil {
			return err
		}
		return a.evictAll(in, e, list, before)
	})
}

// inUse returns the semaphores. One that is not in use is an error if args name it, and
// otherwise left out.
func (a *app) inUse(in *berth.Inspector, names, args []string) (all []*berth.State, err error) {
	for _, name := range names {
		state, err := look(in, name)
		switch {
		case err != nil:
			return nil, err
		case state != nil:
			all = append(all, state)
		case slices.Contains(args, name):
			return nil, exit.Errorf(exit.Failure, "semaphore %q is not in use", name)
		default:
			a.leftOut(name)
		}
	}
	if len(all) == 0 {
		return nil, errNoneLeft
	}
	return all, nil
}

// find returns the leases and waiters to evict, by ids or by flags.
func (e *eviction) find(states []*berth.State, ids []string) (found []evictee, err error) {
	for _, s := range states {
		for _, v := range everybody(s) {
			if e.wants(&v, ids) {
				found = append(found, v)
			}
		}
	}
	for _, id := range ids {
		if !slices.ContainsFunc(found, func(v evictee) bool { return v.id == id }) {
			return nil, exit.Errorf(exit.Failure, "%q is neither a holder nor a waiter of %q", id, states[0].Name)
		}
	}
	if len(found) == 0 {
		return nil, exit.Errorf(exit.Failure, "no holder and no waiter is chosen by these flags")
	}
	return found, nil
}

func (e *eviction) wants(v *evictee, ids []string) bool {
	if slices.Contains(ids, v.id) {
		return true
	}
	return e.selects() && (e.label == "" || e.label == v.label) && (e.host == "" || e.host == v.host) && (e.pid == 0 || e.pid == v.pid)
}

// everybody returns the waiters and the holders of a semaphore, in this order:
// a permit that is freed must not go to somebody who is evicted next.
func everybody(s *berth.State) (all []evictee) {
	for _, w := range s.Queue {
		all = append(all, evictee{s.Name, w.ID, w.Label, w.Host, w.PID, w.Weight, w.Waited, 0, false, false})
	}
	for _, h := range s.Leases {
		all = append(all, evictee{s.Name, h.ID, h.Label, h.Host, h.PID, h.Weight, h.Held, h.ExpiresIn, true, h.Evicting})
	}
	return all
}

func evicteesTable(list []evictee) *table {
	t := newTable("NAME", "ROLE", "LABEL", "HOST", "PID", "WEIGHT", "SINCE", "LEASE")
	for _, v := range list {
		t.row(v.semaphore, v.role(), cmp.Or(v.label, "-"), cmp.Or(v.host, "-"), strconv.Itoa(v.pid), strconv.Itoa(v.weight), screen.Age(v.since), v.id)
	}
	return t
}

func (e *eviction) question(list []evictee) string {
	holders := 0
	for _, v := range list {
		if v.holds {
			holders++
		}
	}
	var who []string
	if holders > 0 {
		who = append(who, words.Plural(holders, "holder"))
	}
	if waiters := len(list) - holders; waiters > 0 {
		who = append(who, words.Plural(waiters, "waiter"))
	}
	question := "Evict " + strings.Join(who, " and ")
	if e.force && holders > 0 {
		question += ", whose permits are free even while they still work"
	}
	return question + "?"
}

// evictAll evicts them one by one, and describes each semaphore afterwards.
func (a *app) evictAll(in *berth.Inspector, e *eviction, list []evictee, before []*berth.State) error {
	var errs []error
	for _, v := range list {
		evict := in.Evict
		if e.force {
			evict = in.ForceEvict
		}
		err := ask(func(ctx context.Context) error { return evict(ctx, v.semaphore, v.id) })
		gone := errors.Is(err, berth.ErrNotFound)
		if err != nil && !gone {
			errs = append(errs, err)
			continue
		}
		errs = append(errs, a.tell(v.semaphore, v.who()+": "+e.outcome(&v, gone)))
	}
	for _, old := range before {
		now, err := look(in, old.Name)
		if err == nil {
			err = a.tell(old.Name, change(old, now))
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func (e *eviction) outcome(v *evictee, gone bool) string {
	switch {
	case gone:
		return "had gone already"
	case !v.holds:
		return "is out of the queue"
	case e.force:
		return "its permits are free"
	case v.told:
		return "nothing changed, it was told to stop before; --force frees its permits"
	default:
		return "is told to stop; its permits are free when it does, or in " + screen.Age(v.left)
	}
}
