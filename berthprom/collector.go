package berthprom

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/berthadmin"
	"github.com/berth-go/berth/berthwatch"
)

// DefaultNames is how many names have their own metrics.
const DefaultNames = 200

const (
	// scrapeTimeout is how long a scrape waits for Redis.
	scrapeTimeout = time.Second
	// pace is the default pace of New's sampler.
	pace = 5 * time.Second
	// stale is the age from which a sample is not exported. Prometheus itself looks back
	// as far.
	stale = 5 * time.Minute
	// believed is how long an answer about the server is used.
	believed = time.Minute
)

// Options configures a Collector.
type Options struct {
	// Names bounds how many names have their own metrics; 0 is DefaultNames. The others
	// are counted together as "_other". The busiest names have their own, until they have
	// been idle for a quarter of an hour.
	Names int
	// Group has patterns such as "api/*", for names that contain keys: the semaphores that
	// match a pattern are counted together under it. The first matching pattern counts.
	Group []string
	// Watch configures the sampler of New. The default of Every is 5 seconds here.
	Watch berthwatch.Options
}

// Collector is a prometheus.Collector. It is safe for concurrent use.
type Collector struct {
	sampler *berthwatch.Sampler
	in      *berthadmin.Inspector
	end     func()

	mu       sync.Mutex // guards the rest
	fold     fold
	server   berthadmin.Server // as of serverAt; zero: it did not say
	serverAt time.Time
}

// New returns a Collector with its own sampler, which works until Close. It fails with
// berth.ErrInvalid when a pattern is malformed, or no semaphore can have one of the names.
func New(in *berthadmin.Inspector, o Options) (*Collector, error) {
	for _, name := range o.Watch.Names {
		if err := berthadmin.CheckName(name); err != nil {
			return nil, err
		}
	}
	o.Watch.Leases = true
	o.Watch.Every = cmp.Or(o.Watch.Every, pace)
	s := berthwatch.New(in, o.Watch)
	c, err := NewCollector(s, in, o)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { s.Run(ctx) })
	c.end = func() {
		cancel()
		running.Wait()
	}
	return c, nil
}

// NewCollector returns a Collector for a sampler that the caller runs; in is the Inspector
// that the sampler uses. The ages of leases are among the metrics if the sampler was made
// with berthwatch.Options.Leases. It fails with berth.ErrInvalid when a pattern is
// malformed.
func NewCollector(s *berthwatch.Sampler, in *berthadmin.Inspector, o Options) (*Collector, error) {
	if o.Names < 0 {
		return nil, &berth.InvalidError{What: "number of names", Reason: fmt.Sprintf("%d is below 0", o.Names)}
	}
	if err := berthwatch.Groups(o.Group).Check(); err != nil {
		return nil, err
	}
	return &Collector{
		sampler: s, in: in, end: func() {},
		fold: fold{group: o.Group, most: cmp.Or(o.Names, DefaultNames)},
	}, nil
}

// Close stops the sampler that New made. The Collector goes on exporting its last sample
// until that is stale, with berth_up 0 after a few times the sampler's pace.
func (c *Collector) Close() {
	if c != nil && c.end != nil {
		c.end()
	}
}

// Collect implements prometheus.Collector. It waits for Redis for at most a second.
func (c *Collector) Collect(ch chan<- prometheus.Metric) {
	if c == nil || c.sampler == nil { // New failed
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	fresh := c.sampler.Wait(ctx, "")
	v := c.sampler.Look()
	c.mu.Lock()
	defer c.mu.Unlock()
	out := sink(ch)
	out.add(buildInfo, 1, version, goVersion)
	away := cmp.Or(v.Err, v.SearchErr)
	age := time.Since(v.At)
	// That there is no error says nothing when a sleep has just ended, or the sampler has.
	out.add(up, number(away == nil && !v.At.IsZero() && (fresh || age <= 3*v.Pace+scrapeTimeout)))
	out.add(dropped, float64(v.Dropped))
	if v.Trips.Count > 0 {
		out.trips(&v.Trips)
	}
	if v.Found {
		out.add(scanDuration, v.Search.Seconds())
	}
	if !v.NamesAt.IsZero() {
		out.add(namesAge, time.Since(v.NamesAt).Seconds())
	}
	if v.Events.Listening {
		for _, kind := range eventKinds {
			out.add(events, float64(v.Events.Counts[kind]), string(kind))
		}
	}
	if v.At.IsZero() {
		return
	}
	out.add(sampleAge, age.Seconds())
	out.add(sampleDuration, v.Cost.Seconds())
	if age > stale || !v.Found { // the first names would pass for all, and keep series of their own
		return
	}
	if s := c.ask(ctx, away); s != (berthadmin.Server{}) {
		out.add(redisInfo, 1, s.Version, s.Policy, s.Role)
		out.refusals(s.Refusals)
	}
	for state, n := range count(v.Rows) {
		out.add(semaphores, float64(n), state)
	}
	for label, s := range c.fold.of(v.Rows, time.Now()) {
		out.series(label, s, v.At)
	}
}

// ask returns what the server reports about itself, at most a minute old. It does not ask a
// server that is unreachable.
func (c *Collector) ask(ctx context.Context, away error) berthadmin.Server {
	if away == nil && time.Since(c.serverAt) >= believed {
		// One that had no time to answer is asked again by the next scrape; without the
		// right it says nothing.
		if s, err := c.in.Server(ctx); err == nil || errors.Is(err, berth.ErrRefused) {
			c.server, c.serverAt = s, time.Now()
		}
	}
	return c.server
}
