package promise_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/berthadmin"
	"github.com/berth-go/berth/internal/testkit/testenv"
)

// What a program gives to berth to be called may block for good, and may use berth.

// callbacks are all that a client calls.
var callbacks = []string{"AcquireStart", "OnQueued", "Queued", "AcquireDone", "Do", "Released", "Enabled", "Handle", "Lost"}

// callback is called with which of them it is, and for which semaphore; "": that is not told.
type callback func(which, semaphore string)

// options have a client call f for all of them but OnQueued, which is an Acquire's.
func (f callback) options() []berth.ClientOption {
	return []berth.ClientOption{berth.Logger(slog.New(f)), berth.Hook(berth.Hooks{
		AcquireStart: func(ctx context.Context, a berth.AcquireInfo) context.Context {
			f("AcquireStart", a.Name)
			return ctx
		},
		Queued:      func(_ context.Context, a berth.AcquireInfo, _ berth.Place) { f("Queued", a.Name) },
		AcquireDone: func(_ context.Context, a berth.AcquireInfo, _ *berth.Lease, _ error) { f("AcquireDone", a.Name) },
		Do: func(ctx context.Context, l *berth.Lease) context.Context {
			f("Do", l.Name())
			return ctx
		},
		Released: func(l *berth.Lease, _ time.Duration, _ error) { f("Released", l.Name()) },
		Lost:     func(l *berth.Lease, _ time.Duration, _ error) { f("Lost", l.Name()) },
	})}
}

// Enabled, Handle, WithAttrs and WithGroup implement slog.Handler.
func (f callback) Enabled(context.Context, slog.Level) bool {
	f("Enabled", "")
	return true
}

func (f callback) Handle(_ context.Context, r slog.Record) error {
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "semaphore" {
			f("Handle", a.Value.String())
		}
		return true
	})
	return nil
}

func (f callback) WithAttrs([]slog.Attr) slog.Handler { return f }
func (f callback) WithGroup(string) slog.Handler      { return f }

// provoke makes p call f for all of them, for the semaphore of first, which another process has.
func (f callback) provoke(e *testenv.Env, p *testenv.Peer, first *berth.Lease) error {
	name := first.Name()
	s := p.Named(name, 1)
	err := e.Timely(func() error {
		return s.Do(e.Ctx, func(context.Context) error { return nil }, berth.OnQueued(func(berth.Place) {
			_ = first.Release()
			f("OnQueued", name)
		}))
	})
	before, err1 := take(e, s)
	after, err2 := take(e, p.Named(name, 2)) // the log tells of the new limit
	if err = errors.Join(err, err1, err2); err == nil {
		err = errors.Join(e.Inspector.ForceEvict(e.Ctx, name, after.ID()), before.Release())
	}
	return err
}

// take acquires, again where a real machine was too slow for it.
func take(e *testenv.Env, s *berth.Semaphore) (l *berth.Lease, err error) {
	err = e.Timely(func() (err error) {
		l, err = s.Acquire(e.Ctx)
		return err
	})
	return l, err
}

// of returns a callback that calls f, once, for one of all callbacks and one semaphore; and a channel
// that is closed when it has begun.
func of(which, semaphore string, f func()) (callback, <-chan struct{}) {
	begun := make(chan struct{})
	var once sync.Once
	return func(w, s string) {
		if w == which && (s == semaphore || s == "") {
			once.Do(func() {
				close(begun)
				f()
			})
		}
	}, begun
}

// Whatever blocks, other calls take no longer, and other leases are kept.
func TestBlockedCallbackStopsNothingElse(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		unblock, ended := make(chan struct{}), new(sync.WaitGroup)
		defer ended.Wait()
		defer close(unblock)
		peers, held := map[string]*testenv.Peer{}, map[string]*berth.Lease{}
		other := e.Peer()
		for _, which := range callbacks {
			first := e.Hold(other.Named(which, 1))
			f, blocked := of(which, which, func() { <-unblock })
			p := e.Peer(f.options()...)
			held[which] = e.Hold(p.Named("held beside "+which, 1))
			ended.Go(func() { _ = f.provoke(e, p, first) })
			testenv.Receive(e, which, blocked)
			peers[which] = p
		}
		for which, p := range peers {
			start := time.Now()
			err := e.Try(p.Named("beside "+which, 1))
			if took := time.Since(start); err != nil || took > 0 && e.Exact {
				e.Errorf("%s blocks: TryAcquire took %v, %v", which, took, err)
			}
		}
		if e.Exact {
			e.Pass(3 * e.TTL)
		}
		for which, l := range held {
			if err := e.Renew(l); err != nil || !l.Valid() {
				e.Errorf("%s blocks: renewal of another lease: %v", which, err)
			}
		}
		if e.Exact {
			for which, p := range peers {
				start := time.Now()
				e.Must(p.Close())
				e.Within(start, 0, time.Second, which+" blocks: closed")
			}
		}
	})
}

