package classic_test

import (
	"context"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth/classic"
)

// newLock makes a lock that does not run out while a busy machine goes on, unless the options
// say otherwise.
func newLock(t testing.TB, rdb *redis.Client, name string, opts ...classic.Option) *classic.Lock {
	t.Helper()
	opts = append([]classic.Option{classic.WithLockTimeout(time.Hour)}, opts...)
	l, err := classic.NewLock(rdb, name, opts...)
	noError(t, err)
	return l
}

// lockNow gets a lock that must be free.
func lockNow(t testing.TB, l *classic.Lock) string {
	t.Helper()
	id, ok, err := l.Acquire(t.Context(), 0)
	noError(t, err)
	if !ok {
		t.Fatal("the lock should be free")
	}
	return id
}

// locked tries once to get a lock that must be held.
func locked(t testing.TB, l *classic.Lock) {
	t.Helper()
	id, ok, err := l.Acquire(t.Context(), 0)
	noError(t, err)
	if ok || id != "" {
		t.Fatal("the lock should be held by another")
	}
}

func unlock(t testing.TB, l *classic.Lock, id string, want bool) {
	t.Helper()
	got, err := l.Release(t.Context(), id)
	noError(t, err)
	if got != want {
		t.Fatalf("Release reported %v, want %v", got, want)
	}
}

func expiry(t testing.TB, s store) time.Duration {
	t.Helper()
	d, err := s.rdb.PTTL(t.Context(), "lock:"+s.name).Result()
	noError(t, err)
	return d
}

func TestLockHasOneHolder(t *testing.T) {
	onBoth(t, func(t *testing.T, s store) {
		l := newLock(t, s.rdb, s.name)
		id := lockNow(t, l)
		locked(t, l)
		unlock(t, l, id, true)
		unlock(t, l, id, false)
		lockNow(t, l)
	})
}

func TestLockAlwaysHasAnExpiry(t *testing.T) {
	onBoth(t, func(t *testing.T, s store) {
		lockNow(t, newLock(t, s.rdb, s.name, classic.WithLockTimeout(time.Hour)))
		if d := expiry(t, s); d <= 0 || d > time.Hour {
			t.Fatalf("the lock expires in %v, want an hour at most", d)
		}
	})
}

// A lock without an expiry would be stuck: this one was made by a client that
// crashed before it set one.
func TestLockWithoutExpiryIsStuckUntilSomebodyGivesItOne(t *testing.T) {
	onBoth(t, func(t *testing.T, s store) {
		noError(t, s.rdb.SetNX(t.Context(), "lock:"+s.name, "crashed", 0).Err())
		if d := expiry(t, s); d > 0 {
			t.Fatalf("the lock expires in %v, want never", d)
		}
		locked(t, newLock(t, s.rdb, s.name, classic.WithLockTimeout(time.Hour)))
		if d := expiry(t, s); d <= 0 || d > time.Hour {
			t.Fatalf("the lock expires in %v, want an hour at most", d)
		}
	})
}

func TestLockOfAnotherIsNotProlongedByThoseWhoWait(t *testing.T) {
	onBoth(t, func(t *testing.T, s store) {
		lockNow(t, newLock(t, s.rdb, s.name, classic.WithLockTimeout(time.Minute)))
		locked(t, newLock(t, s.rdb, s.name, classic.WithLockTimeout(time.Hour)))
		if d := expiry(t, s); d > time.Minute {
			t.Fatalf("the lock expires in %v, want a minute at most", d)
		}
	})
}

func TestLockOfACrashedHolderIsFreeAfterItsTimeout(t *testing.T) {
	onBoth(t, func(t *testing.T, s store) {
		crashed := newLock(t, s.rdb, s.name, classic.WithLockTimeout(time.Millisecond))
		old := lockNow(t, crashed)
		l := newLock(t, s.rdb, s.name)
		_, ok, err := l.Acquire(t.Context(), time.Minute)
		noError(t, err)
		if !ok {
			t.Fatal("the lock should have run out")
		}
		unlock(t, crashed, old, false)
		locked(t, l)
	})
}

