package judge

import (
	"cmp"
	"slices"
	"sort"
	"time"
)

// Order is how well the order of arrival was kept.
type Order struct {
	Requests  int
	Overtaken int // requests that at least one later one overtook
	Most      int // how many overtook the one that fared worst
}

// Overtakings judges the order in which permits were given. A request was
// overtaken by one that was made more than slack later and got its permit more
// than slack earlier; slack is the time in which nobody can say who was first,
// because requests and answers were under way. Requests that got nothing count
// as well: whoever got something was before them.
func Overtakings(requests []Request, slack time.Duration) Order {
	o := Order{Requests: len(requests)}
	asked := make([]time.Duration, len(requests))
	for i, r := range requests {
		asked[i] = r.Asked
	}
	slices.Sort(asked)
	sorted := inOrderOfGrants(requests)
	before := counter{tree: make([]int, len(asked)+1)} // those served clearly before r
	next := 0
	for _, r := range sorted {
		for ; next < len(sorted) && sorted[next].Granted && (!r.Granted || sorted[next].Start < r.Start-slack); next++ {
			place, _ := slices.BinarySearch(asked, sorted[next].Asked)
			before.add(place)
		}
		later := sort.Search(len(asked), func(i int) bool { return asked[i] > r.Asked+slack })
		if n := before.from(later); n > 0 {
			o.Overtaken++
			o.Most = max(o.Most, n)
		}
	}
	return o
}

// inOrderOfGrants puts those without a permit last.
func inOrderOfGrants(requests []Request) []Request {
	sorted := slices.Clone(requests)
	slices.SortStableFunc(sorted, func(a, b Request) int {
		switch {
		case a.Granted && b.Granted:
			return cmp.Compare(a.Start, b.Start)
		case a.Granted:
			return -1
		case b.Granted:
			return +1
		default:
			return 0
		}
	})
	return sorted
}

// counter counts places and answers how many are at or after one (a Fenwick
// tree: runs have tens of thousands of requests).
type counter struct {
	tree  []int
	total int
}

func (c *counter) add(place int) {
	c.total++
	for i := place + 1; i < len(c.tree); i += i & -i {
		c.tree[i]++
	}
}

func (c *counter) from(place int) int {
	before := 0
	for i := place; i > 0; i -= i & -i {
		before += c.tree[i]
	}
	return c.total - before
}

// Waits returns how long each request waited, shortest first. A request that
// was still waiting counts with what it had waited: leaving it out would hide
// those that starve.
func Waits(requests []Request) []time.Duration {
	waits := make([]time.Duration, len(requests))
	for i, r := range requests {
		waits[i] = r.Waited()
	}
	slices.Sort(waits)
	return waits
}

// Quantile returns the value that a share of q of the sorted times do not
// exceed; 0 without times.
func Quantile(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}

// Worst returns the stretch of the given length, within the run, in which the
// limit was exceeded for the longest time; without any excess, the middle.
func Worst(moments []Excess, run, length time.Duration) Span {
	if length >= run {
		return Span{To: run}
	}
	best := Span{From: (run - length) / 2, To: (run + length) / 2}
	most := time.Duration(0)
	for _, m := range moments {
		from := max(0, min(m.From-length/10, run-length))
		window := Span{from, from + length}
		if over := overlap(moments, window); over > most {
			best, most = window, over
		}
	}
	return best
}

func overlap(moments []Excess, window Span) time.Duration {
	var sum time.Duration
	for _, m := range moments {
		sum += Span{max(m.From, window.From), min(m.To, window.To)}.Length()
	}
	return sum
}
