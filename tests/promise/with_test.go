package promise_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/berthadmin"
	"github.com/berth-go/berth/internal/testkit/redistest"
	"github.com/berth-go/berth/internal/testkit/testenv"
)

type key struct{}

func TestWithHoldsWhileItRuns(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		s := e.Peer().Sem(1)
		ctx := context.WithValue(e.Ctx, key{}, "value")
		err := s.Do(ctx, func(ctx context.Context) error {
			l, ok := berth.FromContext(ctx)
			if !ok || !l.Valid() || ctx.Value(key{}) != "value" {
				e.Errorf("lease %v, %v, value %v", l, ok, ctx.Value(key{}))
			}
			e.Holds(l)
			return errShift
		}, berth.Label("with"))
		e.WantErr(err, errShift)
		e.Idle()
		e.Must(s.Do(ctx, func(context.Context) error { return nil }))
		e.Idle()
	})
}

func TestWithGivesBackAfterAPanic(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		s := e.Peer().Sem(1)
		func() {
			defer func() {
				if r := recover(); r != "oops" {
					e.Errorf("recovered %v", r)
				}
			}()
			_ = s.Do(e.Ctx, func(context.Context) error { panic("oops") })
		}()
		e.Idle()
	})
}

// The end of the caller's context reaches fn, and so does the loss of the lease.
func TestWithEndsItsContext(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		s := e.Peer().Sem(1)
		err := s.Do(e.Ctx, func(ctx context.Context) error {
			l, _ := berth.FromContext(ctx)
			e.Must(e.Inspector.Evict(e.Ctx, testenv.Name, l.ID()))
			<-ctx.Done()
			e.WantErr(context.Cause(ctx), berth.ErrLost)
			e.WantErr(context.Cause(ctx), berth.ErrEvicted)
			return nil // and yet it is not forgotten:
		})
		e.WantErr(err, berth.ErrLost)
		e.Idle()

		outer, cancel := context.WithCancel(e.Ctx)
		err = s.Do(outer, func(ctx context.Context) error {
			cancel()
			<-ctx.Done()
			return ctx.Err()
		})
		e.WantErr(err, context.Canceled)
		e.Idle()
	})
}

// TestWithTellsOfALossWhateverFnReturns: the caller of a function that stops because its context has
// ended learns that the lease was lost, and not only that. What fn knows is not told twice.
func TestWithTellsOfALossWhateverFnReturns(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		s := e.Peer().Sem(1)
		for _, returned := range []func(context.Context) error{context.Context.Err, context.Cause} {
			err := s.Do(e.Ctx, func(ctx context.Context) error {
				l, _ := berth.FromContext(ctx)
				e.Must(e.Inspector.ForceEvict(e.Ctx, testenv.Name, l.ID()))
				<-ctx.Done()
				return returned(ctx)
			})
			e.WantErr(err, berth.ErrEvicted)
			if told := strings.Count(err.Error(), "is lost"); told != 1 {
				e.Errorf("the loss is told %d times: %v", told, err)
			}
		}
		p := e.Peer()
		err := p.Named("closed", 1).Do(e.Ctx, func(ctx context.Context) error {
			e.Must(p.Close())
			return ctx.Err()
		})
		e.WantErr(err, context.Canceled)
		e.WantErr(err, berth.ErrClosed)
	})
}

// TestWithLetsFnGiveTheLeaseAway, and back: both are documented, and no errors.
func TestWithLetsFnGiveTheLeaseAway(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		p := e.Peer()
		s := p.Sem(1)
		for _, want := range []error{nil, errShift} {
			e.WantErr(s.Do(e.Ctx, func(ctx context.Context) error {
				l, _ := berth.FromContext(ctx)
				e.Release(l)
				return want
			}), want)
			var given berth.Handle
			e.WantErr(s.Do(e.Ctx, func(ctx context.Context) (err error) {
				l, _ := berth.FromContext(ctx)
				given, err = l.Detach(e.Ctx)
				e.Must(err)
				return want
			}), want)
			e.Must(p.ReleaseHandle(e.Ctx, given))
		}
		e.Idle()
	})
}

