package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/berth-go/berth/berthadmin"
	"github.com/berth-go/berth/berthwatch"
	"github.com/berth-go/berth/cmd/berth/internal/exit"
	"github.com/berth-go/berth/cmd/berth/internal/screen"
	"github.com/berth-go/berth/cmd/berth/internal/view"
)

// look returns the semaphore, nil when it is not in use.
func look(in *berthadmin.Inspector, name string) (*berthadmin.State, error) {
	state, err := in.Show(context.Background(), name) // it takes many calls where many wait
	if errors.Is(err, berthadmin.ErrNotFound) {
		return nil, nil //nolint:nilnil // not in use is an answer, and nil is a state without anything
	}
	return state, err
}

// unused is the refusal of a name or pattern because no semaphore in use has it.
type unused struct{ error }

func unusedf(format string, args ...any) error {
	return unused{exit.Errorf(exit.Failure, format, args...)}
}

// Unwrap returns the refusal, which has the exit code.
func (u unused) Unwrap() error { return u.error }

// located adds the store that was asked to such a refusal: the semaphore may be in another.
func (a *app) located(err error) error {
	if _, ok := errors.AsType[unused](err); ok || errors.Is(err, berthadmin.ErrNotFound) {
		return fmt.Errorf("%w (server: %s)", err, a.where)
	}
	return err
}

// isPattern reports whether an argument is a pattern and not a name.
func isPattern(arg string) bool { return strings.ContainsAny(arg, "*?[") }

// expand replaces the patterns among args by the names in use that they match,
// and drops repetitions. A pattern that matches nothing is an error. Semaphores that match
// and cannot be read are left out: unread tells why.
func expand(in *berthadmin.Inspector, args []string) (names []string, unread []error, err error) {
	var inUse []string
	var broken map[string]error
	if slices.ContainsFunc(args, isPattern) {
		list, damaged, err := view.List(context.Background(), in)
		if err != nil {
			return nil, nil, err
		}
		inUse, broken = slices.Collect(maps.Keys(damaged)), damaged
		for _, s := range list {
			inUse = append(inUse, s.Name)
		}
		slices.Sort(inUse)
	}
	for _, arg := range args {
		found, err := match(arg, inUse)
		if err != nil {
			return nil, nil, err
		}
		for _, name := range found {
			switch {
			case isPattern(arg) && broken[name] != nil:
				unread = append(unread, broken[name])
				delete(broken, name) // it is told once
			case !slices.Contains(names, name):
				names = append(names, name)
			}
		}
	}
	return names, unread, nil
}

// chosen is expand for a verb: it tells what is left out before there is a question or a
// result. The error left is for the end, when the others are done: it exits with the code of
// a semaphore that cannot be read, and says nothing more.
func (a *app) chosen(in *berthadmin.Inspector, args []string) (names []string, left, err error) {
	names, unread, err := expand(in, args)
	for _, why := range unread {
		a.leaveOut(why)
		left = exit.Code(exit.Software)
	}
	if err == nil && len(names) == 0 {
		err = left
	}
	return names, left, err
}

// target is a semaphore as a verb found it.
type target struct {
	name  string
	state *berthadmin.State // nil: not in use
}

// targets returns the semaphores as they are. One that is not in use is left out, with a
// message, if only a pattern has matched it, unless create; if args name it, it is refused
// with hint.
func (a *app) targets(in *berthadmin.Inspector, names, args []string, create bool, hint string) (found []target, err error) {
	for _, name := range names {
		state, err := look(in, name)
		switch {
		case err != nil:
			return nil, err
		case state != nil || create:
			found = append(found, target{name, state})
		case slices.Contains(args, name):
			return nil, unusedf("semaphore %q is not in use%s", name, hint)
		default:
			a.leaveOut(fmt.Errorf("%s: %s", name, notInUse))
		}
	}
	if len(found) == 0 {
		return nil, unusedf("no semaphore in use matches, nothing was changed")
	}
	return found, nil
}

// leaveOut tells why a semaphore is left out.
func (a *app) leaveOut(err error) {
	a.complain(fmt.Errorf("left out: %s", strings.TrimPrefix(err.Error(), "berth: ")))
	a.notices.Flush(lastWords)
}

