package promises

import (
	"cmp"
	"slices"
	"time"

	"github.com/berth-go/berth/dev/verify/history"
)

// rates checks R1: the costs of the grants within any window sum to at most the rate. Grants
// that nobody heard of are missing here, so what is seen is less than what was granted. A window
// is one of the server's clock, which tokens tell, unless it is stepped, or behind them; and a
// server that forgets its data forgets what was spent.
func (v *Verdict) rates(name string, ops []*Op, run *Run) {
	leases := fresh(ops)
	if len(leases) == 0 || leases[0].Rate == 0 {
		return
	}
	leases = slices.DeleteFunc(leases, run.counted)
	for _, period := range run.periods(leases, func(f history.Event) bool { return f.Breaks || f.Steps }) {
		v.windows(name, sorted(period, func(o *Op) history.Time { return history.Time(o.Token) }))
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
func (v *Verdict) windows(name string, leases []*Op) {
	first, sum := 0, 0
	for i, o := range leases {
		sum += o.costs()
		for since(leases[first], o) >= o.Per {
			sum -= leases[first].costs()
			first++
		}
		v.Windows++
		v.Fullest = max(v.Fullest, float64(sum)/float64(o.Rate))
		if sum > o.Rate {
			v.add("R1", name, o.Returned, leases[first:i+1], "grants within %v cost %d, the rate is %d in %v", since(leases[first], o), sum, o.Rate, o.Per)
		}
	}
}

// since is how much later o was granted than first, by the server's clock.
func since(first, o *Op) time.Duration {
	return time.Duration(o.Token-first.Token) * time.Microsecond
}

// costs is what the request took of the rate.
func (o *Op) costs() int { return cmp.Or(o.Cost, o.Weight) }
