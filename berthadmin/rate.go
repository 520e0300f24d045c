package berthadmin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/internal/look"
	"github.com/berth-go/berth/internal/protocol"
)

// Rate is a rate in force, as berth.Rate says. Its unit and its window together are its name.
type Rate struct {
	Unit  string        `json:"unit"`  // what it counts; "": calls, or what their Cost says
	N     int           `json:"n"`     // total cost granted per Per, at most
	Per   time.Duration `json:"-"`     // in whole milliseconds
	Burst int           `json:"burst"` // with it the rate is a bucket: see berth.RateOption.Burst
	Spent int           `json:"spent"` // the costs of the grants that count for it
}

// String returns the rate and what of it is spent, as in "12 of 60 tokens spent in 1m0s".
func (r Rate) String() string { return protocol.Budget{Rate: r.rate(), Spent: r.Spent}.String() }

// Declaration returns the rate alone, as the audit has it: "60 tokens in 1m0s".
func (r Rate) Declaration() string { return r.rate().String() }

// Full reports whether it has no room for a cost of 1.
func (r Rate) Full() bool { return r.Spent >= r.rate().Most() }

func (r Rate) rate() protocol.Rate {
	return protocol.Rate{Unit: r.Unit, N: r.N, Per: r.Per, Burst: r.Burst}
}

// SetRates declares the rates of one unit, which replace those that it has, as an acquire declares all:
// the rates of other units stay, and of those given only N, Per and Burst are looked at. Without any
// the unit has no rate any more. Waiters that now fit are granted at once, and what was granted before
// counts for at most one new window. The next acquire that declares rates replaces them all: PinRates
// prevents that.
//
// It returns the rates of the unit before, of which Spent is not known, and after. The error is
// ErrNotFound when the semaphore is idle: then there is nothing to change; and ErrPinned when other
// rates are pinned.
func (in *Inspector) SetRates(ctx context.Context, name, unit string, set ...Rate) (before, after []Rate, err error) {
	op, err := setRates(unit, set)
	if err != nil {
		return nil, nil, err
	}
	what := text(unit, declared(op.Rates))
	err = in.audited(ctx, Audited{Verb: "resize --rate", Name: name, Unit: unit, What: what}, func() error {
		if _, err := in.snapshot(ctx, name, false); err != nil {
			return err
		}
		reply, err := in.applied(ctx, name, op)
		if err != nil {
			return err
		}
		before, after = beforeAndAfter(unit, &reply)
		if reply.RatesPinned && text(unit, after) != what {
			return fmt.Errorf("%w: those of %q stay as they are; use \"berth pin --rate\" or \"berth unpin --rate\"", ErrPinned, name)
		}
		return nil
	})
	return before, after, tooMany(err)
}

// PinRates is SetRates, and pins all rates of the semaphore, those of other units too: no declaration
// changes them until UnpinRates, even while the semaphore is idle. It pins that there are none, where
// none are left. An idle semaphore can be pinned, too.
func (in *Inspector) PinRates(ctx context.Context, name, unit string, set ...Rate) (before, after []Rate, err error) {
	op, err := setRates(unit, set)
	if err != nil {
		return nil, nil, err
	}
	op.Flag = true
	e := Audited{Verb: "pin --rate", Name: name, Unit: unit, What: text(unit, declared(op.Rates))}
	err = in.audited(ctx, e, func() error {
		reply, err := in.applied(ctx, name, op)
		if err != nil {
			return err
		}
		before, after = beforeAndAfter(unit, &reply)
		return nil
	})
	return before, after, tooMany(err)
}

// UnpinRates ends what PinRates began. The rates stay until the next acquire that declares others. The
// error is ErrNotFound when the semaphore is idle, and neither pinned nor paused.
func (in *Inspector) UnpinRates(ctx context.Context, name string) error {
	return in.audited(ctx, Audited{Verb: "unpin --rate", Name: name}, func() error {
		return in.change(ctx, name, protocol.Op{Verb: protocol.UnpinRates})
	})
}

