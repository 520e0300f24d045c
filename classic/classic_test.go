package classic_test

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth/classic"
)

func TestLimitIsKeptAndAReleaseMakesRoom(t *testing.T) {
	eachOnBoth(t, all, func(t *testing.T, s store, c constructor) {
		sem := c(t, s.rdb, s.name, 2)
		first, second := hold(t, sem), hold(t, sem)
		if first == second {
			t.Fatalf("two permits have the identifier %q", first)
		}
		refused(t, sem)
		release(t, sem, first, true)
		hold(t, sem)
		refused(t, sem)
	})
}

func TestReleaseReportsFalseWhenThereWasNothingToRelease(t *testing.T) {
	eachOnBoth(t, all, func(t *testing.T, s store, c constructor) {
		sem := c(t, s.rdb, s.name, 1)
		id := hold(t, sem)
		release(t, sem, "somebody-else", false)
		release(t, sem, id, true)
		release(t, sem, id, false)
	})
}

func TestPermitIsHeldUntilItsTimeoutAndThenGivenToAnother(t *testing.T) {
	eachOnBoth(t, all, func(t *testing.T, s store, c constructor) {
		time10 := newClock()
		sem := c(t, s.rdb, s.name, 1, classic.WithTimeout(10*time.Second), classic.WithClock(time10.now))
		old := hold(t, sem)
		time10.advance(10*time.Second - time.Millisecond)
		refused(t, sem)
		time10.advance(time.Millisecond)
		next := hold(t, sem)
		release(t, sem, old, false)
		members(t, s, s.name, next)
	})
}

func TestRefusedTryLeavesNothingBehind(t *testing.T) {
	eachOnBoth(t, all, func(t *testing.T, s store, c constructor) {
		sem := c(t, s.rdb, s.name, 1)
		id := hold(t, sem)
		refused(t, sem)
		members(t, s, s.name, id)
		noLock(t, s)
	})
}

func TestRefusedTryIsRemovedAlthoughItsContextEnds(t *testing.T) {
	eachOnBoth(t, all, func(t *testing.T, s store, c constructor) {
		holder := hold(t, c(t, s.rdb, s.name, 1))
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		rdb := s.client(t)
		rdb.AddHook(afterTx(func(cmds []redis.Cmder) {
			if strings.EqualFold(cmds[len(cmds)-2].Name(), "zrank") {
				cancel()
			}
		}))
		_, ok, err := c(t, rdb, s.name, 1).Acquire(ctx)
		if ok || err != nil {
			t.Fatalf("got %v, %v, want a plain refusal", ok, err)
		}
		members(t, s, s.name, holder)
		noLock(t, s)
	})
}

func noLock(t *testing.T, s store) {
	t.Helper()
	n, err := s.rdb.Exists(t.Context(), "lock:"+s.name).Result()
	noError(t, err)
	if n != 0 {
		t.Fatal("the lock is still there")
	}
}

// afterTx is a hook that sees the commands of every transaction when it is done.
type afterTx func([]redis.Cmder)

func (f afterTx) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (f afterTx) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (f afterTx) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := next(ctx, cmds)
		if cmds[0].Name() == "multi" {
			f(cmds)
		}
		return err
	}
}

func TestFairReleaseRemovesFromBothSets(t *testing.T) {
	onBoth(t, func(t *testing.T, s store) {
		sem := newFair(t, s.rdb, s.name, 2)
		first, second := hold(t, sem), hold(t, sem)
		release(t, sem, first, true)
		members(t, s, s.name, second)
		members(t, s, s.name+":owner", second)
	})
}

// The chapter tells why a release must remove from both sets.
func TestFairReleaseBetweenTheTwoHalvesOfAnAcquireMakesRoomForIt(t *testing.T) {
	onBoth(t, func(t *testing.T, s store) {
		holder := newFair(t, s.rdb, s.name, 1)
		id := hold(t, holder)
		_, half := startHalf(t, s, newFair)
		release(t, holder, id, true)
		if !half.finish(t).ok {
			t.Fatal("refused, although the permit had been released before it ranked")
		}
	})
}

func TestFairRefreshKeepsAPermitBeyondItsTimeout(t *testing.T) {
	types := map[string]constructor{"fair": newFair, "fair under lock": newFairUnderLock}
	eachOnBoth(t, types, func(t *testing.T, s store, c constructor) {
		at := newClock()
		sem := c(t, s.rdb, s.name, 1, classic.WithTimeout(10*time.Second), classic.WithClock(at.now))
		id := hold(t, sem)
		for range 3 {
			at.advance(9 * time.Second)
			refresh(t, sem, id, true)
			refused(t, sem)
		}
		release(t, sem, id, true)
	})
}

