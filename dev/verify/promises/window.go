package promises

import (
	"cmp"
	"slices"
	"time"

	"github.com/berth-go/berth/dev/verify/history"
	"github.com/berth-go/berth/internal/protocol"
)

// window is the budget of the windows that were declared for a unit.
type window struct {
	run         *Run
	unit        string
	least, most int           // that a window lets in
	longest     time.Duration // of the windows
	reigns      []reign[protocol.Rate]
	spent       []load
}

// newWindow returns the budget of some windows of a unit.
func (r *Run) newWindow(rates []protocol.Rate, ops []*Op, tolerance time.Duration) *window {
	b := &window{run: r, unit: rates[0].Unit, least: rates[0].N}
	for _, is := range rates {
		b.least, b.most, b.longest = min(b.least, is.N), max(b.most, is.N), max(b.longest, is.Per)
	}
	b.reigns = reigns(r, ops, tolerance, func(set protocol.Rates) protocol.Rate {
		all := set.All()
		if i := slices.IndexFunc(all, func(is protocol.Rate) bool { return sameKind(is, rates[0]) }); i >= 0 {
			return all[i]
		}
		return protocol.Rate{}
	})
	for _, o := range ops {
		if o.Held() {
			b.take(o)
		}
		if when, ok := r.hidden(o); ok {
			end, promise := b.leaves(when.to)
			b.spent = append(b.spent, load{span{when.from, end}, o, o.Costs.Of(b.unit, o.Weight), promise})
		}
	}
	b.scarce()
	return b
}

// full implements budget.
func (b *window) full(w *Op, end history.Time) (history.Time, string) {
	return last(b.spent, w, b.most-w.Costs.Of(b.unit, w.Weight), end)
}

// scarce counts that there is less where another rate than the largest may be in force.
func (b *window) scarce() {
	from := history.Time(0)
	for _, x := range append(b.reigns, reign[protocol.Rate]{span: span{history.Never, history.Never}}) {
		b.spent = append(b.spent,
			load{span: span{from, x.from}, by: b.most - b.least},
			load{span: x.span, by: b.most - cmp.Or(x.is.N, b.most)})
		from = x.to
	}
}

// take counts what a lease has cost, and what its holder has said since: until what was said last surely
// counts, the most of all that may. What may be more than before counts anew from when the server was
// told.
func (b *window) take(o *Op) {
	c := o.charge(b.unit)
	end, promise := b.leaves(o.Granted)
	least, most := c.says[0].n, c.says[0].n
	b.spent = append(b.spent, load{span{o.Granted, end}, o, most, promise})
	for _, s := range c.says[1:] {
		b.spent = append(b.spent, load{span{s.at, end}, o, max(0, s.n-most), promise})
		least, most = min(least, s.n), max(most, s.n)
		if s.n > least {
			before := end
			end, promise = b.leaves(max(b.run.told(c), s.at))
			b.spent = append(b.spent, load{span{before, end}, o, most, promise})
		}
	}
	if n, done := c.says[len(c.says)-1].n, b.run.settled(c); done < end {
		b.spent = append(b.spent, load{span{done, end}, o, n - most, "R4"})
	}
}

// leaves returns until when, at the latest, a grant counts that was made at the time at, and the promise
// that it counts no more. For a hundredth of the window others may be counted with it, which is R2's;
// then, at any time, it counts for one more window of the rate in force (R5, if that was declared later).
// If another may be in force before that is over, what counts then counts for a window of the other.
func (b *window) leaves(at history.Time) (end history.Time, promise string) {
	counted := at.Add(b.longest / 100)
	end = counted.Add(b.longest)
	for _, x := range b.reigns {
		if over := max(x.from, counted).Add(x.is.Per); over <= x.to && over < end {
			end, promise = over, ""
			if x.from > counted {
				promise = "R5"
			}
		}
	}
	return end, promise
}
