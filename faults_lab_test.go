package berth_test

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/internal/redistest"
)

// lab is a store, real or embedded, with a network before it that fails on
// command, for tests of what the public API does then.
type lab struct {
	*testing.T
	net    *redistest.Faults
	server *redistest.Server    // nil in a bubble
	store  *miniredis.Miniredis // nil on a real server
	prefix string
	ttl    time.Duration // of leases: short where time is real
	pause  time.Duration // between looks: long where time costs nothing, but looks do
	eye    *berth.Inspector
}

// inBubble runs test on the embedded store, in a bubble whose time costs nothing.
func inBubble(t *testing.T, test func(*lab)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l := &lab{T: t, store: miniredis.NewMiniRedis(), prefix: "berth", ttl: berth.DefaultTTL, pause: 50 * time.Millisecond}
		// go-redis may still dial in the background after its Close.
		t.Cleanup(func() { <-time.After(time.Minute) })
		t.Cleanup(l.store.Close)
		l.store.ClockTTL(true)
		l.net = redistest.NewFaults(t)
		l.prime()
		test(l)
	})
}

// onServer runs test on s, under a prefix of its own.
func onServer(t *testing.T, s *redistest.Server, test func(*lab)) {
	t.Helper()
	l := &lab{T: t, server: s, prefix: s.Prefix(t), ttl: 3 * time.Second, pause: 5 * time.Millisecond}
	l.net = redistest.NewFaults(t)
	l.prime()
	test(l)
}

// everywhere runs test on the embedded store and on a server of its own.
func everywhere(t *testing.T, test func(*lab)) {
	t.Helper()
	t.Parallel()
	t.Run("embedded", func(t *testing.T) { inBubble(t, test) })
	t.Run("real", func(t *testing.T) { onServer(t, redistest.Start(t), test) })
}

// sideBySide runs subtests that mostly wait at once, however few processors
// there are.
func sideBySide[T any](t *testing.T, all []T, name func(T) string, test func(*testing.T, T)) {
	t.Helper()
	const most = 12 // or a slow machine has no time left for renewals
	room := make(chan struct{}, most)
	var wg sync.WaitGroup
	for _, one := range all {
		room <- struct{}{}
		wg.Go(func() {
			defer func() { <-room }()
			t.Run(name(one), func(t *testing.T) { test(t, one) })
		})
	}
	wg.Wait()
}

// redis returns a client of the store, through the network if one is given.
func (l *lab) redis(through *redistest.Faults, opts ...func(*redis.Options)) *redis.Client {
	l.Helper()
	if through != nil {
		opts = append(opts, through.Wrap)
	}
	if l.server != nil {
		// The inspector's calls last as long as the caller's client lets them.
		bounded := func(o *redis.Options) { o.ReadTimeout = 2 * time.Second }
		return l.server.Client(l.T, append([]func(*redis.Options){bounded}, opts...)...)
	}
	o := &redis.Options{Addr: "127.0.0.1:1", Dialer: redistest.Embedded(l.store)}
	for _, opt := range opts {
		opt(o)
	}
	rdb := redis.NewClient(o)
	l.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

// berth returns a client of the library on rdb.
func (l *lab) berth(rdb *redis.Client) *berth.Client {
	l.Helper()
	c, err := berth.New(rdb, berth.Prefix(l.prefix))
	if err != nil {
		l.Fatal(err)
	}
	l.Cleanup(func() { _ = c.Close() })
	return c
}

// struck returns a client that the network's faults strike; spared one that
// they do not.
func (l *lab) struck() *berth.Client { l.Helper(); return l.berth(l.redis(l.net)) }
func (l *lab) spared() *berth.Client { l.Helper(); return l.berth(l.redis(nil)) }

// sem returns c's semaphore "s" with the lab's TTL.
func (l *lab) sem(c *berth.Client, limit int, opts ...berth.Option) *berth.Semaphore {
	l.Helper()
	s, err := c.Semaphore("s", limit, append([]berth.Option{berth.TTL(l.ttl)}, opts...)...)
	if err != nil {
		l.Fatal(err)
	}
	return s
}

// prime loads the script, so that the first fault strikes an operation and not
// the server's answer that it does not know the script.
func (l *lab) prime() {
	l.Helper()
	c := l.spared()
	l.eye = c.Inspector()
	l.release(l.acquire(l.sem(c, 1)))
}

// bounded returns a context that ends a test that hangs, not one that is slow.
func (l *lab) bounded() context.Context {
	most := time.Minute
	if l.store != nil {
		most = 24 * time.Hour
	}
	ctx, cancel := context.WithTimeout(l.Context(), most)
	l.Cleanup(cancel)
	return ctx
}

func (l *lab) acquire(s *berth.Semaphore, opts ...berth.AcquireOption) *berth.Lease {
	l.Helper()
	lease, err := s.Acquire(l.bounded(), opts...)
	if err != nil {
		l.Fatalf("Acquire: %v", err)
	}
	return lease
}

func (l *lab) release(leases ...*berth.Lease) {
	l.Helper()
	for _, lease := range leases {
		if err := lease.Release(); err != nil {
			l.Fatalf("Release: %v", err)
		}
	}
}

// outcome is how an Acquire ended.
type outcome struct {
	lease *berth.Lease
	err   error
}

// acquiring acquires in the background.
func acquiring(ctx context.Context, s *berth.Semaphore, opts ...berth.AcquireOption) <-chan outcome {
	ch := make(chan outcome, 1)
	go func() {
		lease, err := s.Acquire(ctx, opts...)
		ch <- outcome{lease, err}
	}()
	return ch
}

// granted waits for the lease.
func (l *lab) granted(ch <-chan outcome) *berth.Lease {
	l.Helper()
	o := receive(l, "an outcome of Acquire", ch)
	if o.err != nil {
		l.Fatalf("Acquire: %v", o.err)
	}
	return o.lease
}

// queued starts an Acquire and returns when it is the n-th of the queue.
func (l *lab) queued(ctx context.Context, s *berth.Semaphore, n int, opts ...berth.AcquireOption) <-chan outcome {
	l.Helper()
	ch := acquiring(ctx, s, opts...)
	l.until("waiter in line", func() bool { return l.show().Waiting == n })
	return ch
}

// receive waits for the event, for a time in which it must have happened.
func receive[T any](l *lab, what string, ch <-chan T) T {
	l.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(time.Minute):
		l.Fatalf("no %s within a minute", what)
		panic("unreachable")
	}
}