// What keeps the lease from being given back is told, beside what fn returns.
func TestWithTellsThatTheLeaseWasNotGivenBack(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		p := e.Peer()
		for _, want := range []error{berth.ErrUnreachable, errShift} {
			var hung *redistest.Injection
			err := p.Sem(1).Do(e.Ctx, func(context.Context) error {
				hung = p.Net.Inject(redistest.Rule{Match: redistest.IsScript, Fault: redistest.SwallowRequest, Times: -1})
				if want == errShift {
					return errShift
				}
				return nil
			})
			e.WantErr(err, want)
			e.WantErr(err, berth.ErrUnreachable)
			hung.Stop()
			e.Until("given back in the background", func(s *berthadmin.State) bool { return s.Holders == 0 })
		}
	})
}

func TestWithDoesNotRunWithoutALease(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		s := e.Peer().Sem(1)
		never := func(context.Context) error {
			e.Error("it ran")
			return nil
		}
		e.WantErr(s.Do(e.Ctx, never, berth.Weight(2)), berth.ErrTooHeavy)
		dead, cancel := context.WithCancel(e.Ctx)
		cancel()
		e.WantErr(s.Do(dead, never), context.Canceled)
	})
}

// The lease's context has the values of Acquire's, and its own end.
func TestLeaseContext(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		ctx, cancel := context.WithCancel(context.WithValue(e.Ctx, key{}, 7))
		l, err := e.Peer().Sem(1).Acquire(ctx)
		e.Must(err)
		cancel()
		held := l.Context()
		if from, ok := berth.FromContext(held); !ok || from != l || held.Value(key{}) != 7 || held.Err() != nil {
			e.Errorf("lease %v, value %v, error %v", from, held.Value(key{}), held.Err())
		}
		if _, ok := berth.FromContext(e.Ctx); ok {
			e.Error("a lease from nowhere")
		}
		e.Release(l)
		<-held.Done()
		e.WantErr(context.Cause(held), berth.ErrReleased)
	})
}

func TestAcquireAllTakesAllInTheOrderOfTheArguments(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		p := e.Peer()
		b, a := p.Named("b", 1), p.Named("a", 2)
		leases, err := berth.AcquireAll(e.Ctx, b, a)
		e.Must(err)
		if len(leases) != 2 || leases[0].Name() != "b" || leases[1].Name() != "a" || !leases.Valid() {
			e.Errorf("leases %v", leases)
		}
		first := leases[0].ValidUntil()
		if u := leases[1].ValidUntil(); u.Before(first) {
			first = u
		}
		if d := leases.ValidUntil().Sub(first).Abs(); d > time.Second {
			e.Errorf("valid until %v, the first ends at %v", leases.ValidUntil(), first)
		}
		ctx, cancel := leases.Context()
		defer cancel()
		e.Must(leases.Release())
		<-ctx.Done()
		e.WantErr(context.Cause(ctx), berth.ErrReleased)
		all, err := testenv.Listed(e.Inspector.List(e.Ctx))
		e.Must(err)
		if len(all) > 0 || leases.Valid() {
			e.Errorf("left: %+v", all)
		}
	})
}

// All or none: what was taken goes back when another cannot be had.
func TestAcquireAllTakesNoneOnFailure(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		p := e.Peer()
		e.Hold(p.Named("b", 1))
		ctx, cancel := context.WithCancel(e.Ctx)
		failed := make(chan error)
		go func() {
			leases, err := berth.AcquireAll(ctx, p.Named("c", 1), p.Named("b", 1), p.Sem(1), p.Named("a", 1))
			if leases != nil {
				err = fmt.Errorf("leases %v", leases)
			}
			failed <- err
		}()
		for waiting := 0; waiting == 0; e.Pass(e.Tick()) {
			st, err := e.Inspector.Show(e.Ctx, "b")
			e.Must(err)
			waiting = st.Waiting
		}
		cancel()
		e.WantErr(<-failed, context.Canceled)
		untilListed(e, "b")
	})
}

// untilListed waits until exactly these semaphores are in use.
func untilListed(e *testenv.Env, names ...string) {
	e.Helper()
	for {
		all, err := testenv.Listed(e.Inspector.List(e.Ctx))
		e.Must(err)
		var got []string
		for _, s := range all {
			if s.Holders+s.Waiting > 0 && s.Waiting == 0 {
				got = append(got, s.Name)
			}
		}
		if fmt.Sprint(got) == fmt.Sprint(names) {
			return
		}
		e.Pass(e.Tick())
	}
}

