package berth

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/berth-go/berth/internal/rules"
)

// AcquireAll takes a lease of each semaphore, with their default options ([Semaphore.With]), or of
// none. It acquires them in the order of their [Level] and then of their names, so that callers
// cannot deadlock, and returns them in the order of the arguments. While it waits for one it holds
// those before it, so take narrow limits first, and wide ones last. Only the last one keeps a rate
// exactly: grants of the others are used together after the wait.
//
// AcquireAll waits until ctx ends. Its error is that of the first Acquire that failed; a
// [*LostError] if a lease is lost while it waits for another; or [ErrInvalid] if a semaphore is nil
// or given twice. On failure it holds nothing: it releases what it had, which takes up to 5 seconds
// more.
func AcquireAll(ctx context.Context, sems ...*Semaphore) (Leases, error) {
	if err := invalid("context", rules.Context(ctx)); err != nil {
		return nil, err
	}
	order, err := inOrder(sems)
	if err != nil {
		return nil, err
	}
	return acquireEach(ctx, order, func(ctx context.Context, i int) (*Lease, error) { return sems[i].Acquire(ctx) })
}

// acquireEach takes leases one after another, in this order of their indexes, or none: when one is
// lost while another is waited for, it ends that wait.
func acquireEach(ctx context.Context, order []int, acquire func(context.Context, int) (*Lease, error)) (Leases, error) {
	leases, whole := make(Leases, len(order)), false
	defer func() {
		if !whole { // one failed, or a hook panicked
			leases.unused()
			_ = leases.Release()
		}
	}()
	wait, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	for _, i := range order {
		lease, err := acquire(wait, i)
		if err != nil {
			if cause := context.Cause(wait); ctx.Err() == nil && errors.Is(cause, ErrLost) {
				err = cause
			}
			return nil, err
		}
		leases[i] = lease
		held := lease.Context()
		defer context.AfterFunc(held, func() { cancel(context.Cause(held)) })()
	}
	whole = true
	return leases, nil
}

// inOrder returns the indexes of sems in the order of their levels and names. No semaphore may
// be named twice: it could wait for itself.
func inOrder(sems []*Semaphore) ([]int, error) {
	order := make([]int, len(sems))
	for i, s := range sems {
		if err := s.made(); err != nil {
			return nil, err
		}
		order[i] = i
		s.checkLevel()
	}
	named := map[[2]string]bool{}
	for _, s := range sems {
		id := [2]string{s.name, s.client.prefix}
		if named[id] {
			return nil, &InvalidError{"semaphores", fmt.Sprintf("%q is named twice and could wait for itself: use Weight, or other names on another server", s.name)}
		}
		named[id] = true
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(sems[a].config.level, sems[b].config.level), cmp.Compare(sems[a].name, sems[b].name), cmp.Compare(sems[a].client.prefix, sems[b].client.prefix))
	})
	return order, nil
}

// checkLevel warns, once for each client, of a name with two levels: callers that order them
// differently can deadlock.
func (s *Semaphore) checkLevel() {
	level := int64(s.config.level)
	before := s.inner.Level.Swap(level+1) - 1
	if before >= 0 && before != level && s.client.twoLevels.CompareAndSwap(false, true) {
		s.client.log.Warn("berth: a semaphore was given two levels, so calls of AcquireAll can wait for each other", "semaphore", s.name, "levels", []int64{before, level})
	}
}

// Leases are what AcquireAll returns. Methods skip nil elements.
type Leases []*Lease

// held returns the elements that are not nil.
func (l Leases) held() Leases {
	return slices.DeleteFunc(slices.Clone(l), func(lease *Lease) bool { return lease == nil })
}

// unused notes that nobody has used them: what they cost of rates is given back with them.
func (l Leases) unused() {
	for _, lease := range l.held() {
		lease.claim.Unused()
	}
}

// Release releases all of them within 5 seconds, and joins their errors.
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

// Settle settles each of them whose semaphore has a rate of that unit: see [Lease.Settle]. If none
// has, the error is an *InvalidError.
func (l Leases) Settle(n int, unit string) error {
	settled, err := false, ErrReleased
	for _, lease := range l.held() {
		switch one := lease.Settle(n, unit); {
		case errors.Is(one, ErrInvalid): // another one may have such a rate
			err = one
		case one != nil:
			return one
		default:
			settled = true
		}
	}
	if settled {
		return nil
	}
	return err
}

// Valid reports whether all can be relied on now; false if there are none.
func (l Leases) Valid() bool {
	held := l.held()
	return len(held) > 0 && !slices.ContainsFunc(held, func(lease *Lease) bool { return !lease.Valid() })
}

// ValidUntil returns the earliest trust deadline; zero if there is none.
func (l Leases) ValidUntil() time.Time {
	var first time.Time
	for i, lease := range l.held() {
		if until := lease.ValidUntil(); i == 0 || until.Before(first) {
			first = until
		}
	}
	return first
}

// Context returns a context that ends, with the same cause, when the first of them does, and a
// function that ends it and frees its resources. It has the values of the first lease's context.
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
