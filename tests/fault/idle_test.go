package fault_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/internal/testkit/redistest"
)

// pooled is a client with n idle connections.
func (l *lab) pooled(n int) *redis.Client {
	l.Helper()
	rdb := l.connect(l.net, func(o *redis.Options) {
		o.ReadTimeout = 3 * time.Second // go-redis' own
		o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	})
	for _, conn := range l.taken(rdb, n) {
		l.Must(conn.Close())
	}
	if idle := rdb.PoolStats().IdleConns; idle != uint32(n) {
		l.Fatalf("%d idle connections, want %d", idle, n)
	}
	return rdb
}

// taken takes n connections out of the pool of rdb. A busy machine may answer one too late: it
// is given up for another.
func (l *lab) taken(rdb *redis.Client, n int) (conns []*redis.Conn) {
	l.Helper()
	for len(conns) < n {
		conn := rdb.Conn()
		if err := conn.Ping(l.Ctx).Err(); err != nil {
			if timeout, ok := errors.AsType[net.Error](err); l.Exact || !ok || !timeout.Timeout() {
				l.Fatal(err)
			}
			l.Must(conn.Close())
			continue
		}
		conns = append(conns, conn)
	}
	return conns
}

// TestForgottenConnectionsLoseNoCall: a NAT or a load balancer has forgotten every connection of
// the pool, and tells nobody. One of them costs a call its first try; the others cost nothing.
func TestForgottenConnectionsLoseNoCall(t *testing.T) {
	everywhere(t, func(l *lab) {
		rdb := l.pooled(8)
		s := l.sem(l.Client(rdb), 1)
		l.Release(l.Hold(s))
		l.net.Forget()
		for n, most := range []time.Duration{time.Second + 20*time.Millisecond, 0, 0} {
			began := time.Now()
			var lease *berth.Lease
			l.Must(l.Timely(func() (err error) {
				lease, err = s.TryAcquire(l.Ctx)
				return err
			}))
			if took := time.Since(began); l.Exact && took > most {
				l.Errorf("request %d took %v, want %v at most", n, took, most)
			}
			l.Release(lease)
		}
		l.waitFor("the dead connections closed", func() bool { return !l.Exact || rdb.PoolStats().TotalConns == 1 })
		l.NothingLeft(1, 0)
	})
}

// TestForgottenConnectionsLoseNoHandle: the same for what acts on a lease by its handle.
func TestForgottenConnectionsLoseNoHandle(t *testing.T) {
	t.Parallel()
	inBubble(t, func(l *lab) {
		rdb := l.pooled(8)
		c := l.Client(rdb)
		handle, err := l.Hold(l.sem(c, 1)).Detach(l.Ctx)
		l.Must(err)
		l.net.Forget()
		began := time.Now()
		l.Must(c.ReleaseHandle(l.Ctx, handle))
		if took := time.Since(began); took > 2*time.Second+100*time.Millisecond {
			l.Errorf("ReleaseHandle took %v", took)
		}
	})
}

// TestUsedUpPoolIsNamed: the application's blocking commands have all connections of a small pool.
// Redis is idle, and no error blames it, whether requests follow one another at once or after a
// pause.
//
// A busy machine may not hear of Redis in time; so each row has a minute, and more to succeed again.
// go-redis shares timers between pools, so no bubble can wait for a connection.
func TestUsedUpPoolIsNamed(t *testing.T) {
	t.Parallel()
	onServer(t, redistest.Start(t), func(l *lab) {
		rdb := l.connect(l.net, func(o *redis.Options) { o.PoolSize = 2 })
		c := l.Client(rdb)
		s := l.sem(c, 1)
		l.Release(l.Hold(s))
		handle, err := l.Hold(l.sem(l.healthy(), 2)).Detach(l.Ctx)
		l.Must(err)
		conns := l.taken(rdb, 2)
		try := func() error {
			_, err := s.TryAcquire(l.Ctx)
			return err
		}
		wait := func(ask func(ctx context.Context) (*berth.Lease, error)) func() error {
			return func() error {
				ctx, cancel := context.WithTimeout(l.Ctx, time.Second)
				defer cancel()
				_, err := ask(ctx)
				return err
			}
		}
		adopt := func(ctx context.Context) (*berth.Lease, error) { return c.Adopt(ctx, handle) }
		acquire := func(ctx context.Context) (*berth.Lease, error) { return s.Acquire(ctx) }
		for _, row := range []struct {
			what  string
			pause time.Duration
			ask   func() error
		}{
			{"Acquire", 0, wait(acquire)},
			{"TryAcquire", 0, try},
			{"TryAcquire again", 0, try},
			{"TryAcquire after a pause", time.Second, try},
			{"TryAcquire after two pauses", time.Second, try},
			{"Adopt", 0, wait(adopt)},
			{"ReleaseHandle", 0, func() error { return c.ReleaseHandle(l.Ctx, handle) }},
		} {
			l.Pass(row.pause)
			l.blames(row.what, 1, row.ask)
		}
		l.blames("one TryAcquire after the other", 12, try) // most are not sent, for calls that hang
		for _, conn := range conns {
			l.Must(conn.Close())
		}
	})
}

// blames asks until the error blames the pool so many times one after the other.
func (l *lab) blames(what string, times int, ask func() error) {
	l.Helper()
	began, most := time.Now(), time.Minute+time.Duration(times-1)*5*time.Second
	for named := 0; named < times; {
		switch err := ask(); {
		case err == nil:
			l.Fatalf("%s: done without a connection", what)
		case blamesPool(err):
			named++
			continue
		case time.Since(began) > most:
			l.Fatalf("%s, after %v: %v", what, most, err)
		}
		named = 0
	}
}

// blamesPool reports whether err is that the client's pool is used up, and says so.
func blamesPool(err error) bool {
	return errors.Is(err, berth.ErrUnreachable) && errors.Is(err, redis.ErrPoolTimeout) && strings.Contains(err.Error(), "a separate client")
}
