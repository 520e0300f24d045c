package berth

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/berth-go/berth/internal/claim"
)

// Hooks are functions that berth calls for the events of a client's leases; nil ones
// are skipped. An adopted lease has only the events Released and Lost. Detach and the
// client's Close cause no event, but end the lease's context, with the causes ErrDetached
// and ErrClosed.
//
// A hook that blocks delays no other call and no renewal. All but Lost run in the goroutine of the
// call that they are about, Acquire say, which returns after them. Lost is about no call: it runs
// after the lease's context has ended, in a goroutine that the client has for these hooks and for
// its Logger, one after the other. All of them may use the client.
type Hooks struct {
	// AcquireStart is called before a request is sent. The context that it returns,
	// for example one with a span, is passed to the request's other hooks; when it
	// ends, so does the wait. If it returns nil, the request's own context is passed.
	AcquireStart func(ctx context.Context, a AcquireInfo) context.Context
	// Queued is called when the request is in the queue, and whenever it learns that
	// its place has changed. While it blocks, the request keeps its place, or the permit that
	// it is granted, until the wait's context ends.
	Queued func(ctx context.Context, a AcquireInfo, p Place)
	// AcquireDone is called with the lease, or with the error.
	AcquireDone func(ctx context.Context, a AcquireInfo, l *Lease, err error)
	// Do is called by Semaphore.Do before it runs its function, with the function's context. The
	// function gets the context that Do returns, for example one with a span; nil: the given one.
	Do func(ctx context.Context, l *Lease) context.Context
	// Released is called after the Release that ends a lease, with its error and
	// how long the lease was held. For each lease it is called or Lost is, once, and
	// neither for one that Close or Detach ends.
	Released func(l *Lease, held time.Duration, err error)
	// Lost is called for each lease that is lost, with the *LostError. What must stop with the
	// lease should follow its context, which does not wait for other hooks.
	Lost func(l *Lease, held time.Duration, err error)
}

// AcquireInfo describes a request to hooks.
type AcquireInfo struct {
	Name   string
	Server string // address of the Redis, as the client was given it; of a cluster the first, "" if unknown
	Label  string
	Weight int
	Cost   int           // of the Rate, if there is one
	Tenant string        // for whom; "": it names none
	Limit  int           // declared
	Try    bool          // TryAcquire
	Queued bool          // it waited in the queue; known only with Hooks.Queued or OnQueued
	Waited time.Duration // since the start
}

// acquisition follows one request for the hooks.
type acquisition struct {
	hooks *Hooks
	ctx   context.Context //nolint:containedctx // one request's
	info  AcquireInfo
	start time.Time
	heard *acquisition // the copy that onPlace updates; nil: places are not asked for
}

func (h *Hooks) begin(ctx context.Context, s *Semaphore, cfg *config, wait bool) acquisition {
	a := acquisition{hooks: h, ctx: ctx, start: time.Now()}
	a.info = AcquireInfo{Name: s.name, Server: s.client.server, Label: cfg.label, Weight: cfg.weight, Cost: cmp.Or(cfg.cost, cfg.weight), Limit: s.limit, Try: !wait}
	if cfg.tenant != nil {
		a.info.Tenant = cfg.tenant.key
	}
	if h.AcquireStart != nil {
		a.ctx = cmp.Or(h.AcquireStart(ctx, a.info), ctx)
	}
	return a
}

// inside returns the context for the function of Do.
func (h *Hooks) inside(ctx context.Context, l *Lease) context.Context {
	if h.Do == nil {
		return ctx
	}
	return cmp.Or(h.Do(ctx, l), ctx)
}

// onPlace returns a function that passes places in the queue to f and the hook; nil
// if there is neither, which saves the server the answer.
func (a *acquisition) onPlace(f func(Place)) func(claim.Place) {
	if f == nil && a.hooks.Queued == nil {
		return nil
	}
	heard := *a // so that a stays on the stack where there is neither
	a.heard = &heard
	return func(p claim.Place) {
		place := publicPlace(p)
		heard.info.Queued = true
		heard.info.Waited = time.Since(heard.start)
		if f != nil {
			f(place)
		}
		if heard.hooks.Queued != nil {
			heard.hooks.Queued(heard.ctx, heard.info, place)
		}
	}
}

func (a *acquisition) end(l *Lease, err error) error {
	if a.hooks.AcquireDone != nil {
		a.info.Queued = a.heard != nil && a.heard.info.Queued
		a.info.Waited = time.Since(a.start)
		a.hooks.AcquireDone(a.ctx, a.info, l, err)
	}
	return err
}

func (h *Hooks) released(l *Lease, err error) {
	over := errors.Is(err, ErrReleased)
	if errors.Is(err, ErrClosed) { // Close ended the lease, or it cut short the Release that did
		over = !errors.Is(context.Cause(l.Context()), ErrReleased)
	}
	if h.Released != nil && !over && l.told.CompareAndSwap(false, true) {
		h.Released(l, time.Since(l.since), err)
	}
}

func (h *Hooks) lost(l *Lease, err error) {
	if h.Lost != nil && errors.Is(err, ErrLost) && l.told.CompareAndSwap(false, true) {
		held := time.Since(l.since)
		l.client.events.Do(func() { h.Lost(l, held, err) })
	}
}
