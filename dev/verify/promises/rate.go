package promises

import (
	"cmp"
	"slices"
	"time"

	"github.com/berth-go/berth/dev/verify/history"
	"github.com/berth-go/berth/internal/protocol"
)

// rates checks R1, R1b and R4: what counts within any window of a rate in force, that began after it was
// declared, is at most that rate when something is granted, and a bucket in force has what is granted.
// Grants that nobody heard of are missing here, so what is seen is less than what was granted. A window
// is one of the server's clock, which tokens tell, unless it is stepped, or behind them; and a server
// that forgets its data forgets what was spent.
func (v *Verdict) rates(name string, ops []*Op, run *Run, rules Rules) {
	leases := slices.DeleteFunc(fresh(ops), run.counted)
	periods := run.periods(leases, func(f history.Event) bool { return f.Breaks || f.Steps })
	for _, is := range declared(ops) {
		for _, x := range reigns(run, ops, rules.Clock.Tolerance, func(set protocol.Rates) bool { return keeps(set, is) }) {
			for _, period := range periods {
				under := slices.DeleteFunc(slices.Clone(period), func(o *Op) bool { return !x.is || o.Granted < x.from || o.Granted > x.to })
				under = sorted(under, func(o *Op) history.Time { return history.Time(o.Token) })
				if is.Burst > 0 {
					v.bucket(name, is, under, rules.Clock)
				} else {
					v.windows(name, is, under, rules.Clock)
				}
			}
		}
	}
}

// counted reports whether the server's clock may have been behind the tokens when o was granted:
// then o's tells only that it came later.
func (r *Run) counted(o *Op) bool {
	return slices.ContainsFunc(r.Faults, func(f history.Event) bool {
		return f.Behind > 0 && span{f.At, f.Until.Add(f.Behind)}.overlaps(o.Invoked, o.Returned)
	})
}

// windows looks at each window that ends with a grant; leases are in the order of their tokens.
func (v *Verdict) windows(name string, is protocol.Rate, leases []*Op, clock Clock) {
	charges, first := make([]charge, len(leases)), 0
	var before []charge // whose grants have left the window, but what they were settled for may be in it
	for i, o := range leases {
		charges[i] = o.charge(is.Unit)
		for ; since(leases[first], o) >= is.Per; first++ {
			if len(charges[first].says) > 1 {
				before = append(before, charges[first])
			}
		}
		sum, promise, ops := charges[i].says[0].n, "R1", []*Op{o}
		from := o.Granted.Add(-is.Per)
		before = slices.DeleteFunc(before, func(c charge) bool { return c.done < from })
		count := func(all []charge, inside bool) {
			for _, c := range all {
				n := c.least(inside, from, o.Granted, clock)
				sum += n
				if n > 0 || inside {
					ops = append(ops, c.Op)
				}
				if len(c.says) > 1 {
					promise = "R4"
				}
			}
		}
		count(charges[first:i], true)
		count(before, false)
		v.Windows++
		v.Fullest = max(v.Fullest, float64(sum)/float64(is.N))
		if sum > is.N {
			v.add(promise, name, o.Returned, ops, "grants within %v cost %d, the rate is %v", since(leases[first], o), sum, is)
		}
	}
}

// since is how much later o was granted than first, by the server's clock.
func since(first, o *Op) time.Duration {
	return time.Duration(o.Token-first.Token) * time.Microsecond
}

// declared returns the rates that were declared, each once: by unit, windows before buckets.
func declared(ops []*Op) (all []protocol.Rate) {
	for set := range sets(ops) {
		all = append(all, set.All()...)
	}
	slices.SortFunc(all, func(a, b protocol.Rate) int {
		return cmp.Or(cmp.Compare(a.Unit, b.Unit), cmp.Compare(a.Burst, b.Burst), cmp.Compare(a.Per, b.Per), cmp.Compare(a.N, b.N))
	})
	return slices.Compact(all)
}

// sets returns the sets of rates that were declared.
func sets(ops []*Op) map[protocol.Rates]bool {
	all := map[protocol.Rates]bool{}
	for _, o := range ops {
		if o.Rates != "" {
			all[o.Rates] = true
		}
	}
	return all
}

// keeps reports whether what is granted under a set is never more than what a rate allows.
func keeps(set protocol.Rates, is protocol.Rate) bool {
	return slices.ContainsFunc(set.All(), func(r protocol.Rate) bool {
		less := is.Burst == 0 && r.N <= is.N && r == protocol.Rate{Unit: is.Unit, N: r.N, Per: is.Per}
		return less || r == is
	})
}

// reign is a time in which the set in force surely had some property, whatever the order of what went
// on at once.
type reign[K comparable] struct {
	span
	is K
}

// reigns returns them, in order. One that no other follows lasts from the beginning, on a clock that may
// be unknown.
func reigns[K comparable](r *Run, ops []*Op, tolerance time.Duration, property func(protocol.Rates) K) (all []reign[K]) {
	kinds, different := map[protocol.Rates]K{}, map[K]bool{}
	for set := range sets(ops) {
		kinds[set] = property(set)
		different[kinds[set]] = true
	}
	if len(different) == 1 {
		for is := range different {
			return []reign[K]{{span{0, history.Never}, is}}
		}
	}
	var declarations []reign[K] // each was executed in its time
	var edges []history.Time
	for _, o := range ops {
		if o.Rates != "" {
			s := span{o.Invoked.Add(-tolerance), r.executed(o).Add(tolerance)}
			declarations, edges = append(declarations, reign[K]{s, kinds[o.Rates]}), append(edges, s.from, s.to)
		}
	}
	slices.Sort(edges)
	for i, at := range edges {
		next := r.End
		if i+1 < len(edges) {
			next = edges[i+1]
		}
		is := inForce(declarations, at)
		switch n := len(all); {
		case len(is) != 1 || next <= at:
		case n > 0 && all[n-1].to == at && all[n-1].is == is[0]:
			all[n-1].to = next
		default:
			all = append(all, reign[K]{span{at, next}, is[0]})
		}
	}
	return all
}

// inForce returns what may be in force right after a time: that of any request which may
// have been executed by then, unless another one surely was, later.
func inForce[K comparable](declarations []reign[K], at history.Time) (may []K) {
	var replaced history.Time
	for _, d := range declarations {
		if d.to <= at {
			replaced = max(replaced, d.from)
		}
	}
	for _, d := range declarations {
		if d.from <= at && d.to >= replaced && !slices.Contains(may, d.is) {
			may = append(may, d.is)
		}
	}
	return may
}

// executed returns when the last copy of o was surely executed, if there ever was one. A client does
// not send a second one before a second has passed without an answer, unless its place is lost.
func (r *Run) executed(o *Op) history.Time {
	end := r.ended(o)
	answered := o.Queued
	if answered == 0 && (o.Held() || o.Outcome == history.Busy) {
		answered = end
	}
	anew := o.Queued != 0 && r.unqueued(o)
	switch {
	case answered != 0 && answered.Sub(o.Invoked) < time.Second && !anew && !o.Again:
		return answered
	case o.Held() || r.gaveUp(o):
		return end
	default:
		return end.Add(protocol.Late)
	}
}
