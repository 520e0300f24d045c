package promise_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/internal/claim"
	"github.com/berth-go/berth/internal/testkit/redistest"
	"github.com/berth-go/berth/internal/testkit/testenv"
)

// Close gives back what is held and leaves what waits.
func TestCloseGivesEverythingBack(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		p, q := e.Peer(), e.Peer()
		l := e.Hold(p.Sem(1))
		mine, other := e.Queue(p.Sem(1)), e.Queue(q.Sem(1))
		ctx := l.Context()
		e.Must(p.Close())
		mine.Refused(berth.ErrClosed)
		<-ctx.Done()
		e.WantErr(context.Cause(ctx), berth.ErrClosed)
		if l.Valid() {
			e.Error("still valid")
		}
		e.Holds(other.Granted())
		e.Must(p.Close())
		e.Must(p.Redis.Ping(e.Ctx).Err()) // the redis client stays the caller's
	})
}

func TestClosedClientRefuses(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		p := e.Peer()
		handle, err := e.Hold(p.Sem(1)).Detach(context.Background())
		e.Must(err)
		l := e.Hold(p.Named("other", 1))
		s := p.Sem(1)
		e.Must(p.Close())
		before := e.Keys()
		_, err = s.Acquire(e.Ctx)
		e.WantErr(err, berth.ErrClosed)
		_, err = s.TryAcquire(e.Ctx)
		e.WantErr(err, berth.ErrClosed)
		e.WantErr(s.Do(e.Ctx, func(context.Context) error { return nil }), berth.ErrClosed)
		_, err = p.Adopt(e.Ctx, handle)
		e.WantErr(err, berth.ErrClosed)
		e.WantErr(l.Release(), berth.ErrClosed)
		e.WantErr(l.Renew(e.Ctx), berth.ErrClosed)
		_, err = p.RenewHandle(e.Ctx, handle)
		e.WantErr(err, berth.ErrClosed)
		e.WantErr(p.ReleaseHandle(e.Ctx, handle), berth.ErrClosed)
		e.Unchanged(before)
		_, err = e.Patient(p.Inspector()).Show(e.Ctx, testenv.Name)
		e.Must(err)
	})
}

// Close before anything was sent sends nothing.
func TestCloseOfAnUnusedClient(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		p := e.Peer()
		e.Must(p.Close())
		if n := p.Net.Count(); n > 0 {
			e.Errorf("%d commands sent", n)
		}
	})
}

func TestCloseWithTenThousandWaiters(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		p, q := e.Peer(), e.Peer()
		first := e.Hold(q.Sem(1))
		s := p.Sem(1)
		var wg sync.WaitGroup
		n := e.Many(10000)
		errs := make(chan error, n)
		for i := range n {
			wg.Go(func() {
				errs <- e.Timely(func() error { _, err := s.Acquire(e.Ctx); return err })
			})
			if (i+1)%500 == 0 || i+1 == n { // so that they need not all be queued within an Acquire's 5 seconds
				e.UntilWaiting(i + 1)
			}
		}
		start := time.Now()
		e.Must(p.Close())
		took := time.Since(start)
		e.Within(start, 0, 2*time.Second, "closed")
		wg.Wait()
		if e.Exact { // ten thousand goroutines need the CPU of a real machine to end
			e.Within(start, 0, 2*time.Second, "all told")
		}
		close(errs)
		for err := range errs {
			if !errors.Is(err, berth.ErrClosed) {
				e.Fatal(err)
			}
		}
		// On a slow machine Close gives up before all are gone; the rest runs out.
		if st := e.Show(); st.Waiting != 0 && took < claim.Timeout {
			e.Errorf("%d still in line after %v", st.Waiting, took)
		}
		e.Release(first)
		e.Hold(q.Sem(1)) // who came later than all of them
		if st := e.Show(); st.Waiting != 0 {
			e.Errorf("%d are in line before somebody who came later and has the permit", st.Waiting)
		}
	})
}

// Close while requests begin: each of them ends, and nothing is left.
func TestCloseRacingRequests(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		for range 10 {
			p := e.Peer()
			var wg sync.WaitGroup
			grants := make(chan struct{}, 20)
			for range 8 {
				wg.Go(func() {
					for {
						var l *berth.Lease
						err := e.Timely(func() (err error) {
							l, err = p.Sem(3).Acquire(e.Ctx)
							return err
						})
						if err != nil {
							e.WantErr(err, berth.ErrClosed)
							return
						}
						_ = l.Release()
						select {
						case grants <- struct{}{}:
						default:
						}
					}
				})
			}
			for range cap(grants) {
				<-grants
			}
			e.Must(p.Close())
			wg.Wait()
			e.Idle()
		}
	})
}

// Close does not wait for ever for a Redis that hangs.
func TestCloseIsBounded(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		p := e.Peer()
		e.Hold(p.Sem(1, berth.TTL(time.Minute)))
		p.Net.Inject(redistest.Rule{Fault: redistest.SwallowRequest, Times: -1})
		start := time.Now()
		e.Must(p.Close())
		e.Within(start, 0, 6*time.Second, "closed")
	})
}

// A second Close returns with the first, not before it.
func TestSecondCloseWaitsForTheFirst(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		p := e.Peer()
		e.Hold(p.Sem(1, berth.TTL(time.Minute)))
		p.Net.Inject(redistest.Rule{Fault: redistest.SwallowRequest, Times: -1})
		first := make(chan time.Time)
		go func() { _ = p.Close(); first <- time.Now() }()
		synctest.Wait()
		e.Must(p.Close())
		second := time.Now()
		if at := <-first; second.Before(at) {
			e.Errorf("the second Close returned %v before the first", at.Sub(second))
		}
	})
}

// A lease that was lost, and that nobody releases, is forgotten in time: there is
// nothing to give back for it.
func TestLostLeaseThatNobodyReleasesIsForgotten(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		p := e.Peer()
		l := e.Hold(p.Sem(1))
		p.Net.Down()
		e.Lost(l)
		p.Net.Up()
		e.Pass(l.TTL() + 10*time.Second)
		p.Net.ResetCounts()
		e.Must(p.Close())
		if n := p.Net.Count("EVALSHA"); n > 0 {
			e.Errorf("%d calls to give it back", n)
		}
	})
}

// Everything that a client started ends with it. (Bubbles check that by themselves.)
func TestCloseLeavesNoGoroutines(t *testing.T) { // not in parallel: the goroutines of others would count
	s := redistest.Shared(t)
	leaks := goleak.IgnoreCurrent()
	t.Run("", func(t *testing.T) {
		e := testenv.On(t, s)
		p, q := e.Peer(), e.Peer()
		e.Hold(p.Sem(1))
		r := e.Queue(q.Sem(1))
		e.Queue(q.Sem(1))
		e.Must(p.Close())
		r.Granted()
		e.Must(q.Close())
	})
	goleak.VerifyNone(t, leaks)
}
