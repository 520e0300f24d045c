package promise_test

import (
	"context"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/internal/testkit/redistest"
	"github.com/berth-go/berth/internal/testkit/testenv"
)

// panics fails unless f panics.
func panics(e *testenv.Env, f func()) {
	e.Helper()
	defer func() {
		if recover() == nil {
			e.Error("no panic")
		}
	}()
	f()
}

func TestPanicInAHookLeavesNoLease(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		s := e.Peer(berth.Hook(berth.Hooks{
			AcquireDone: func(context.Context, berth.AcquireInfo, *berth.Lease, error) { panic("done") },
		})).Sem(1)
		panics(e, func() { _, _ = s.Acquire(e.Ctx) })
		e.Idle()
	})
}

func TestPanicInAHookLeavesNoneOfSeveralLeases(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		p := e.Peer(berth.Hook(berth.Hooks{
			AcquireDone: func(_ context.Context, a berth.AcquireInfo, _ *berth.Lease, _ error) {
				if a.Name == "z" {
					panic("done")
				}
			},
		}))
		panics(e, func() { _, _ = berth.AcquireAll(e.Ctx, p.Named("a", 1), p.Named("z", 1)) })
		e.Release(e.Hold(p.Named("a", 1)))
	})
}

func TestPanicInOnQueuedLeavesNoRequest(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		p, q := e.Peer(), e.Peer()
		first := e.Hold(p.Sem(1))
		panics(e, func() { _, _ = q.Sem(1).Acquire(e.Ctx, berth.OnQueued(func(berth.Place) { panic("queued") })) })
		e.UntilWaiting(0)
		e.Release(first)
		e.Idle()
	})
}

// Of each lease one hook hears that it is over.
func TestEachLeaseEndsForOneHook(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		var released, lost int
		ended := make(chan struct{}, 10)
		p := e.Peer(berth.Hook(berth.Hooks{
			Released: func(*berth.Lease, time.Duration, error) { released++ },
			Lost: func(l *berth.Lease, _ time.Duration, _ error) {
				lost++
				_ = l.Context()
				ended <- struct{}{}
			},
		}))
		s := p.Sem(1)
		want := func(what string, wantReleased, wantLost int) {
			e.Helper()
			if released != wantReleased || lost != wantLost {
				e.Errorf("%s: released %d times, want %d, and lost %d times, want %d", what, released, wantReleased, lost, wantLost)
			}
		}
		e.Release(e.Hold(s))
		want("released", 1, 0)

		l := e.Hold(s)
		e.Must(e.Inspector.ForceEvict(e.Ctx, testenv.Name, l.ID()))
		testenv.Receive(e, "loss", ended)
		e.WantErr(l.Release(), berth.ErrLost)
		want("evicted, then released", 1, 1)

		l = e.Hold(s)
		e.Must(p.Close())
		e.WantErr(l.Release(), berth.ErrClosed)
		want("closed, then released", 1, 1)
	})
}

// A Release that the client's Close cuts short has ended its lease, and so the hook hears of it.
func TestReleaseThatCloseCutsShort(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		var told []error
		p := e.Peer(berth.Hook(berth.Hooks{Released: func(_ *berth.Lease, _ time.Duration, err error) { told = append(told, err) }}))
		l := e.Hold(p.Sem(1))
		p.Net.Inject(redistest.Rule{Fault: redistest.Delay, Times: -1})
		released := make(chan error, 1)
		go func() { released <- l.Release() }()
		synctest.Wait()
		e.Must(p.Close())
		if err := testenv.Receive(e, "end of Release", released); !slices.Equal(told, []error{err}) {
			e.Errorf("Release returned %v, the hook heard of %v", err, told)
		}
	})
}

// TestAllHooksAreCalled: a hook that is given does not replace one given before. They are called in
// that order, and each AcquireStart and Do gets the context of the one before.
func TestAllHooksAreCalled(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		type key string
		var mu sync.Mutex
		told := map[string]string{} // of each event, who was told
		tell := func(what, who string) {
			mu.Lock()
			defer mu.Unlock()
			told[what] += who
		}
		carry := func(what, who string, ctx context.Context) context.Context {
			before, _ := ctx.Value(key(what)).(string)
			return context.WithValue(ctx, key(what), before+who)
		}
		hooks := func(who string) berth.ClientOption {
			return berth.Hook(berth.Hooks{
				AcquireStart: func(ctx context.Context, _ berth.AcquireInfo) context.Context { return carry("AcquireStart", who, ctx) },
				Queued:       func(context.Context, berth.AcquireInfo, berth.Place) { tell("Queued", who) },
				AcquireDone: func(ctx context.Context, _ berth.AcquireInfo, _ *berth.Lease, _ error) {
					carried, _ := ctx.Value(key("AcquireStart")).(string)
					tell("AcquireDone", who+"("+carried+")")
				},
				Do:       func(ctx context.Context, _ *berth.Lease) context.Context { return carry("Do", who, ctx) },
				Released: func(*berth.Lease, time.Duration, error) { tell("Released", who) },
				Lost:     func(*berth.Lease, time.Duration, error) { tell("Lost", who) },
			})
		}
		p := e.Peer(hooks("a"), berth.Hook(berth.Hooks{}), hooks("b"))
		e.Must(p.Sem(1).Do(e.Ctx, func(ctx context.Context) error {
			carried, _ := ctx.Value(key("Do")).(string)
			tell("Do", carried)
			return nil
		}))
		lost := e.Hold(p.Sem(1))
		e.Must(e.Inspector.Evict(e.Ctx, testenv.Name, lost.ID()))
		<-lost.Context().Done()
		ctx, leave := context.WithCancel(e.Ctx)
		defer leave()
		first := berth.OnQueued(func(berth.Place) { tell("OnQueued", "a") })
		second := berth.OnQueued(func(berth.Place) { tell("OnQueued", "b"); leave() })
		_, err := p.Sem(1).Acquire(ctx, first, berth.OnQueued(nil), second)
		e.WantErr(err, context.Canceled)
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		want := map[string]string{
			"AcquireDone": "a(ab)b(ab)a(ab)b(ab)a(ab)b(ab)", "Do": "ab", "Queued": "ab", "OnQueued": "ab", "Released": "ab", "Lost": "ab",
		}
		if !maps.Equal(told, want) {
			e.Errorf("told %v, want %v", told, want)
		}
	})
}
