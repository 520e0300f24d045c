package promise_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/internal/testkit/redistest"
	"github.com/berth-go/berth/internal/testkit/testenv"
)

// TestCallsDuringADetachThatIsRefused: such a Detach leaves the lease as it was, so that a call made
// meanwhile finds it held. A Release gives it back, and nothing renews it any more.
func TestCallsDuringADetachThatIsRefused(t *testing.T) {
	for what, call := range map[string]func(ctx context.Context, l *berth.Lease) error{
		"Release": func(_ context.Context, l *berth.Lease) error { return l.Release() },
		"Renew":   func(ctx context.Context, l *berth.Lease) error { return l.Renew(ctx) },
		"Detach":  func(ctx context.Context, l *berth.Lease) error { _, err := l.Detach(ctx); return err },
	} {
		t.Run(what, func(t *testing.T) {
			testenv.Embedded(t, func(e *testenv.Env) {
				p := e.Peer()
				l := e.Hold(p.Sem(1))
				p.Net.Inject(redistest.Rule{
					Match: testenv.Carries("M"), Fault: redistest.Refuse, Error: "NOPERM User mover has no permissions to run the 'evalsha' command",
				})
				p.Net.Latency(time.Second)
				detached, called := make(chan error, 1), make(chan error, 1)
				go func() {
					_, err := l.Detach(e.Ctx)
					detached <- err
				}()
				<-time.After(time.Second / 2)
				go func() { called <- call(e.Ctx, l) }()
				synctest.Wait()
				p.Net.Latency(0)
				e.WantErr(testenv.Receive(e, "answer to Detach", detached), berth.ErrRefused)
				e.Must(testenv.Receive(e, "answer to "+what, called))
				if l.Valid() != (what == "Renew") {
					e.Errorf("after %s the lease is valid: %v", what, l.Valid())
				}
			})
		})
	}
}

// TestReleaseDuringADetachThatWorksOut: the lease was given away.
func TestReleaseDuringADetachThatWorksOut(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		p := e.Peer()
		l := e.Hold(p.Sem(1))
		slow := p.Net.Inject(redistest.Rule{Match: testenv.Carries("M"), Fault: redistest.DelayReply})
		released := make(chan error, 1)
		time.AfterFunc(time.Second, func() { released <- l.Release() })
		time.AfterFunc(2*time.Second, slow.Release)
		handle, err := l.Detach(e.Ctx)
		e.Must(err)
		e.WantErr(testenv.Receive(e, "end of Release", released), berth.ErrDetached)
		e.Must(p.ReleaseHandle(e.Ctx, handle))
	})
}

// TestReleaseDuringADetachReturnsInTime, though answers to all else show that Redis is only slow.
func TestReleaseDuringADetachReturnsInTime(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		p := e.Peer()
		l := e.Hold(p.Sem(1))
		p.Net.Inject(redistest.Rule{Match: testenv.Carries("M"), Fault: redistest.DelayReply, Times: -1})
		go func() { _, _ = l.Detach(e.Ctx) }()
		synctest.Wait()
		ctx, cancel := context.WithCancel(e.Ctx)
		defer cancel()
		other := p.Named("other", 100)
		go func() {
			for ctx.Err() == nil {
				_, _ = other.TryAcquire(ctx)
				<-time.After(time.Second)
			}
		}()
		began := time.Now()
		err := l.Release()
		if took := time.Since(began); err == nil || took > 5*time.Second {
			e.Errorf("Release returned %v after %v", err, took)
		}
	})
}
