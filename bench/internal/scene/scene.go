// Package scene has the scenarios: what is measured, of whom, and how. Each
// measures short slices that a Run interleaves, so that all contestants see the
// same conditions.
package scene

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth/bench/internal/peer"
	"github.com/berth-go/berth/internal/chart"
	"github.com/berth-go/berth/internal/measure"
)

// Env is where the scenarios take place.
type Env struct {
	URL    string
	Prefix string        // of every key
	Redis  *redis.Client // for questions to the server
	Scale  Scale

	names atomic.Int64
}

// name returns a name for semaphores that nobody had before.
func (e *Env) name(scenario string) string {
	return scenario + strconv.FormatInt(e.names.Add(1), 10)
}

// Scale is how much is measured.
type Scale struct {
	Slice     time.Duration // one measurement of throughput or latency
	Contended time.Duration // one of contention
	Workers   []int         // goroutines of one process
	Crowd     []int         // holders and waiters
	Memory    int           // waiters whose memory is measured
	Processes int           // among which they are spread
	Idle      time.Duration // for which they are watched: some heartbeats of each, one comes every 10 s
	Leases    int           // that one process keeps
	LeaseTTL  time.Duration // of which they are renewed every third
	Watch     time.Duration // for which that is watched: a whole number of intervals
	Handoffs  int           // in one slice, if there is time
	PoolTTL   time.Duration // of the leases that pools keep
	Elsewhere time.Duration // for which somebody waits for one of them
	GoTimers  bool          // permits are held by Go's timers
}

// Full is for figures to be published.
func Full() Scale {
	return Scale{
		Slice: 300 * time.Millisecond, Contended: 1500 * time.Millisecond, Workers: []int{1, 16, 64, 256},
		Crowd: []int{10, 1000, 100_000}, Memory: 100_000, Processes: 10, Idle: 20 * time.Second,
		Leases: 10_000, LeaseTTL: 30 * time.Second, Watch: 20 * time.Second, Handoffs: 50,
		PoolTTL: 30 * time.Second, Elsewhere: 12 * time.Second,
	}
}

// Quick is for a look.
func Quick() Scale {
	return Scale{
		Slice: 150 * time.Millisecond, Contended: 700 * time.Millisecond, Workers: []int{1, 16, 64, 256},
		Crowd: []int{10, 1000, 10_000}, Memory: 10_000, Processes: 2, Idle: 10 * time.Second,
		Leases: 10_000, LeaseTTL: 6 * time.Second, Watch: 6 * time.Second, Handoffs: 30,
		PoolTTL: 3 * time.Second, Elsewhere: 3 * time.Second,
	}
}

// Scenario is one thing that is measured.
type Scenario struct {
	Key, Title string
	About      string // what is measured, for people
	Cases      func(s Scale) []Case
	Takes      func(p *peer.Peer, c Case) bool // part in it
	// Slices is how many measurements a round has, Most how many rounds there
	// are at the most (0: as many as asked for).
	Slices, Most int
	// Together: all cases are open at once and interleaved, because they are
	// compared with each other.
	Together bool
	Length   func(s Scale) time.Duration // of one slice, about
	Open     func(ctx context.Context, e *Env, c Case, p *peer.Peer) (*Entrant, error)
}

// Case is one size of a scenario.
type Case struct {
	Key string
	N   int
}

// Entrant is one contestant in one case.
type Entrant struct {
	Slice func(ctx context.Context) ([]Figure, error)
	Close func()
}

// Figure is what one slice measured.
type Figure struct {
	Metric  string
	Value   float64
	Samples []float64 // that it was made of, if it was
}

// All returns the scenarios in the order of a run.
func All() []*Scenario {
	return slices.Concat(throughput(), []*Scenario{contended(), handoff(), holders(), waiters(), memory(), renewals(), pool()})
}

func cases(numbers []int) []Case {
	var list []Case
	for _, n := range numbers {
		list = append(list, Case{chart.Group(n), n})
	}
	return list
}

// only is a scenario's single case.
func only(key string) func(Scale) []Case {
	return func(Scale) []Case { return []Case{{Key: key}} }
}

// among returns a condition that holds for the contestants with these keys.
func among(keys ...string) func(*peer.Peer, Case) bool {
	return func(p *peer.Peer, _ Case) bool { return slices.Contains(keys, p.Key) }
}

// measured returns what the server did during f.
func (e *Env) measured(ctx context.Context, f func() error) (measure.Work, error) {
	before, err := measure.Ask(ctx, e.Redis)
	if err != nil {
		return measure.Work{}, err
	}
	if err := f(); err != nil {
		return measure.Work{}, err
	}
	after, err := measure.Ask(ctx, e.Redis)
	return after.Since(before), err
}

// drive opens a contestant in a shape, and what measures it.
func (e *Env) drive(ctx context.Context, p *peer.Peer, s peer.Shape, slice func(context.Context, peer.Driver) ([]Figure, error)) (*Entrant, error) {
	d, err := p.Drive(ctx, e.URL, e.Prefix, s)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p.Title, err)
	}
	if s.Workers > 2 {
		// Connections for all, and whatever else is slow only once.
		if _, err := d.Spin(ctx, peer.Load{For: e.Scale.Slice / 2}); err != nil {
			d.Close()
			return nil, fmt.Errorf("%s: %w", p.Title, err)
		}
	}
	return &Entrant{
		Close: d.Close,
		Slice: func(ctx context.Context) ([]Figure, error) { return slice(ctx, d) },
	}, nil
}

// micros turns durations into sorted microseconds.
func micros(list []time.Duration) []float64 {
	us := make([]float64, len(list))
	for i, d := range list {
		us[i] = float64(d) / float64(time.Microsecond)
	}
	slices.Sort(us)
	return us
}
