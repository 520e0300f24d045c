package promise_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/berthadmin"
	"github.com/berth-go/berth/internal/testkit/testenv"
)

// The tests of this file are about behaviour that golang.org/x/sync/semaphore
// has too, under the same words: whoever knows that package must not be surprised.

// A head that gives up must wake those behind it for whom there is room
// (golang/go #37852).
func TestHeadThatGivesUpWakesTheNext(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		s := e.Peer().Sem(2)
		one := e.Hold(s)
		head := e.Queue(s, berth.Weight(2))
		e.WantErr(e.Try(s), berth.ErrBusy) // there is room, but not its turn
		next := e.Queue(s)
		head.Cancel()
		head.Refused(context.Canceled)
		e.Holds(one, next.Granted())
	})
}

// Several heads give up at once; everybody behind them has a turn.
func TestHeadsThatGiveUpTogetherWakeTheRest(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		p := e.Peer()
		s := p.Sem(3)
		e.Hold(s)
		var heads []*testenv.Request
		for range 4 {
			heads = append(heads, e.Queue(s, berth.Weight(3)))
		}
		rest := []*testenv.Request{e.Queue(s), e.Queue(s)}
		for _, h := range heads {
			h.Cancel()
		}
		for _, r := range rest {
			r.Granted()
		}
	})
}

// A stream of small requests does not pass a large one.
func TestLargeRequestsDoNotStarve(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		const n = 5
		small, large := e.Peer(), e.Peer()
		s := small.Sem(n)
		ctx, cancel := context.WithCancel(e.Ctx)
		var wg sync.WaitGroup
		first := make(chan struct{}, 2*n)
		for range 2 * n {
			wg.Go(func() {
				for told := false; ; told = true {
					l, err := s.Acquire(ctx)
					if err != nil {
						return
					}
					if !told {
						first <- struct{}{}
					}
					e.Pass(time.Millisecond)
					_ = l.Release()
				}
			})
		}
		for range n {
			<-first
		}
		for range 5 {
			e.Release(e.Hold(large.Sem(n), berth.Weight(n)))
		}
		cancel()
		wg.Wait()
	})
}

// TryAcquire succeeds only where Acquire would not have had to wait.
func TestTryAcquireDoesNotBarge(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		p, q := e.Peer(), e.Peer()
		one := e.Hold(p.Sem(2))
		r := e.Queue(p.Sem(2), berth.Weight(2))
		err := e.Try(q.Sem(2))
		e.WantErr(err, berth.ErrBusy)
		err = e.Try(q.Sem(2), berth.HeadStart(time.Hour))
		e.WantErr(err, berth.ErrBusy)
		e.Release(one)
		both := r.Granted()
		err = e.Try(q.Sem(2))
		e.WantErr(err, berth.ErrBusy)
		e.Release(both)
		for range 2 {
			err = e.Try(q.Sem(2))
			e.Must(err)
		}
	})
}

// A context that is over is refused even where there is room, and nothing is taken.
func TestAcquireWithADeadContext(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		s := e.Peer().Sem(1)
		dead, cancel := context.WithCancel(e.Ctx)
		cancel()
		_, err := s.Acquire(dead)
		e.WantErr(err, context.Canceled)
		_, err = s.TryAcquire(dead)
		e.WantErr(err, context.Canceled)
		past, cancel := context.WithDeadline(e.Ctx, time.Now().Add(-time.Second))
		defer cancel()
		_, err = s.Acquire(past)
		e.WantErr(err, context.DeadlineExceeded)
		e.Idle()
		e.Release(e.Hold(s))
	})
}

// The wait ends with its context and takes nothing; the cause is told too.
func TestWaitEndsWithItsContext(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		s := e.Peer().Sem(1)
		first := e.Hold(s)
		why := context.DeadlineExceeded
		const bound = 30 * time.Millisecond
		ctx, cancel := context.WithTimeout(e.Ctx, bound)
		defer cancel()
		start := time.Now()
		_, err := s.Acquire(ctx)
		e.WantErr(err, why)
		e.Within(start, bound, bound, "given up")
		shift, stop := context.WithCancelCause(e.Ctx)
		stop(errShift)
		_, err = s.Acquire(shift)
		e.WantErr(err, context.Canceled)
		e.WantErr(err, errShift)
		e.Until("gone", func(s *berthadmin.State) bool { return s.Waiting == 0 })
		e.Holds(first)
	})
}

type constError string

func (c constError) Error() string { return string(c) }

const errShift = constError("the shift is over")

// Weights add up: a full semaphore, taken in pieces and in one.
func TestWeightsAddUp(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		s := e.Peer().Sem(6)
		a, b := e.Hold(s, berth.Weight(1)), e.Hold(s, berth.Weight(3))
		e.WantErr(e.Try(s, berth.Weight(3)), berth.ErrBusy)
		c := e.Hold(s, berth.Weight(2))
		r := e.Queue(s, berth.Weight(6))
		e.Release(a, c)
		r.Waits()
		e.Release(b)
		e.Release(r.Granted())
		e.Idle()
	})
}
