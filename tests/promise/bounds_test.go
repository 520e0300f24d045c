package promise_test

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/berthadmin"
	"github.com/berth-go/berth/internal/testkit/redistest"
	"github.com/berth-go/berth/internal/testkit/testenv"
)

// Every exported call has a bound of its own, which its doc comment states and which
// depends on nothing in the client.

// bounds are what the doc comments say, for contexts that never end.
const (
	tryBound       = 2 * time.Second
	callBound      = 5 * time.Second
	inspectorBound = 2 * time.Second
	closeBound     = 8 * time.Second
)

// muteClient returns a client that answers as a store does until it is muted; from then on
// no dial, read or write of it ever returns, and it knows no time-outs.
func muteClient(e *testenv.Env) (c *berth.Client, mute func()) {
	e.Helper()
	var muted atomic.Bool
	hang := make(chan struct{})
	e.Cleanup(func() { close(hang) })
	o := e.Options
	dial := o.Dialer
	o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
		if muted.Load() {
			<-hang
			return nil, errors.New("the test is over")
		}
		conn, err := dial(ctx, network, addr)
		return &muteConn{conn, &muted, hang}, err
	}
	o.ReadTimeout, o.WriteTimeout, o.DialTimeout, o.DialerRetries = -1, -1, 24*time.Hour, 1
	rdb := redis.NewClient(&o)
	e.Cleanup(func() { _ = rdb.Close() })
	c, err := berth.New(rdb, berth.Prefix(e.Prefix))
	e.Must(err)
	e.Cleanup(func() { _ = c.Close() })
	return c, func() { muted.Store(true) }
}

// muteConn is a connection that never returns once it is muted.
type muteConn struct {
	net.Conn
	muted *atomic.Bool
	hang  chan struct{}
}

func (c *muteConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if c.muted.Load() {
		<-c.hang
	}
	return n, err
}

func (c *muteConn) Write(b []byte) (int, error) {
	if c.muted.Load() {
		<-c.hang
	}
	return c.Conn.Write(b)
}

func (c *muteConn) SetDeadline(time.Time) error      { return nil }
func (c *muteConn) SetReadDeadline(time.Time) error  { return nil }
func (c *muteConn) SetWriteDeadline(time.Time) error { return nil }

// boundedSemaphore is what the calls are about.
func boundedSemaphore(e *testenv.Env, c *berth.Client) *berth.Semaphore {
	s, err := c.Semaphore(testenv.Name, 2)
	e.Must(err)
	return s
}

// boundedCalls are the calls and their bounds. Each prepares something while the client answers,
// and returns the call.
var boundedCalls = map[string]struct {
	most    time.Duration
	prepare func(e *testenv.Env, c *berth.Client) (call func() error)
}{
	"TryAcquire": {tryBound, func(e *testenv.Env, c *berth.Client) func() error {
		s := boundedSemaphore(e, c)
		return func() error { _, err := s.TryAcquire(e.Ctx); return err }
	}},
	"Acquire": {callBound, func(e *testenv.Env, c *berth.Client) func() error {
		s := boundedSemaphore(e, c)
		return func() error { _, err := s.Acquire(e.Ctx); return err }
	}},
	"Do": {callBound, func(e *testenv.Env, c *berth.Client) func() error {
		s := boundedSemaphore(e, c)
		return func() error { return s.Do(e.Ctx, func(context.Context) error { return nil }) }
	}},
	"AcquireAll": {callBound, func(e *testenv.Env, c *berth.Client) func() error {
		s := boundedSemaphore(e, c)
		return func() error { _, err := berth.AcquireAll(e.Ctx, s); return err }
	}},
	"Release": {callBound, func(e *testenv.Env, c *berth.Client) func() error { return e.Hold(boundedSemaphore(e, c)).Release }},
	"Renew": {callBound, func(e *testenv.Env, c *berth.Client) func() error {
		l := e.Hold(boundedSemaphore(e, c))
		return func() error { return l.Renew(e.Ctx) }
	}},
	"Detach": {callBound, func(e *testenv.Env, c *berth.Client) func() error {
		l := e.Hold(boundedSemaphore(e, c))
		return func() error { _, err := l.Detach(e.Ctx); return err }
	}},
	"Adopt": {callBound, func(e *testenv.Env, c *berth.Client) func() error {
		handle, err := e.Hold(boundedSemaphore(e, c)).Detach(e.Ctx)
		e.Must(err)
		return func() error { _, err := c.Adopt(e.Ctx, handle); return err }
	}},
	"RenewHandle": {callBound, func(e *testenv.Env, c *berth.Client) func() error {
		handle, err := e.Hold(boundedSemaphore(e, c)).Detach(e.Ctx)
		e.Must(err)
		return func() error { _, err := c.RenewHandle(e.Ctx, handle); return err }
	}},
	"ReleaseHandle": {callBound, func(e *testenv.Env, c *berth.Client) func() error {
		handle, err := e.Hold(boundedSemaphore(e, c)).Detach(e.Ctx)
		e.Must(err)
		return func() error { return c.ReleaseHandle(e.Ctx, handle) }
	}},
	"Show": {inspectorBound, func(e *testenv.Env, c *berth.Client) func() error {
		return func() error { _, err := berthadmin.Of(c).Show(e.Ctx, testenv.Name); return err }
	}},
	"Pin": {inspectorBound, func(e *testenv.Env, c *berth.Client) func() error {
		return func() error { return berthadmin.Of(c).Pin(e.Ctx, testenv.Name, 1) }
	}},
	"Pause": {inspectorBound, func(e *testenv.Env, c *berth.Client) func() error {
		return func() error { return berthadmin.Of(c).Pause(e.Ctx, testenv.Name) }
	}},
	"Purge": {inspectorBound, func(e *testenv.Env, c *berth.Client) func() error {
		return func() error { return berthadmin.Of(c).Purge(e.Ctx, testenv.Name) }
	}},
	"List": {time.Minute, func(e *testenv.Env, c *berth.Client) func() error {
		return func() error { _, err := testenv.Listed(berthadmin.Of(c).List(e.Ctx)); return err }
	}},
	"Close": {closeBound, func(e *testenv.Env, c *berth.Client) func() error { e.Hold(boundedSemaphore(e, c)); return c.Close }},
	"second": {closeBound, func(e *testenv.Env, c *berth.Client) func() error {
		e.Hold(boundedSemaphore(e, c))
		go c.Close()
		return c.Close
	}},
}

