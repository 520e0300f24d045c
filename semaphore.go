package berth

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/berth-go/berth/internal/protocol"
	"github.com/berth-go/berth/internal/session"
)

// Semaphore is a named limit, shared by all processes that use the same name on
// the same Redis. It is safe for concurrent use.
type Semaphore struct {
	client *Client
	inner  *session.Semaphore
	name   string
	limit  int
	config config

	wait, try *protocol.Terms // config's, made once
}

func newSemaphore(c *Client, inner *session.Semaphore, name string, limit int, cfg config) *Semaphore {
	return &Semaphore{
		client: c, inner: inner, name: name, limit: limit, config: cfg,
		wait: c.session.Store().Prepare(cfg.terms(limit, true)), try: c.session.Store().Prepare(cfg.terms(limit, false)),
	}
}

// Name returns the semaphore's name.
func (s *Semaphore) Name() string { return s.name }

// Limit returns the limit that this program declares. The limit in force may be
// another program's or a pin: see Inspector.Show.
func (s *Semaphore) Limit() int { return s.limit }

// Options returns the same semaphore with other defaults for its leases. It
// fails with an *InvalidError.
func (s *Semaphore) Options(opts ...Option) (*Semaphore, error) {
	cfg, err := s.config.with(opts)
	if err != nil {
		return nil, err
	}
	return newSemaphore(s.client, s.inner, s.name, s.limit, cfg), nil
}

// Acquire takes a lease, and waits for it in line until ctx ends: first come,
// first served, and nobody passes a request that is heavier and still waits.
// While it waits, the process holding the permit needs not do anything for it:
// when a permit becomes free, by release, resize or crash, it is handed to the
// head of the queue and the news are pushed.
//
// On success the caller holds the lease and must release it. On failure nothing
// is held; what Redis may have granted without our knowing is given back in the
// background. The error is, to errors.Is, one of: ctx's error (the wait ended),
// ErrQueueFull, ErrTooHeavy, ErrEvicted, ErrInvalid, ErrClosed, or, when Redis is
// the reason, ErrUnreachable, ErrRefused or ErrCorrupt. Those come when Redis
// failed for a few seconds at the beginning; a request that is in line already
// outlasts an outage of Redis.
func (s *Semaphore) Acquire(ctx context.Context, opts ...Option) (*Lease, error) {
	return s.acquire(ctx, true, opts)
}

// TryAcquire takes a lease if there is room and nobody waits, and does not wait
// otherwise: then the error is a *BusyError (ErrBusy) that tells who is in the
// way. Other errors are as with Acquire.
func (s *Semaphore) TryAcquire(ctx context.Context, opts ...Option) (*Lease, error) {
	return s.acquire(ctx, false, opts)
}

func (s *Semaphore) acquire(ctx context.Context, wait bool, opts []Option) (*Lease, error) {
	cfg, terms := &s.config, s.wait
	if !wait {
		terms = s.try
	}
	if len(opts) > 0 {
		own, err := s.config.with(opts)
		if err != nil {
			return nil, err
		}
		cfg, terms = &own, own.terms(s.limit, wait)
	}
	if err := validContext(ctx); err != nil {
		return nil, err
	}
	call := s.client.hooks.begin(ctx, s, cfg, wait)
	claim, err := s.inner.Acquire(call.ctx, terms, cfg.noRenewal, call.onPlace(cfg.onQueued))
	if err != nil {
		return nil, call.end(nil, s.refusal(err, wait))
	}
	lease := newLease(ctx, s.client, claim, cfg)
	_ = call.end(lease, nil)
	return lease, nil
}

// refusal words an error for the caller. A request that would have waited, but
// was not allowed to by QueueLimit(0), was refused by a full queue.
func (s *Semaphore) refusal(err error, wait bool) error {
	err = public(s.name, err)
	if busy := (*BusyError)(nil); errors.As(err, &busy) && wait {
		busy.QueueFull = true
	}
	return err
}

// With runs fn while it holds a lease and gives it back afterwards, also when fn
// panics. fn's context is ctx's child, ends with cause ErrLost when the lease is
// lost, and carries the lease (FromContext). With returns fn's error; if fn
// returned nil although the lease was lost before it ended, the *LostError; and
// Acquire's error if fn was not run.
func (s *Semaphore) With(ctx context.Context, fn func(context.Context) error, opts ...Option) error {
	lease, err := s.Acquire(ctx, opts...)
	if err != nil {
		return err
	}
	defer func() { _ = lease.Release() }()
	inner, cancel := context.WithCancelCause(context.WithValue(ctx, leaseKey{}, lease))
	defer cancel(nil)
	held := lease.Context()
	stop := context.AfterFunc(held, func() { cancel(context.Cause(held)) })
	defer stop()
	if err := fn(inner); err != nil {
		return err
	}
	if err := lease.Release(); errors.Is(err, ErrLost) {
		return err
	}
	return nil
}

// AcquireAll takes a lease of each semaphore, on their default options, or none.
// It asks in the order of the names, so that callers that want the same ones in
// different orders cannot block each other for ever; the leases come back in the
// order of the arguments. While it waits for one it holds those before it, so give
// those with the longest waits names that sort first. If one is lost while it
// still waits for another, it gives the others back and returns the *LostError.
func AcquireAll(ctx context.Context, sems ...*Semaphore) (Leases, error) {
	if err := validContext(ctx); err != nil {
		return nil, err
	}
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

// Leases are what AcquireAll took.
type Leases []*Lease

// Release gives all of them back, at the same time. It returns what went wrong,
// joined.
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

// Valid reports whether all of them may be relied on now.
func (l Leases) Valid() bool {
	return !slices.ContainsFunc(l, func(lease *Lease) bool { return !lease.Valid() })
}

// ValidUntil returns the earliest trust deadline.
func (l Leases) ValidUntil() time.Time {
	var first time.Time
	for i, lease := range l {
		if until := lease.ValidUntil(); i == 0 || until.Before(first) {
			first = until
		}
	}
	return first
}

// Context returns a context that ends when the first of them is lost or given
// back, with that one's cause.
func (l Leases) Context() context.Context {
	ctx, cancel := context.WithCancelCause(context.Background())
	end := func(held context.Context) { cancel(context.Cause(held)) }
	for _, lease := range l {
		held := lease.Context()
		context.AfterFunc(held, func() { end(held) })
	}
	return ctx
}
