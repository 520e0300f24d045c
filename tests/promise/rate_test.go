package promise_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/berthadmin"
	"github.com/berth-go/berth/internal/testkit/testenv"
)

// window is that of the rates here: short where time is real.
func window(e *testenv.Env) time.Duration {
	if e.Exact {
		return time.Minute
	}
	return time.Second
}

// most is the most grants, by their tokens, within any time of length per. A token is the
// server's time in µs, or next to it.
func most(tokens []int64, per time.Duration) (worst int) {
	for i := range tokens {
		n := 0
		for _, at := range tokens[i:] {
			if at < tokens[i]+per.Microseconds() {
				n++
			}
		}
		worst = max(worst, n)
	}
	return worst
}

// spent is what is spent of the only rate.
func spent(st *berthadmin.State) int {
	if len(st.Rates) != 1 {
		return -1
	}
	return st.Rates[0].Spent
}

// R1 and R2: in no window more is granted than the rate, though every lease is given back at
// once; and who waits is granted when the window has room, without asking for it.
func TestRateHoldsInEveryWindow(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		const n, windows = 10, 4
		per := window(e)
		sem := e.Peer().Sem(berth.NoLimit, berth.Rate(n, per))
		var tokens []int64
		began := time.Now()
		for range n*windows + 1 {
			l := e.Hold(sem)
			tokens = append(tokens, l.Token())
			e.Release(l)
		}
		took := time.Since(began)
		if worst := most(tokens, per); worst > n {
			e.Errorf("%d grants in a window of %v, want %d at most", worst, per, n)
		}
		if took < windows*per {
			e.Errorf("%d grants took %v", len(tokens), took)
		}
		// Each window may begin a hundredth and two milliseconds late, for waiters are told in whole ones.
		if late := windows * (per/100 + 3*time.Millisecond); e.Exact && took > windows*per+late {
			e.Errorf("%d grants took %v, want %v at most", len(tokens), took, windows*per+late)
		}
	})
}

// R1: what was granted counts until the window is over, also if the server's clock is set back
// meanwhile, and right again. What is granted while it is behind counts as long as what was last.
func TestRateHoldsThoughTheClockIsSetBack(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		sem := e.Peer().Sem(9, berth.Rate(2, time.Minute))
		e.Release(e.Hold(sem))
		e.Embedded.SetTime(time.Now().Add(-30 * time.Second))
		e.Release(e.Hold(sem))
		e.Embedded.SetTime(time.Time{}) // follows the bubble again
		began := time.Now()
		e.Pass(31 * time.Second)
		e.WantErr(e.Try(sem), berth.ErrBusy)
		e.Release(e.Hold(sem))
		e.Within(began, time.Minute, 61*time.Second, "both have left the window")
	})
}

// R1: what has crashed, and what an operator has taken, counts like what was given back.
func TestCrashGivesNoBudgetBack(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		rate := berth.Rate(2, time.Hour)
		dead, next := e.Peer(), e.Peer()
		e.Hold(dead.Sem(5, rate, berth.TTL(e.TTL)))
		victim := e.Hold(next.Sem(5, rate))
		dead.Crash()
		e.Must(e.Inspector.ForceEvict(e.Ctx, testenv.Name, e.Show().Leases[1].ID))
		_ = e.Lost(victim)
		e.Pass(2 * e.TTL)
		err := e.Try(next.Sem(5, rate))
		e.WantErr(err, berth.ErrBusy)
		if st := e.Show(); spent(st) != 2 || st.InUse != 0 {
			e.Errorf("state %+v", st.Summary)
		}
	})
}

// R1: a move is no grant, and neither is a renewal.
func TestMoveAndRenewalCostNothing(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		from, to := e.Peer(), e.Peer()
		l := e.Hold(from.Sem(2, berth.Rate(2, time.Hour)))
		e.Must(e.Renew(l))
		handle, err := l.Detach(e.Ctx)
		e.Must(err)
		if l, err = to.Adopt(e.Ctx, handle); err != nil {
			e.Fatal(err)
		}
		if st := e.Show(); len(st.Rates) != 1 || st.Rates[0] != (berthadmin.Rate{N: 2, Per: time.Hour, Spent: 1}) {
			e.Errorf("state %+v", st.Summary)
		}
		e.Release(l)
	})
}

// R4: what an AcquireAll that failed was granted costs nothing: nobody has seen it.
func TestGrantThatNobodySawCostsNothing(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		p := e.Peer()
		e.Hold(p.Named("z", 1))
		ctx, cancel := context.WithCancel(e.Ctx)
		failed := make(chan error)
		go func() {
			_, err := berth.AcquireAll(ctx, p.Sem(5, berth.Rate(2, time.Hour)), p.Named("z", 1))
			failed <- err
		}()
		e.Until("granted", func(st *berthadmin.State) bool { return spent(st) == 1 })
		cancel()
		e.WantErr(<-failed, context.Canceled)
		e.Until("given back", func(st *berthadmin.State) bool { return st.InUse == 0 })
		if n := spent(e.Show()); n > 0 { // -1: the semaphore is forgotten
			e.Errorf("%d spent", n)
		}
	})
}

