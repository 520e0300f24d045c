package promises

import (
	"cmp"
	"slices"
	"time"

	"github.com/berth-go/berth/dev/verify/history"
	"github.com/berth-go/berth/internal/protocol"
)

// budget is what may have been spent of the rate of one unit that is a window, or of one that is a
// bucket: no set has two of either.
type budget struct {
	run     *Run
	is      protocol.Rate // of a window, the largest that was declared
	largest time.Duration // window
	reigns  []reign[protocol.Rate]
	spent   []load  // of a window
	drawn   []drawn // from a bucket
	changed bool    // a bucket that was
}

// budgets returns those of a semaphore.
func (r *Run) budgets(ops []*Op, tolerance time.Duration) (all []budget) {
	type kind struct {
		unit   string
		bucket bool
	}
	kinds := map[kind]*budget{}
	for _, is := range declared(ops) {
		of := kind{is.Unit, is.Burst > 0}
		b := kinds[of]
		if b == nil {
			b = &budget{run: r, is: is}
			kinds[of] = b
			b.reigns = reigns(r, ops, tolerance, func(set protocol.Rates) protocol.Rate {
				rates := set.All()
				if i := slices.IndexFunc(rates, func(is protocol.Rate) bool { return kind{is.Unit, is.Burst > 0} == of }); i >= 0 {
					return rates[i]
				}
				return protocol.Rate{}
			})
		}
		b.changed, b.is.N, b.largest = b.changed || b.is != is, max(b.is.N, is.N), max(b.largest, is.Per)
	}
	for _, b := range kinds {
		for _, o := range ops {
			b.spend(o)
		}
		b.scarce(ops)
		all = append(all, *b)
	}
	return all
}

// scarce counts that there is less where another rate than the largest may be in force.
func (b *budget) scarce(ops []*Op) {
	least := b.is.N
	for _, is := range declared(ops) {
		if is.Unit == b.is.Unit && (is.Burst > 0) == (b.is.Burst > 0) {
			least = min(least, is.N)
		}
	}
	from := history.Time(0)
	for _, x := range append(b.reigns, reign[protocol.Rate]{span: span{history.Never, history.Never}}) {
		b.spent = append(b.spent,
			load{span: span{from, x.from}, by: b.is.N - least},
			load{span: x.span, by: b.is.N - cmp.Or(x.is.N, b.is.N)})
		from = x.to
	}
}

// full returns until when, or until its end if that is earlier, it may have had no room for w, and the
// promise of what was over then, "" for that of all rates.
func (b *budget) full(w *Op, end history.Time) (history.Time, string) {
	cost := w.Costs.Of(b.is.Unit, w.Weight)
	switch {
	case b.is.Burst == 0:
		return last(b.spent, w, b.is.N-cost, end)
	case b.changed:
		return end, "" // what it has then is not judged
	default:
		return b.empty(w, cost, end), ""
	}
}

// spend adds what o may have spent. Its grants, if nobody heard of them, may have been made at any time
// while it had a place in line.
func (b *budget) spend(o *Op) {
	hidden, cost := b.run.unheard(o), o.Costs.Of(b.is.Unit, o.Weight)
	if o.Held() {
		b.take(o)
	}
	switch {
	case o.Verb == history.Adopt || !hidden:
	case o.Held():
		b.may(o, span{o.Invoked, o.Granted}, cost)
	case b.run.gaveUp(o):
		b.may(o, span{o.Returned.Add(-history.Late), o.Returned}, cost)
	default:
		b.may(o, span{o.Invoked, b.run.ended(o).Add(heartbeat(o))}, cost)
	}
}

// may counts a cost that was spent at some time, if it was.
func (b *budget) may(o *Op, when span, cost int) {
	end, promise := b.leaves(when.to)
	b.spent = append(b.spent, load{span{when.from, end}, o, cost, promise})
	b.drawn = append(b.drawn, drawn{when, o, float64(cost)})
}

// take counts what a lease has cost, and what its holder has said since: until what was said last surely
// counts, the most of all that may. What may be more than before counts anew from when the server was
// told.
func (b *budget) take(o *Op) {
	c := o.charge(b.is.Unit)
	end, promise := b.leaves(o.Granted)
	least, most := c.says[0].n, c.says[0].n
	b.spent = append(b.spent, load{span{o.Granted, end}, o, most, promise})
	b.drawn = append(b.drawn, drawn{span{o.Granted, o.Granted}, o, float64(most)})
	done := b.run.settled(c)
	told := min(done, b.run.possession(o).to)
	for _, s := range c.says[1:] {
		b.spent = append(b.spent, load{span{s.at, end}, o, max(0, s.n-most), promise})
		least, most = min(least, s.n), max(most, s.n)
		if s.n > least {
			b.drawn = append(b.drawn, drawn{span{s.at, told}, o, float64(s.n)})
			before := end
			end, promise = b.leaves(max(told, s.at))
			b.spent = append(b.spent, load{span{before, end}, o, most, promise})
		}
	}
	if n := c.says[len(c.says)-1].n; done < end {
		b.spent = append(b.spent, load{span{done, end}, o, n - most, "R4"})
	}
}

// settled returns when what was said last of a lease surely counts: when it has been given back, or as
// soon as the server was told, if nothing was in the way; Never.
func (r *Run) settled(c charge) history.Time {
	said := c.says[len(c.says)-1].at
	quiet := !r.struck(said.Add(-afterFault), said.Add(2*history.Late), func(f history.Event) bool { return touches(f, c.Op) })
	if len(c.says) > 1 && quiet && min(c.End(), c.Lost) > said.Add(2*history.Late) {
		return min(c.done, said.Add(history.Late))
	}
	return c.done
}

// leaves returns until when, at the latest, a grant counts that was made at the time at, and the promise
// that it counts no more. For a hundredth of the window others may be counted with it, which is R2's;
// then, at any time, it counts for one more window of the rate in force (R5, if that was declared later).
// If another may be in force before that is over, what counts then counts for a window of the other.
func (b *budget) leaves(at history.Time) (end history.Time, promise string) {
	counted := at.Add(b.largest / 100)
	end = counted.Add(b.largest)
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

// drawn is what was taken out of a bucket at some time of a span. What comes back, when less is said,
// may be nothing.
type drawn struct {
	span
	of   *Op
	cost float64
}

// empty returns until when, or until its end if that is earlier, a bucket may have had too little for a
// cost; 0: never. What was taken at an unknown time is missing at the latest for all of the time.
func (b *budget) empty(w *Op, cost int, end history.Time) (at history.Time) {
	type edge struct {
		at             history.Time
		taken, missing float64
	}
	edges := []edge{{end, 0, 0}}
	for _, d := range b.drawn {
		if d.of != w && d.from < end {
			edges = append(edges, edge{d.from, 0, d.cost}, edge{d.to, d.cost, -d.cost})
		}
	}
	slices.SortFunc(edges, func(a, b edge) int { return cmp.Or(cmp.Compare(a.at, b.at), -cmp.Compare(a.missing, b.missing)) })
	lacks, missing, room := 0.0, 0.0, float64(b.is.Burst-cost)
	for i, e := range edges {
		if e.at >= end {
			break
		}
		lacks, missing = lacks+e.taken, missing+e.missing
		next := edges[i+1].at
		if over := lacks + missing - room; over > 0 {
			enough := next
			if over <= lacks {
				enough = min(next, e.at.Add(time.Duration(over/float64(b.is.N)*float64(b.is.Per))))
			}
			at = enough
		}
		lacks = max(0, lacks-refill(b.is, next.Sub(e.at)))
	}
	return at
}
