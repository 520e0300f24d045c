package classic_test

import (
	"context"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth/classic"
)

// The tests of this file show the faults of the algorithms. They are promises
// too: without a fault, a semaphore is no longer the chapter's.

func TestBasicLetsAClock10msBehindStealAPermit(t *testing.T) {
	onBoth(t, func(t *testing.T, s store) {
		at := newClock()
		fast := newBasic(t, s.rdb, s.name, 1, classic.WithClock(at.now))
		slow := newBasic(t, s.rdb, s.name, 1, classic.WithClock(at.behind(10*time.Millisecond)))
		robbed := hold(t, fast)
		at.advance(9 * time.Millisecond)
		thief := hold(t, slow)
		members(t, s, s.name, thief, robbed)
		// Nobody tells the holder, not even now.
		release(t, fast, robbed, true)
		release(t, slow, thief, true)
	})
}

func TestBasicIsSafeFromAClock10msBehindAfter10ms(t *testing.T) {
	onBoth(t, func(t *testing.T, s store) {
		at := newClock()
		slow := newBasic(t, s.rdb, s.name, 1, classic.WithClock(at.behind(10*time.Millisecond)))
		hold(t, newBasic(t, s.rdb, s.name, 1, classic.WithClock(at.now)))
		at.advance(11 * time.Millisecond)
		refused(t, slow)
	})
}

func TestFairIsNotRobbedByAClockThatIsBehind(t *testing.T) {
	onBoth(t, func(t *testing.T, s store) {
		at := newClock()
		slow := newFair(t, s.rdb, s.name, 1, classic.WithClock(at.behind(time.Second)))
		hold(t, newFair(t, s.rdb, s.name, 1, classic.WithClock(at.now)))
		refused(t, slow)
	})
}

func TestClockAheadByTheTimeoutDropsEveryHolder(t *testing.T) {
	eachOnBoth(t, all, func(t *testing.T, s store, c constructor) {
		at := newClock()
		sane := c(t, s.rdb, s.name, 2, classic.WithClock(at.now))
		ahead := c(t, s.rdb, s.name, 2, classic.WithClock(at.behind(-classic.DefaultTimeout)))
		first, second := hold(t, sane), hold(t, sane)
		hold(t, ahead)
		release(t, sane, first, false)
		release(t, sane, second, false)
	})
}

func TestClockBehindByTheTimeoutLosesItsPermitToTheNextTry(t *testing.T) {
	eachOnBoth(t, all, func(t *testing.T, s store, c constructor) {
		at := newClock()
		behind := c(t, s.rdb, s.name, 1, classic.WithClock(at.behind(classic.DefaultTimeout)))
		id := hold(t, behind)
		hold(t, c(t, s.rdb, s.name, 1, classic.WithClock(at.now)))
		release(t, behind, id, false)
	})
}

func TestTimeoutOfOneCallerIsAppliedToEverybody(t *testing.T) {
	eachOnBoth(t, all, func(t *testing.T, s store, c constructor) {
		at := newClock()
		patient := c(t, s.rdb, s.name, 1, classic.WithClock(at.now), classic.WithTimeout(time.Hour))
		hasty := c(t, s.rdb, s.name, 1, classic.WithClock(at.now), classic.WithTimeout(time.Second))
		promisedAnHour := hold(t, patient)
		at.advance(time.Second)
		hold(t, hasty)
		release(t, patient, promisedAnHour, false)
	})
}

// A counts first, B ranks first: the limit is exceeded, and neither learns of
// it.
func TestFairExceedsTheLimitWhenACountsFirstAndBRanksFirst(t *testing.T) {
	onBoth(t, func(t *testing.T, s store) {
		a, half := startHalf(t, s, newFair, ids("A"))
		b := newFair(t, s.rdb, s.name, 1, ids("B"))
		inB := hold(t, b)
		inA := half.finish(t)
		if !inA.ok {
			t.Fatal("A was refused: the race is gone")
		}
		members(t, s, s.name+":owner", "A", "B")
		refresh(t, a, inA.id, true)
		refresh(t, b, inB, true)
		release(t, a, inA.id, true)
		release(t, b, inB, true)
	})
}

