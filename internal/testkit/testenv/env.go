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
	"log/slog"
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

// Name is what tests call their semaphore; prefixes keep them apart.
const Name = "s"

// Env is a store, with the test that uses it.
type Env struct {
	*testing.T
	Exact     bool            // embedded store: time passes only when every goroutine waits
	Ctx       context.Context //nolint:containedctx // bounds all waits of the test
	TTL       time.Duration   // of leases that a test lets run out
	Prefix    string
	Options   redis.Options // of the next Peer
	Redis     *redis.Client // the test's own
	Inspector *Inspector    // the test's own
	Server    *redistest.Server
	Embedded  *miniredis.Miniredis // one of Server and Embedded is nil
}

// Main runs a package's tests, ends the server that they shared, and exits. It fails
// if a goroutine is left.
func Main(m *testing.M) {
	redis.SetLogger(silent{})
	slog.SetDefault(slog.New(slog.DiscardHandler)) // what berth warns of is meant here too
	redistest.Main(m)
}

// silent drops what go-redis logs of connections that fail, which is meant here.
type silent struct{}

// Printf implements the logger of go-redis.
func (silent) Printf(context.Context, string, ...any) {}

// Each runs body on the embedded store and on the server that the tests of a package
// share.
func Each(t *testing.T, body func(e *Env)) {
	t.Helper()
	t.Parallel()
	t.Run("embedded", func(t *testing.T) {
		t.Parallel()
		Bubble(t, body)
	})
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		body(Shared(t))
	})
}

// Embedded runs body on the embedded store alone: for what only exact time can tell.
func Embedded(t *testing.T, body func(e *Env)) {
	t.Helper()
	t.Parallel()
	Bubble(t, body)
}

// OwnServer runs body on a real server of its own, for what others would notice.
func OwnServer(t *testing.T, config []string, body func(e *Env)) {
	t.Helper()
	t.Parallel()
	body(on(t, redistest.Start(t, redistest.WithConfig(config...)), "berth"))
}

// Bubble runs body on an embedded store in a bubble of testing/synctest.
func Bubble(t *testing.T, body func(e *Env)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		mr := redistest.NewEmbedded(t)
		e := &Env{T: t, Exact: true, TTL: 30 * time.Second, Prefix: "berth", Embedded: mr}
		// A goroutine that waits for a connection of a full pool takes a timer that
		// go-redis shares in the whole process, and a timer of a bubble must not leave
		// it: so pools must not be full here.
		e.Options = redis.Options{Addr: "127.0.0.1:1", Dialer: redistest.Embedded(mr), PoolSize: 1000}
		e.open(time.Hour)
		body(e)
	})
}

// Shared returns an Env on the server that the tests of a package share.
func Shared(t *testing.T) *Env {
	t.Helper()
	return On(t, redistest.Shared(t))
}

// On returns an Env on a server, under a prefix of its own.
func On(t *testing.T, s *redistest.Server) *Env {
	t.Helper()
	return on(t, s, s.Prefix(t))
}

func on(t *testing.T, s *redistest.Server, prefix string) *Env {
	t.Helper()
	e := &Env{T: t, TTL: 2 * time.Second, Prefix: prefix, Server: s}
	e.Options = redis.Options{Network: "unix", Addr: s.Socket()}
	e.open(20 * time.Minute)
	return e
}

// open makes what every test needs. The bound on its waits is for a test that hangs,
// not for one that is slow.
func (e *Env) open(bound time.Duration) {
	var cancel context.CancelFunc
	e.Ctx, cancel = context.WithTimeout(context.Background(), bound)
	e.Cleanup(cancel)
	o := e.Options
	if e.Exact { // the embedded store's own pipe takes no pipeline above 4 KB
		o.Dialer = redistest.NewFaults(e).Dialer(o.Dialer)
	} else {
		o.ReadTimeout = 20 * time.Second // bounds what the inspector does
	}
	e.Redis = redis.NewClient(&o)
	e.Cleanup(func() { _ = e.Redis.Close() })
	e.Inspector = e.Patient(e.Inspect(e.Redis))
}

// Client returns a client of the library on rdb, which is closed with the test.
func (e *Env) Client(rdb redis.UniversalClient, opts ...berth.ClientOption) *berth.Client {
	e.Helper()
	c, err := berth.New(rdb, append([]berth.ClientOption{berth.Prefix(e.Prefix)}, opts...)...)
	e.Must(err)
	e.Cleanup(func() { _ = c.Close() })
	return c
}

// Inspect returns an Inspector on rdb, for the semaphores of this Env.
func (e *Env) Inspect(rdb redis.UniversalClient) *berthadmin.Inspector {
	e.Helper()
	in, err := berthadmin.New(rdb, berthadmin.Options{Prefix: e.Prefix})
	e.Must(err)
	return in
}

// Must ends the test if err is not nil.
func (e *Env) Must(err error) {
	e.Helper()
	if err != nil {
		e.Fatal(err)
	}
}

// WantErr fails unless err is want to errors.Is.
func (e *Env) WantErr(err, want error) {
	e.Helper()
	if !errors.Is(err, want) {
		e.Errorf("error %v, want %v", err, want)
	}
}

// Timely makes a request, and makes it again where it ended by its time-out: a real machine
// may be too slow for the 2 seconds of a TryAcquire, or the 5 of an Acquire. A bubble is not.
// What an attempt was granted too late is given back, and others meet ErrBusy until then.
func (e *Env) Timely(request func() error) (err error) {
	e.Helper()
	late := false
	for range 60 {
		start := time.Now()
		err = request()
		now := errors.Is(err, berth.ErrUnreachable) && time.Since(start) >= 2*time.Second
		if late = late || now; e.Exact || !now && !(late && errors.Is(err, berth.ErrBusy)) {
			break
		}
		e.Pass(e.Tick())
	}
	return err
}

// Try is a TryAcquire of which only the error matters.
func (e *Env) Try(s *berth.Semaphore, opts ...berth.AcquireOption) error {
	e.Helper()
	return e.Timely(func() error {
		_, err := s.TryAcquire(e.Ctx, opts...)
		return err
	})
}

// Pass lets time go by, where time is what the test is about.
func (e *Env) Pass(d time.Duration) {
	e.Helper()
	select {
	case <-time.After(d):
	case <-e.Ctx.Done():
		e.Fatal("the test took too long")
	}
}

// Tick is the pause between two looks at the server.
func (e *Env) Tick() time.Duration {
	if e.Exact {
		return 100 * time.Millisecond
	}
	return 10 * time.Millisecond
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
	e.Helper()
	if d := time.Since(start); d < least || d > most+e.Slack() {
		e.Errorf("%s after %v, want %v to %v", what, d, least, most)
	}
}

// Many is n, or less where the embedded store is slow beside a real one.
func (e *Env) Many(n int) int {
	if e.Exact {
		return n / 10
	}
	return n
}

// Receive waits for an event, for a time in which it must have happened.
func Receive[T any](t testing.TB, what string, ch <-chan T) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(5 * time.Minute):
		t.Fatalf("no %s within 5 minutes", what)
		panic("unreachable")
	}
}

// SideBySide runs subtests that mostly wait at once, however few processors there are.
func SideBySide[T any](t *testing.T, all []T, name func(T) string, test func(*testing.T, T)) {
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
