package promise_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/internal/testkit/testenv"
)

// failedEarly returns the error of a request that FailEarly has refused.
func failedEarly(e *testenv.Env, err error) *berth.BusyError {
	e.Helper()
	busy, _ := errors.AsType[*berth.BusyError](err)
	if busy == nil || !busy.FailedEarly || !errors.Is(err, berth.ErrBusy) || errors.Is(err, berth.ErrQueueFull) || errors.Is(err, context.DeadlineExceeded) {
		e.Fatalf("%v: want a refusal by FailEarly", err)
	}
	return busy
}

// A request that a rate keeps out until after its deadline is refused at once with that time, and
// another process's request behind it, for which there is room, is granted. Without the option the
// first one waits, and so does the other.
func TestFailEarlyHoldsUpNobody(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		rate := berth.Rate(3, time.Hour).Of("pages")
		large, small := e.Peer().Sem(9, rate, berth.Cost(2).Of("pages")), e.Peer().Sem(9, rate)
		e.Release(e.Hold(large))
		ctx, cancel := context.WithTimeout(e.Ctx, time.Minute)
		defer cancel()

		patient := e.QueueUntil(ctx, large)
		e.WantErr(e.Try(small), berth.ErrBusy)
		patient.Cancel()
		patient.Refused(context.Canceled)

		began := time.Now()
		_, err := large.Acquire(ctx, berth.FailEarly())
		busy := failedEarly(e, err)
		e.Within(began, 0, 0, "refused")
		if busy.Unit != "pages" || busy.Rate != 3 || busy.Spent != 2 || busy.RetryAfter < 50*time.Minute || busy.RetryAfter > 61*time.Minute {
			e.Errorf("it tells %+v", busy)
		}
		if !strings.Contains(err.Error(), "its deadline comes before there can be room: try again in") {
			e.Errorf("%v", err)
		}
		if st := e.Show(); st.Waiting != 0 {
			e.Errorf("%d wait", st.Waiting)
		}
		e.Release(e.Hold(small))
	})
}

// The time is that of this request, to its last millisecond: not that at which the first of the rate
// comes back. One with a deadline after that waits, and is granted then.
func TestFailEarlyKnowsTheTime(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		sem := e.Peer().Sem(9, berth.Rate(3, time.Hour), berth.FailEarly())
		e.Hold(sem)
		e.Pass(20 * time.Minute)
		e.Hold(sem)
		ask := func(d time.Duration) error {
			ctx, cancel := context.WithTimeout(context.Background(), d)
			defer cancel()
			_, err := sem.Acquire(ctx, berth.Cost(3))
			return err
		}
		if busy := failedEarly(e, ask(50*time.Minute)); busy.RetryAfter < 59*time.Minute || busy.RetryAfter > 61*time.Minute {
			e.Errorf("it tells %v, and all has left the rate in an hour", busy.RetryAfter)
		}
		e.Must(ask(61 * time.Minute))
	})
}

// A pause that ends after the deadline is told at once, and in the queue, too, when another process
// begins it: then the place is given up, and whoever is behind it is the first when an operator ends
// the pause. One without an end has no time, so it is waited for.
func TestFailEarlyKnowsPauses(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		holder, other := e.Peer().Sem(1), e.Peer().Sem(1)
		hasty := e.Peer().Sem(1, berth.TTL(e.TTL), berth.FailEarly())
		ctx, cancel := context.WithTimeout(e.Ctx, 10*time.Minute)
		defer cancel()
		first := e.Hold(holder)
		r := e.QueueUntil(ctx, hasty)
		behind := e.Queue(other)
		e.Must(e.Inspector.Pause(e.Ctx, testenv.Name))
		e.Pass(e.TTL)
		r.Waits()
		e.Must(e.Inspector.Resume(e.Ctx, testenv.Name))
		began := time.Now()
		e.Must(other.Cooldown(e.Ctx, time.Hour))
		for _, err := range []error{r.Refused(berth.ErrBusy), func() error { _, err := hasty.Acquire(ctx); return err }()} {
			if busy := failedEarly(e, err); !busy.Paused || busy.RetryAfter < 50*time.Minute || busy.RetryAfter > time.Hour {
				e.Errorf("it tells %+v", busy)
			}
		}
		e.Within(began, 0, e.TTL/3, "refused")
		e.Release(first)
		e.Must(e.Inspector.Resume(e.Ctx, testenv.Name))
		e.Release(behind.Granted())
	})
}

// In the queue a request learns what was spent by those in front of it, in other processes: it gives
// its place up when nothing of that comes back before its deadline.
func TestFailEarlyLearnsWhatOthersHaveSpent(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		rate := berth.Rate(2, time.Hour).Of("pages")
		first := e.Hold(e.Peer().Sem(1, rate))
		front := e.Queue(e.Peer().Sem(1, rate))
		ctx, cancel := context.WithTimeout(e.Ctx, 10*time.Minute)
		defer cancel()
		r := e.QueueUntil(ctx, e.Peer().Sem(1, rate, berth.TTL(e.TTL), berth.FailEarly()))
		behind := e.Queue(e.Peer().Sem(1, rate, berth.Cost(0).Of("pages")))
		e.Pass(e.TTL)
		r.Waits()
		began := time.Now()
		e.Release(first)
		second := front.Granted()
		if busy := failedEarly(e, r.Refused(berth.ErrBusy)); busy.Spent != 2 || busy.RetryAfter < 50*time.Minute || busy.RetryAfter > 61*time.Minute {
			e.Errorf("it tells %+v", busy)
		}
		e.Within(began, 0, e.TTL/3, "refused")
		e.Release(second)
		e.Release(behind.Granted())
	})
}

// What is told holds if nobody changes it: who still waits is granted when another process settles its
// lease for less, or the rate is raised. A request that never waits, or has no deadline, is as without
// the option.
func TestFailEarlyRefusesNothingElse(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		rate := berth.Rate(10, time.Hour)
		one, sem := e.Peer().Sem(9, rate), e.Peer().Sem(9, rate, berth.FailEarly())
		estimate := e.Hold(one, berth.Cost(10))
		ctx, cancel := context.WithTimeout(e.Ctx, time.Minute)
		defer cancel()
		_, err := sem.Acquire(ctx)
		failedEarly(e, err)

		if err := e.Try(sem); !errors.Is(err, berth.ErrBusy) || strings.Contains(err.Error(), "deadline") {
			e.Errorf("TryAcquire: %v", err)
		}
		_, err = sem.Acquire(ctx, berth.QueueLimit(0))
		e.WantErr(err, berth.ErrQueueFull)

		patient, stop := context.WithCancel(context.WithoutCancel(e.Ctx)) // without its deadline
		defer stop()
		endless := e.QueueUntil(patient, sem)
		e.Must(estimate.Settle(4, ""))
		e.Release(endless.Granted())
		lease, err := sem.Acquire(ctx)
		e.Must(err)
		e.Release(lease, estimate)
	})
}
