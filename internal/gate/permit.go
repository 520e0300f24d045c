package gate

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/berth-go/berth"
)

// Permit is what a call holds while it runs: a lease of each limit. It has none if the call passed
// because of FailOpen, and those that were free if it passed because of Observe.
type Permit struct {
	Asks  []Ask // what was asked for; empty: the call passed unasked
	Since time.Time

	leases berth.Leases    // in the order of the rules
	held   context.Context //nolint:containedctx // ends when a lease does; nil: there is none, or its loss is to end nothing
	free   func()          // frees what held takes
	holds  *meter
	log    *slog.Logger
	pkg    string
}

func (g *Gate[R]) permit(asks []Ask, leases berth.Leases) *Permit {
	p := &Permit{leases: leases, free: func() {}, Since: time.Now(), holds: &g.holds, log: g.Logger, pkg: g.Package}
	p.Asks = asks
	switch {
	case len(leases) == 0, g.Observe:
	case len(leases) == 1:
		p.held = leases[0].Context()
	default:
		p.held, p.free = leases.Context()
	}
	return p
}

// Bind returns a child of parent that carries the lease, and ends with the loss of the
// lease as its cause; and a function that ends it otherwise. ended, if not nil, is
// called when the lease has ended.
func (p *Permit) Bind(parent context.Context, ended func()) (context.Context, func()) {
	if p.held == nil {
		return context.WithCancel(p.Carry(parent))
	}
	ctx, cancel := context.WithCancelCause(p.Carry(parent))
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

// Carry returns a context that carries the lease beside what parent has, and lives as long as that.
// A call that only observes the limit has a permit to Settle, and no lease.
func (p *Permit) Carry(parent context.Context) context.Context {
	if len(p.leases) == 0 {
		return parent
	}
	return leased{parent, p}
}

// Bound reports whether the loss of a lease ends the call.
func (p *Permit) Bound() bool { return p.held != nil }

// AfterEnd calls f in a goroutine of its own when a lease has ended, unless the function that it
// returns was called before; never if there is no lease.
func (p *Permit) AfterEnd(f func()) (stop func() bool) {
	if p.held == nil {
		return func() bool { return true }
	}
	return context.AfterFunc(p.held, f)
}

// leased is a context that also has the values of a lease's context.
type leased struct {
	context.Context //nolint:containedctx // it is one

	permit *Permit
}

// permitKey is that of a Permit in a context.
type permitKey struct{}

// Value prefers the parent, so that the context package finds its own values there;
// but the innermost lease takes precedence.
func (c leased) Value(key any) any {
	if key == (permitKey{}) {
		return c.permit
	}
	v := c.Context.Value(key)
	if _, outer := v.(*berth.Lease); c.permit.held != nil && (outer || v == nil) {
		return c.permit.held.Value(key)
	}
	return v
}

// Lost returns the *berth.LostError of the first lease that was lost, or nil.
func (p *Permit) Lost() *berth.LostError {
	var lost *berth.LostError
	if p.held == nil || !errors.As(context.Cause(p.held), &lost) {
		return nil
	}
	return lost
}

// Release gives the permits back.
func (p *Permit) Release() {
	p.holds.add(time.Since(p.Since))
	p.free()
	giveBack(p.leases, p.log, p.pkg)
}

// giveBack releases in the background: closing a body or ending a call does not
// wait for Redis. berth.Client.Close releases the leases that are left.
func giveBack(leases berth.Leases, log *slog.Logger, pkg string) {
	for _, lease := range leases {
		if lease == nil {
			continue
		}
		go func() {
			if err := lease.Release(); ByRedis(err) {
				log.Warn(pkg+": a permit could not be given back; it will expire", "name", lease.Name(), "error", err)
			}
		}()
	}
}