// beforeAndAfter returns the rates of a unit before and after a call.
func beforeAndAfter(unit string, reply *protocol.Reply) (before, after []Rate) {
	return ofUnit(unit, declared(reply.WasRates)), ofUnit(unit, rates(reply.Budgets(reply.Now)))
}

// tooMany explains why the script refused a set of rates: all else was checked before.
func tooMany(err error) error {
	if errors.Is(err, protocol.ErrRequest) {
		return &berth.InvalidError{What: "rates", Reason: fmt.Sprintf("with those of other units they are more than %d", protocol.MostRates)}
	}
	return err
}

// setRates is the operation of SetRates.
func setRates(unit string, set []Rate) (op protocol.Op, err error) {
	all := make([]protocol.Rate, len(set))
	for i, r := range set {
		if r.N == 0 { // JoinRates would leave it out
			return op, &berth.InvalidError{What: "rates", Reason: "0 is no rate: to take the unit's rates away, give none"}
		}
		r.Unit = unit
		all[i] = r.rate()
	}
	op = protocol.Op{Verb: protocol.SetRates, Only: true, Unit: unit}
	if op.Rates, err = protocol.JoinRates(all...); err == nil && !protocol.GoodUnit(unit) {
		err = fmt.Errorf("unit %.20q is not a lower-case word of at most %d characters", unit, protocol.MostUnit)
	}
	if err != nil {
		return op, &berth.InvalidError{What: "rates", Reason: err.Error()}
	}
	return op, nil
}

// ofUnit returns the rates of a unit.
func ofUnit(unit string, all []Rate) []Rate {
	return slices.DeleteFunc(all, func(r Rate) bool { return r.Unit != unit })
}

// text tells the rates of a unit, as the audit has them.
func text(unit string, all []Rate) string {
	var found []string
	for _, r := range all {
		if r.Unit == unit {
			found = append(found, r.Declaration())
		}
	}
	if found == nil {
		return protocol.Rate{Unit: unit}.String()
	}
	return strings.Join(found, ", ")
}

// CheckRate returns a *berth.InvalidError if no semaphore can have this rate, or a rate of its unit if N
// is 0. It sends nothing.
func CheckRate(r Rate) error {
	var set []Rate
	if r.N != 0 {
		set = []Rate{r}
	}
	_, err := setRates(r.Unit, set)
	return err
}

// declared are rates of which it is not known what is spent.
func declared(set protocol.Rates) (all []Rate) {
	for _, r := range set.All() {
		all = append(all, Rate{Unit: r.Unit, N: r.N, Per: r.Per, Burst: r.Burst})
	}
	return all
}

// rates are those in force, and what is spent of them.
func rates(all []protocol.Budget) []Rate {
	found := make([]Rate, len(all))
	for i, b := range all {
		found[i] = Rate{b.Unit, b.N, b.Per, b.Burst, b.Spent}
	}
	return found
}

// spent returns what s has to say of rates: those in force, and how long they alone keep out the first
// in the queue or, where nobody waits, what has weight 1 and no costs.
func spent(s *look.Snapshot) (all []Rate, rest time.Duration) {
	all = rates(s.Budgets(s.Now))
	if s.Head != nil {
		return all, s.Rest(s.Head.Weight, s.Head.Costs)
	}
	return all, s.Rest(1, "")
}

// charged returns what a request costs of some rates, by unit, and the one of them that would keep it
// out if it were the first in the queue: of several that with the longest window. nil: none does.
func charged(all []Rate, r *look.Record) (costs map[string]int, kept *Rate) {
	costs = make(map[string]int, len(all))
	for _, is := range all {
		costs[is.Unit] = r.Costs.Of(is.Unit, r.Weight)
		full := protocol.Budget{Rate: is.rate(), Spent: is.Spent}.Keeps(r.Weight, r.Costs)
		if full && (kept == nil || is.Per > kept.Per) {
			kept = &is
		}
	}
	return costs, kept
}
