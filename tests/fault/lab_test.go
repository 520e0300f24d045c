package fault_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/internal/testkit/redistest"
	"github.com/berth-go/berth/internal/testkit/testenv"
)

// lab is a store with a network before it that fails on command, for tests of what
// the public API does then.
type lab struct {
	*testenv.Env
	net   *redistest.Faults
	pause time.Duration // between looks: long where time costs nothing, but looks do
}

// newLab gives leases a TTL that outlasts what a busy machine takes.
func newLab(e *testenv.Env) *lab {
	e.Helper()
	l := &lab{Env: e, net: redistest.NewFaults(e.T), pause: 5 * time.Millisecond}
	l.TTL = berth.DefaultTTL
	if l.Exact {
		l.pause = 50 * time.Millisecond
	}
	// The script is loaded, so that the first fault strikes an operation and not the
	// server's answer that it does not know the script.
	l.Release(l.Hold(l.sem(l.healthy(), 1)))
	return l
}

// shorter gives leases a TTL that a test can wait for where time is real.
func (l *lab) shorter() {
	if !l.Exact {
		l.TTL = 12 * time.Second
	}
}

// inBubble runs test on the embedded store, in a bubble whose time costs nothing.
func inBubble(t *testing.T, test func(*lab)) {
	t.Helper()
	testenv.Bubble(t, func(e *testenv.Env) { test(newLab(e)) })
}

// onServer runs test on s, under a prefix of its own.
func onServer(t *testing.T, s *redistest.Server, test func(*lab)) {
	t.Helper()
	test(newLab(testenv.On(t, s)))
}

// everywhere runs test on the embedded store and on a server of its own.
func everywhere(t *testing.T, test func(*lab)) {
	t.Helper()
	t.Parallel()
	t.Run("embedded", func(t *testing.T) { inBubble(t, test) })
	t.Run("redis", func(t *testing.T) { onServer(t, redistest.Start(t), test) })
}

// connect returns a client of the store, through the network if one is given.
func (l *lab) connect(through *redistest.Faults, opts ...func(*redis.Options)) *redis.Client {
	l.Helper()
	o := l.Options
	if !l.Exact {
		o.ReadTimeout = 2 * time.Second // the inspector's calls last as long as the client lets them
	}
	if through != nil {
		through.Wrap(&o)
	}
	for _, opt := range opts {
		opt(&o)
	}
	rdb := redis.NewClient(&o)
	l.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

// ready has a client keep connections for the call after a lost one, which has a second: in that a
// slow machine makes none.
func (l *lab) ready(o *redis.Options) {
	if !l.Exact {
		o.MinIdleConns = 4
	}
}

// faulty returns a client that the network's faults strike; healthy one that they
// do not.
func (l *lab) faulty() *berth.Client  { l.Helper(); return l.Client(l.connect(l.net)) }
func (l *lab) healthy() *berth.Client { l.Helper(); return l.Client(l.connect(nil)) }

// sem returns c's semaphore with the lab's TTL.
func (l *lab) sem(c *berth.Client, limit int, opts ...berth.Option) *berth.Semaphore {
	l.Helper()
	s, err := c.Semaphore(testenv.Name, limit, append([]berth.Option{berth.TTL(l.TTL)}, opts...)...)
	l.Must(err)
	return s
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
	o := testenv.Receive(l, "outcome of Acquire", ch)
	if o.err != nil {
		l.Fatalf("Acquire: %v", o.err)
	}
	return o.lease
}

// queued starts an Acquire and returns when it is the n-th of the queue, and knows it.
func (l *lab) queued(ctx context.Context, s *berth.Semaphore, n int, opts ...berth.AcquireOption) <-chan outcome {
	l.Helper()
	r := l.QueueUntil(ctx, s, opts...)
	l.waitFor("waiter in line", func() bool { return l.Show().Waiting == n })
	ch := make(chan outcome, 1)
	go func() {
		<-r.Done
		ch <- outcome{r.Lease, r.Err}
	}()
	return ch
}

// waitFor polls for what tells nobody that it happens.
func (l *lab) waitFor(what string, ok func() bool) {
	l.Helper()
	tick := time.NewTicker(l.pause)
	defer tick.Stop()
	bound := 30 * time.Second
	if !l.Exact {
		bound = 15 * time.Minute // beside much else, a machine takes its time
	}
	timeout := time.After(bound)
	for !ok() {
		select {
		case <-tick.C:
		case <-timeout:
			l.Fatalf("not within %v: %s; now %.2000v", bound, what, l.Show())
		}
	}
}
