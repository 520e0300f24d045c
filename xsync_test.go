package berth_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/berth-go/berth"
)

// The tests of this file are about behaviour that golang.org/x/sync/semaphore
// has too, under the same words: whoever knows that package must not be surprised.

// A head that gives up must wake those behind it for whom there is room
// (golang/go #37852).
func TestHeadThatGivesUpWakesTheNext(t *testing.T) {
	each(t, func(_ *testing.T, e *env) {
		s := e.peer().sem(2)
		one := e.hold(s)
		head := e.queue(s, berth.Weight(2))
		ctx, cancel := context.WithCancel(e.ctx)
		defer cancel()
		tried := make(chan error)
		go func() {
			_, err := s.TryAcquire(ctx)
			tried <- err
		}()
		wantErr(e.t, <-tried, berth.ErrBusy) // there is room, but not its turn
		next := e.queue(s)
		head.cancel()
		head.refused(context.Canceled)
		e.holds(one, next.granted())
	})
}

// Several heads give up at once; everybody behind them has a turn.
func TestHeadsThatGiveUpTogetherWakeTheRest(t *testing.T) {
	each(t, func(_ *testing.T, e *env) {
		p := e.peer()
		s := p.sem(3)
		e.hold(s)
		var heads []*request
		for range 4 {
			heads = append(heads, e.queue(s, berth.Weight(3)))
		}
		rest := []*request{e.queue(s), e.queue(s)}
		for _, h := range heads {
			h.cancel()
		}
		for _, r := range rest {
			r.granted()
		}
	})
}

// A stream of small requests does not pass a large one.
func TestLargeRequestsDoNotStarve(t *testing.T) {
	each(t, func(_ *testing.T, e *env) {
		const n = 5
		small, large := e.peer(), e.peer()
		s := small.sem(n)
		ctx, cancel := context.WithCancel(e.ctx)
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
					e.pass(time.Millisecond)
					_ = l.Release()
				}
			})
		}
		for range n {
			<-first
		}
		for range 5 {
			e.release(e.hold(large.sem(n), berth.Weight(n)))
		}
		cancel()
		wg.Wait()
	})
}

// TryAcquire succeeds only where Acquire would not have had to wait.
func TestTryAcquireDoesNotBarge(t *testing.T) {
	each(t, func(_ *testing.T, e *env) {
		p, q := e.peer(), e.peer()
		one := e.hold(p.sem(2))
		r := e.queue(p.sem(2), berth.Weight(2))
		_, err := q.sem(2).TryAcquire(e.ctx)
		wantErr(e.t, err, berth.ErrBusy)
		_, err = q.sem(2).TryAcquire(e.ctx, berth.HeadStart(time.Hour))
		wantErr(e.t, err, berth.ErrBusy)
		e.release(one)
		both := r.granted()
		_, err = q.sem(2).TryAcquire(e.ctx)
		wantErr(e.t, err, berth.ErrBusy)
		e.release(both)
		for range 2 {
			_, err = q.sem(2).TryAcquire(e.ctx)
			e.must(err)
		}
	})
}

// A context that is over is refused even where there is room, and nothing is taken.
func TestAcquireWithADeadContext(t *testing.T) {
	each(t, func(_ *testing.T, e *env) {
		s := e.peer().sem(1)
		dead, cancel := context.WithCancel(e.ctx)
		cancel()
		_, err := s.Acquire(dead)
		wantErr(e.t, err, context.Canceled)
		_, err = s.TryAcquire(dead)
		wantErr(e.t, err, context.Canceled)
		past, cancel := context.WithDeadline(e.ctx, time.Now().Add(-time.Second))
		defer cancel()
		_, err = s.Acquire(past)
		wantErr(e.t, err, context.DeadlineExceeded)
		e.idle()
		e.release(e.hold(s))
	})
}

// The wait ends with its context and takes nothing; the cause is told too.
func TestWaitEndsWithItsContext(t *testing.T) {
	each(t, func(_ *testing.T, e *env) {
		s := e.peer().sem(1)
		first := e.hold(s)
		why := context.DeadlineExceeded
		const patience = 30 * time.Millisecond
		ctx, cancel := context.WithTimeout(e.ctx, patience)
		defer cancel()
		start := time.Now()
		_, err := s.Acquire(ctx)
		wantErr(e.t, err, why)
		e.within(start, patience, patience, "given up")
		shift, stop := context.WithCancelCause(e.ctx)
		stop(errShift)
		_, err = s.Acquire(shift)
		wantErr(e.t, err, context.Canceled)
		wantErr(e.t, err, errShift)
		e.until("gone", func(s *berth.State) bool { return s.Waiting == 0 })
		e.holds(first)
	})
}

type constError string

func (c constError) Error() string { return string(c) }

const errShift = constError("the shift is over")

// Weights add up: a full semaphore, taken in pieces and in one.
func TestWeightsAddUp(t *testing.T) {
	each(t, func(_ *testing.T, e *env) {
		s := e.peer().sem(6)
		a, b := e.hold(s, berth.Weight(1)), e.hold(s, berth.Weight(3))
		_, err := s.TryAcquire(e.ctx, berth.Weight(3))
		wantErr(e.t, err, berth.ErrBusy)
		c := e.hold(s, berth.Weight(2))
		r := e.queue(s, berth.Weight(6))
		e.release(a, c)
		r.waits()
		e.release(b)
		e.release(r.granted())
		e.idle()
	})
}