// R3: a costly request at the head lets nobody past, though they would fit.
func TestCostlyHeadIsNotOvertaken(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		per := 15 * time.Second // the requests queue within it, on a busy machine too
		sem := e.Peer().Sem(5, berth.Rate(10, per))
		e.Release(e.Hold(sem, berth.Cost(7)))
		costly := e.Queue(sem, berth.Cost(8))
		cheap := e.Queue(sem, berth.Cost(1))
		err := e.Try(sem, berth.Cost(1))
		e.WantErr(err, berth.ErrBusy)
		first, second := costly.Granted(), cheap.Granted()
		if first.Token() > second.Token() {
			e.Error("the cheap request was granted before the costly one")
		}
		e.Release(first, second)
	})
}

// A refusal tells the rate, and when it has room.
func TestRefusalTellsWhenTheRateHasRoom(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		sem := e.Peer().Sem(9, berth.Rate(3, time.Minute))
		e.Release(e.Hold(sem))
		e.Pass(20 * time.Second)
		e.Release(e.Hold(sem, berth.Cost(2)))
		e.Pass(10 * time.Second)
		for cost, want := range map[int]time.Duration{1: 30 * time.Second, 2: 50 * time.Second, 3: 50 * time.Second} {
			var busy *berth.BusyError
			if err := e.Try(sem, berth.Cost(cost)); !errors.As(err, &busy) {
				e.Fatalf("cost %d: %v", cost, err)
			}
			if late := busy.RetryAfter - want; late < 0 || late > time.Minute/100+2*time.Millisecond {
				e.Errorf("cost %d: retry after %v, want %v", cost, busy.RetryAfter, want)
			}
			if busy.Rate != 3 || busy.Window != time.Minute || busy.Spent != 3 || busy.InUse != 0 || !strings.Contains(busy.Error(), "3 of 3 spent in 1m0s") {
				e.Errorf("%v, %+v", busy, busy)
			}
		}
		if st := e.Show(); st.RetryAfter < 30*time.Second || st.RetryAfter > 31*time.Second {
			e.Errorf("room in %v", st.RetryAfter)
		}
		e.Pass(31 * time.Second)
		e.Release(e.Hold(sem))
	})
}

// R1 after a change: what was granted before counts for at most a new window from then, and
// refusals say so, however long the old window was.
func TestShorterWindowBoundsWhatWasSpentBefore(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		const spent, per = 50, time.Second
		old := e.Peer().Sem(berth.NoLimit, berth.Rate(5000, time.Hour))
		for range spent {
			e.Release(e.Hold(old))
		}
		sem := e.Peer().Sem(berth.NoLimit, berth.Rate(2, per))
		changed := time.Now()
		var busy *berth.BusyError
		if err := e.Try(sem); errors.As(err, &busy) {
			if busy.RetryAfter <= 0 || busy.RetryAfter > per+per/100+time.Millisecond {
				e.Errorf("retry after %v, want %v", busy.RetryAfter, per)
			}
			if text := busy.Error(); strings.Contains(text, " of 2 spent") || !strings.Contains(text, " spent, more than the rate of 2 in 1s") {
				e.Error(text)
			}
		} else if e.Exact {
			e.Errorf("%v: the new rate begins at the change", err)
		}
		if st := e.Show(); st.RetryAfter > per+per/100+time.Millisecond {
			e.Errorf("room in %v", st.RetryAfter)
		}
		l := e.Hold(sem)
		e.Within(changed, per-e.Slack(), per+per/100+time.Millisecond, "granted")
		e.Release(l)
	})
}

// R5: what counted when the window became longer counts for a new window from its own time, or where
// the windows differ by more than a factor of four, from the change. What had left the old one counts
// no more.
func TestLongerWindowCountsWhatComesAfter(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		for _, per := range []time.Duration{20 * time.Second, time.Second} {
			name := per.String()
			short := e.Peer().Named(name, berth.NoLimit, berth.Rate(2, per))
			e.Release(e.Hold(short))
			e.Pass(per + per/50) // it has left its window
			e.Release(e.Hold(short))
			e.Pass(7 * per / 10)
			changed := time.Now()
			sem := e.Peer().Named(name, berth.NoLimit, berth.Rate(2, time.Minute))
			e.Release(e.Hold(sem))
			var busy *berth.BusyError
			if err := e.Try(sem); !errors.As(err, &busy) {
				e.Fatalf("%v: %v, want no room", per, err)
			}
			least, most := time.Minute-7*per/10, time.Minute+time.Minute/100+2*time.Millisecond
			if per*4 >= time.Minute {
				most -= 7 * per / 10
			}
			if busy.RetryAfter < least || busy.RetryAfter > most {
				e.Errorf("%v: room after %v, want %v to %v", per, busy.RetryAfter, least, most)
			}
			e.Release(e.Hold(sem))
			e.Within(changed, least, most+time.Minute/100, "the second grant has left the new window")
		}
	})
}

