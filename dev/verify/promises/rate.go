package promises

import (
	"cmp"
	"slices"
	"time"

	"github.com/berth-go/berth/dev/verify/history"
	"github.com/berth-go/berth/internal/protocol"
)

// rates checks R1: the costs of the grants within any window of the rate in force, that began
// after it was declared, sum to at most that rate. Grants that nobody heard of are missing here,
// so what is seen is less than what was granted. A window is one of the server's clock, which
// tokens tell, unless it is stepped, or behind them; and a server that forgets its data forgets
// what was spent.
func (v *Verdict) rates(name string, ops []*Op, run *Run, rules Rules) {
	leases, reigns := fresh(ops), run.reigns(ops, rules.Clock.Tolerance)
	leases = slices.DeleteFunc(leases, run.counted)
	for _, period := range run.periods(leases, func(f history.Event) bool { return f.Breaks || f.Steps }) {
		for _, x := range reigns {
			under := slices.DeleteFunc(slices.Clone(period), func(o *Op) bool { return o.Granted < x.from || o.Granted > x.to })
			v.windows(name, x.rate, sorted(under, func(o *Op) history.Time { return history.Time(o.Token) }))
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
func (v *Verdict) windows(name string, is rate, leases []*Op) {
	first, sum := 0, 0
	for i, o := range leases {
		sum += o.costs()
		for since(leases[first], o) >= is.per {
			sum -= leases[first].costs()
			first++
		}
		v.Windows++
		v.Fullest = max(v.Fullest, float64(sum)/float64(is.n))
		if sum > is.n {
			v.add("R1", name, o.Returned, leases[first:i+1], "grants within %v cost %d, the rate is %d in %v", since(leases[first], o), sum, is.n, is.per)
		}
	}
}

// since is how much later o was granted than first, by the server's clock.
func since(first, o *Op) time.Duration {
	return time.Duration(o.Token-first.Token) * time.Microsecond
}

// costs is what the request took of the rate.
func (o *Op) costs() int { return cmp.Or(o.Cost, o.Weight) }

// rate is what a request declares.
type rate struct {
	n   int
	per time.Duration
}

// declared returns the rates that were declared, each once.
func declared(ops []*Op) (all []rate) {
	for _, o := range ops {
		if is := (rate{o.Rate, o.Per}); is.n > 0 && !slices.Contains(all, is) {
			all = append(all, is)
		}
	}
	return all
}

// reign is a time in which a rate was surely in force, whatever the order of what went on at once.
type reign struct {
	span
	rate
}

// reigns returns them, in order. A rate that no other follows is in force from the beginning, on a
// clock that may be unknown.
func (r *Run) reigns(ops []*Op, tolerance time.Duration) (all []reign) {
	switch rates := declared(ops); len(rates) {
	case 0:
		return nil
	case 1:
		return []reign{{span{0, history.Never}, rates[0]}}
	}
	var declarations []reign // each was executed in its time
	var edges []history.Time
	for _, o := range ops {
		if o.Rate > 0 {
			s := span{o.Invoked.Add(-tolerance), r.executed(o).Add(tolerance)}
			declarations, edges = append(declarations, reign{s, rate{o.Rate, o.Per}}), append(edges, s.from, s.to)
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
		case n > 0 && all[n-1].to == at && all[n-1].rate == is[0]:
			all[n-1].to = next
		default:
			all = append(all, reign{span{at, next}, is[0]})
		}
	}
	return all
}

// inForce returns the rates that may be in force right after a time: that of any request which may
// have been executed by then, unless another one surely was, later.
func inForce(declarations []reign, at history.Time) (may []rate) {
	var replaced history.Time
	for _, d := range declarations {
		if d.to <= at {
			replaced = max(replaced, d.from)
		}
	}
	for _, d := range declarations {
		if d.from <= at && d.to >= replaced && !slices.Contains(may, d.rate) {
			may = append(may, d.rate)
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
