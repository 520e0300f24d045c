package berthhttp

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/berth-go/berth"
)

// bind returns a child of parent that carries the lease, and ends with the loss of the
// lease as its cause; and a function that ends it otherwise. ended, if not nil, is
// called when the lease has ended.
func (p *permit) bind(parent context.Context, ended func()) (context.Context, func()) {
	if p.lease == nil {
		return context.WithCancel(parent)
	}
	held := p.lease.Context()
	ctx, cancel := context.WithCancelCause(leased{parent, held})
	stop := context.AfterFunc(held, func() {
		cancel(context.Cause(held))
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

// lost returns the lease's *berth.LostError if it was lost, else nil.
func (p *permit) lost() *berth.LostError {
	var lost *berth.LostError
	if p.lease == nil || !errors.As(context.Cause(p.lease.Context()), &lost) {
		return nil
	}
	return lost
}

// release gives the permit back.
func (p *permit) release() {
	p.limiter.holds.add(time.Since(p.since))
	giveBack(p.lease, p.limiter.logger)
}

// giveBack releases in the background: closing a body or ending a request does not
// wait for Redis. berth.Client.Close releases the leases that are left.
func giveBack(lease *berth.Lease, log *slog.Logger) {
	if lease == nil {
		return
	}
	go func() {
		if err := lease.Release(); byRedis(err) {
			log.Warn("berthhttp: a permit could not be given back; it runs out by itself", "name", lease.Name(), "error", err)
		}
	}()
}