// R5: a short window that the long one follows before it is over forgets nothing.
func TestBriefWindowForgetsNothing(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		p := e.Peer()
		long, short := p.Sem(berth.NoLimit, berth.Rate(2, time.Minute)), p.Sem(berth.NoLimit, berth.Rate(2, time.Second))
		began := time.Now()
		e.Release(e.Hold(long), e.Hold(long))
		for range 3 {
			e.Pass(150 * time.Millisecond)
			e.WantErr(e.Try(short), berth.ErrBusy)
			e.Pass(150 * time.Millisecond)
			e.WantErr(e.Try(long), berth.ErrBusy)
		}
		e.Release(e.Hold(long))
		e.Within(began, time.Minute, time.Minute+2*time.Minute/100, "both have left the long window")
	})
}

// A cost that no window has room for is refused at once; so is one that waits when the rate
// becomes smaller.
func TestCostAboveTheRateIsRefused(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		p := e.Peer()
		sem := p.Sem(5, berth.Rate(3, time.Hour))
		var heavy *berth.TooHeavyError
		err := e.Try(sem, berth.Cost(4))
		e.WantErr(err, berth.ErrTooHeavy)
		if !errors.As(err, &heavy) || heavy.Cost != 4 || heavy.Rate != 3 || heavy.Window != time.Hour {
			e.Errorf("%+v", heavy)
		}
		e.Hold(sem)
		r := e.Queue(sem, berth.Cost(3))
		_ = e.Try(p.Sem(5, berth.Rate(2, time.Hour)))
		if err := r.Refused(berth.ErrTooHeavy); !errors.As(err, &heavy) || heavy.Cost != 3 || heavy.Rate != 2 {
			e.Errorf("%v", err)
		}
		if st := e.Show(); st.LimitChanges != 1 {
			e.Errorf("state %+v", st.Summary)
		}
	})
}

// However large the rate, a window is remembered in one field, of a hundred numbers.
func TestRateNeedsLittleMemory(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		sem := e.Peer().Sem(berth.NoLimit, berth.Rate(1_000_000, 10*time.Second))
		for range 1500 {
			e.Release(e.Hold(sem))
			e.Pass(11 * time.Millisecond)
		}
		fields, err := e.Redis.HLen(e.Ctx, e.Prefix+":{"+testenv.Name+"}").Result()
		if e.Must(err); fields > 2 {
			e.Errorf("%d fields, want the state and what counts", fields)
		}
		row, err := e.Redis.HGet(e.Ctx, e.Prefix+":{"+testenv.Name+"}", "!r").Result()
		if e.Must(err); strings.Count(row, " ") > 105 || len(row) > 400 {
			e.Errorf("%d bytes: %s", len(row), row)
		}
		if n := spent(e.Show()); n < 850 || n > 930 {
			e.Errorf("%d spent in 10 s, at one in 11 ms", n)
		}
	})
}

// L5: the keys stay while a grant counts, and disappear when it does not: by a TTL, or, where the
// server may evict what has one, when somebody lists.
func TestKeysOfARateDisappearAfterTheWindow(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		e.Release(e.Hold(e.Peer().Sem(5, berth.Rate(3, 10*time.Minute))))
		e.Pass(10*time.Minute - time.Second)
		if st := e.Show(); spent(st) != 1 {
			e.Errorf("within the window: %+v", st.Summary)
		}
		e.Pass(2*time.Second + 10*time.Minute/100)
		all, err := testenv.Listed(e.Inspector.List(e.Ctx))
		if e.Must(err); len(all) > 0 {
			e.Errorf("still listed: %+v", all)
		}
		e.UntilNoKeys(3 * time.Minute)
	})
}

// Bad rates and costs are refused before anything is sent.
func TestBadRates(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		p := e.Peer()
		for _, bad := range []berth.Option{
			berth.Rate(0, time.Second), berth.Rate(-1, time.Second), berth.Rate(berth.MaxLimit+1, time.Second),
			berth.Rate(1, 0), berth.Rate(1, 9*time.Millisecond), berth.Rate(1, 30*24*time.Hour+1), berth.Rate(1, -time.Second),
			berth.Cost(0), berth.Cost(-3), berth.Cost(berth.MaxLimit + 1),
		} {
			if _, err := p.Semaphore(testenv.Name, 1, bad); !errors.Is(err, berth.ErrInvalid) {
				e.Errorf("%v", err)
			}
		}
		if n := len(e.Embedded.Keys()); n > 0 {
			e.Errorf("%d keys", n)
		}
	})
}
