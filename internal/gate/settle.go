package gate

import (
	"context"
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"

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

// Settling reads from the answer to a call what that has cost in a unit.
type Settling struct {
	unit string
	cost func(answer any) (n int, ok bool)
}

// SettleBy returns a Settling for answers of a type. f returns false if the answer has no cost.
func SettleBy[A any](unit string, f func(A) (n int, ok bool)) Settling {
	if f == nil {
		return Settling{unit: unit}
	}
	return Settling{unit, func(answer any) (int, bool) {
		a, ok := answer.(A)
		if !ok {
			return 0, false
		}
		return f(a)
	}}
}

// Answered settles what the answer to a call tells, of each limit that reads it.
func (g *Gate[R]) Answered(p *Permit, answer any) {
	for i := range g.Rules {
		if i >= len(p.leases) || p.leases[i] == nil {
			continue
		}
		for _, s := range g.Rules[i].Settles {
			n, ok := s.cost(answer)
			if !ok {
				continue
			}
			err := p.leases[i].Settle(n, s.unit)
			if errors.Is(err, berth.ErrInvalid) && g.unsettled.CompareAndSwap(false, true) {
				g.Logger.Warn(g.Package+": a cost in an answer cannot be settled; further ones are not logged",
					"limit", g.Rules[i].Name, "unit", s.unit, "cost", n, "error", err)
			}
		}
	}
}

// CostIn reads a cost from a text: a number, also with a fraction, which is rounded up.
func CostIn(text string) (n int, ok bool) {
	f, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	if err != nil || !(f >= 0 && f <= berth.MaxLimit) {
		return 0, false
	}
	return int(math.Ceil(f)), true
}

// Settles reports whether a caller may have to settle what the call has cost: a limit has a rate of a
// unit with a name, or the call has said what it costs.
func (p *Permit) Settles() bool {
	return slices.ContainsFunc(p.leases, func(l *berth.Lease) bool { return l != nil && internals.Settles(l) })
}
