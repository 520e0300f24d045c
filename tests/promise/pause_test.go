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

// L7: a pause that ends by itself grants nobody before its end, and the first in the queue then,
// without an operator. All programs hold still.
func TestCooldownEndsByItself(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		one, other := e.Peer(), e.Peer()
		const lasts = 2 * time.Second
		began := time.Now()
		e.Must(one.Sem(2).Cooldown(e.Ctx, lasts))
		first := e.Follow(other.Sem(2)) // on a real machine the pause may be over by then
		second := e.Follow(one.Sem(2))
		a, b := first.Granted(), second.Granted()
		if took := time.Since(began); took < lasts || e.Exact && took > lasts+10*time.Millisecond {
			e.Errorf("granted after %v, want %v", took, lasts)
		}
		if a.Token() > b.Token() {
			e.Error("the second in the queue was granted first")
		}
		if st := e.Show(); st.Paused || st.PausedFor != 0 || st.PausedBy != "" {
			e.Errorf("after its end: %+v", st.Summary)
		}
		e.Release(a, b)
	})
}

// A longer pause wins, whoever set it: nobody shortens one, and only Resume ends it early.
func TestLongerPauseWins(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		sem := e.Peer().Sem(2)
		in := e.Inspector.Because("ann@ops", "")
		left := func() time.Duration { return e.Show().PausedFor.Round(time.Second) }
		e.Must(sem.Cooldown(e.Ctx, time.Minute))
		e.Must(in.PauseFor(e.Ctx, testenv.Name, 10*time.Second))
		if got := left(); got != time.Minute {
			e.Errorf("a shorter one left %v", got)
		}
		e.Must(in.PauseFor(e.Ctx, testenv.Name, time.Hour))
		if st := e.Show(); left() != time.Hour || st.PausedBy != "ann@ops" {
			e.Errorf("a longer one left %+v", st.Summary)
		}
		e.Must(in.Pause(e.Ctx, testenv.Name))
		e.Must(sem.Cooldown(e.Ctx, time.Hour))
		if st := e.Show(); !st.Paused || st.PausedFor != 0 {
			e.Errorf("a pause without end became %+v", st.Summary)
		}
		e.Must(in.Resume(e.Ctx, testenv.Name))
		e.Release(e.Hold(sem))
	})
}

// A refusal and a wait tell when a pause ends, and who looks is told who set it.
func TestPauseTellsItsEnd(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		sem := e.Peer().Sem(2, berth.Label("sync"))
		e.Hold(sem)
		e.Must(sem.Cooldown(e.Ctx, time.Minute))
		var busy *berth.BusyError
		if err := e.Try(sem); !errors.As(err, &busy) || !busy.Paused || busy.RetryAfter < 59*time.Second || busy.RetryAfter > 61*time.Second ||
			!strings.Contains(busy.Error(), "it is paused, for 1m0") {
			e.Errorf("%v: %+v", err, busy)
		}
		ctx, cancel := context.WithTimeout(e.Ctx, 10*time.Second)
		defer cancel()
		_, err := sem.Acquire(ctx)
		var wait *berth.WaitError
		if !errors.As(err, &wait) || !wait.Place.Paused || wait.Place.RetryAfter == 0 || !strings.Contains(wait.Error(), "it is paused, for") {
			e.Errorf("%v", err)
		}
		if st := e.Show(); !strings.HasPrefix(st.PausedBy, "sync (") || st.PausedFor.Round(time.Second) != 50*time.Second {
			e.Errorf("%+v", st.Summary)
		}
	})
}

// L7: a pause that ends by itself holds though nobody uses the semaphore and one of its keys is lost.
func TestPauseOutlivesTheLossOfAKey(t *testing.T) {
	for _, suffix := range []string{"", ":order"} {
		t.Run("PREFIX:{NAME}"+suffix, func(t *testing.T) {
			testenv.Embedded(t, func(e *testenv.Env) {
				sem := e.Peer().Sem(2)
				const lasts = time.Minute
				e.Must(sem.Cooldown(e.Ctx, lasts))
				began := time.Now()
				e.Must(e.Redis.Del(e.Ctx, e.Prefix+":{"+testenv.Name+"}"+suffix).Err())
				err := e.Try(sem)
				for ; errors.Is(err, berth.ErrCorrupt); err = e.Try(sem) { // until what is left has run out
					e.Pass(time.Second)
				}
				e.Must(err)
				e.Within(began, lasts, lasts+61*time.Second, "granted") // the state tells a time that is up to a minute too late
			})
		})
	}
}

// L5: a pause leaves nothing behind when it has ended, and views do not show it any longer.
func TestKeysOfAPauseDisappearAfterIt(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		e.Must(e.Inspector.PauseFor(e.Ctx, testenv.Name, time.Minute))
		if st := e.Show(); !st.Paused {
			e.Errorf("%+v", st.Summary)
		}
		e.Pass(time.Minute + time.Second)
		for st, err := range e.Inspector.Sample(e.Ctx, []string{testenv.Name}, berthadmin.SampleOptions{}) {
			if !errors.Is(err, berthadmin.ErrNotFound) {
				e.Errorf("%+v, %v", st.Summary, err)
			}
		}
		all, err := testenv.Listed(e.Inspector.List(e.Ctx))
		if e.Must(err); len(all) > 0 {
			e.Errorf("still listed: %+v", all)
		}
		e.UntilNoKeys(time.Minute)
	})
}

// Bad times are refused before anything is sent.
func TestBadPauses(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		sem := e.Peer().Sem(1)
		for _, d := range []time.Duration{0, -1, 9 * time.Millisecond, berth.MaxTTL + 1} {
			e.WantErr(sem.Cooldown(e.Ctx, d), berth.ErrInvalid)
			e.WantErr(e.Inspector.PauseFor(e.Ctx, testenv.Name, d), berth.ErrInvalid)
		}
		if n := len(e.Embedded.Keys()); n > 0 {
			e.Errorf("%d keys", n)
		}
	})
}
