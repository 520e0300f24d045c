package berthtest

import (
	"context"
	"net"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/berthadmin"
	"github.com/berth-go/berth/internal/testkit/redistest"
)

// Store is an embedded Redis behind a network whose faults a test controls. It is safe
// for concurrent use.
type Store struct {
	fail   func(format string, args ...any)
	mini   *miniredis.Miniredis
	faults *redistest.Faults
	pace   *pace
	rdb    *redis.Client // behind the faults: what users get
	admin  *redis.Client // past the faults

	mu       sync.Mutex
	cleanups []func()             // guarded by mu
	down     bool                 // guarded by mu
	wasDown  bool                 // guarded by mu
	drop     *redistest.Injection // guarded by mu
}

// New returns a store that lasts as long as the test. At the end of the test, berth
// closes its clients and releases their leases; in a synctest bubble that happens before
// the bubble ends, provided that t is the bubble's.
func New(t testing.TB) *Store {
	t.Helper()
	s := Start()
	s.fail = t.Fatalf
	t.Cleanup(s.Close)
	return s
}

// Start returns a store that lasts until Close, for an Example or a TestMain, which have
// no testing.TB. It panics where New would fail the test.
func Start() *Store {
	s := &Store{fail: panicf, mini: miniredis.NewMiniRedis(), pace: newPace()}
	s.mini.ClockTTL(true)
	s.onClose(s.mini.Close)
	s.faults = redistest.NewFaults(scope{store: s})
	embedded := redistest.Embedded(s.mini)
	s.admin = s.dial(embedded)
	s.rdb = s.dial(s.faults.Dialer(s.pace.dialer(embedded)))
	return s
}

// none reports whether s was not made by New or Start. Then it has no clients, and does nothing.
func (s *Store) none() bool { return s == nil || s.mini == nil }

// scope ties the life of its parts to the store's.
type scope struct {
	testing.TB

	store *Store
}

// Cleanup implements testing.TB: f runs when the store is closed.
func (s scope) Cleanup(f func()) { s.store.onClose(f) }

func (s *Store) onClose(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cleanups = append(s.cleanups, f)
}

func (s *Store) dial(dialer redistest.DialFunc) *redis.Client {
	rdb := redis.NewClient(&redis.Options{
		Addr:          "127.0.0.1:1", // not resolved, not dialled: the dialer knows where to go
		Dialer:        func(ctx context.Context, network, addr string) (net.Conn, error) { return dialer(ctx, network, addr) },
		DialerRetries: 1, // a refusal costs nothing, as on one machine
	})
	s.onClose(func() { _ = rdb.Close() })
	return rdb
}

// Close closes the store and all its clients, and releases their leases. A store of New
// is closed at the end of its test. A second Close does nothing.
func (s *Store) Close() {
	if s.none() {
		return
	}
	s.Slow(0)
	s.Up()
	s.mu.Lock()
	cleanups := s.cleanups
	s.cleanups = nil
	s.mu.Unlock()
	if len(cleanups) == 0 {
		return
	}
	for _, f := range slices.Backward(cleanups) {
		f()
	}
	s.mu.Lock()
	settle := s.wasDown
	s.mu.Unlock()
	if settle && inBubble() {
		// While dials fail go-redis probes once a second, and notices only then that
		// it was closed. A bubble must not end before its goroutines.
		<-time.After(2 * time.Second)
	}
}

// inBubble reports whether the caller runs in a synctest bubble.
func inBubble() (yes bool) {
	defer func() { yes = recover() == nil }()
	synctest.Wait()
	return true
}

// Client returns a new client of the store, which acts as another process. It is closed
// with the store. Invalid options fail the test.
func (s *Store) Client(opts ...berth.ClientOption) *berth.Client {
	if s.none() {
		return nil
	}
	client, err := berth.New(s.rdb, opts...)
	if err != nil {
		s.fail("berthtest: %v", err)
		return nil
	}
	s.onClose(func() { _ = client.Close() })
	return client
}

// Inspector returns an Inspector for the semaphores of the store, subject to the same
// faults as its clients. For clients with another prefix use berthadmin.Of.
func (s *Store) Inspector() *berthadmin.Inspector {
	if s.none() {
		return nil
	}
	in, err := berthadmin.New(s.rdb, berthadmin.Options{})
	if err != nil {
		s.fail("berthtest: %v", err)
	}
	return in
}

// Redis returns a Redis client of the store, subject to the same faults: for code that
// makes its own berth.Client, and for looking at keys. It is closed with the store.
func (s *Store) Redis() *redis.Client {
	if s.none() {
		return nil
	}
	return s.rdb
}
