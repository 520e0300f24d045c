// Package testenv gives tests a store and the processes that use it. The same test
// bodies run on the embedded store in a testing/synctest bubble, where time is exact
// and costs nothing, and on a real redis-server in real time.
//
// A package that uses it hands its tests to Main:
//
//	func TestMain(m *testing.M) { testenv.Main(m) }
package testenv

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/internal/redistest"
)

// Name is what tests call their semaphore; prefixes keep them apart.
const Name = "s"

// Env is a store and the processes that use it.
type Env struct {
	T        *testing.T
	Exact    bool            // embedded store: time passes only when every goroutine waits
	Ctx      context.Context //nolint:containedctx // bounds all waits of the test
	TTL      time.Duration   // of leases that a test lets run out
	Prefix   string
	Options  redis.Options // of the next Peer
	Raw      *redis.Client // the test's own
	Eye      *berth.Inspector
	Embedded *miniredis.Miniredis // nil for a real server
}

// Main runs a package's tests, ends the server that they shared, and exits. It fails
// if a goroutine is left.
func Main(m *testing.M) {
	redis.SetLogger(silent{})
	redistest.Main(m)
}

// silent drops what go-redis logs of connections that fail, which is meant here.
type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

// Each runs body on the embedded store and on a real server.
func Each(t *testing.T, body func(t *testing.T, e *Env)) {
	t.Helper()
	t.Parallel()
	t.Run("embedded", func(t *testing.T) {
		t.Parallel()
		bubble(t, body)
	})
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		body(t, Real(t))
	})
}

// Exactly runs body on the embedded store alone: for what only exact time can tell.
func Exactly(t *testing.T, body func(t *testing.T, e *Env)) {
	t.Helper()
	t.Parallel()
	bubble(t, body)
}

// Alone runs body on a real server of its own, for what others would notice.
func Alone(t *testing.T, config []string, body func(t *testing.T, e *Env, s *redistest.Server)) {
	t.Helper()
	t.Parallel()
	s := redistest.Start(t, redistest.WithConfig(config...))
	body(t, onServer(t, s, "berth"), s)
}

// bubble runs body on the embedded store.
func bubble(t *testing.T, body func(t *testing.T, e *Env)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		mr := miniredis.NewMiniRedis()
		mr.ClockTTL(true)
		t.Cleanup(mr.Close)
		// Dials that go-redis has begun in the background end by time-outs.
		t.Cleanup(func() { <-time.After(time.Minute) })
		e := &Env{T: t, Exact: true, TTL: 30 * time.Second, Prefix: "berth", Embedded: mr}
		// A goroutine that waits for a connection of a full pool takes a timer that
		// go-redis shares in the whole process, and a timer of a bubble must not leave
		// it: so pools must not be full here.
		e.Options = redis.Options{Addr: "127.0.0.1:1", Dialer: redistest.Embedded(mr), PoolSize: 1000}
		e.open(time.Hour)
		body(t, e)
	})
}

// Real returns an Env on the server that the tests of a package share.
func Real(t *testing.T) *Env {
	t.Helper()
	s := redistest.Shared(t)
	return onServer(t, s, s.Prefix(t))
}

func onServer(t *testing.T, s *redistest.Server, prefix string) *Env {
	t.Helper()
	e := &Env{T: t, TTL: 400 * time.Millisecond, Prefix: prefix}
	e.Options = redis.Options{Network: "unix", Addr: s.Socket()}
	e.open(time.Minute)
	return e
}

// open makes what every test needs; patience bounds its waits.
func (e *Env) open(patience time.Duration) {
	var cancel context.CancelFunc
	e.Ctx, cancel = context.WithTimeout(context.Background(), patience)
	e.T.Cleanup(cancel)
	o := e.Options
	if e.Exact { // the embedded store's own pipe takes no pipeline above 4 KB
		o.Dialer = redistest.NewFaults(e.T).Dialer(o.Dialer)
	}
	e.Raw = redis.NewClient(&o)
	e.T.Cleanup(func() { _ = e.Raw.Close() })
	eye, err := berth.New(e.Raw, berth.Prefix(e.Prefix))
	e.Must(err)
	e.T.Cleanup(func() { _ = eye.Close() })
	e.Eye = eye.Inspector()
}

// Must ends the test if err is not nil.
func (e *Env) Must(err error) {
	e.T.Helper()
	if err != nil {
		e.T.Fatal(err)
	}
}

// WantErr fails unless err is want to errors.Is.
func WantErr(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("error %v, want %v", err, want)
	}
}

// Pass lets time go by, where time is what the test is about.
func (e *Env) Pass(d time.Duration) {
	e.T.Helper()
	select {
	case <-time.After(d):
	case <-e.Ctx.Done():
		e.T.Fatal("the test took too long")
	}
}

// Tick is the pause between two looks at the server.
func (e *Env) Tick() time.Duration {
	if e.Exact {
		return 100 * time.Millisecond
	}
	return time.Millisecond
}

// Slack is how much later than planned something may come: under exact time the
// whole milliseconds of the protocol, in real time what a busy machine may take.
func (e *Env) Slack() time.Duration {
	if e.Exact {
		return 5 * time.Millisecond
	}
	return 20 * time.Second
}

// Within fails unless the time since start is at least least and, give or take
// the slack, at most most.
func (e *Env) Within(start time.Time, least, most time.Duration, what string) {
	e.T.Helper()
	if d := time.Since(start); d < least || d > most+e.Slack() {
		e.T.Errorf("%s after %v, want %v to %v", what, d, least, most)
	}
}

// Many is n, or less where the embedded store is slow beside a real one.
func (e *Env) Many(n int) int {
	if e.Exact {
		return n / 10
	}
	return n
}
