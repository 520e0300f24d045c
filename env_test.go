package berth_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/internal/redistest"
)

// name is what tests call their semaphore; prefixes keep them apart.
const name = "s"

// env is a store and the fleet that uses it. The same test bodies run on both
// kinds: the embedded store in a testing/synctest bubble, where time is exact
// and costs nothing, and a real redis-server in real time.
type env struct {
	t        *testing.T
	exact    bool // time passes only when everybody waits
	ctx      context.Context
	ttl      time.Duration // of leases that a test lets run out
	prefix   string
	options  redis.Options
	raw      *redis.Client // the test's own way to the store
	eye      *berth.Inspector
	embedded *miniredis.Miniredis // nil for a real server
}

// each runs body in both worlds.
func each(t *testing.T, body func(t *testing.T, e *env)) {
	t.Helper()
	t.Parallel()
	t.Run("embedded", func(t *testing.T) {
		t.Parallel()
		bubble(t, body)
	})
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		inRealTime(t, body)
	})
}

// exactly runs body on the embedded store alone: for what only exact time can tell.
func exactly(t *testing.T, body func(t *testing.T, e *env)) {
	t.Helper()
	t.Parallel()
	bubble(t, body)
}

func bubble(t *testing.T, body func(t *testing.T, e *env)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		mr := miniredis.NewMiniRedis()
		mr.ClockTTL(true)
		t.Cleanup(mr.Close)
		// Dials that go-redis has begun in the background end by time-outs.
		t.Cleanup(func() { <-time.After(time.Minute) })
		e := &env{t: t, exact: true, ttl: 30 * time.Second, prefix: "berth", embedded: mr}
		// Whoever waits for a connection of a full pool takes a timer that go-redis
		// shares in the whole process, and a bubble's timer is deadly outside of it:
		// so pools must not be full here.
		e.options = redis.Options{Addr: "127.0.0.1:1", Dialer: redistest.Embedded(mr), PoolSize: 1000}
		e.open(time.Hour)
		body(t, e)
	})
}

func inRealTime(t *testing.T, body func(t *testing.T, e *env)) {
	t.Helper()
	s := redistest.Shared(t)
	e := &env{t: t, ttl: 400 * time.Millisecond, prefix: s.Prefix(t)}
	e.options = redis.Options{Network: "unix", Addr: s.Socket()}
	e.open(time.Minute)
	body(t, e)
}

// open makes what every test needs; patience bounds its waits.
func (e *env) open(patience time.Duration) {
	var cancel context.CancelFunc
	e.ctx, cancel = context.WithTimeout(context.Background(), patience)
	e.t.Cleanup(cancel)
	o := e.options
	e.raw = redis.NewClient(&o)
	e.t.Cleanup(func() { _ = e.raw.Close() })
	eye, err := berth.New(e.raw, berth.Prefix(e.prefix))
	e.must(err)
	e.t.Cleanup(func() { _ = eye.Close() })
	e.eye = eye.Inspector()
}

// canceled is what ends a request that its test cancels.
func (e *env) canceled() error { return context.Canceled }

func (e *env) must(err error) {
	e.t.Helper()
	if err != nil {
		e.t.Fatal(err)
	}
}

// pass lets time go by, where time is what the test is about.
func (e *env) pass(d time.Duration) {
	e.t.Helper()
	select {
	case <-time.After(d):
	case <-e.ctx.Done():
		e.t.Fatal("the test took too long")
	}
}

// slack is how much later than planned something may come: under exact time the
// whole milliseconds of the protocol, in real time whatever a busy machine takes.
func (e *env) slack() time.Duration {
	if e.exact {
		return 5 * time.Millisecond
	}
	return 20 * time.Second
}

// within fails unless the time since start is at least least and, give or take
// the slack, at most most.
func (e *env) within(start time.Time, least, most time.Duration, what string) {
	e.t.Helper()
	if d := time.Since(start); d < least || d > most+e.slack() {
		e.t.Errorf("%s after %v, want %v to %v", what, d, least, most)
	}
}

// many is n, or less where the embedded store is slow beside a real one.
func (e *env) many(n int) int {
	if e.exact {
		return n / 10
	}
	return n
}

// peer is one process of the fleet: a client with a network of its own.
type peer struct {
	*berth.Client
	e   *env
	net *redistest.Faults
	rdb *redis.Client
}

