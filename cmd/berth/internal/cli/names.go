package cli

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/cmd/berth/internal/exit"
)

// ask makes one request, which may take callTimeout. The time between requests is not
// bounded: a person may think about a question for long.
func ask(f func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	err := f(ctx)
	if errors.Is(err, context.DeadlineExceeded) { // ours: Redis does not answer
		return exit.Errorf(exit.Unavailable, "redis has not answered within %v", callTimeout)
	}
	return err
}

// look returns the semaphore, nil when it is not in use.
func look(in *berth.Inspector, name string) (*berth.State, error) {
	var state *berth.State
	err := ask(func(ctx context.Context) (err error) {
		state, err = in.Show(ctx, name)
		return err
	})
	if errors.Is(err, berth.ErrNotFound) {
		return nil, nil //nolint:nilnil // not in use is an answer, and nil is a state without anything
	}
	return state, err
}

// isPattern reports whether an argument is a pattern and not a name.
func isPattern(arg string) bool { return strings.ContainsAny(arg, "*?[") }

func anyPattern(args []string) bool { return slices.ContainsFunc(args, isPattern) }

// expand replaces the patterns among args by the names in use that they match,
// and drops repetitions. A pattern that matches nothing is an error.
func (a *app) expand(in *berth.Inspector, args []string) ([]string, error) {
	var inUse, names []string
	if anyPattern(args) {
		var err error
		if inUse, err = a.namesInUse(in); err != nil {
			return nil, err
		}
	}
	for _, arg := range args {
		found, err := match(arg, inUse)
		if err != nil {
			return nil, err
		}
		names = append(names, slices.DeleteFunc(found, func(n string) bool { return slices.Contains(names, n) })...)
	}
	return names, nil
}

// errNoneLeft: none of the semaphores that the patterns matched is still in use.
var errNoneLeft = exit.Errorf(exit.Failure, "no semaphore in use matches, nothing was changed")

// leftOut tells that a semaphore that a pattern matched is not in use any more.
func (a *app) leftOut(name string) { a.complain(fmt.Errorf("left out: %s: %s", name, notInUse)) }

// namesInUse lists the names of all semaphores but the damaged ones, which it
// reports.
func (a *app) namesInUse(in *berth.Inspector) ([]string, error) {
	list, err := listed(context.Background(), in)
	if err != nil && !errors.Is(err, berth.ErrCorrupt) {
		return nil, err
	}
	if err != nil {
		a.complain(fmt.Errorf("left out: %w", err))
	}
	var names []string
	for _, s := range list {
		names = append(names, s.Name)
	}
	return names, nil
}

// listed returns the semaphores that can be read, and an error for the others. It takes longer
// the more keys the server has; each call to the server is bounded.
func listed(ctx context.Context, in *berth.Inspector) ([]berth.Summary, error) {
	names, err := allNames(ctx, in)
	if err != nil {
		return nil, err
	}
	all := []berth.Summary{} // JSON has an empty array for "none"
	var errs []error
	for st, err := range in.Sample(ctx, names, berth.SampleOptions{}) {
		switch {
		case err == nil:
			all = append(all, st.Summary)
		case !errors.Is(err, berth.ErrNotFound): // what has just gone is not listed
			errs = append(errs, err)
		}
	}
	return all, errors.Join(errs...)
}

// allNames walks the keyspace to its end.
func allNames(ctx context.Context, in *berth.Inspector) (all []string, err error) {
	for cursor := ""; ; {
		var names []string
		if names, cursor, err = in.Names(ctx, cursor, 1000); err != nil {
			return nil, err
		}
		if all = append(all, names...); cursor == "" {
			slices.Sort(all)
			return slices.Compact(all), nil
		}
	}
}

// viewed returns one semaphore with its records, without changing anything.
func viewed(ctx context.Context, in *berth.Inspector, name string) (*berth.State, error) {
	for st, err := range in.Sample(ctx, []string{name}, berth.SampleOptions{Records: true}) {
		return st, err
	}
	return nil, ctx.Err()
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
		return nil, exit.Errorf(exit.Failure, "no semaphore in use matches %q", arg)
	}
	return found, nil
}

// flat hides slashes, which have no meaning in a name, from path.Match.
// No name has a line break.
func flat(s string) string { return strings.ReplaceAll(s, "/", "\n") }
