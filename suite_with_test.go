package berth_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/internal/redistest"
)

type key struct{}

func TestWithHoldsWhileItRuns(t *testing.T) {
	each(t, func(_ *testing.T, e *env) {
		s := e.peer().sem(1)
		ctx := context.WithValue(e.ctx, key{}, "value")
		err := s.Do(ctx, func(ctx context.Context) error {
			l, ok := berth.FromContext(ctx)
			if !ok || !l.Valid() || ctx.Value(key{}) != "value" {
				e.t.Errorf("lease %v, %v, value %v", l, ok, ctx.Value(key{}))
			}
			e.holds(l)
			return errShift
		}, berth.Label("with"))
		wantErr(e.t, err, errShift)
		e.idle()
		e.must(s.Do(ctx, func(context.Context) error { return nil }))
		e.idle()
	})
}

func TestWithGivesBackAfterAPanic(t *testing.T) {
	each(t, func(_ *testing.T, e *env) {
		s := e.peer().sem(1)
		func() {
			defer func() {
				if r := recover(); r != "oops" {
					e.t.Errorf("recovered %v", r)
				}
			}()
			_ = s.Do(e.ctx, func(context.Context) error { panic("oops") })
		}()
		e.idle()
	})
}

// The end of the caller's context reaches fn, and so does the loss of the lease.
func TestWithEndsItsContext(t *testing.T) {
	each(t, func(_ *testing.T, e *env) {
		s := e.peer().sem(1)
		err := s.Do(e.ctx, func(ctx context.Context) error {
			l, _ := berth.FromContext(ctx)
			e.must(e.eye.Evict(e.ctx, name, l.ID()))
			<-ctx.Done()
			wantErr(e.t, context.Cause(ctx), berth.ErrLost)
			wantErr(e.t, context.Cause(ctx), berth.ErrEvicted)
			return nil // and yet it is not forgotten:
		})
		wantErr(e.t, err, berth.ErrLost)
		e.idle()

		outer, cancel := context.WithCancel(e.ctx)
		err = s.Do(outer, func(ctx context.Context) error {
			cancel()
			<-ctx.Done()
			return ctx.Err()
		})
		wantErr(e.t, err, context.Canceled)
		e.idle()
	})
}

func TestWithDoesNotRunWithoutALease(t *testing.T) {
	each(t, func(_ *testing.T, e *env) {
		s := e.peer().sem(1)
		never := func(context.Context) error {
			e.t.Error("it ran")
			return nil
		}
		wantErr(e.t, s.Do(e.ctx, never, berth.Weight(2)), berth.ErrTooHeavy)
		dead, cancel := context.WithCancel(e.ctx)
		cancel()
		wantErr(e.t, s.Do(dead, never), context.Canceled)
	})
}

// The lease's context has the values of Acquire's, and its own end.
func TestLeaseContext(t *testing.T) {
	each(t, func(_ *testing.T, e *env) {
		ctx, cancel := context.WithCancel(context.WithValue(e.ctx, key{}, 7))
		l, err := e.peer().sem(1).Acquire(ctx)
		e.must(err)
		cancel()
		held := l.Context()
		if from, ok := berth.FromContext(held); !ok || from != l || held.Value(key{}) != 7 || held.Err() != nil {
			e.t.Errorf("lease %v, value %v, error %v", from, held.Value(key{}), held.Err())
		}
		if _, ok := berth.FromContext(e.ctx); ok {
			e.t.Error("a lease from nowhere")
		}
		e.release(l)
		<-held.Done()
		wantErr(e.t, context.Cause(held), berth.ErrReleased)
	})
}

func TestAcquireAllTakesAllInTheOrderOfTheArguments(t *testing.T) {
	each(t, func(_ *testing.T, e *env) {
		p := e.peer()
		b, a := p.named("b", 1), p.named("a", 2)
		leases, err := berth.AcquireAll(e.ctx, b, a)
		e.must(err)
		if len(leases) != 2 || leases[0].Name() != "b" || leases[1].Name() != "a" || !leases.Valid() {
			e.t.Errorf("leases %v", leases)
		}
		first := leases[0].ValidUntil()
		if u := leases[1].ValidUntil(); u.Before(first) {
			first = u
		}
		if d := leases.ValidUntil().Sub(first).Abs(); d > time.Second {
			e.t.Errorf("valid until %v, the first ends at %v", leases.ValidUntil(), first)
		}
		ctx, cancel := leases.Context()
		defer cancel()
		e.must(leases.Release())
		<-ctx.Done()
		wantErr(e.t, context.Cause(ctx), berth.ErrReleased)
		all, err := listed(e.eye, e.ctx)
		e.must(err)
		if len(all) > 0 || leases.Valid() {
			e.t.Errorf("left: %+v", all)
		}
	})
}

