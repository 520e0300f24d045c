package testenv

import (
	"context"
	"errors"
	"iter"

	"github.com/berth-go/berth/berthadmin"
)

// Inspector is the Inspector of a test. Where the embedded one gives up after 2 seconds
// because the machine is busy, it asks again.
type Inspector struct {
	*berthadmin.Inspector
	e *Env
}

// Patient returns in as an Inspector that asks again, too.
func (e *Env) Patient(in *berthadmin.Inspector) *Inspector { return &Inspector{in, e} }

// Because is that of berthadmin.Inspector.
func (in *Inspector) Because(actor, reason string) *Inspector {
	return &Inspector{in.Inspector.Because(actor, reason), in.e}
}

// Show is that of berthadmin.Inspector.
func (in *Inspector) Show(ctx context.Context, name string) (st *berthadmin.State, err error) {
	err = in.e.Timely(func() (err error) {
		st, err = in.Inspector.Show(ctx, name)
		return err
	})
	return st, err
}

// Ping is that of berthadmin.Inspector.
func (in *Inspector) Ping(ctx context.Context) error {
	return in.e.Timely(func() error { return in.Inspector.Ping(ctx) })
}

// Server is that of berthadmin.Inspector.
func (in *Inspector) Server(ctx context.Context) (s berthadmin.Server, err error) {
	err = in.e.Timely(func() (err error) {
		s, err = in.Inspector.Server(ctx)
		return err
	})
	return s, err
}

// Names is that of berthadmin.Inspector.
func (in *Inspector) Names(ctx context.Context, cursor string, budget int) (names []string, next string, err error) {
	err = in.e.Timely(func() (err error) {
		names, next, err = in.Inspector.Names(ctx, cursor, budget)
		return err
	})
	return names, next, err
}

// Sample is that of berthadmin.Inspector.
func (in *Inspector) Sample(ctx context.Context, names []string, o berthadmin.SampleOptions) iter.Seq2[*berthadmin.State, error] {
	return timely(in.e, in.Inspector.Sample(ctx, names, o))
}

// List is that of berthadmin.Inspector.
func (in *Inspector) List(ctx context.Context) iter.Seq2[berthadmin.Summary, error] {
	return timely(in.e, in.Inspector.List(ctx))
}

// Audit is that of berthadmin.Inspector.
func (in *Inspector) Audit(ctx context.Context) iter.Seq2[berthadmin.Audited, error] {
	return timely(in.e, in.Inspector.Audit(ctx))
}

// Resize is that of berthadmin.Inspector.
func (in *Inspector) Resize(ctx context.Context, name string, limit int) error {
	return in.change(func() error { return in.Inspector.Resize(ctx, name, limit) })
}

// SetRates is that of berthadmin.Inspector.
func (in *Inspector) SetRates(ctx context.Context, name, unit string, set ...berthadmin.Rate) (before, after []berthadmin.Rate, err error) {
	err = in.change(func() (err error) {
		before, after, err = in.Inspector.SetRates(ctx, name, unit, set...)
		return err
	})
	return before, after, err
}

// PinRates is that of berthadmin.Inspector.
func (in *Inspector) PinRates(ctx context.Context, name, unit string, set ...berthadmin.Rate) (before, after []berthadmin.Rate, err error) {
	err = in.change(func() (err error) {
		before, after, err = in.Inspector.PinRates(ctx, name, unit, set...)
		return err
	})
	return before, after, err
}

// UnpinRates is that of berthadmin.Inspector.
func (in *Inspector) UnpinRates(ctx context.Context, name string) error {
	return in.change(func() error { return in.Inspector.UnpinRates(ctx, name) })
}

// Pin is that of berthadmin.Inspector.
func (in *Inspector) Pin(ctx context.Context, name string, limit int) error {
	return in.change(func() error { return in.Inspector.Pin(ctx, name, limit) })
}

// Unpin is that of berthadmin.Inspector.
func (in *Inspector) Unpin(ctx context.Context, name string) error {
	return in.change(func() error { return in.Inspector.Unpin(ctx, name) })
}

// Pause is that of berthadmin.Inspector.
func (in *Inspector) Pause(ctx context.Context, name string) error {
	return in.change(func() error { return in.Inspector.Pause(ctx, name) })
}

// Resume is that of berthadmin.Inspector.
func (in *Inspector) Resume(ctx context.Context, name string) error {
	return in.change(func() error { return in.Inspector.Resume(ctx, name) })
}

// Evict is that of berthadmin.Inspector.
func (in *Inspector) Evict(ctx context.Context, name, id string) error {
	return in.change(func() error { return in.Inspector.Evict(ctx, name, id) })
}

// ForceEvict is that of berthadmin.Inspector.
func (in *Inspector) ForceEvict(ctx context.Context, name, id string) error {
	return in.change(func() error { return in.Inspector.ForceEvict(ctx, name, id) })
}

// Purge is that of berthadmin.Inspector.
func (in *Inspector) Purge(ctx context.Context, name string) error {
	return in.change(func() error { return in.Inspector.Purge(ctx, name) })
}

// change makes a change. If there is nothing left to change at the second attempt, the
// first one has done it.
func (in *Inspector) change(do func() error) error {
	attempts := 0
	err := in.e.Timely(func() error {
		attempts++
		return do()
	})
	if attempts > 1 && errors.Is(err, berthadmin.ErrNotFound) {
		return nil
	}
	return err
}

// timely yields what seq does, all of it from one attempt that was not too slow.
func timely[T any](e *Env, seq iter.Seq2[T, error]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var all []T
		var errs []error
		_ = e.Timely(func() (err error) { // yielded, too
			all, errs = nil, nil
			for v, one := range seq {
				all, errs, err = append(all, v), append(errs, one), one
			}
			return err
		})
		for i, v := range all {
			if !yield(v, errs[i]) {
				return
			}
		}
	}
}
