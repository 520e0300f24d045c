package classic_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth/classic"
	"github.com/berth-go/berth/internal/testkit/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// store is a Redis to test on, and a name that no other test uses.
type store struct {
	name   string
	rdb    *redis.Client
	client func(testing.TB) *redis.Client // another client of the same store
}

// onBoth runs body on the embedded store and on a real server.
func onBoth(t *testing.T, body func(*testing.T, store)) {
	t.Helper()
	t.Run("embedded", func(t *testing.T) {
		m := miniredis.RunT(t)
		m.ClockTTL(true)
		body(t, newStore(t, "sem", func(t testing.TB) *redis.Client {
			return patient(t, "tcp", m.Addr())
		}))
	})
	t.Run("real", func(t *testing.T) {
		s := redistest.Shared(t)
		body(t, newStore(t, s.Prefix(t), func(t testing.TB) *redis.Client { return s.Client(t, redistest.Patient) }))
	})
}

// patient returns a client that does not send a command again because the machine is busy.
func patient(t testing.TB, network, addr string) *redis.Client {
	o := &redis.Options{Network: network, Addr: addr}
	redistest.Patient(o)
	c := redis.NewClient(o)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func newStore(t testing.TB, name string, client func(testing.TB) *redis.Client) store {
	return store{name: name, rdb: client(t), client: client}
}

// semaphore is what the types of the package have in common.
type semaphore interface {
	Acquire(context.Context) (string, bool, error)
	Release(context.Context, string) (bool, error)
}

// refresher is one that can be refreshed, which Basic cannot.
type refresher interface {
	Refresh(context.Context, string) (bool, error)
}

// constructor makes a semaphore; the tests that hold for several types range
// over constructors.
type constructor func(testing.TB, *redis.Client, string, int, ...classic.Option) semaphore

var all = map[string]constructor{
	"basic": newBasic, "fair": newFair, "fair under lock": newFairUnderLock,
}

// steps is the clock of semaphores that are given no other one. It is a millisecond later each
// time, however long that takes on a busy machine: no permit times out by itself.
var steps = func() classic.Option {
	at := newClock()
	return classic.WithClock(func() time.Time {
		at.advance(time.Millisecond)
		return at.now()
	})
}()

func newBasic(t testing.TB, rdb *redis.Client, name string, limit int, opts ...classic.Option) semaphore {
	t.Helper()
	s, err := classic.NewBasic(rdb, name, limit, append([]classic.Option{steps}, opts...)...)
	noError(t, err)
	return s
}

func newFair(t testing.TB, rdb *redis.Client, name string, limit int, opts ...classic.Option) semaphore {
	t.Helper()
	s, err := classic.NewFair(rdb, name, limit, append([]classic.Option{steps}, opts...)...)
	noError(t, err)
	return s
}

// newFairUnderLock waits long for its lock unless the options say otherwise: on
// a loaded machine the chapter's 10 ms are a matter of luck.
func newFairUnderLock(t testing.TB, rdb *redis.Client, name string, limit int, opts ...classic.Option) semaphore {
	t.Helper()
	opts = append([]classic.Option{steps, classic.WithLockWait(time.Minute), classic.WithLockTimeout(time.Minute)}, opts...)
	s, err := classic.NewFairUnderLock(rdb, name, limit, opts...)
	noError(t, err)
	return s
}

// eachOnBoth runs body for every type on every store.
func eachOnBoth(t *testing.T, types map[string]constructor, body func(*testing.T, store, constructor)) {
	t.Helper()
	for name, c := range types {
		t.Run(name, func(t *testing.T) {
			onBoth(t, func(t *testing.T, s store) { body(t, s, c) })
		})
	}
}

// hold acquires a permit that must be free.
func hold(t testing.TB, s semaphore) string {
	t.Helper()
	id, ok, err := s.Acquire(t.Context())
	noError(t, err)
	if !ok {
		t.Fatal("refused, although a permit should have been given")
	}
	return id
}

// refused tries to acquire a permit that must not be free.
func refused(t testing.TB, s semaphore) {
	t.Helper()
	id, ok, err := s.Acquire(t.Context())
	noError(t, err)
	if ok || id != "" {
		t.Fatalf("got permit %q, although there should be none", id)
	}
}

// release gives id back and checks what is reported.
func release(t testing.TB, s semaphore, id string, want bool) {
	t.Helper()
	got, err := s.Release(t.Context(), id)
	noError(t, err)
	if got != want {
		t.Fatalf("Release reported %v, want %v", got, want)
	}
}

// refresh refreshes id and checks what is reported.
func refresh(t testing.TB, s semaphore, id string, want bool) {
	t.Helper()
	got, err := s.(refresher).Refresh(t.Context(), id)
	noError(t, err)
	if got != want {
		t.Fatalf("Refresh reported %v, want %v", got, want)
	}
}

// members compares a ZSET, in its order, with what it should contain.
func members(t testing.TB, s store, key string, want ...string) {
	t.Helper()
	got, err := s.rdb.ZRange(t.Context(), key, 0, -1).Result()
	noError(t, err)
	if !slices.Equal(got, want) {
		t.Fatalf("%s contains %q, want %q", key, got, want)
	}
}

func noError(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantError(t testing.TB, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("error %v, want %v", err, want)
	}
}

// clock is a machine's clock that only the test moves.
type clock struct {
	mu sync.Mutex
	at time.Time
}

// newClock starts at the time of figure 6.8.
func newClock() *clock { return &clock{at: time.UnixMilli(1326437039100)} }

func (c *clock) now() time.Time { return c.behind(0)() }

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

// behind is the clock of another machine, which is d late.
func (c *clock) behind(d time.Duration) func() time.Time {
	return func() time.Time {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.at.Add(-d)
	}
}

// ids returns the given identifiers one after the other.
func ids(list ...string) classic.Option {
	var n atomic.Int64
	return classic.WithIDs(func() string { return list[n.Add(1)-1] })
}

// halfway is an Acquire that stands still between its two transactions.
type halfway struct {
	result chan try
	open   func()
}

type try struct {
	id  string
	ok  bool
	err error
}

// startHalf makes a semaphore with a limit of 1 on a client of its own, starts
// its Acquire and returns when the first transaction is done and the second not
// begun.
func startHalf(t *testing.T, s store, c constructor, opts ...classic.Option) (semaphore, *halfway) {
	t.Helper()
	rdb := s.client(t)
	g := &gate{reached: make(chan struct{}), opened: make(chan struct{})}
	rdb.AddHook(g)
	sem := c(t, rdb, s.name, 1, opts...)
	h := &halfway{result: make(chan try, 1), open: sync.OnceFunc(func() { close(g.opened) })}
	t.Cleanup(h.open)
	go func() {
		id, ok, err := sem.Acquire(context.Background())
		h.result <- try{id, ok, err}
	}()
	select {
	case <-g.reached:
	case r := <-h.result:
		t.Fatalf("Acquire returned without a second transaction: %+v", r)
	}
	return sem, h
}

// finish lets the Acquire go on and returns its result.
func (h *halfway) finish(t testing.TB) try {
	t.Helper()
	h.open()
	r := <-h.result
	noError(t, r.err)
	return r
}

// gate is a go-redis hook that stops its client after the first transaction.
type gate struct {
	passed          atomic.Bool
	reached, opened chan struct{}
}

func (g *gate) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (g *gate) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (g *gate) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := next(ctx, cmds)
		isTx := cmds[0].Name() == "multi" // not the handshake of a connection
		if isTx && g.passed.CompareAndSwap(false, true) {
			close(g.reached)
			<-g.opened
		}
		return err
	}
}