// The excess is not one: whoever has counted may be over the limit later.
func TestFairExceedsTheLimitByAsManyAsCountedFirst(t *testing.T) {
	onBoth(t, func(t *testing.T, s store) {
		const early = 4
		var halves []*halfway
		for range early {
			_, half := startHalf(t, s, newFair)
			halves = append(halves, half)
		}
		hold(t, newFair(t, s.rdb, s.name, 1))
		holders := 1
		for _, half := range slices.Backward(halves) {
			if half.finish(t).ok {
				holders++
			}
		}
		if holders != early+1 {
			t.Fatalf("%d hold with a limit of 1, want %d", holders, early+1)
		}
	})
}

func TestUnderLockKeepsTheLimitWhenACountsFirst(t *testing.T) {
	onBoth(t, func(t *testing.T, s store) {
		_, half := startHalf(t, s, newFairUnderLock)
		b := newFairUnderLock(t, s.rdb, s.name, 1, classic.WithLockWait(time.Nanosecond))
		refused(t, b) // no lock for B while A is between its two transactions
		if !half.finish(t).ok {
			t.Fatal("A was refused, although nobody was before it")
		}
		refused(t, newFairUnderLock(t, s.rdb, s.name, 1))
	})
}

func TestUnderLockExceedsTheLimitWhenTheLockRunsOutInside(t *testing.T) {
	onBoth(t, func(t *testing.T, s store) {
		_, half := startHalf(t, s, newFairUnderLock)
		// The lock's time-out passes while A is paused.
		noError(t, s.rdb.Del(t.Context(), "lock:"+s.name).Err())
		hold(t, newFairUnderLock(t, s.rdb, s.name, 1))
		if !half.finish(t).ok {
			t.Fatal("A was refused: the race is gone")
		}
	})
}

func TestUnderLockStopsEverybodyWhileACrashedClientHasTheLock(t *testing.T) {
	onBoth(t, func(t *testing.T, s store) {
		lockNow(t, newLock(t, s.rdb, s.name))
		refused(t, newFairUnderLock(t, s.rdb, s.name, 5, classic.WithLockWait(time.Nanosecond)))
		members(t, s, s.name)
	})
}

// Without an expiry the lock would still be there after a year.
func TestUnderLockWouldBeStuckWithALockWithoutExpiry(t *testing.T) {
	onBoth(t, func(t *testing.T, s store) {
		noError(t, s.rdb.SetNX(t.Context(), "lock:"+s.name, "crashed", 0).Err())
		if d := expiry(t, s); d != -1 {
			t.Fatalf("the lock of section 6.2.3 expires in %v, want never", d)
		}
		noError(t, s.rdb.Del(t.Context(), "lock:"+s.name).Err())
		_, half := startHalf(t, s, newFairUnderLock)
		if d := expiry(t, s); d <= 0 || d > time.Minute {
			t.Fatalf("the lock inside an Acquire expires in %v, want a minute at most", d)
		}
		half.finish(t)
	})
}

func TestFairUnderLockIsNotProtectedFromClientsWithoutTheLock(t *testing.T) {
	onBoth(t, func(t *testing.T, s store) {
		_, half := startHalf(t, s, newFairUnderLock)
		hold(t, newFair(t, s.rdb, s.name, 1))
		if !half.finish(t).ok {
			t.Fatal("A was refused: the race is gone")
		}
	})
}

// The cost is what ZINTERSTORE writes: it returns the size of the set that it
// made anew, and that is every holder, at every try, even at a refused one.
func TestFairRewritesEveryHolderAtEveryTry(t *testing.T) {
	types := map[string]constructor{"fair": newFair, "fair under lock": newFairUnderLock}
	eachOnBoth(t, types, func(t *testing.T, s store, c constructor) {
		rdb := s.client(t)
		var rewritten []int64
		rdb.AddHook(afterTx(func(cmds []redis.Cmder) {
			for _, cmd := range cmds {
				if cmd.Name() == "zinterstore" {
					rewritten = append(rewritten, cmd.(*redis.IntCmd).Val())
				}
			}
		}))
		at := newClock()
		for _, holders := range []int{10, 100, 1000} {
			fill(t, s, holders, at.now())
			refused(t, c(t, rdb, s.name, holders, classic.WithClock(at.now)))
		}
		if !slices.Equal(rewritten, []int64{10, 100, 1000}) {
			t.Fatalf("rewritten: %v members", rewritten)
		}
	})
}

// fill makes n holders, whatever was there.
func fill(t *testing.T, s store, n int, at time.Time) {
	t.Helper()
	times, numbers := make([]redis.Z, n), make([]redis.Z, n)
	for i := range n {
		id := "holder " + strconv.Itoa(i)
		times[i] = redis.Z{Score: float64(at.Unix()), Member: id}
		numbers[i] = redis.Z{Score: float64(i + 1), Member: id}
	}
	noError(t, s.rdb.ZAdd(t.Context(), s.name, times...).Err())
	noError(t, s.rdb.ZAdd(t.Context(), s.name+":owner", numbers...).Err())
	noError(t, s.rdb.Set(t.Context(), s.name+":counter", n, 0).Err())
}