// The key changes after the release has looked at it: the comparison must be
// made again, or the lock of another would be deleted.
func TestLockReleaseLeavesALockThatChangedHandsMeanwhile(t *testing.T) {
	onBoth(t, func(t *testing.T, s store) {
		rdb := s.client(t)
		l := newLock(t, rdb, s.name)
		id := lockNow(t, l)
		rdb.AddHook(afterGet(func() {
			noError(t, s.rdb.Set(t.Context(), "lock:"+s.name, "another", time.Hour).Err())
		}))
		unlock(t, l, id, false)
		holder, err := s.rdb.Get(t.Context(), "lock:"+s.name).Result()
		noError(t, err)
		if holder != "another" {
			t.Fatalf("the lock belongs to %q", holder)
		}
	})
}

// afterGet is a hook that does something after every GET.
type afterGet func()

func (f afterGet) DialHook(next redis.DialHook) redis.DialHook { return next }

func (f afterGet) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (f afterGet) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if cmd.Name() == "get" {
			f()
		}
		return err
	}
}

func TestLockWaitsAsLongAsItIsToldAndNoLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rdb := bubbleClient(t)
		lockNow(t, newLock(t, rdb, "sem"))
		start := time.Now()
		_, ok, err := newLock(t, rdb, "sem").Acquire(t.Context(), 10*time.Millisecond)
		if ok || err != nil || time.Since(start) != 10*time.Millisecond {
			t.Fatalf("got %v, %v after %v, want a refusal after 10ms", ok, err, time.Since(start))
		}
	})
}

func TestUnderLockGivesUpAfterTheChapters10msWithPermitsFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rdb := bubbleClient(t)
		lockNow(t, newLock(t, rdb, "sem"))
		start := time.Now()
		s, err := classic.NewFairUnderLock(rdb, "sem", 5)
		noError(t, err)
		refused(t, s)
		if d := time.Since(start); d != 10*time.Millisecond {
			t.Fatalf("gave up after %v, want 10ms", d)
		}
	})
}

func TestLockStopsWaitingWhenItsContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rdb := bubbleClient(t)
		lockNow(t, newLock(t, rdb, "sem"))
		const left = 4500 * time.Microsecond // ends in a pause, not in a command
		ctx, cancel := context.WithTimeout(t.Context(), left)
		defer cancel()
		start := time.Now()
		_, ok, err := newLock(t, rdb, "sem").Acquire(ctx, time.Hour)
		wantError(t, err, context.DeadlineExceeded)
		if ok || time.Since(start) != left {
			t.Fatalf("got %v after %v, want the end of the context", ok, time.Since(start))
		}
	})
}

func TestLockReleasedMeanwhileIsGotByTheOneWhoWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rdb := bubbleClient(t)
		l := newLock(t, rdb, "sem")
		id := lockNow(t, l)
		time.AfterFunc(4500*time.Microsecond, func() { unlock(t, l, id, true) })
		start := time.Now()
		_, ok, err := l.Acquire(t.Context(), time.Second)
		if !ok || err != nil || time.Since(start) != 5*time.Millisecond {
			t.Fatalf("got %v, %v after %v, want the lock after 5ms", ok, err, time.Since(start))
		}
	})
}

// bubbleClient is a client of an embedded store inside a bubble, where time
// stands still while anybody works.
func bubbleClient(t *testing.T) *redis.Client {
	m := miniredis.NewMiniRedis()
	m.ClockTTL(true)
	t.Cleanup(m.Close)
	c := redis.NewClient(&redis.Options{
		Addr:   "127.0.0.1:1",
		Dialer: func(context.Context, string, string) (net.Conn, error) { return m.Dial() },
	})
	t.Cleanup(func() { _ = c.Close() })
	return c
}
