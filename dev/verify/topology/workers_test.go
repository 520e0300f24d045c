package topology

import (
	"context"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/internal/judge"
	"github.com/berth-go/berth/internal/testkit/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// init silences go-redis, which reports every refused connection by itself:
// here they are meant.
func init() { redis.SetLogger(silent{}) }

type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

const (
	ttl = 3 * time.Second // its heartbeat interval is a second
	// lasting is the TTL where no lease may be lost, however slow the machine is.
	lasting = time.Minute
	limit   = 4
	// warmUp is how long the workers work before something strikes.
	warmUp = 500 * time.Millisecond
	// recovery is how long the workers may take until everybody was served again. It is
	// generous: it is to find those who hang, not those who wait for a slow machine.
	recovery = 5 * time.Minute
	// keepers is how many workers never let go of what they have.
	keepers = 2
)

// rounds is how often a test strikes.
func rounds(t *testing.T) int {
	t.Helper()
	text := os.Getenv("BERTH_TOPOLOGY_ROUNDS")
	if text == "" {
		return 1
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("BERTH_TOPOLOGY_ROUNDS: %v", err)
	}
	return n
}

// stay is one lease as its holder saw it: until it was released, or Valid said yes for the last time.
type stay struct {
	judge.Request
	lost bool
}

// zero is when the time of stays begins.
var zero = time.Now()

// workers are clients that share a semaphore: two keepers who never let go of what
// they have, and others who come and go.
type workers struct {
	sems []*berth.Semaphore // of one client each
	name string
	stop context.CancelFunc
	done sync.WaitGroup
	all  []*worker
	rest sync.RWMutex // held for reading by those who come and go, for as long as they do
}

// worker is one of them.
type worker struct {
	sem    *berth.Semaphore
	keeper bool

	mu      sync.Mutex
	stays   []stay    // guarded by mu
	granted time.Time // guarded by mu; when it last got a lease
	held    time.Time // guarded by mu; when it last had one
	refused []error   // guarded by mu; why Acquire failed
}

// startWorkers starts workers on four clients, each of which connects by itself.
func startWorkers(t *testing.T, connect func() redis.UniversalClient, opts ...berth.Option) *workers {
	t.Helper()
	c, began := &workers{name: "workers"}, time.Now()
	ctx, cancel := context.WithCancel(t.Context())
	c.stop = cancel
	for i := range 4 {
		client := must(berth.New(connect()))(t)
		t.Cleanup(func() { _ = client.Close() })
		sem := must(client.Semaphore(c.name, limit, append([]berth.Option{berth.TTL(ttl)}, opts...)...))(t)
		c.sems = append(c.sems, sem)
		for j := range 3 {
			h := &worker{sem: sem, keeper: j == 0 && i < keepers}
			c.all = append(c.all, h)
			c.done.Go(func() {
				for ctx.Err() == nil {
					c.turn(ctx, h)
				}
			})
		}
	}
	t.Cleanup(func() { cancel(); c.done.Wait() })
	c.served(t, "at the beginning", began)
	wait(t.Context(), warmUp)
	return c
}

// must fails the test for an error, and else returns v.
func must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// turn is one lease of a worker, or one attempt to get one.
func (c *workers) turn(ctx context.Context, h *worker) {
	if !h.keeper {
		c.rest.RLock()
		defer c.rest.RUnlock()
	}
	asked := time.Since(zero)
	lease, err := h.sem.Acquire(ctx)
	if err != nil {
		h.mu.Lock()
		h.refused = append(h.refused, err)
		h.mu.Unlock()
		wait(ctx, 20*time.Millisecond)
		return
	}
	now := time.Now()
	s := stay{Request: judge.Request{Granted: true, Asked: asked, Start: now.Sub(zero), Slot: lease.Slot(), Token: lease.Token()}}
	s.End = s.Start
	h.mu.Lock()
	h.granted = now
	h.mu.Unlock()
	h.stay(ctx, lease, &s)
	_ = lease.Release() // where it fails the lease is over all the same
	h.mu.Lock()
	h.stays = append(h.stays, s)
	h.mu.Unlock()
}

// stay holds the lease and looks all the time whether it may.
func (h *worker) stay(ctx context.Context, lease *berth.Lease, s *stay) {
	until := time.Now().Add(time.Millisecond + rand.N(10*time.Millisecond))
	for ctx.Err() == nil && (h.keeper || time.Now().Before(until)) {
		now := time.Now()
		if !lease.Valid() {
			s.lost = true
			return
		}
		s.End = now.Sub(zero)
		h.mu.Lock()
		h.held = now
		h.mu.Unlock()
		wait(lease.Context(), time.Millisecond)
	}
	if now := time.Now(); lease.Valid() {
		s.End = now.Sub(zero)
	} else {
		s.lost = true
	}
}

// wait is a pause that ends early with ctx.
func wait(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// servedAfter tells whether the worker got a lease after since, or keeps one.
func (h *worker) servedAfter(since time.Time) (granted, served bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	granted = h.granted.After(since)
	return granted, granted || h.keeper && h.held.After(since)
}

// served returns when every worker got a lease after since, or keeps one, and tells
// how long the first grant and the last of them took.
func (c *workers) served(t *testing.T, when string, since time.Time) (first, last time.Duration) {
	t.Helper()
	for {
		n := 0
		for _, h := range c.all {
			granted, served := h.servedAfter(since)
			if served {
				n++
			}
			if granted && first == 0 {
				first = time.Since(since)
			}
		}
		d := time.Since(since)
		if n == len(c.all) {
			return first, d
		}
		if d > recovery {
			t.Fatalf("%s: %d of %d were served within %v; what Acquire said: %v", when, n, len(c.all), recovery, c.complaints())
		}
		wait(t.Context(), time.Millisecond)
	}
}

// hears returns when each client was woken by a message, and tells how long after since
// that was. Those who come and go rest meanwhile: a line of them may take longer than the
// time between two heartbeats.
func (c *workers) hears(t *testing.T, since time.Time) time.Duration {
	t.Helper()
	c.rest.Lock()
	defer c.rest.Unlock()
	give := time.Now().Add(recovery)
	for i := range c.sems {
		for !c.woken(t.Context(), i) {
			if time.Now().After(give) {
				t.Fatalf("client %d still waits for its heartbeats after %v", i, recovery)
			}
			wait(t.Context(), 10*time.Millisecond)
		}
	}
	return time.Since(since)
}

// woken has a client wait in line until another one releases, and reports whether it had its
// lease before it would have asked by itself.
func (c *workers) woken(ctx context.Context, i int) bool {
	before, err := c.sems[(i+1)%len(c.sems)].Acquire(ctx, berth.Weight(limit-keepers))
	if err != nil {
		return false
	}
	defer before.Release() // a second time does no harm
	began, queued := time.Now(), false
	after, err := c.sems[i].Acquire(ctx, berth.OnQueued(func(berth.Place) {
		queued = true
		_ = before.Release()
	}))
	if err != nil {
		return false
	}
	took := time.Since(began)
	_ = after.Release()
	return queued && took < ttl/6 // it would ask after a third
}

// complaints are the last errors of every worker.
func (c *workers) complaints() (all []error) {
	for _, h := range c.all {
		h.mu.Lock()
		all = append(all, h.refused[max(len(h.refused)-2, 0):]...)
		h.mu.Unlock()
	}
	return all
}

// finish stops the workers, fails the test if somebody hangs, and returns what
// all of them believed.
func (c *workers) finish(t *testing.T) []stay {
	t.Helper()
	c.stop()
	gone := make(chan struct{})
	go func() { c.done.Wait(); close(gone) }()
	select {
	case <-gone:
	case <-time.After(recovery):
		t.Fatalf("somebody hangs %v after the end of its context", recovery)
	}
	var all []stay
	for _, h := range c.all {
		all = append(all, h.stays...)
	}
	return all
}