// until polls for what tells nobody that it happens.
func (l *lab) until(what string, ok func() bool) {
	l.Helper()
	tick := time.NewTicker(l.pause)
	defer tick.Stop()
	timeout := time.After(30 * time.Second)
	for !ok() {
		select {
		case <-tick.C:
		case <-timeout:
			l.Fatalf("not within 30 s: %s; now %+v", what, l.show())
		}
	}
}

// show returns what the store has of the semaphore, empty when it is idle.
func (l *lab) show() *berth.State {
	l.Helper()
	st, err := l.eye.Show(l.Context(), "s")
	if errors.Is(err, berth.ErrNotFound) {
		return &berth.State{}
	}
	if err != nil {
		l.Fatal(err)
	}
	return st
}

// idle checks that nothing of the semaphore is left: no permit is out, nobody
// waits, the whole limit can be taken with a token above all others, and the
// keys go.
func (l *lab) idle(limit int, above int64) {
	l.Helper()
	l.until("nothing held, nobody waiting", func() bool {
		st := l.show()
		return st.Holders == 0 && st.Waiting == 0 && st.InUse == 0
	})
	s := l.sem(l.spared(), limit)
	all, err := s.TryAcquire(l.bounded(), berth.Weight(limit))
	if err != nil {
		l.Fatalf("the whole limit: %v", err)
	}
	if all.Token() <= above || all.Slot() != 0 {
		l.Errorf("token %d after %d, slot %d", all.Token(), above, all.Slot())
	}
	l.release(all)
	if l.store != nil {
		<-time.After(2 * time.Minute) // of the bubble: tombstones and idle keys run out
		l.show()
		if keys := l.store.Keys(); len(keys) > 0 {
			l.Errorf("keys left over: %q", keys)
		}
		return
	}
	for _, key := range []string{l.prefix + ":{s}", l.prefix + ":{s}:order"} {
		// Tombstones may keep them for a while: -2 is gone, -1 would be for ever.
		if left := l.server.Do(l.T, "PTTL", key).(int64); left == -1 || left > (2*time.Minute).Milliseconds() {
			l.Errorf("key %s goes in %d ms", key, left)
		}
	}
}

// verbs returns the operations that a request to the script carries: groups of a
// head that begins with the verb, a number of ids, and ids; or one head, and its id.
func verbs(c redistest.Command) (all []string) {
	const first = 5 // behind EVALSHA, the hash, the number of keys, the key and the bound
	if !redistest.IsScript(c) || len(c) <= first {
		return nil
	}
	if len(c) == first+2 {
		return []string{c[first][:1]}
	}
	groups, _ := strconv.Atoi(c[first])
	for i := range groups {
		all = append(all, c[first+1+2*i][:1])
	}
	return all
}

// carries matches the requests with an operation of that verb.
func carries(verb string) func(redistest.Command) bool {
	return func(c redistest.Command) bool { return slices.Contains(verbs(c), verb) }
}

func message(c redistest.Command) bool { return len(c) > 0 && c[0] == "message" }
