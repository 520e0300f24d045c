package berthwatch

import (
	"context"
	"slices"
	"time"

	"github.com/berth-go/berth/berthadmin"
)

const (
	// share bounds sampling to 1/share of the server's time. The search for names may take
	// as much again.
	share = 50
	// mostTrip is what a round trip costs at most where the server does not tell: so much for a
	// hundred semaphores, or for a page of holders and waiters, is more than any server takes.
	mostTrip = 20 * time.Millisecond
	// mostFirst bounds what is believed of the first cost alone.
	mostFirst = 100 * time.Millisecond
	// seldomMeasured is how many samples there are for one that is measured, while the cost
	// does not decide the pace.
	seldomMeasured = 5
)

// gauge measures what one goroutine's readings cost the server. What this process and the
// network take does not count: a busy process would look less and less often.
type gauge struct {
	timed  *berthadmin.Inspector // asks the server for its time
	plain  *berthadmin.Inspector
	spent  time.Duration
	told   bool
	silent bool // the server does not tell
}

func newGauge(in *berthadmin.Inspector) *gauge {
	g := &gauge{plain: in.Live(nil)}
	g.timed = in.Live(func(spent time.Duration) { g.spent, g.told = g.spent+spent, true })
	return g
}

// cost calls read, which returns how many round trips it made, and returns the server's time for
// that, also if it failed. Where the server does not tell, it is an upper bound: the time that
// read took, less that of the network.
func (g *gauge) cost(ctx context.Context, read func(in *berthadmin.Inspector) (trips int, err error)) (time.Duration, error) {
	g.spent, g.told = 0, false
	if !g.silent {
		start := time.Now()
		trips, err := read(g.timed)
		if g.told || err != nil {
			return g.spent, err
		}
		g.silent = trips > 0
		return bounded(time.Since(start), trips), nil
	}
	before, err := g.trip(ctx)
	if err != nil {
		return 0, err
	}
	start := time.Now()
	trips, err := read(g.timed)
	took := time.Since(start)
	if g.silent = !g.told; g.told || err != nil {
		return g.spent, err
	}
	after, err := g.trip(ctx)
	return bounded(took-time.Duration(trips)*min(before, after), trips), err
}

func bounded(cost time.Duration, trips int) time.Duration {
	return max(0, min(cost, time.Duration(trips)*mostTrip))
}

// trip measures a round trip.
func (g *gauge) trip(ctx context.Context) (time.Duration, error) {
	start := time.Now()
	err := g.plain.Ping(ctx)
	return time.Since(start), err
}

// usual is what a reading usually costs, by the last three. One in which the server stood still,
// or served others, counts for nothing.
type usual struct {
	last  [3]time.Duration
	n     int // how many there were
	since int // how often it was read since it was measured
	size  int // of what was measured
}

// add notes a cost.
func (u *usual) add(cost time.Duration, size int) {
	u.last[u.n%len(u.last)] = cost
	u.n, u.since, u.size = u.n+1, 0, size
}

// cost returns the one in the middle, the smaller of two, and the first as far as it is believed.
func (u *usual) cost() time.Duration {
	switch u.n {
	case 0, 1:
		return min(u.last[0], mostFirst)
	case 2:
		return min(u.last[0], u.last[1])
	}
	sorted := u.last
	slices.Sort(sorted[:])
	return sorted[1]
}

// due reports whether a reading of this size is to be measured: always where the cost decides
// the pace, and else now and then.
func (u *usual) due(size int, every time.Duration) bool {
	u.since++
	return u.n < len(u.last) || u.since >= seldomMeasured || size > 2*u.size || 2*share*u.cost() >= every
}