// All or none: what was taken goes back when another cannot be had.
func TestAcquireAllTakesNoneOnFailure(t *testing.T) {
	each(t, func(_ *testing.T, e *env) {
		p := e.peer()
		e.hold(p.named("b", 1))
		ctx, cancel := context.WithCancel(e.ctx)
		failed := make(chan error)
		go func() {
			leases, err := berth.AcquireAll(ctx, p.named("c", 1), p.named("b", 1), p.sem(1), p.named("a", 1))
			if leases != nil {
				err = fmt.Errorf("leases %v", leases)
			}
			failed <- err
		}()
		for waiting := 0; waiting == 0; e.pass(e.tick()) {
			st, err := e.eye.Show(e.ctx, "b")
			e.must(err)
			waiting = st.Waiting
		}
		cancel()
		wantErr(e.t, <-failed, context.Canceled)
		e.untilListed("b")
	})
}

// untilListed waits until exactly these semaphores are in use.
func (e *env) untilListed(names ...string) {
	e.t.Helper()
	for {
		all, err := listed(e.eye, e.ctx)
		e.must(err)
		var got []string
		for _, s := range all {
			if s.Holders+s.Waiting > 0 && s.Waiting == 0 {
				got = append(got, s.Name)
			}
		}
		if fmt.Sprint(got) == fmt.Sprint(names) {
			return
		}
		e.pass(e.tick())
	}
}

// Opposite orders cannot block each other: names decide.
func TestAcquireAllInOppositeOrdersDoesNotDeadlock(t *testing.T) {
	each(t, func(_ *testing.T, e *env) {
		var wg sync.WaitGroup
		for i := range 4 {
			p := e.peer()
			sems := []*berth.Semaphore{p.named("a", 1), p.named("b", 1), p.named("c", 1)}
			if i%2 == 0 {
				sems[0], sems[2] = sems[2], sems[0]
			}
			wg.Go(func() {
				for range 10 {
					leases, err := berth.AcquireAll(e.ctx, sems...)
					if err == nil {
						err = leases.Release()
					}
					if err != nil {
						e.t.Error(err)
						return
					}
				}
			})
		}
		wg.Wait()
		e.untilListed()
	})
}

// One is lost while another is waited for: the others go back too.
func TestAcquireAllIsToldOfALossWhileItWaits(t *testing.T) {
	each(t, func(_ *testing.T, e *env) {
		p := e.peer()
		blocker := e.hold(p.named("z", 1))
		failed := make(chan error)
		go func() {
			_, err := berth.AcquireAll(e.ctx, p.named("z", 1), p.sem(1), p.named("a", 1))
			failed <- err
		}()
		e.until("holding", func(s *berth.State) bool { return s.Holders == 1 })
		e.must(e.eye.ForceEvict(e.ctx, name, e.show().Leases[0].ID))
		err := <-failed
		var lost *berth.LostError
		if !errors.As(err, &lost) || lost.Name != name || lost.Reason != berth.LostEvicted {
			e.t.Errorf("told %v", err)
		}
		e.untilListed("z")
		e.release(blocker)
	})
}

func TestAcquireAllOfNoneAndOfOneTwice(t *testing.T) {
	each(t, func(_ *testing.T, e *env) {
		p := e.peer()
		leases, err := berth.AcquireAll(e.ctx)
		e.must(err)
		e.must(leases.Release())
		_, err = berth.AcquireAll(e.ctx, p.sem(2), p.named("a", 1), p.sem(2))
		wantErr(e.t, err, berth.ErrInvalid)
		_, err = berth.AcquireAll(e.ctx, p.sem(2), nil)
		wantErr(e.t, err, berth.ErrInvalid)
		e.untilListed()
	})
}

// A Redis that is away costs the patience of one release, not of each.
func TestLeasesAreReleasedTogether(t *testing.T) {
	exactly(t, func(_ *testing.T, e *env) {
		p := e.peer()
		leases, err := berth.AcquireAll(e.ctx, p.named("a", 1), p.named("b", 1), p.named("c", 1))
		e.must(err)
		p.net.Inject(redistest.Rule{Match: redistest.IsScript, Fault: redistest.SwallowRequest, Times: -1})
		start := time.Now()
		wantErr(e.t, leases.Release(), berth.ErrUnreachable)
		e.within(start, 0, 7*time.Second, "released")
	})
}
