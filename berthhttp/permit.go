package berthhttp

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/berth-go/berth"
)

// permit is what a request holds while it runs: a lease of each limit. It has none if the request
// passed by FailOpen.
type permit struct {
	limiter *limiter
	asks    []ask           // as many as there are leases
	leases  berth.Leases    // in the order of the rules
	held    context.Context //nolint:containedctx // ends when a lease does; nil: there is none
	free    func()          // frees what held takes
	since   time.Time
}

func newPermit(l *limiter, asks []ask, leases berth.Leases) *permit {
	p := &permit{limiter: l, leases: leases, free: func() {}, since: time.Now()}
	switch len(leases) {
	case 0:
		return p
	case 1:
		p.held = leases[0].Context()
	default:
		p.held, p.free = leases.Context()
	}
	p.asks = asks
	return p
}

// bind returns a child of parent that carries the lease, and ends with the loss of the
// lease as its cause; and a function that ends it otherwise. ended, if not nil, is
// called when the lease has ended.
func (p *permit) bind(parent context.Context, ended func()) (context.Context, func()) {
	if p.held == nil {
		return context.WithCancel(parent)
	}
	ctx, cancel := context.WithCancelCause(leased{parent, p.held})
	stop := context.AfterFunc(p.held, func() {
		cancel(context.Cause(p.held))
		if ended != nil {
			ended()
		}
	})
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

// leased is a context that also has the values of a lease's context.
type leased struct {
	context.Context //nolint:containedctx // it is one

	held context.Context //nolint:containedctx // for its values only
}

// Value prefers the parent, so that the context package finds its own values there;
// but the innermost lease takes precedence.
func (c leased) Value(key any) any {
	v := c.Context.Value(key)
	if _, outer := v.(*berth.Lease); outer || v == nil {
		return c.held.Value(key)
	}
	return v
}

// lost returns the *berth.LostError of the first lease that was lost, or nil.
func (p *permit) lost() *berth.LostError {
	var lost *berth.LostError
	if p.held == nil || !errors.As(context.Cause(p.held), &lost) {
		return nil
	}
	return lost
}

// release gives the permits back.
func (p *permit) release() {
	p.limiter.holds.add(time.Since(p.since))
	p.free()
	giveBack(p.leases, p.limiter.logger)
}

// giveBack releases in the background: closing a body or ending a request does not
// wait for Redis. berth.Client.Close releases the leases that are left.
func giveBack(leases berth.Leases, log *slog.Logger) {
	for _, lease := range leases {
		if lease == nil {
			continue
		}
		go func() {
			if err := lease.Release(); byRedis(err) {
				log.Warn("berthhttp: a permit could not be given back; it runs out by itself", "name", lease.Name(), "error", err)
			}
		}()
	}
}
