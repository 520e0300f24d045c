package berth

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// AcquireAll takes a lease of each semaphore, on their default options, or none. It
// asks in the order of the names, so that callers that want the same ones in
// different orders cannot block each other for ever; the leases come back in the
// order of the arguments. While it waits for one it holds those before it, so give
// those with the longest waits names that sort first.
//
// It waits until ctx ends. Its errors are those of Acquire, for the first semaphore
// that failed; if a lease is lost while it still waits for another, the *LostError;
// and ErrInvalid when one is nil or named twice. On failure it holds nothing: it
// gives back what it had, for which it takes up to 5 seconds more.
func AcquireAll(ctx context.Context, sems ...*Semaphore) (Leases, error) {
	if err := validContext(ctx); err != nil {
		return nil, err
	}
	order, err := byName(sems)
	if err != nil {
		return nil, err
	}
	leases := make(Leases, len(sems))
	wait, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	for _, i := range order {
		lease, err := sems[i].Acquire(wait)
		if err != nil {
			_ = leases.Release()
			if cause := context.Cause(wait); ctx.Err() == nil && errors.Is(cause, ErrLost) {
				err = cause
			}
			return nil, err
		}
		leases[i] = lease
		held := lease.Context()
		defer context.AfterFunc(held, func() { cancel(context.Cause(held)) })()
	}
	return leases, nil
}

// byName returns the indexes of sems in the order of their names. No semaphore may
// be named twice: it could wait for itself.
func byName(sems []*Semaphore) ([]int, error) {
	order := make([]int, len(sems))
	for i, s := range sems {
		if s == nil {
			return nil, &InvalidError{"semaphore", "it is nil"}
		}
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(sems[a].name, sems[b].name), cmp.Compare(sems[a].client.prefix, sems[b].client.prefix))
	})
	for i := 1; i < len(order); i++ {
		if a, b := sems[order[i-1]], sems[order[i]]; a.inner == b.inner {
			return nil, &InvalidError{"semaphores", fmt.Sprintf("%q is named twice and could wait for itself: use Weight", a.name)}
		}
	}
	return order, nil
}

// Leases are what AcquireAll took. Elements that are nil are skipped.
type Leases []*Lease

// held returns the elements that are not nil.
func (l Leases) held() Leases {
	return slices.DeleteFunc(slices.Clone(l), func(lease *Lease) bool { return lease == nil })
}

// Release gives all of them back, at the same time, and returns within 5 seconds.
// It returns what went wrong, joined; in every case all of them are over.
func (l Leases) Release() error {
	errs := make([]error, len(l))
	var wg sync.WaitGroup
	for i, lease := range l {
		if lease != nil {
			wg.Go(func() { errs[i] = lease.Release() })
		}
	}
	wg.Wait()
	return errors.Join(errs...)
}

// Valid reports whether all of them may be relied on now; false if there are none.
func (l Leases) Valid() bool {
	held := l.held()
	return len(held) > 0 && !slices.ContainsFunc(held, func(lease *Lease) bool { return !lease.Valid() })
}

// ValidUntil returns the earliest trust deadline; zero if there are none.
func (l Leases) ValidUntil() time.Time {
	var first time.Time
	for i, lease := range l.held() {
		if until := lease.ValidUntil(); i == 0 || until.Before(first) {
			first = until
		}
	}
	return first
}

// Context returns a context that ends when the first of them is lost or given
// back, with that one's cause, and the function that frees what it needs, which
// ends it too. It has the values of the first one's context. If there are none it
// has ended, with cause ErrReleased.
func (l Leases) Context() (context.Context, context.CancelFunc) {
	held := l.held()
	if len(held) == 0 {
		ctx, cancel := context.WithCancelCause(context.Background())
		cancel(ErrReleased)
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(held[0].Context()))
	stops := make([]func() bool, len(held))
	for i, lease := range held {
		one := lease.Context()
		stops[i] = context.AfterFunc(one, func() { cancel(context.Cause(one)) })
	}
	return ctx, func() {
		for _, stop := range stops {
			stop()
		}
		cancel(ErrReleased)
	}
}
