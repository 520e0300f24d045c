package berthtest_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/berthtest"
	"github.com/berth-go/berth/internal/testkit/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

func semaphore(t *testing.T, c *berth.Client, limit int, opts ...berth.Option) *berth.Semaphore {
	t.Helper()
	sem, err := c.Semaphore("jobs", limit, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return sem
}

func acquire(t *testing.T, sem *berth.Semaphore) *berth.Lease {
	t.Helper()
	lease, err := sem.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return lease
}

// line starts an acquire that waits, and returns once it stands in line.
func line(t *testing.T, sem *berth.Semaphore) <-chan *berth.Lease {
	t.Helper()
	queued, granted := make(chan struct{}, 1), make(chan *berth.Lease, 1)
	told := berth.OnQueued(func(berth.Place) {
		select {
		case queued <- struct{}{}:
		default:
		}
	})
	go func() {
		lease, err := sem.Acquire(t.Context(), told)
		if err != nil {
			t.Error(err)
		}
		granted <- lease
	}()
	<-queued
	return granted
}

// everywhere runs f on the real clock and in a bubble.
func everywhere(t *testing.T, f func(t *testing.T)) {
	t.Run("real", f)
	t.Run("bubble", func(t *testing.T) { synctest.Test(t, f) })
}

func TestLoseGivesThePermitToTheNext(t *testing.T) {
	everywhere(t, func(t *testing.T) {
		store := berthtest.New(t)
		mine := acquire(t, semaphore(t, store.Client(berth.Prefix("a:b")), 1))
		next := line(t, semaphore(t, store.Client(berth.Prefix("a:b")), 1))
		began := time.Now()
		store.Lose(mine)
		if took := time.Since(began); took > berth.DefaultTTL/6 { // before the next renewal finds out
			t.Errorf("Lose took %v", took)
		}
		var lost *berth.LostError
		if cause := context.Cause(mine.Context()); !errors.As(cause, &lost) || lost.Reason != berth.LostExpired {
			t.Errorf("the lease's context has cause %v, want LostExpired", cause)
		}
		if mine.Valid() {
			t.Error("the lost lease is still valid")
		}
		if lease := <-next; lease == nil || !lease.Valid() {
			t.Error("the next in line did not get the permit")
		}
		if err := mine.Release(); !errors.Is(err, berth.ErrLost) {
			t.Errorf("Release of the lost lease returned %v", err)
		}
	})
}

// TestLoseWhileTheHolderRenews: a renewal just before the lease ends does not save it.
func TestLoseWhileTheHolderRenews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := berthtest.New(t)
		mine := acquire(t, semaphore(t, store.Client(), 1))
		var renewals sync.WaitGroup
		renewals.Go(func() {
			for range 10 {
				<-time.After(500 * time.Microsecond)
				_ = mine.Renew(context.Background())
			}
		})
		store.Lose(mine)
		renewals.Wait()
		if mine.Valid() {
			t.Error("the lost lease is still valid")
		}
	})
}

// TestLoseWhileOthersAsk: the call of another client may be the one that takes the lease out.
func TestLoseWhileOthersAsk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := berthtest.New(t)
		mine := acquire(t, semaphore(t, store.Client(), 1))
		other := semaphore(t, store.Client(), 1)
		var asked sync.WaitGroup
		asked.Go(func() {
			<-time.After(1500 * time.Microsecond)
			if lease, err := other.TryAcquire(context.Background()); err != nil {
				t.Errorf("TryAcquire after the lease has run out: %v", err)
			} else {
				defer lease.Release()
			}
		})
		store.Lose(mine)
		asked.Wait()
		if mine.Valid() {
			t.Error("the lost lease is still valid")
		}
	})
}

// TestLoseOfAnOldLease: the store has forgotten by then why it is gone.
func TestLoseOfAnOldLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := berthtest.New(t)
		mine := acquire(t, semaphore(t, store.Client(), 1))
		<-time.After(time.Minute)
		store.Lose(mine)
		var lost *berth.LostError
		if cause := context.Cause(mine.Context()); !errors.As(cause, &lost) || lost.Reason != berth.LostVanished {
			t.Errorf("the lease's context has cause %v, want LostVanished", cause)
		}
	})
}

// TestInspectorSeesTheStore, and meets the same faults as its clients.
func TestInspectorSeesTheStore(t *testing.T) {
	everywhere(t, func(t *testing.T) {
		store := berthtest.New(t)
		lease := acquire(t, semaphore(t, store.Client(), 2))
		st, err := store.Inspector().Show(t.Context(), "jobs")
		if err != nil || st.InUse != 1 || st.Leases[0].ID != lease.ID() {
			t.Errorf("the inspector shows %+v, %v", st, err)
		}
		store.Down()
		if _, err := store.Inspector().Show(t.Context(), "jobs"); !errors.Is(err, berth.ErrUnreachable) {
			t.Errorf("while Redis is down: %v", err)
		}
		store.Up()
	})
}

func TestEvict(t *testing.T) {
	everywhere(t, func(t *testing.T) {
		store := berthtest.New(t)
		sem := semaphore(t, store.Client(), 1)
		store.DropMessages(true)
		mine := acquire(t, sem)
		store.Evict(mine)
		if cause := context.Cause(mine.Context()); !errors.Is(cause, berth.ErrEvicted) {
			t.Errorf("the lease's context has cause %v, want ErrEvicted", cause)
		}
	})
}

