package gate

import (
	"context"
	"slices"

	"github.com/berth-go/berth"
)

// Settle says what the call whose context is ctx has cost in a unit, of each limit that has a rate of
// it: see berth.Lease.Settle. The error is a *berth.InvalidError if there is no such limit or ctx
// carries no permit, or that of a lease which is over.
func Settle(ctx context.Context, n int, unit string) error {
	p, ok := ctx.Value(permitKey{}).(*Permit)
	if !ok {
		return &berth.InvalidError{What: "context", Reason: "it carries no permit: it is not that of a limited call, or the call has passed without one while Redis was away"}
	}
	err := p.leases.Settle(n, unit)
	if !p.Bound() { // the call only observes, and may have been charged nothing
		return nil
	}
	return err
}

// Settle is that of the lease of the i-th rule; nothing happens if there is none.
func (p *Permit) Settle(i, n int, unit string) error {
	if i >= len(p.leases) || p.leases[i] == nil {
		return nil
	}
	return p.leases[i].Settle(n, unit)
}

// Settles reports whether a caller may have to settle what the call has cost: a limit has a rate of a
// unit with a name, or the call has said what it costs.
func (p *Permit) Settles() bool {
	return slices.ContainsFunc(p.leases, func(l *berth.Lease) bool { return l != nil && internals.Settles(l) })
}