// match returns the names that arg stands for: itself, unless it is a pattern.
func match(arg string, names []string) ([]string, error) {
	if !isPattern(arg) {
		return []string{arg}, nil
	}
	var found []string
	for _, name := range names {
		ok, err := path.Match(flat(arg), flat(name))
		if err != nil {
			return nil, exit.Usagef("the pattern %q is malformed", arg)
		}
		if ok {
			found = append(found, name)
		}
	}
	if len(found) == 0 {
		return nil, unusedf("no semaphore in use matches %q", arg)
	}
	return found, nil
}

// flat hides slashes, which have no meaning in a name, from path.Match.
// No name has a line break.
func flat(s string) string { return strings.ReplaceAll(s, "/", "\n") }

const notInUse = "not in use"

// standing describes a semaphore: its limit, what an operator has set, and how much of
// it is in use. nil is a semaphore that is not in use.
func standing(s *berthadmin.State) string { return difference(s, s) }

// difference describes a semaphore, with "old → new" where it has changed.
func difference(before, after *berthadmin.State) string {
	switch {
	case before == nil && after == nil:
		return notInUse
	case before == nil || after == nil:
		return standing(before) + " → " + standing(after)
	}
	words := []string{"limit " + arrow(effective(before), effective(after))}
	if before.Pinned || after.Pinned {
		declared := arrow(screen.Declared(before.Declared), screen.Declared(after.Declared))
		words = append(words, onOff("pinned", before.Pinned, after.Pinned), "declared "+declared)
	}
	if before.Paused || after.Paused {
		paused := onOff("paused", before.Paused, after.Paused)
		if after.PausedFor > 0 {
			paused += " for " + screen.Age(after.PausedFor)
		}
		words = append(words, paused)
	}
	words = append(words, ratesBetween(before.Rates, after.Rates)...)
	if before.RatesPinned || after.RatesPinned {
		words = append(words, onOff("rates pinned", before.RatesPinned, after.RatesPinned))
	}
	words = append(words, arrow(before.InUse, after.InUse)+" in use", arrow(before.Waiting, after.Waiting)+" waiting")
	return strings.Join(words, ", ")
}

// effective is the limit in force.
func effective(s *berthadmin.State) string {
	if s.Pinned {
		return berthwatch.Limit(&s.Summary)
	}
	return screen.Declared(s.Declared)
}

// ratesBetween tells the rates of each unit, with "old → new" where they have changed.
func ratesBetween(before, after []berthadmin.Rate) (texts []string) {
	all := slices.Concat(before, after)
	slices.SortFunc(all, func(a, b berthadmin.Rate) int { return cmp.Compare(a.Unit, b.Unit) })
	units := slices.CompactFunc(all, func(a, b berthadmin.Rate) bool { return a.Unit == b.Unit })
	for _, r := range units {
		texts = append(texts, "rate "+arrow(ratesOf(r.Unit, before), ratesOf(r.Unit, after)))
	}
	return texts
}

// ratesOf are the rates of a unit, as flags have them.
func ratesOf(unit string, all []berthadmin.Rate) string {
	all = slices.DeleteFunc(slices.Clone(all), func(r berthadmin.Rate) bool { return r.Unit != unit })
	if len(all) == 0 {
		return berthwatch.RateFlag(berthadmin.Rate{Unit: unit})
	}
	return berthwatch.RateFlags(all)
}

func arrow[T comparable](before, after T) string {
	if before == after {
		return fmt.Sprint(after)
	}
	return fmt.Sprintf("%v → %v", before, after)
}

func onOff(word string, before, after bool) string {
	switch {
	case before == after:
		return word
	case after:
		return "now " + word
	default:
		return "no longer " + word
	}
}

// sameSettings reports whether everything that an operator can set is equal.
func sameSettings(a, b *berthadmin.State) bool {
	if a == nil || b == nil {
		return a == b
	}
	sameRate := func(a, b berthadmin.Rate) bool { a.Spent = b.Spent; return a == b }
	return slices.EqualFunc(a.Rates, b.Rates, sameRate) && a.Limit == b.Limit && a.Declared == b.Declared && a.Pinned == b.Pinned && a.RatesPinned == b.RatesPinned && a.Paused == b.Paused && a.PausedFor >= b.PausedFor
}