func TestFairRefreshReportsALostPermitAndLeavesNothingBehind(t *testing.T) {
	types := map[string]constructor{"fair": newFair, "fair under lock": newFairUnderLock}
	eachOnBoth(t, types, func(t *testing.T, s store, c constructor) {
		at := newClock()
		sem := c(t, s.rdb, s.name, 1, classic.WithTimeout(10*time.Second), classic.WithClock(at.now))
		lost := hold(t, sem)
		at.advance(10 * time.Second)
		next := hold(t, sem)
		refresh(t, sem, lost, false)
		members(t, s, s.name, next)
		members(t, s, s.name+":owner", next)
	})
}

func TestFairRefreshRevivesATimedOutPermitThatNobodyDropped(t *testing.T) {
	onBoth(t, func(t *testing.T, s store) {
		at := newClock()
		sem := newFair(t, s.rdb, s.name, 1, classic.WithTimeout(10*time.Second), classic.WithClock(at.now))
		id := hold(t, sem)
		at.advance(time.Hour)
		refresh(t, sem, id, true)
		refused(t, sem)
	})
}

func TestIdentifiersAreVersion4UUIDs(t *testing.T) {
	form := regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	onBoth(t, func(t *testing.T, s store) {
		sem := newBasic(t, s.rdb, s.name, 1000)
		seen := map[string]bool{}
		for range 200 {
			id := hold(t, sem)
			if !form.MatchString(id) || seen[id] {
				t.Fatalf("identifier %q is no new version 4 UUID", id)
			}
			seen[id] = true
		}
	})
}

func TestErrorsNameTheSemaphoreAndKeepTheCause(t *testing.T) {
	eachOnBoth(t, all, func(t *testing.T, s store, c constructor) {
		sem := c(t, s.rdb, s.name, 1)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, ok, err := sem.Acquire(ctx)
		if ok {
			t.Fatal("acquired with a cancelled context")
		}
		wantError(t, err, context.Canceled)
		noError(t, s.rdb.Set(t.Context(), s.name, "no sorted set", 0).Err())
		_, _, err = sem.Acquire(t.Context())
		if err == nil || !strings.Contains(err.Error(), "WRONGTYPE") || !strings.Contains(err.Error(), s.name) {
			t.Fatalf("error %v, want WRONGTYPE and the name", err)
		}
		_, err = sem.Release(t.Context(), "id")
		if err == nil || !strings.Contains(err.Error(), "WRONGTYPE") {
			t.Fatalf("error %v, want WRONGTYPE", err)
		}
	})
}

func TestUnderLockReleasesItsLockWhenTheAcquireFails(t *testing.T) {
	onBoth(t, func(t *testing.T, s store) {
		sem := newFairUnderLock(t, s.rdb, s.name, 1)
		noError(t, s.rdb.Set(t.Context(), s.name, "no sorted set", 0).Err())
		if _, _, err := sem.Acquire(t.Context()); err == nil {
			t.Fatal("acquired on a key of the wrong type")
		}
		noError(t, s.rdb.Del(t.Context(), s.name).Err())
		hold(t, newFairUnderLock(t, s.rdb, s.name, 1, classic.WithLockWait(time.Nanosecond)))
	})
}

func TestDriversHandOutReleasesThatWorkOnce(t *testing.T) {
	onBoth(t, func(t *testing.T, s store) {
		drivers := []classic.Driver{
			newBasic(t, s.rdb, s.name+"b", 1).(*classic.Basic).Driver(),
			newFair(t, s.rdb, s.name+"f", 1).(*classic.Fair).Driver(),
			newFairUnderLock(t, s.rdb, s.name+"u", 1).(*classic.FairUnderLock).Driver(),
		}
		for _, d := range drivers {
			t.Run(fmt.Sprintf("%T", d), func(t *testing.T) { driveOne(t, d) })
		}
	})
}

func driveOne(t *testing.T, d classic.Driver) {
	release, ok, err := d.Acquire(t.Context())
	if !ok || err != nil {
		t.Fatalf("got %v, %v, want a permit", ok, err)
	}
	if r, ok, err := d.Acquire(t.Context()); ok || err != nil || r != nil {
		t.Fatalf("got %v, %v, want a refusal without a handle", ok, err)
	}
	for _, want := range []bool{true, false} {
		if held, err := release(t.Context()); held != want || err != nil {
			t.Fatalf("release reported %v, %v, want %v", held, err, want)
		}
	}
}