// peer starts a process; it is closed when the test ends.
func (e *env) peer(opts ...berth.ClientOption) *peer {
	e.t.Helper()
	p := &peer{e: e, net: redistest.NewFaults(e.t)}
	o := e.options
	if o.Dialer == nil {
		o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, addr)
		}
	}
	dial := p.net.Dialer(o.Dialer)
	o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if err != nil { // as the real network words it
			err = &net.OpError{Op: "dial", Net: network, Err: err}
		}
		return conn, err
	}
	p.rdb = redis.NewClient(&o)
	e.t.Cleanup(func() { _ = p.rdb.Close() })
	client, err := berth.New(p.rdb, append([]berth.ClientOption{berth.Prefix(e.prefix)}, opts...)...)
	e.must(err)
	p.Client = client
	e.t.Cleanup(func() { _ = client.Close() })
	return p
}

// crash ends the process as a kill does, as far as Redis can tell: its
// connections close, and it neither renews nor releases any more.
func (p *peer) crash() {
	p.net.Down()
	_ = p.rdb.Close()
}

func (p *peer) sem(limit int, opts ...berth.Option) *berth.Semaphore {
	p.e.t.Helper()
	return p.named(name, limit, opts...)
}

func (p *peer) named(name string, limit int, opts ...berth.Option) *berth.Semaphore {
	p.e.t.Helper()
	s, err := p.Semaphore(name, limit, opts...)
	p.e.must(err)
	return s
}

// listed returns all that List yields; its errors joined.
func listed(in *berth.Inspector, ctx context.Context) (all []berth.Summary, err error) { //nolint:revive // reads like the call
	for s, one := range in.List(ctx) {
		if one == nil {
			all = append(all, s)
		}
		err = errors.Join(err, one)
	}
	return all, err
}

// hold acquires, which must work out.
func (e *env) hold(s *berth.Semaphore, opts ...berth.AcquireOption) *berth.Lease {
	e.t.Helper()
	l, err := s.Acquire(e.ctx, opts...)
	e.must(err)
	return l
}

// request is an Acquire that waits in line.
type request struct {
	e      *env
	cancel context.CancelFunc
	done   chan struct{}
	lease  *berth.Lease // the rest is set when done is closed
	err    error
	at     time.Time
}

// start begins an Acquire in the background.
func (e *env) start(s *berth.Semaphore, opts ...berth.AcquireOption) *request {
	r := &request{e: e, done: make(chan struct{})}
	ctx, cancel := context.WithCancel(e.ctx)
	r.cancel = cancel
	go func() {
		defer close(r.done)
		defer cancel()
		r.lease, r.err = s.Acquire(ctx, opts...)
		r.at = time.Now()
	}()
	return r
}

// queue begins an Acquire and returns when it is in line.
func (e *env) queue(s *berth.Semaphore, opts ...berth.AcquireOption) *request {
	e.t.Helper()
	queued := make(chan struct{})
	var once sync.Once
	r := e.start(s, append(opts, berth.OnQueued(func(berth.Place) { once.Do(func() { close(queued) }) }))...)
	select {
	case <-queued:
	case <-r.done:
		e.t.Fatalf("it did not queue: lease %v, error %v", r.lease, r.err)
	}
	return r
}

// granted returns the lease, as soon as it is there.
func (r *request) granted() *berth.Lease {
	r.e.t.Helper()
	<-r.done
	r.e.must(r.err)
	return r.lease
}

// refused waits for the error, which must be want to errors.Is.
func (r *request) refused(want error) error {
	r.e.t.Helper()
	<-r.done
	wantErr(r.e.t, r.err, want)
	return r.err
}

// waits fails unless r is still in line, here and on the server.
func (r *request) waits() {
	r.e.t.Helper()
	if r.e.exact {
		synctest.Wait()
	}
	if r.e.show().Waiting == 0 {
		r.e.t.Error("nobody is in line on the server")
	}
	select {
	case <-r.done:
		r.e.t.Errorf("it does not wait any more: lease %v, error %v", r.lease, r.err)
	default:
	}
}

func wantErr(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("error %v, want %v", err, want)
	}
}

