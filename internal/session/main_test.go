package session

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth/internal/protocol"
	"github.com/berth-go/berth/internal/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// init silences go-redis, which reports every refused connection by itself:
// here they are meant.
func init() { redis.SetLogger(silent{}) }

type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

// world is a session on an embedded store, behind a network that fails on
// command, in a bubble.
type world struct {
	*testing.T
	store   *miniredis.Miniredis
	net     *redistest.Faults
	rdb     *redis.Client
	session *Session
}

func inWorld(t *testing.T, test func(*world)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := &world{T: t, store: miniredis.NewMiniRedis()}
		// go-redis may still dial in the background after its Close.
		t.Cleanup(func() { <-time.After(time.Minute) })
		t.Cleanup(w.store.Close)
		w.store.ClockTTL(true)
		w.net = redistest.NewFaults(t)
		w.rdb = redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", Dialer: w.net.Dialer(redistest.Embedded(w.store))})
		t.Cleanup(func() { _ = w.rdb.Close() })
		w.session = w.open()
		test(w)
	})
}

// open returns another session, which is another process to the store.
func (w *world) open() *Session { return w.openOn(w.rdb) }

func (w *world) openOn(rdb *redis.Client) *Session {
	s := New(rdb, "berth", slog.New(slog.DiscardHandler))
	w.Cleanup(s.Close)
	return s
}

// openVia returns a session behind another network.
func (w *world) openVia(net *redistest.Faults) *Session {
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", Dialer: net.Dialer(redistest.Embedded(w.store))})
	w.Cleanup(func() { _ = rdb.Close() })
	return w.openOn(rdb)
}

// terms wait in line for one permit of limit.
func terms(limit int) *protocol.Terms {
	return &protocol.Terms{
		Wait: true, Weight: 1, TTL: 30 * time.Second, Heartbeat: 10 * time.Second, QueueLimit: 1000, Limit: limit,
	}
}

// acquire returns a held claim.
func (w *world) acquire(s *Semaphore, t *protocol.Terms) *Claim {
	w.Helper()
	c, err := s.Acquire(w.Context(), t, false, nil)
	if err != nil {
		w.Fatal(err)
	}
	return c
}

// waiting starts an acquire and returns when its claim is queued.
func (w *world) waiting(s *Semaphore, t *protocol.Terms) (*Claim, <-chan error) {
	w.Helper()
	done := make(chan error, 1)
	go func() {
		_, err := s.Acquire(w.Context(), t, false, nil)
		done <- err
	}()
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.claims {
		if c.state == queued {
			return c, done
		}
	}
	w.Fatalf("nobody waits among %d claims", len(s.claims))
	return nil, nil
}

func (c *Claim) now() state {
	c.sem.mu.Lock()
	defer c.sem.mu.Unlock()
	return c.state
}
