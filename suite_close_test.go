package berth_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/internal/redistest"
)

// Close gives back what is held and leaves what waits.
func TestCloseGivesEverythingBack(t *testing.T) {
	each(t, func(_ *testing.T, e *env) {
		p, q := e.peer(), e.peer()
		l := e.hold(p.sem(1))
		mine, other := e.queue(p.sem(1)), e.queue(q.sem(1))
		ctx := l.Context()
		e.must(p.Close())
		mine.refused(berth.ErrClosed)
		<-ctx.Done()
		wantErr(e.t, context.Cause(ctx), berth.ErrClosed)
		if l.Valid() {
			e.t.Error("still valid")
		}
		e.holds(other.granted())
		e.must(p.Close())
		e.must(p.rdb.Ping(e.ctx).Err()) // the redis client stays the caller's
	})
}

func TestClosedClientRefuses(t *testing.T) {
	each(t, func(_ *testing.T, e *env) {
		p := e.peer()
		handle, err := e.hold(p.sem(1)).Detach(context.Background())
		e.must(err)
		l := e.hold(p.named("other", 1))
		s := p.sem(1)
		e.must(p.Close())
		before := e.keys()
		_, err = s.Acquire(e.ctx)
		wantErr(e.t, err, berth.ErrClosed)
		_, err = s.TryAcquire(e.ctx)
		wantErr(e.t, err, berth.ErrClosed)
		wantErr(e.t, s.Do(e.ctx, func(context.Context) error { return nil }), berth.ErrClosed)
		_, err = p.Adopt(e.ctx, handle)
		wantErr(e.t, err, berth.ErrClosed)
		wantErr(e.t, l.Release(), berth.ErrClosed)
		wantErr(e.t, l.Renew(e.ctx), berth.ErrClosed)
		e.unchanged(before)
	})
}

// Close before anything was sent sends nothing.
func TestCloseOfAnUnusedClient(t *testing.T) {
	each(t, func(_ *testing.T, e *env) {
		p := e.peer()
		e.must(p.Close())
		if n := p.net.Count(); n > 0 {
			e.t.Errorf("%d commands sent", n)
		}
	})
}

func TestCloseWithTenThousandWaiters(t *testing.T) {
	each(t, func(_ *testing.T, e *env) {
		p, q := e.peer(), e.peer()
		first := e.hold(q.sem(1))
		s := p.sem(1)
		var wg sync.WaitGroup
		n := e.many(10000)
		errs := make(chan error, n)
		for range n {
			wg.Go(func() {
				_, err := s.Acquire(e.ctx)
				errs <- err
			})
		}
		e.untilWaiting(n)
		start := time.Now()
		e.must(p.Close())
		wg.Wait()
		e.within(start, 0, 2*time.Second, "closed")
		close(errs)
		for err := range errs {
			if !errors.Is(err, berth.ErrClosed) {
				e.t.Fatal(err)
			}
		}
		if st := e.show(); st.Waiting != 0 {
			e.t.Errorf("%d still in line", st.Waiting)
		}
		e.release(first)
	})
}

// Close while requests begin: each of them ends, and nothing is left.
func TestCloseRacingRequests(t *testing.T) {
	each(t, func(_ *testing.T, e *env) {
		for range 10 {
			p := e.peer()
			var wg sync.WaitGroup
			grants := make(chan struct{}, 20)
			for range 8 {
				wg.Go(func() {
					for {
						l, err := p.sem(3).Acquire(e.ctx)
						if err != nil {
							wantErr(e.t, err, berth.ErrClosed)
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
			e.must(p.Close())
			wg.Wait()
			e.idle()
		}
	})
}

// Close does not wait for ever for a Redis that hangs.
func TestCloseIsBounded(t *testing.T) {
	exactly(t, func(_ *testing.T, e *env) {
		p := e.peer()
		e.hold(p.sem(1, berth.TTL(time.Minute)))
		p.net.Inject(redistest.Rule{Fault: redistest.SwallowRequest, Times: -1})
		start := time.Now()
		e.must(p.Close())
		e.within(start, 0, 6*time.Second, "closed")
	})
}

// Everything that a client started ends with it. (Bubbles check that by themselves.)
func TestCloseLeavesNoGoroutines(t *testing.T) { // not in parallel: the goroutines of others would count
	s := redistest.Shared(t)
	leaks := goleak.IgnoreCurrent()
	t.Run("", func(t *testing.T) {
		e := &env{t: t, ttl: time.Second, prefix: s.Prefix(t)}
		e.options.Network, e.options.Addr = "unix", s.Socket()
		e.open(time.Minute)
		p, q := e.peer(), e.peer()
		e.hold(p.sem(1))
		r := e.queue(q.sem(1))
		e.queue(q.sem(1))
		e.must(p.Close())
		r.granted()
		e.must(q.Close())
	})
	goleak.VerifyNone(t, leaks)
}