// A callback may use the client, which takes no longer than elsewhere.
func TestCallbackMayUseTheClient(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		other := e.Peer()
		for _, which := range callbacks {
			var p *testenv.Peer
			took, errs := time.Duration(-1), make(chan error, 1)
			f, _ := of(which, which, func() {
				start := time.Now()
				_, err := take(e, p.Named("for "+which, 1))
				took = time.Since(start)
				errs <- err
			})
			p = e.Peer(f.options()...)
			e.Must(f.provoke(e, p, e.Hold(other.Named(which, 1))))
			if err := testenv.Receive(e, which, errs); err != nil || took > 0 && e.Exact {
				e.Errorf("%s acquires: it took %v, %v", which, took, err)
			}
		}
	})
}

// A request does not keep its place, or what it was granted, longer than its context says, because
// it is telling its place.
func TestBlockedOnQueuedEndsWithTheContext(t *testing.T) {
	for _, which := range []string{"OnQueued", "Queued"} {
		for _, granted := range []bool{false, true} {
			t.Run(fmt.Sprint(which, ", granted ", granted), func(t *testing.T) {
				testenv.Each(t, func(e *testenv.Env) {
					bounded, stop := context.WithTimeout(e.Ctx, time.Minute)
					defer stop()
					e.Ctx = bounded
					first := e.Hold(e.Peer().Sem(1))
					unblock := make(chan struct{})
					f, blocked := of(which, testenv.Name, func() { <-unblock })
					ctx, cancel := context.WithCancel(e.Ctx)
					ended := make(chan error, 1)
					s := e.Peer(f.options()...).Sem(1)
					go func() {
						_, err := s.Acquire(ctx, berth.OnQueued(func(berth.Place) { f("OnQueued", testenv.Name) }))
						ended <- err
					}()
					defer func() {
						close(unblock)
						err := testenv.Receive(e, "end of Acquire", ended)
						if wait, ok := errors.AsType[*berth.WaitError](err); !ok || !wait.Queued && !granted || !errors.Is(err, context.Canceled) {
							e.Errorf("Acquire returned %v", err)
						}
					}()
					testenv.Receive(e, which, blocked)
					if granted {
						e.Release(first)
						e.Until("granted", func(s *berthadmin.State) bool { return s.Holders == 1 })
					}
					cancel()
					e.UntilWaiting(0)
					if granted {
						e.Until("given back", func(s *berthadmin.State) bool { return s.Holders == 0 })
					}
				})
			})
		}
	}
}

// No loss is left out, however many there are at once, and however long the hook takes.
func TestEveryLossIsTold(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		const n = 3000
		unblock, told := make(chan struct{}), make(chan string, n+1)
		release := sync.OnceFunc(func() { close(unblock) })
		defer release()
		p := e.Peer(berth.Hook(berth.Hooks{Lost: func(l *berth.Lease, _ time.Duration, _ error) {
			<-unblock
			told <- l.ID()
		}}))
		s, left := p.Sem(n), map[string]bool{}
		leases := make([]*berth.Lease, n)
		var all sync.WaitGroup
		for i := range leases {
			all.Go(func() { leases[i], _ = s.Acquire(e.Ctx) })
		}
		all.Wait()
		p.Net.Down()
		for _, l := range leases {
			_ = e.Lost(l)
			left[l.ID()] = true
		}
		release()
		synctest.Wait()
		close(told)
		for id := range told {
			if !left[id] {
				e.Errorf("the loss of %s was told twice", id)
			}
			delete(left, id)
		}
		if len(left) > 0 {
			e.Errorf("%d losses of %d were not told", len(left), n)
		}
	})
}

// Close waits for a second for what is left to tell, and not for what blocks.
func TestCloseTellsWhatIsLeft(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		unblock := make(chan struct{})
		for what, wait := range map[string]<-chan time.Time{"slow": time.After(900 * time.Millisecond), "blocked": nil} {
			told := make(chan struct{})
			p := e.Peer(berth.Hook(berth.Hooks{Lost: func(*berth.Lease, time.Duration, error) {
				select {
				case <-wait:
				case <-unblock:
				}
				close(told)
			}}))
			l := e.Hold(p.Named(what, 1))
			e.Must(e.Inspector.ForceEvict(e.Ctx, what, l.ID()))
			_ = e.Lost(l)
			start := time.Now()
			e.Must(p.Close())
			e.Within(start, 0, time.Second, "closed")
			select {
			case <-told:
			default:
				if wait != nil {
					e.Errorf("%s: it was not told", what)
				}
			}
			defer testenv.Receive(e, what, told)
		}
		close(unblock)
	})
}