// Opposite orders cannot block each other: names decide.
func TestAcquireAllInOppositeOrdersDoesNotDeadlock(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		var wg sync.WaitGroup
		for i := range 4 {
			p := e.Peer()
			sems := []*berth.Semaphore{p.Named("a", 1), p.Named("b", 1), p.Named("c", 1)}
			if i%2 == 0 {
				sems[0], sems[2] = sems[2], sems[0]
			}
			wg.Go(func() {
				for range 10 {
					leases, err := berth.AcquireAll(e.Ctx, sems...)
					if err == nil {
						err = leases.Release()
					}
					if err != nil {
						e.Error(err)
						return
					}
				}
			})
		}
		wg.Wait()
		untilListed(e)
	})
}

// One is lost while another is waited for: the others go back too.
func TestAcquireAllIsToldOfALossWhileItWaits(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		p := e.Peer()
		blocker := e.Hold(p.Named("z", 1))
		failed := make(chan error)
		go func() {
			_, err := berth.AcquireAll(e.Ctx, p.Named("z", 1), p.Sem(1), p.Named("a", 1))
			failed <- err
		}()
		e.Until("holding", func(s *berthadmin.State) bool { return s.Holders == 1 })
		e.Must(e.Inspector.ForceEvict(e.Ctx, testenv.Name, e.Show().Leases[0].ID))
		err := <-failed
		var lost *berth.LostError
		if !errors.As(err, &lost) || lost.Name != testenv.Name || lost.Reason != berth.LostEvicted {
			e.Errorf("told %v", err)
		}
		untilListed(e, "z")
		e.Release(blocker)
	})
}

func TestAcquireAllOfNoneAndOfOneTwice(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		p := e.Peer()
		leases, err := berth.AcquireAll(e.Ctx)
		e.Must(err)
		e.Must(leases.Release())
		_, err = berth.AcquireAll(e.Ctx, p.Sem(2), p.Named("a", 1), p.Sem(2))
		e.WantErr(err, berth.ErrInvalid)
		_, err = berth.AcquireAll(e.Ctx, p.Sem(2), p.Named("a", 1), e.Peer().Sem(2))
		e.WantErr(err, berth.ErrInvalid)
		_, err = berth.AcquireAll(e.Ctx, p.Sem(2), nil)
		e.WantErr(err, berth.ErrInvalid)
		untilListed(e)
	})
}

// A Redis that is away costs the time-out of one release, not of each.
func TestLeasesAreReleasedTogether(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		p := e.Peer()
		leases, err := berth.AcquireAll(e.Ctx, p.Named("a", 1), p.Named("b", 1), p.Named("c", 1))
		e.Must(err)
		p.Net.Inject(redistest.Rule{Match: redistest.IsScript, Fault: redistest.SwallowRequest, Times: -1})
		start := time.Now()
		e.WantErr(leases.Release(), berth.ErrUnreachable)
		e.Within(start, 0, 7*time.Second, "released")
	})
}

// Elements that are nil count as none; of none nothing is valid, and its context has ended.
func TestLeasesThatAreNil(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		l, err := e.Peer().Sem(1).Acquire(context.WithValue(e.Ctx, key{}, 7))
		e.Must(err)
		some := berth.Leases{nil, l, nil}
		ctx, cancel := some.Context()
		defer cancel()
		if !some.Valid() || some.ValidUntil().IsZero() || ctx.Err() != nil || ctx.Value(key{}) != 7 {
			e.Errorf("valid %v until %v, %v, value %v", some.Valid(), some.ValidUntil(), ctx.Err(), ctx.Value(key{}))
		}
		e.Must(some.Release())
		<-ctx.Done()
		e.WantErr(context.Cause(ctx), berth.ErrReleased)
		for _, none := range []berth.Leases{nil, {}, {nil}} {
			ctx, cancel := none.Context()
			defer cancel()
			if none.Valid() || !none.ValidUntil().IsZero() || ctx.Err() == nil {
				e.Errorf("%v: valid %v until %v, %v", none, none.Valid(), none.ValidUntil(), ctx.Err())
			}
			e.WantErr(context.Cause(ctx), berth.ErrReleased)
			e.Must(none.Release())
		}
	})
}
