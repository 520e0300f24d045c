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
	"github.com/berth-go/berth/internal/redistest"
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
	lasting = 20 * time.Second
	limit   = 4
	// warmUp is how long the workers work before something strikes.
	warmUp = 500 * time.Millisecond
	// recovery is how long the workers may take until everybody was served again. It is
	// generous: it is to find those who hang, not those who wait for a slow machine.
	recovery = 2 * time.Minute
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

// stay is one lease as its holder saw it.
type stay struct {
	asked time.Time // Acquire was called
	from  time.Time // Acquire returned
	to    time.Time // it was released, or Valid said yes for the last time
	slot  int
	token int64
	lost  bool
}

// workers are clients that share a semaphore: two keepers who never let go of what
// they have, and others who come and go.
type workers struct {
	clients []*berth.Client
	name    string
	stop    context.CancelFunc
	done    sync.WaitGroup
	all     []*worker
}

// worker is one of them.
type worker struct {
	sem    *berth.Semaphore
	keeper bool

	mu      sync.Mutex
	stays   []stay    // guarded by mu
	granted time.Time // guarded by mu; when it last got a lease
	held    time.Time // guarded by mu; when it last had one
	pushed  time.Time // guarded by mu; when it began to wait for a lease that came by message
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
		c.clients = append(c.clients, client)
		sem := must(client.Semaphore(c.name, limit, append([]berth.Option{berth.TTL(ttl)}, opts...)...))(t)
		for j := range 3 {
			h := &worker{sem: sem, keeper: j == 0 && i < 2}
			c.all = append(c.all, h)
			c.done.Go(func() { h.work(ctx) })
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

func (h *worker) work(ctx context.Context) {
	for ctx.Err() == nil {
		began, queued := time.Now(), false
		lease, err := h.sem.Acquire(ctx, berth.OnQueued(func(berth.Place) { queued = true }))
		if err != nil {
			h.mu.Lock()
			h.refused = append(h.refused, err)
			h.mu.Unlock()
			wait(ctx, 20*time.Millisecond)
			continue
		}
		now := time.Now()
		s := stay{asked: began, from: now, to: now, slot: lease.Slot(), token: lease.Token()}
		h.mu.Lock()
		h.granted = s.from
		if queued && s.from.Sub(began) < ttl/6 { // it would ask by itself after a third
			h.pushed = began
		}
		h.mu.Unlock()
		h.stay(ctx, lease, &s)
		_ = lease.Release() // where it fails the lease is over all the same
		h.mu.Lock()
		h.stays = append(h.stays, s)
		h.mu.Unlock()
	}
}

// stay holds the lease and looks all the time whether it may.
func (h *worker) stay(ctx context.Context, lease *berth.Lease, s *stay) {
	until := s.from.Add(time.Millisecond + rand.N(10*time.Millisecond))
	for ctx.Err() == nil && (h.keeper || time.Now().Before(until)) {
		now := time.Now()
		if !lease.Valid() {
			s.lost = true
			return
		}
		s.to = now
		h.mu.Lock()
		h.held = now
		h.mu.Unlock()
		wait(lease.Context(), time.Millisecond)
	}
	if now := time.Now(); lease.Valid() {
		s.to = now
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

// hears returns when everybody who waits in line was woken by a message since,
// and tells how long that took.
func (c *workers) hears(t *testing.T, since time.Time) time.Duration {
	t.Helper()
	for _, h := range c.all {
		for !h.keeper && !h.pushedAfter(since) {
			if time.Since(since) > recovery {
				t.Fatalf("somebody still waits for its heartbeats after %v", recovery)
			}
			wait(t.Context(), time.Millisecond)
		}
	}
	return time.Since(since)
}

func (h *worker) pushedAfter(since time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.pushed.After(since)
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
