package promises

import (
	"cmp"
	"slices"
	"time"

	"github.com/berth-go/berth/dev/verify/history"
	"github.com/berth-go/berth/internal/protocol"
)

// bucket is the budget of the buckets that were declared for a unit.
type bucket struct {
	is      protocol.Rate
	changed bool // others were declared: what they had then is not judged
	drawn   []drawn
}

// drawn is what was taken out of a bucket at some time of a span. What comes back, when less is said,
// may be nothing.
type drawn struct {
	span
	of   *Op
	cost float64
}

// newBucket returns the budget of some buckets of a unit.
func (r *Run) newBucket(rates []protocol.Rate, ops []*Op) *bucket {
	b := &bucket{is: rates[0], changed: len(rates) > 1}
	for _, o := range ops {
		if o.Held() {
			b.take(o, r)
		}
		if when, ok := r.hidden(o); ok {
			b.drawn = append(b.drawn, drawn{when, o, float64(o.Costs.Of(b.is.Unit, o.Weight))})
		}
	}
	return b
}

// full implements budget.
func (b *bucket) full(w *Op, end history.Time) (history.Time, string) {
	if b.changed {
		return end, ""
	}
	return b.empty(w, w.Costs.Of(b.is.Unit, w.Weight), end), ""
}

// take counts what a lease has cost, and again what its holder has said since, wherever that may be more
// than before: from then until the server was told.
func (b *bucket) take(o *Op, r *Run) {
	c := o.charge(b.is.Unit)
	least := c.says[0].n
	b.drawn = append(b.drawn, drawn{span{o.Granted, o.Granted}, o, float64(least)})
	for _, s := range c.says[1:] {
		if least = min(least, s.n); s.n > least {
			b.drawn = append(b.drawn, drawn{span{s.at, r.told(c)}, o, float64(s.n)})
		}
	}
}

// empty returns until when, or until its end if that is earlier, a bucket may have had too little for a
// cost; 0: never. What was taken at an unknown time is missing at the latest for all of the time.
func (b *bucket) empty(w *Op, cost int, end history.Time) (at history.Time) {
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