// B came before C, but it has to come back and C is there at the right moment.
func TestLosersComeBackWithLaterNumbers(t *testing.T) {
	types := map[string]constructor{"fair": newFair, "fair under lock": newFairUnderLock}
	eachOnBoth(t, types, func(t *testing.T, s store, c constructor) {
		a, b, late := c(t, s.rdb, s.name, 1), c(t, s.rdb, s.name, 1), c(t, s.rdb, s.name, 1)
		inA := hold(t, a) // number 1
		refused(t, b)     // number 2, lost
		release(t, a, inA, true)
		inC := hold(t, late) // number 3, though it came last
		refused(t, b)        // number 4, lost
		release(t, late, inC, true)
		inB := hold(t, b)
		number, err := s.rdb.ZScore(t.Context(), s.name+":owner", inB).Result()
		noError(t, err)
		if number != 5 {
			t.Fatalf("B came in with number %v, want 5 after two lost ones", number)
		}
	})
}

// A refused try is in the ZSET for a moment. Who releases meanwhile makes room
// that neither of two tries finds.
func TestBasicRefusesAFreePermitWhileARefusedTryIsStillThere(t *testing.T) {
	onBoth(t, func(t *testing.T, s store) {
		at := newClock()
		holder := newBasic(t, s.rdb, s.name, 1, classic.WithClock(at.now))
		id := hold(t, holder)
		at.advance(time.Millisecond)
		_, half := startHalf(t, s, newBasic, classic.WithClock(at.now))
		release(t, holder, id, true)
		at.advance(time.Millisecond)
		refused(t, newBasic(t, s.rdb, s.name, 1, classic.WithClock(at.now)))
		if half.finish(t).ok {
			t.Fatal("the first try has ranked behind the holder and cannot hold")
		}
		members(t, s, s.name)
	})
}

// The reply is lost and the client repeats the transaction by itself:
// the release happened, and is reported as if it had not.
func TestRepeatedReleaseReportsATimeoutThatWasNone(t *testing.T) {
	onBoth(t, func(t *testing.T, s store) {
		rdb := s.client(t)
		rdb.AddHook(twice{})
		release(t, newFair(t, rdb, s.name, 1), hold(t, newFair(t, s.rdb, s.name, 1)), false)
		members(t, s, s.name)
	})
}

// twice is a hook that sends every transaction again, as go-redis does when a
// reply is lost.
type twice struct{}

func (twice) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (twice) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (twice) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if cmds[0].Name() == "multi" {
			_ = next(ctx, cmds)
		}
		return next(ctx, cmds)
	}
}

// The chapter asks what happens to a 32-bit counter. On a 64-bit Redis the order
// is exact until scores, which are doubles, cannot tell two numbers apart.
func TestFairOrderIsExactBeyond32BitsAndLostBeyond53(t *testing.T) {
	for _, c := range []struct {
		counter int64
		stolen  bool
	}{{1<<31 - 1, false}, {1<<53 - 2, false}, {1<<53 - 1, true}} {
		t.Run(strconv.FormatInt(c.counter, 10), func(t *testing.T) {
			onBoth(t, func(t *testing.T, s store) {
				noError(t, s.rdb.Set(t.Context(), s.name+":counter", c.counter, 0).Err())
				hold(t, newFair(t, s.rdb, s.name, 1, ids("second by name")))
				_, ok, err := newFair(t, s.rdb, s.name, 1, ids("first by name")).Acquire(t.Context())
				noError(t, err)
				if ok != c.stolen {
					t.Fatalf("the later number got a permit: %v, want %v", ok, c.stolen)
				}
			})
		})
	}
}

// The counter must outlive every holder: the numbers of newcomers start again
// below those of the holders.
func TestFairExceedsTheLimitWhenItsCounterIsLost(t *testing.T) {
	onBoth(t, func(t *testing.T, s store) {
		sem := newFair(t, s.rdb, s.name, 1)
		release(t, sem, hold(t, sem), true)
		hold(t, sem) // with number 2
		refused(t, sem)
		noError(t, s.rdb.Del(t.Context(), s.name+":counter").Err())
		hold(t, sem) // with number 1
	})
}
