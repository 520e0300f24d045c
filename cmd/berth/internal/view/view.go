// Package view reads the semaphores in use as the commands show them, without changing
// anything.
package view

import (
	"context"
	"errors"
	"slices"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/berthadmin"
)

// List returns the semaphores that can be read, sorted by name, and why the others cannot, by
// name. It takes longer the more keys the server has; each call to the server is bounded.
func List(ctx context.Context, in *berthadmin.Inspector) ([]berthadmin.Summary, map[string]error, error) {
	names, err := allNames(ctx, in)
	if err != nil {
		return nil, nil, err
	}
	all := []berthadmin.Summary{} // JSON has an empty array for "none"
	damaged := map[string]error{}
	for st, err := range in.Sample(ctx, names, berthadmin.SampleOptions{}) {
		switch {
		case err == nil:
			all = append(all, st.Summary)
		case errors.Is(err, berth.ErrCorrupt):
			damaged[st.Name] = err
		case !errors.Is(err, berthadmin.ErrNotFound): // what has just gone is not listed
			return nil, nil, err
		}
	}
	return all, damaged, nil
}

// allNames walks the keyspace to its end.
func allNames(ctx context.Context, in *berthadmin.Inspector) (all []string, err error) {
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

// Show returns one semaphore with its records. The error is berthadmin.ErrNotFound when it is not
// in use.
func Show(ctx context.Context, in *berthadmin.Inspector, name string) (*berthadmin.State, error) {
	for st, err := range in.Sample(ctx, []string{name}, berthadmin.SampleOptions{Records: true}) {
		return st, err
	}
	return nil, ctx.Err()
}
