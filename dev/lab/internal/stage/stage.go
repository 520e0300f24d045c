package stage

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sys/unix"

	"github.com/berth-go/berth/dev/internal/algo"
	"github.com/berth-go/berth/dev/internal/measure"
	"github.com/berth-go/berth/dev/internal/scenario"
	"github.com/berth-go/berth/dev/lab/internal/wire"
	"github.com/berth-go/berth/internal/judge"
)

const (
	// cleanTimeout bounds the cleaning up after the end.
	cleanTimeout = 20 * time.Second
	// settle is the time that a client gets to be in line before something happens.
	settle = 30 * time.Millisecond
)

// Env is the environment of the scenarios.
type Env struct {
	// Connect returns a client of the store, which the scenario closes.
	Connect func() redis.UniversalClient
	// URL is the URL of the store for other processes.
	URL    string
	Prefix string // of all keys
	// Duration is how long one algorithm runs in one scenario.
	Duration time.Duration
	Seed     uint64
	// Poll is the mean pause of a client after it was refused.
	Poll time.Duration
	// Embedded says that the store is not a real Redis.
	Embedded bool
}

// stage is one algorithm in one scenario.
type stage struct {
	scenario.Scenario
	env     *Env
	alg     algo.Algorithm
	name    string
	start   time.Duration // by the machine's monotonic clock
	control redis.UniversalClient

	clients []*client
	names   []string // of all semaphores used

	mu       sync.Mutex
	requests []judge.Request // guarded by mu
}

// client is one client with its own connections.
type client struct {
	algo.Client
	rdb redis.UniversalClient
	tap wire.Tap
}

func newStage(env *Env, sc scenario.Scenario, alg algo.Algorithm) *stage {
	s := &stage{Scenario: sc, env: env, alg: alg, control: env.Connect()}
	s.rename("")
	return s
}

// rename continues with a new semaphore.
func (s *stage) rename(suffix string) {
	s.name = s.Key + "." + s.alg.Key + suffix
	s.names = append(s.names, s.name)
}

func (s *stage) setup(rdb redis.UniversalClient, off time.Duration) algo.Setup {
	return algo.Setup{
		Redis: rdb, Prefix: s.env.Prefix, Name: s.name,
		Limit: s.Limit, Timeout: s.TTL, ClockOff: off,
	}
}

// newClient returns a client on rdb. Closing the client closes rdb.
func newClient(rdb redis.UniversalClient, alg algo.Algorithm, setup algo.Setup) (*client, error) {
	c := &client{rdb: rdb}
	c.tap.Attach(rdb)
	setup.Redis = rdb
	var err error
	if c.Client, err = alg.Open(setup); err != nil {
		_ = rdb.Close()
		return nil, err
	}
	return c, nil
}

func (c *client) end() {
	c.Close()
	_ = c.rdb.Close()
}

// openWarm adds the clients. The clock of every other one, but not of the first, is slow where the
// scenario wants that. Each uses the semaphore once, so that connecting and loading scripts is not
// measured.
func (s *stage) openWarm(ctx context.Context) error {
	for i := range s.Clients {
		c, err := newClient(s.env.Connect(), s.alg, s.setup(nil, time.Duration(i%2)*-s.Slow))
		if err != nil {
			return err
		}
		s.clients = append(s.clients, c)
		p, ok, err := c.Acquire(ctx, func() {})
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		if _, err := p.Release(ctx); err != nil {
			return err
		}
	}
	return nil
}

// monotonic reads the machine's monotonic clock. It is the same for all processes, so what they
// believed can be compared.
func monotonic() time.Duration {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts) // fails only for clocks that do not exist
	return time.Duration(ts.Nano())
}

// begin starts the time of the run.
func (s *stage) begin() { s.start = monotonic() }

// now returns the time since the beginning of the run.
func (s *stage) now() time.Duration { return monotonic() - s.start }

func (s *stage) record(r judge.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, r)
}

// sent returns how many commands all clients have sent.
func (s *stage) sent() (n int64) {
	for _, c := range s.clients {
		n += c.tap.Commands()
	}
	return n
}

func (s *stage) result() *Result {
	return &Result{
		Scenario: s.Key, Algorithm: s.alg.Key, Title: s.alg.Title,
		Limit: s.Limit, Clients: len(s.clients), TimeoutMS: Millis(s.TTL),
	}
}

// work returns what a real server says it has done so far. It is nil for the embedded store, which
// does not count, and for a cluster, where each node counts for itself.
func (s *stage) work(ctx context.Context) *measure.Work {
	if _, cluster := s.control.(*redis.ClusterClient); cluster || s.env.Embedded {
		return nil
	}
	w, err := measure.Ask(ctx, s.control)
	if err != nil {
		return nil
	}
	return &w
}

// close ends all clients and removes the keys, even after ctx has ended. Its error says
// what may remain.
func (s *stage) close(ctx context.Context) error {
	var all sync.WaitGroup
	for _, c := range s.clients {
		all.Go(c.end)
	}
	all.Wait()
	defer s.control.Close()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanTimeout)
	defer cancel()
	for _, name := range s.names {
		if err := s.control.Del(ctx, algo.Keys(s.env.Prefix, name)...).Err(); err != nil {
			return measure.Errorf(measure.Unavailable, "keys may be left: remove those that match %s:* and lock:%[1]s:*: %w", s.env.Prefix, err)
		}
	}
	return nil
}

// obtain gets a permit. It waits in the algorithm's queue, or polls with pauses of about
// poll, until ctx ends, and returns errOver then.
func obtain(ctx context.Context, c algo.Client, poll func() time.Duration) (*algo.Permit, error) {
	for {
		p, ok, err := c.Acquire(ctx, func() {})
		switch {
		case err == nil && ok:
			return p, nil
		case ctx.Err() != nil:
			return nil, errOver
		case err != nil:
			return nil, err
		}
		if measure.Pause(ctx, poll()) != nil {
			return nil, errOver
		}
	}
}

// errOver says that the time of the run is over.
var errOver = errors.New("the run is over")
