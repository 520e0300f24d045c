// Package trial measures the scenarios: for which contestants, and how.
package trial

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth/dev/bench/internal/peer"
	"github.com/berth-go/berth/dev/internal/chart"
	"github.com/berth-go/berth/dev/internal/measure"
	"github.com/berth-go/berth/dev/internal/scenario"
)

// Env is the environment of the scenarios.
type Env struct {
	URL    string
	Prefix string        // of every key
	Redis  *redis.Client // for questions to the server
	Scale  Scale

	names atomic.Int64
}

// name returns a new name for a semaphore.
func (e *Env) name(s scenario.Scenario) string {
	return s.Key + strconv.FormatInt(e.names.Add(1), 10)
}

// shape returns the shape of a scenario, with a new name.
func (e *Env) shape(s scenario.Scenario) peer.Shape {
	return peer.Shape{Name: e.name(s), Clients: s.Clients, Workers: s.Workers, Limit: s.Limit, Each: s.Each}
}

// Scale says how much is measured.
type Scale struct {
	Slice     time.Duration // length of a measurement of throughput or latency
	Contended time.Duration // length of a measurement of contention
	Workers   []int         // numbers of goroutines of one process
	Crowd     []int         // numbers of holders and waiters
	Memory    int           // number of waiters whose memory is measured
	Processes int           // number of processes among which they are spread
	Idle      time.Duration // for which they are watched; their heartbeats are 10 s apart
	Leases    int           // number of leases that one process keeps
	LeaseTTL  time.Duration // TTL of these leases; they are renewed after each third of it
	Watch     time.Duration // for which they are watched: a whole number of renewals
	Handoffs  int           // most hand-offs in one slice
	PoolTTL   time.Duration // TTL of the leases in pools
	Elsewhere time.Duration // for which another process waits for one of these leases
	Flow      time.Duration // of a rate, in whole seconds
	GoTimers  bool          // measure the time of holding with Go's timers
}

// Full is the scale of published figures.
func Full() Scale {
	return Scale{
		Slice: 300 * time.Millisecond, Contended: 1500 * time.Millisecond, Workers: []int{1, 16, 64, 256},
		Crowd: []int{10, 1000, 100_000}, Memory: 100_000, Processes: 10, Idle: 20 * time.Second,
		Leases: 10_000, LeaseTTL: 30 * time.Second, Watch: 20 * time.Second, Handoffs: 50,
		PoolTTL: 30 * time.Second, Elsewhere: 12 * time.Second, Flow: 5 * time.Second,
	}
}

// Quick is the scale of a quick look.
func Quick() Scale {
	return Scale{
		Slice: 150 * time.Millisecond, Contended: 700 * time.Millisecond, Workers: []int{1, 16, 64, 256},
		Crowd: []int{10, 1000, 10_000}, Memory: 10_000, Processes: 2, Idle: 10 * time.Second,
		Leases: 10_000, LeaseTTL: 6 * time.Second, Watch: 6 * time.Second, Handoffs: 30,
		PoolTTL: 3 * time.Second, Elsewhere: 3 * time.Second, Flow: 2 * time.Second,
	}
}

// Trial is a scenario and how it is measured.
type Trial struct {
	scenario.Scenario
	Figures string // what they are, where the scenario does not say so
	Cases   func(s Scale) []Case
	Takes   func(p *peer.Peer, c Case) bool // reports whether p takes part in c
	// Slices is the number of measurements in a round, Most the largest number of
	// rounds (0: no bound).
	Slices, Most int
	// Together opens all cases at once and interleaves them, because they are compared
	// with each other.
	Together bool
	Length   func(s Scale) time.Duration // of one slice, about
	Open     func(ctx context.Context, e *Env, c Case, p *peer.Peer) (*Entrant, error)
}

// Case is one size of a trial.
type Case struct {
	Key string
	N   int
}

// Entrant is one contestant in one case.
type Entrant struct {
	Slice func(ctx context.Context) ([]Figure, error)
	Close func()
}

// Figure is a figure that a slice measured.
type Figure struct {
	Metric string
	Value  float64
}

// All returns the trials in the order of a run.
func All() []*Trial {
	return slices.Concat(throughput(), []*Trial{contended(), handoff(), holders(), waiters(), memory(), renewals(), pool(), rate()})
}

func cases(numbers []int) []Case {
	var list []Case
	for _, n := range numbers {
		list = append(list, Case{chart.Group(n), n})
	}
	return list
}

// only returns the cases of a trial with a single case.
func only(key string) func(Scale) []Case {
	return func(Scale) []Case { return []Case{{Key: key}} }
}

// among returns a condition that is true for the contestants with these keys.
func among(keys ...string) func(*peer.Peer, Case) bool {
	return func(p *peer.Peer, _ Case) bool { return slices.Contains(keys, p.Key) }
}

// measured runs f and returns what the server did meanwhile.
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

// spin puts a load on a contestant and returns what came of it, and what the server did meanwhile.
func (e *Env) spin(ctx context.Context, d peer.Driver, l peer.Load) (out *peer.Outcome, used measure.Work, err error) {
	used, err = e.measured(ctx, func() (err error) {
		out, err = d.Spin(ctx, l)
		return err
	})
	return out, used, err
}

// brief returns the Open of a trial of which nothing remains between two slices.
func brief(slice func(ctx context.Context, e *Env, c Case, p *peer.Peer) ([]Figure, error)) func(context.Context, *Env, Case, *peer.Peer) (*Entrant, error) {
	return func(_ context.Context, e *Env, c Case, p *peer.Peer) (*Entrant, error) {
		return &Entrant{Close: func() {}, Slice: func(ctx context.Context) ([]Figure, error) { return slice(ctx, e, c, p) }}, nil
	}
}

// drive opens a contestant in a shape, to be measured by slice.
func (e *Env) drive(ctx context.Context, p *peer.Peer, s peer.Shape, slice func(context.Context, peer.Driver) ([]Figure, error)) (*Entrant, error) {
	d, err := p.Drive(ctx, e.URL, e.Prefix, s)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p.Title, err)
	}
	if s.Workers > 2 {
		// Connections for all workers, and whatever else is slow only the first time.
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
