package promise_test

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/berthadmin"
	"github.com/berth-go/berth/internal/testkit/redistest"
	"github.com/berth-go/berth/internal/testkit/testenv"
)

// nobodyThere returns a client whose every dial is refused.
func nobodyThere(t *testing.T) *berth.Client {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{
		Addr: "127.0.0.1:1", DialerRetries: 1,
		Dialer: func(context.Context, string, string) (net.Conn, error) {
			return nil, &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}
		},
	})
	t.Cleanup(func() { _ = rdb.Close() })
	c, err := berth.New(rdb)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// TestRefusedConnectionIsReported: the error says so, once. That it comes at once is shown by
// TestRedisThatCannotBeReached.
func TestRefusedConnectionIsReported(t *testing.T) {
	t.Parallel()
	sem, err := nobodyThere(t).Semaphore("s", 1)
	if err != nil {
		t.Fatal(err)
	}
	_, err = sem.Acquire(t.Context())
	if !errors.Is(err, berth.ErrUnreachable) {
		t.Error(err)
	}
	if err != nil && strings.Count(err.Error(), "refused") != 1 {
		t.Errorf("the error repeats itself: %v", err)
	}
	if _, err := testenv.Listed(berthadmin.Of(nobodyThere(t)).List(t.Context())); !errors.Is(err, berth.ErrUnreachable) {
		t.Errorf("List: %v", err)
	}
}

// TestCutOffAtFirstContact: a server that never answered has refused nothing.
func TestCutOffAtFirstContact(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		p := e.Peer()
		p.Net.Inject(redistest.Rule{Times: -1, Match: redistest.IsScript, Fault: redistest.Reset})
		if _, err := p.Sem(1).TryAcquire(e.Ctx); !errors.Is(err, berth.ErrUnreachable) || errors.Is(err, berth.ErrRefused) {
			e.Errorf("TryAcquire: %v", err)
		}
	})
}

// TestDetachedLeaseThatIsEvictedCanBeReleased: a lease that was asked to stop is not
// adopted any more, but its handle still gives it back.
func TestDetachedLeaseThatIsEvictedCanBeReleased(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		lease := e.Hold(e.Peer().Sem(1))
		handle, err := lease.Detach(context.Background())
		e.Must(err)
		e.Must(e.Inspector.Evict(e.Ctx, testenv.Name, e.Show().Leases[0].ID))
		_, err = e.Peer().Adopt(e.Ctx, handle)
		e.WantErr(err, berth.ErrEvicted)
		e.Must(e.Peer().ReleaseHandle(e.Ctx, handle))
		if _, err := e.Inspector.Show(e.Ctx, testenv.Name); !errors.Is(err, berthadmin.ErrNotFound) {
			e.Errorf("not given back: %v", err)
		}
	})
}

// TestSilentRedisIsNotTheCallersDeadline: a time-out of berth's or go-redis's must
// not look as if the caller's context had ended.
func TestSilentRedisIsNotTheCallersDeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		over := make(chan struct{})
		rdb := redis.NewClient(&redis.Options{
			Addr: "127.0.0.1:1", DialerRetries: 1, ContextTimeoutEnabled: true,
			Dialer: func(context.Context, string, string) (net.Conn, error) {
				ours, theirs := net.Pipe()
				go func() {
					<-over
					_ = theirs.Close()
				}()
				go func() { _, _ = io.Copy(io.Discard, theirs) }() // hears all, says nothing
				return ours, nil
			},
		})
		defer func() { _ = rdb.Close() }()
		c, err := berth.New(rdb)
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			close(over)
			_ = c.Close()
		}()
		sem, err := c.Semaphore("s", 1)
		if err != nil {
			t.Fatal(err)
		}
		_, err = sem.Acquire(context.Background())
		if !errors.Is(err, berth.ErrUnreachable) || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Acquire: %v", err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if _, err = sem.Acquire(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Acquire with a deadline: %v", err)
		}
		if _, err = testenv.Listed(berthadmin.Of(c).List(ctx)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("List with a deadline: %v", err)
		}
	})
}

// TestEvictionPolicyIsAskedForWithANewSubscription, even if it has been asked for in vain for so
// long that the next question is far away.
func TestEvictionPolicyIsAskedForWithANewSubscription(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		p := e.Peer()
		lost := p.Net.Inject(redistest.Rule{Match: redistest.Named("INFO"), Fault: redistest.Reset, Times: -1})
		e.Hold(p.Sem(1))
		e.Pass(20 * time.Minute)
		lost.Stop()
		before := p.Net.Count("INFO")
		e.Pass(time.Minute)
		if n := p.Net.Count("INFO") - before; n != 0 {
			e.Fatalf("asked %d times in a minute, after 20 in vain", n)
		}
		p.Net.CutAll()
		e.Pass(time.Minute)
		if n := p.Net.Count("INFO") - before; n == 0 {
			e.Error("not asked within a minute of the new subscription")
		}
	})
}