// TestDown: a lease outlives a short outage, and ends with a long one no later
// than its TTL.
func TestDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := berthtest.New(t)
		sem := semaphore(t, store.Client(), 1)
		lease := acquire(t, sem)
		store.Down()
		if err := store.Redis().Ping(t.Context()).Err(); err == nil {
			t.Error("Redis answers although it is down")
		}
		<-time.After(berth.DefaultTTL / 2)
		store.Up()
		<-time.After(berth.DefaultTTL)
		if !lease.Valid() {
			t.Fatal("the lease did not survive an outage of half its TTL")
		}
		store.Down()
		began := time.Now()
		<-lease.Context().Done()
		if took := time.Since(began); took > berth.DefaultTTL {
			t.Errorf("the lease ended %v after Redis went away", took)
		}
		if _, err := sem.TryAcquire(t.Context()); !errors.Is(err, berth.ErrUnreachable) {
			t.Errorf("TryAcquire returned %v, want ErrUnreachable", err)
		}
	})
}

// TestDownForLong: what clients do while Redis is away must not outlive the
// bubble.
func TestDownForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := berthtest.New(t)
		acquire(t, semaphore(t, store.Client(), 1))
		store.Down()
		<-time.After(3 * time.Hour)
	})
	synctest.Test(t, func(t *testing.T) {
		store := berthtest.New(t)
		store.Down()
		for range 1000 { // so many that go-redis begins to probe
			_ = store.Redis().Ping(t.Context())
		}
	})
}

func TestCloseWhileDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := berthtest.New(t)
		acquire(t, semaphore(t, store.Client(), 1))
		store.Down()
		store.Slow(time.Hour)
		began := time.Now()
		store.Close()
		store.Close()
		if took := time.Since(began); took > 4*time.Second {
			t.Errorf("Close took %v: it did not end the outage", took)
		}
	})
}

// TestKeysExpire by the bubble's clock, those of other programs too.
func TestKeysExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rdb := berthtest.New(t).Redis()
		if err := rdb.Set(t.Context(), "k", "v", time.Minute).Err(); err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Minute)
		if n := rdb.Exists(t.Context(), "k").Val(); n != 0 {
			t.Error("the key outlived its TTL")
		}
	})
}

func TestSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := berthtest.New(t)
		sem := semaphore(t, store.Client(), 2)
		acquire(t, sem) // connects
		store.Slow(300 * time.Millisecond)
		began := time.Now()
		acquire(t, sem)
		if took := time.Since(began); took != 300*time.Millisecond {
			t.Errorf("a grant took %v, want the delay", took)
		}
		store.Slow(time.Hour)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := sem.TryAcquire(ctx); !errors.Is(err, berth.ErrUnreachable) {
			t.Errorf("TryAcquire of a Redis that hangs returned %v, want ErrUnreachable", err)
		}
		store.Slow(0)
		if err := store.Redis().Ping(t.Context()).Err(); err != nil {
			t.Errorf("after Slow(0): %v", err)
		}
	})
}

func TestSlowEndsForWhatIsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := berthtest.New(t)
		rdb := store.Redis()
		if err := rdb.Ping(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		store.Slow(time.Hour)
		done := make(chan error)
		go func() { done <- rdb.Set(t.Context(), "k", "v", 0).Err() }()
		synctest.Wait()
		began := time.Now()
		store.Slow(0)
		if err := <-done; err != nil || time.Since(began) != 0 {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
	})
}

// TestDropMessages: a hand-off without its message is found by the heartbeat.
func TestDropMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := berthtest.New(t)
		mine := acquire(t, semaphore(t, store.Client(), 1))
		sem := semaphore(t, store.Client(), 1)
		for _, drop := range []bool{true, false} {
			next := line(t, sem)
			store.DropMessages(drop)
			store.DropMessages(drop)
			began := time.Now()
			if err := mine.Release(); err != nil {
				t.Fatal(err)
			}
			mine = <-next
			if took := time.Since(began); (took == 0) == drop || took > 10*time.Second {
				t.Errorf("with messages dropped: %v, the hand-off took %v", drop, took)
			}
		}
	})
}

func TestAnHourOfRenewals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lease := acquire(t, semaphore(t, berthtest.New(t).Client(), 1))
		<-time.After(time.Hour)
		if !lease.Valid() {
			t.Error("the lease was not renewed")
		}
	})
}

// recorder stands in for a test, to see it fail.
type recorder struct {
	testing.TB

	failed string
}

func (r *recorder) Helper() {}

func (r *recorder) Fatalf(format string, args ...any) { r.failed += fmt.Sprintf(format, args...) }

func TestMisuseFailsTheTest(t *testing.T) {
	for _, c := range []struct {
		want string
		do   func(s *berthtest.Store, l *berth.Lease)
	}{
		{"invalid prefix", func(s *berthtest.Store, _ *berth.Lease) { s.Client(berth.Prefix("{")) }},
		{"is over", func(s *berthtest.Store, l *berth.Lease) { _ = l.Release(); s.Lose(l) }},
		{"is over", func(s *berthtest.Store, l *berth.Lease) { s.Evict(l); s.Evict(l) }},
		{"another store", func(_ *berthtest.Store, l *berth.Lease) {
			other := berthtest.Start()
			defer other.Close()
			defer func() {
				if recover() == nil {
					t.Error("a store without a test did not panic")
				}
			}()
			other.Lose(l)
		}},
	} {
		fake := &recorder{TB: t}
		store := berthtest.New(fake)
		c.do(store, acquire(t, semaphore(t, store.Client(), 1)))
		if (c.want != "another store") != strings.Contains(fake.failed, c.want) {
			t.Errorf("the test failed with %q, want %q", fake.failed, c.want)
		}
	}
}