// release gives leases back, which must work out.
func (e *env) release(leases ...*berth.Lease) {
	e.t.Helper()
	for _, l := range leases {
		e.must(l.Release())
	}
}

// lost waits for the end of a lease and returns why.
func (e *env) lost(l *berth.Lease) *berth.LostError {
	e.t.Helper()
	select {
	case <-l.Context().Done():
	case <-e.ctx.Done():
		e.t.Fatal("the lease was not lost")
	}
	var lost *berth.LostError
	if cause := context.Cause(l.Context()); !errors.As(cause, &lost) {
		e.t.Fatalf("the lease ended with %v, want a LostError", cause)
	}
	return lost
}

// show returns what the server has of the semaphore: nothing, if it is idle.
func (e *env) show() *berth.State {
	e.t.Helper()
	st, err := e.eye.Show(e.ctx, name)
	if errors.Is(err, berth.ErrNotFound) {
		return &berth.State{}
	}
	e.must(err)
	return st
}

// until asks the server again and again, for what announces itself to nobody.
func (e *env) until(what string, ok func(*berth.State) bool) {
	e.t.Helper()
	for !ok(e.show()) {
		select {
		case <-time.After(e.tick()):
		case <-e.ctx.Done():
			e.t.Fatalf("never: %s; the state is %+v", what, e.show())
		}
	}
}

func (e *env) untilWaiting(n int) {
	e.t.Helper()
	e.until(fmt.Sprint(n, " waiting"), func(s *berth.State) bool { return s.Waiting == n })
}

// holds fails unless exactly these leases are out, by token.
func (e *env) holds(want ...*berth.Lease) {
	e.t.Helper()
	st := e.show()
	var got, ids []string
	for _, h := range st.Leases {
		got = append(got, h.ID)
	}
	for _, l := range want {
		ids = append(ids, l.ID())
	}
	if strings.Join(got, " ") != strings.Join(ids, " ") {
		e.t.Errorf("leases out: %v, want %v", got, ids)
	}
}

// idle fails unless nobody holds or waits.
func (e *env) idle() {
	e.t.Helper()
	if st := e.show(); st.Holders+st.Waiting+st.InUse > 0 {
		e.t.Errorf("not idle: %+v", st)
	}
}

// keys returns everything that the store has under the prefix, key by key.
func (e *env) keys() map[string]string {
	e.t.Helper()
	all := map[string]string{}
	iter := e.raw.Scan(e.ctx, 0, e.prefix+"*", 1000).Iterator()
	for iter.Next(e.ctx) {
		key := iter.Val()
		all[key] = e.value(key)
	}
	e.must(iter.Err())
	return all
}

func (e *env) value(key string) string {
	kind := e.raw.Type(e.ctx, key).Val()
	switch kind {
	case "hash":
		return fmt.Sprint(kind, e.raw.HGetAll(e.ctx, key).Val())
	case "zset":
		return fmt.Sprint(kind, e.raw.ZRangeWithScores(e.ctx, key, 0, -1).Val())
	case "list":
		return fmt.Sprint(kind, e.raw.LRange(e.ctx, key, 0, -1).Val())
	case "set":
		return fmt.Sprint(kind, e.raw.SMembers(e.ctx, key).Val())
	default:
		return kind + e.raw.Get(e.ctx, key).Val()
	}
}

// tick is the pause between two looks at the server.
func (e *env) tick() time.Duration {
	if e.exact {
		return 100 * time.Millisecond
	}
	return time.Millisecond
}

// alone runs body on a real server of its own, for what others would notice.
func alone(t *testing.T, config []string, body func(t *testing.T, e *env, s *redistest.Server)) {
	t.Helper()
	t.Parallel()
	s := redistest.Start(t, redistest.WithConfig(config...))
	e := &env{t: t, ttl: 400 * time.Millisecond, prefix: "berth"}
	e.options = redis.Options{Network: "unix", Addr: s.Socket()}
	e.open(time.Minute)
	body(t, e, s)
}

// unchanged fails if the store is not as it was.
func (e *env) unchanged(before map[string]string) {
	e.t.Helper()
	after := e.keys()
	for key, value := range after {
		if before[key] != value {
			e.t.Errorf("%s has changed: %s, was %q", key, value, before[key])
		}
	}
	if len(after) != len(before) {
		e.t.Errorf("keys %v, were %v", after, before)
	}
}
