package promise_test

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/berthadmin"
	"github.com/berth-go/berth/internal/testkit/testenv"
)

// warnings is a log handler that passes on the warnings that contain a phrase, as text. On a slow
// machine there are others, of renewals.
type warnings struct {
	slog.Handler
	phrase string
	told   chan string
}

func newWarnings(phrase string) *warnings {
	return &warnings{slog.DiscardHandler, phrase, make(chan string, 100)}
}

func (w *warnings) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelWarn }

func (w *warnings) Handle(_ context.Context, r slog.Record) error {
	if !strings.Contains(r.Message, w.phrase) {
		return nil
	}
	text := r.Message
	r.Attrs(func(a slog.Attr) bool {
		text += " " + a.String()
		return true
	})
	w.told <- text
	return nil
}

// collected calls the garbage collector until there is a warning, and returns it.
func (w *warnings) collected(e *testenv.Env) string {
	e.Helper()
	for {
		select {
		case text := <-w.told:
			return text
		case <-e.Ctx.Done():
			e.Fatal("there was no warning")
		default:
			runtime.GC()
			runtime.Gosched()
		}
	}
}

// TestForgottenLeaseIsTold: a lease that was not released, and that nothing refers to, is told by a
// warning, and renewed on. One that is in use, or over, is not told.
func TestForgottenLeaseIsTold(t *testing.T) {
	t.Parallel()
	hook := berth.Hook(berth.Hooks{Lost: func(*berth.Lease, time.Duration, error) {}})
	for what, opts := range map[string][]berth.ClientOption{"no hooks": nil, "a Lost hook": {hook}} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			e := testenv.Shared(t)
			log := newWarnings("a lease was not released, and nothing in this program refers to it")
			p := e.Peer(append(opts, berth.Logger(slog.New(log)))...)
			s := p.Sem(10)
			held := e.Hold(s)
			endInEveryWay(e, p, s)
			id := forget(e, s)
			if text := log.collected(e); !strings.Contains(text, id) {
				e.Errorf("told %q, want of lease %s", text, id)
			}
			outlasts(e, id)
			runtime.KeepAlive(held)
		})
	}
}

// forget acquires a lease, and returns its id alone.
func forget(e *testenv.Env, s *berth.Semaphore) string {
	forgotten := make(chan string)
	go func() { // nothing is left on a stack that goes on
		l := e.Hold(s, berth.TTL(e.TTL))
		_ = l.Context()
		forgotten <- l.ID()
	}()
	return testenv.Receive(e, "lease", forgotten)
}

// endInEveryWay acquires leases of which nobody has to be told that they are not released: they are
// over, or run out by themselves.
func endInEveryWay(e *testenv.Env, p *testenv.Peer, s *berth.Semaphore) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		e.Release(e.Hold(s))
		handle, err := e.Hold(s).Detach(e.Ctx)
		e.Must(err)
		e.Must(p.ReleaseHandle(e.Ctx, handle))
		lost := e.Hold(s)
		e.Must(e.Inspector.ForceEvict(e.Ctx, testenv.Name, lost.ID()))
		<-lost.Context().Done()
		e.Hold(s, berth.WithoutRenewal())
	}()
	testenv.Receive(e, "end of leases", done)
}

// outlasts waits until the lease called id has been held for longer than it would last without renewal.
func outlasts(e *testenv.Env, id string) {
	e.Helper()
	e.Until("renewed", func(s *berthadmin.State) bool {
		return slices.ContainsFunc(s.Leases, func(h berthadmin.Holder) bool { return h.ID == id && h.Held > e.TTL })
	})
}

// TestRequestThatWaitsForItsOwnLeaseIsTold: a request that waits, and whose own context carries a
// lease of the same semaphore, however deep, is told by one warning, and in its error.
func TestRequestThatWaitsForItsOwnLeaseIsTold(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		log := newWarnings("its own context carries a lease")
		p := e.Peer(berth.Logger(slog.New(log)))
		s, other := p.Sem(1), p.Named("other", 1)
		for range 2 {
			e.Must(s.Do(e.Ctx, func(ctx context.Context) error {
				outer, _ := berth.FromContext(ctx)
				return other.Do(ctx, func(ctx context.Context) error {
					ctx, cancel := context.WithTimeout(ctx, time.Minute)
					defer cancel()
					err := s.Do(ctx, func(context.Context) error { return nil })
					ended, ok := errors.AsType[*berth.WaitError](err)
					if !ok || ended.Carried != outer.ID() || !strings.Contains(err.Error(), outer.ID()) {
						e.Errorf("error %v, want one that names lease %s", err, outer.ID())
					}
					return nil
				})
			}))
		}
		e.Must(s.Do(e.Ctx, func(context.Context) error { // the lease of another
			_, err := s.Acquire(shortly(e))
			if ended, ok := errors.AsType[*berth.WaitError](err); !ok || ended.Carried != "" {
				e.Errorf("error %v, want one that names no lease", err)
			}
			return nil
		}))
		e.Must(p.Close())
		if n := len(log.told); n != 1 {
			e.Errorf("%d warnings, want 1", n)
		}
	})
}

// shortly returns a context that ends soon.
func shortly(e *testenv.Env) context.Context {
	ctx, cancel := context.WithTimeout(e.Ctx, time.Second)
	e.Cleanup(cancel)
	return ctx
}
