package worker

import (
	"context"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/dev/verify/history"
	"github.com/berth-go/berth/internal/protocol"
)

// use waits for a permit, spends of the rates, and mostly says what it has really cost. Some leases are
// left unreleased instead.
func (u *user) use(ctx context.Context) {
	least, most := time.Duration(0), 20*time.Millisecond
	if u.spec.Bursts {
		u.gather(ctx)
		if u.one(2) {
			least, most = burstEvery/2, burstEvery
		}
	}
	wait, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	if u.one(12) {
		if h := u.ask(wait, history.Acquire, 1, berth.WithoutRenewal()); h != nil {
			h.drop(ctx)
		}
		return
	}
	if h := u.ask(wait, history.Acquire, 1); h != nil {
		h.hold(ctx, u.between(least, most))
		h.spend(6, 4)
		if u.one(3) {
			h.hold(ctx, u.between(0, 100*time.Millisecond))
		}
		h.release()
		if u.one(10) {
			h.spend(6, 4) // which comes too late
		}
	}
	pause(ctx, u.between(0, 20*time.Millisecond))
}

// rates are those that the next request declares.
func (u *user) rates() protocol.Rates {
	second := history.Now().Sub(u.Start)/rateChanges%2 == 1 && (!u.spec.Apart || u.Proc/2%2 == 1)
	if u.spec.Then != "" && second {
		return u.spec.Then
	}
	return u.spec.Rates
}

// declare returns the options that declare rates.
func declare(rates protocol.Rates) (opts []berth.Option) {
	for _, r := range rates.All() {
		o := berth.Rate(r.N, r.Per).Of(r.Unit)
		if r.Burst > 0 {
			o = o.Burst(r.Burst)
		}
		opts = append(opts, o)
	}
	return opts
}

// costs are what the next request says that it costs: in units with a name a small part of what there is
// at most, or where others are to wait for its settlement a large one; in that without one half of the
// time its weight.
func (u *user) costs() protocol.Costs {
	var all []protocol.Cost
	for _, r := range u.spec.Rates.All() {
		switch {
		case u.spec.Lines:
		case r.Unit != "" && u.spec.Mode == Timed && u.spec.Settles:
			all = append(all, protocol.Cost{Unit: r.Unit, N: r.Most()/2 + u.rng.IntN(r.Most()/2)})
		case r.Unit != "":
			all = append(all, protocol.Cost{Unit: r.Unit, N: 1 + u.rng.IntN(r.Most()/3)})
		case u.one(2):
			all = append(all, protocol.Cost{N: 1 + u.rng.IntN(r.N/2)})
		}
	}
	costs, err := protocol.JoinCosts(all...)
	must(err)
	return costs
}

// spend settles what the lease has cost in each unit with a name: mostly some part of what was asked for,
// one time in n more, one time in n not at all, and one time in n twice, of which the second counts.
func (h *holding) spend(n, part int) {
	for _, c := range h.event.Costs.All() {
		if c.Unit == "" {
			continue
		}
		switch h.rng.IntN(n) {
		case 0:
		case 1:
			h.settle(c.Unit, c.N+1+h.rng.IntN(c.N))
		case 2:
			h.settle(c.Unit, h.rng.IntN(c.N))
			h.settle(c.Unit, h.rng.IntN(2*c.N))
		default:
			h.settle(c.Unit, h.rng.IntN(c.N)/part)
		}
	}
}

// settle says what the lease has cost, and records it before.
func (h *holding) settle(unit string, n int) {
	costs, err := protocol.JoinCosts(protocol.Cost{Unit: unit, N: n})
	must(err)
	e := history.Event{Op: h.out.Op(), Verb: history.Settle, Kind: history.Invoke, Costs: costs}
	h.say(e)
	e.Kind = history.Return
	e.Outcome, _, e.Text = outcome(h.lease.Settle(n, unit))
	h.say(e)
}
