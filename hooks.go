package berth

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/berth-go/berth/internal/claim"
	"github.com/berth-go/berth/internal/protocol"
)

// Hooks are functions that berth calls for the events of a client's leases. An adopted lease has
// only Released and Lost. Detach and Close cause no event.
//
// All but Lost run in the goroutine of the call that they are about, which returns after them; Lost
// runs after the lease's context has ended, in a goroutine of the client. A hook that blocks delays
// no other call and no renewal. Hooks may use the client.
type Hooks struct {
	// AcquireStart is called before a request is sent. The context that it returns, for example one
	// with a span, is that of the request's other hooks and bounds the wait; nil: the given one.
	AcquireStart func(ctx context.Context, a AcquireInfo) context.Context
	// Queued is called as OnQueued is.
	Queued func(ctx context.Context, a AcquireInfo, p Place)
	// AcquireDone is called with the lease, or with the error.
	AcquireDone func(ctx context.Context, a AcquireInfo, l *Lease, err error)
	// Do returns the context that the function of Semaphore.Do gets; nil: the given one.
	Do func(ctx context.Context, l *Lease) context.Context
	// Released is called after the Release that ends a lease, with its error. For each lease it or
	// Lost is called, once.
	Released func(l *Lease, held time.Duration, err error)
	// Lost is called with the *LostError. What must stop with the lease should follow its context.
	Lost func(l *Lease, held time.Duration, err error)
}

// AcquireInfo describes a request to hooks.
type AcquireInfo struct {
	Name     string
	Server   string // address of the Redis as the client was given it, of a Cluster the first; "": unknown
	Label    string
	Weight   int
	Cost     int           // of calls, if there is a Rate of them; see CostOf
	Tenant   string        // for whom; "": it names none
	Limit    int           // declared
	Try      bool          // TryAcquire
	Queued   bool          // it waited in the queue; known only with Hooks.Queued or OnQueued
	Waited   time.Duration // since the start
	Observed Observation   // in AcquireDone; 0: the limit is enforced

	costs protocol.Costs
}

// CostOf returns what the request costs of rates of a unit; "": calls.
func (a AcquireInfo) CostOf(unit string) int { return a.costs.Of(unit, a.Weight) }

// hooks are all that a client was given.
type hooks []Hooks

// any reports whether there is a hook that has returns true for.
func (h hooks) any(has func(*Hooks) bool) bool {
	for i := range h {
		if has(&h[i]) {
			return true
		}
	}
	return false
}

// acquisition follows one request for the hooks.
type acquisition struct {
	hooks hooks
	ctx   context.Context //nolint:containedctx // one request's
	info  AcquireInfo
	start time.Time
	watch *watch       // nil: it is not observed
	heard *acquisition // the copy that onPlace updates; nil: places are not asked for
}

func (h hooks) begin(ctx context.Context, s *Semaphore, cfg *config, wait bool) acquisition {
	a := acquisition{hooks: h, ctx: ctx, start: time.Now(), watch: cfg.watch}
	a.info = AcquireInfo{Name: s.name, Server: s.client.server, Label: cfg.label, Weight: cfg.weight, Limit: s.limit, Try: !wait}
	a.info.costs, _ = protocol.JoinCosts(cfg.costs...) // they were validated
	a.info.Cost = a.info.CostOf("")
	a.info.Tenant = cfg.tenant
	for i := range h {
		if f := h[i].AcquireStart; f != nil {
			a.ctx = cmp.Or(f(a.ctx, a.info), a.ctx) //nolint:fatcontext // one for each hook
		}
	}
	return a
}

// inside returns the context for the function of Do.
func (h hooks) inside(ctx context.Context, l *Lease) context.Context {
	for i := range h {
		if f := h[i].Do; f != nil {
			ctx = cmp.Or(f(ctx, l), ctx) //nolint:fatcontext // one for each hook
		}
	}
	return ctx
}

// onPlace returns a function that passes places in the queue to fs and the hooks; nil
// if there are neither, which saves the server the answer.
func (a *acquisition) onPlace(fs []func(Place)) func(claim.Place) {
	if len(fs) == 0 && !a.hooks.any(func(h *Hooks) bool { return h.Queued != nil }) {
		return nil
	}
	heard := *a // so that a stays on the stack where there is neither
	a.heard = &heard
	return func(p claim.Place) {
		place := publicPlace(p)
		heard.info.Queued = true
		heard.info.Waited = time.Since(heard.start)
		for _, f := range fs {
			f(place)
		}
		for i := range heard.hooks {
			if f := heard.hooks[i].Queued; f != nil {
				f(heard.ctx, heard.info, place)
			}
		}
	}
}

func (a *acquisition) end(l *Lease, err error) error {
	a.info.Queued = a.heard != nil && a.heard.info.Queued
	if a.watch != nil {
		a.watch.see(err)
		a.info.Observed = a.watch.saw
	}
	for i := range a.hooks {
		if f := a.hooks[i].AcquireDone; f != nil {
			a.info.Waited = time.Since(a.start)
			f(a.ctx, a.info, l, err)
		}
	}
	return err
}

func (h hooks) released(l *Lease, err error) {
	over := errors.Is(err, ErrReleased)
	if errors.Is(err, ErrClosed) { // Close ended the lease, or it cut short the Release that did
		over = !errors.Is(context.Cause(l.Context()), ErrReleased)
	}
	if over || !h.any(func(h *Hooks) bool { return h.Released != nil }) || !l.told.CompareAndSwap(false, true) {
		return
	}
	held := time.Since(l.since)
	for i := range h {
		if f := h[i].Released; f != nil {
			f(l, held, err)
		}
	}
}

// follow reports whether a hook is to be told of losses.
func (h hooks) follow() bool { return h.any(func(h *Hooks) bool { return h.Lost != nil }) }

// lost has the hooks told of a loss when the lease's context has ended.
func (h hooks) lost(l *Lease, err error, ended <-chan struct{}) {
	if !h.follow() || !errors.Is(err, ErrLost) || !l.told.CompareAndSwap(false, true) {
		return
	}
	held := time.Since(l.since)
	for i := range h {
		if f := h[i].Lost; f != nil {
			l.client.events.Do(func() {
				<-ended
				f(l, held, err)
			})
		}
	}
}
