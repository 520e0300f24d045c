package judge

import (
	"cmp"
	"math"
	"slices"
	"sort"
	"time"
)

// Order says how well the order of arrival was kept.
type Order struct {
	Requests  int
	Overtaken int // requests that at least one later request overtook
	Most      int // largest number of requests that overtook the same one
}

// Overtook reports whether r overtook another request, as far as clients can know the order
// in which the server granted permits: r was made after the server had first answered the
// other, and was granted before it. The server's tokens tell which grant was earlier; without
// tokens, r's was if its client knew of it before the other's last asked. So no request counts
// wrongly, however long requests and answers are under way. A request that was never granted
// was overtaken by those that were granted before it was last refused.
func (r Request) Overtook(other Request) bool {
	return r.Asked > other.Answered && r.latest() < other.earliest()
}

// Overtakings judges the order in which the server granted permits.
func Overtakings(requests []Request) Order {
	o := Order{Requests: len(requests)}
	asked := make([]time.Duration, len(requests))
	for i, r := range requests {
		asked[i] = r.Asked
	}
	slices.Sort(asked)
	by := func(bound func(Request) int64) []Request {
		return slices.SortedFunc(slices.Values(requests), func(a, b Request) int { return cmp.Compare(bound(a), bound(b)) })
	}
	served := by(Request.latest)
	before := counter{tree: make([]int, len(asked)+1)} // requests granted before r
	for _, r := range by(Request.earliest) {
		for len(served) > 0 && served[0].latest() < r.earliest() {
			place, _ := slices.BinarySearch(asked, served[0].Asked)
			before.add(place)
			served = served[1:]
		}
		later := sort.Search(len(asked), func(i int) bool { return asked[i] > r.Answered })
		if n := before.from(later); n > 0 {
			o.Overtaken++
			o.Most = max(o.Most, n)
		}
	}
	return o
}

// earliest and latest bound the server's grant of r: by the token, which is larger than all
// times of a run, or by the client's clock.
func (r Request) earliest() int64 { return cmp.Or(r.Token, int64(r.Called)) }

func (r Request) latest() int64 {
	if !r.Granted {
		return math.MaxInt64
	}
	return cmp.Or(r.Token, int64(r.Start))
}

// counter counts positions and tells how many are at or after a given one. It is a Fenwick
// tree, because runs have tens of thousands of requests.
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

// Waits returns how long each request waited, the shortest first. A request that was still
// waiting counts with its wait so far; without it, starvation would not show.
func Waits(requests []Request) []time.Duration {
	waits := make([]time.Duration, len(requests))
	for i, r := range requests {
		waits[i] = r.Waited()
	}
	slices.Sort(waits)
	return waits
}

// Worst returns the span of the given length within the run in which the limit was exceeded
// for the longest time, or the middle of the run if it never was.
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