// TestEveryCallHasItsOwnBound: of a client that never returns, from its first call or
// from some moment on.
func TestEveryCallHasItsOwnBound(t *testing.T) {
	for what, call := range boundedCalls {
		t.Run(what, func(t *testing.T) {
			testenv.Embedded(t, func(e *testenv.Env) {
				c, mute := muteClient(e)
				run := call.prepare(e, c)
				mute()
				start := time.Now()
				err := run()
				if took := time.Since(start); took > call.most {
					e.Errorf("it took %v, want %v at most", took, call.most)
				}
				if call.most < closeBound && !errors.Is(err, berth.ErrUnreachable) {
					e.Errorf("error %v, want ErrUnreachable", err)
				}
			})
		})
	}
}

// TestOvertakenRenewalKeepsItsBound: whatever else is done with the lease while Redis is silent,
// Renew returns in time, and tells that the lease is over.
func TestOvertakenRenewalKeepsItsBound(t *testing.T) {
	for what, overtake := range map[string]func(*testenv.Env, *testenv.Peer, *berth.Lease){
		"Detach, and its context ends": func(e *testenv.Env, _ *testenv.Peer, l *berth.Lease) {
			ctx, cancel := context.WithTimeout(e.Ctx, time.Second)
			defer cancel()
			if _, err := l.Detach(ctx); !errors.Is(err, context.DeadlineExceeded) {
				e.Errorf("Detach: %v", err)
			}
		},
		"Release": func(e *testenv.Env, _ *testenv.Peer, l *berth.Lease) {
			if err := l.Release(); !errors.Is(err, berth.ErrUnreachable) {
				e.Errorf("Release: %v", err)
			}
		},
		"Close": func(_ *testenv.Env, p *testenv.Peer, _ *berth.Lease) { _ = p.Close() },
	} {
		t.Run(what, func(t *testing.T) {
			testenv.Embedded(t, func(e *testenv.Env) {
				p := e.Peer()
				l := e.Hold(p.Sem(1, berth.TTL(time.Hour)))
				p.Net.Inject(redistest.Rule{Match: redistest.IsScript, Fault: redistest.SwallowRequest, Times: -1})
				began, renewed := time.Now(), make(chan struct{})
				go func() {
					defer close(renewed)
					err := l.Renew(context.Background())
					if took := time.Since(began); took > callBound {
						e.Errorf("Renew took %v, want %v at most", took, callBound)
					}
					if !errors.Is(err, berth.ErrReleased) && !errors.Is(err, berth.ErrClosed) {
						e.Errorf("Renew: %v", err)
					}
				}()
				e.Pass(time.Second)
				overtake(e, p, l)
				<-renewed
			})
		})
	}
}

// TestHangingCallCostsNoShortLease: a call that carries others' wishes, and hangs, does not
// keep a short lease from being renewed in time on another connection.
func TestHangingCallCostsNoShortLease(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		p := e.Peer()
		short, long := p.Sem(2, berth.TTL(time.Second)), p.Sem(2, berth.TTL(30*time.Second))
		l := e.Hold(short)
		e.Pass(300 * time.Millisecond) // it is renewed after a third of its TTL
		p.Net.Inject(redistest.Rule{Match: redistest.IsScript, Fault: redistest.SwallowRequest})
		e.Hold(long)
		e.Pass(3 * time.Second)
		if l.Context().Err() != nil {
			e.Errorf("the lease was lost: %v", context.Cause(l.Context()))
		}
	})
}
