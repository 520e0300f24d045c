package inbox

import (
	"context"
	"errors"
	"io"
	"net"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth/internal/testkit/redistest"
)

// TestListenEndsWithItsContextWhileConnecting: the server is silent from the beginning, or
// the dial hangs, and the client's options bound nothing. No connection is left of a dial that
// hung; TestListenLeavesNoConnection is about a server that is silent.
func TestListenEndsWithItsContextWhileConnecting(t *testing.T) {
	free := func(o *redis.Options) { o.ReadTimeout, o.WriteTimeout = -1, -1 }
	for what, opts := range map[string][]func(*redis.Options){"default": nil, "without time-outs": {free}} {
		inBubbleNamed(t, "silent server, "+what, func(w *world) {
			w.net.Inject(redistest.Rule{Fault: redistest.SwallowRequest, Times: -1})
			dial := func(o *redis.Options) { o.Dialer = w.net.Dialer(redistest.Embedded(w.embedded)) }
			endsWithContext(w, w.client(append(opts, dial)...))
		})
	}
	inBubbleNamed(t, "hung dial", func(w *world) {
		hangs := make(chan struct{})
		endsWithContext(w, w.client(func(o *redis.Options) {
			o.Dialer = func(context.Context, string, string) (net.Conn, error) {
				<-hangs
				return w.embedded.Dial()
			}
		}))
		close(hangs)
		synctest.Wait()
		if n := w.embedded.CurrentConnectionCount(); n != 0 {
			w.Errorf("%d connections are left", n)
		}
	})
}

// TestListenLeavesNoConnection to a server that has been silent from the beginning. go-redis
// 9.22 does not close a connection whose handshake failed (its issue 3982), but keeps nothing of
// it, so that the collector of garbage closes the socket.
func TestListenLeavesNoConnection(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	rdb := redis.NewClient(&redis.Options{Addr: silent.Addr().String(), ReadTimeout: -1, WriteTimeout: -1})
	defer rdb.Close()
	ctx, giveUp := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- Listen(ctx, rdb, "*", func() { t.Error("it stands") }, func(string, string) error { return nil })
	}()
	conn, err := silent.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	giveUp()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("Listen: %v", err)
	}
	closed := make(chan error, 1)
	go func() {
		_, err := io.Copy(io.Discard, conn) // the handshake, and then the end
		closed <- err
	}()
	for bound := time.After(timeout); ; runtime.GC() {
		select {
		case <-closed:
			return
		case <-bound:
			t.Fatal("the connection is still open")
		case <-time.After(quiet / 100):
		}
	}
}

// endsWithContext fails the test unless Listen returns at the very end of its context. It is
// for use in a bubble.
func endsWithContext(w *world, rdb *redis.Client) {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), time.Second)
	defer cancel()
	start, ended := time.Now(), make(chan error, 1)
	go func() {
		ended <- Listen(ctx, rdb, "*", func() { w.Error("it stands") }, func(string, string) error { return nil })
	}()
	select {
	case err := <-ended:
		if took := time.Since(start); took != time.Second || !errors.Is(err, context.DeadlineExceeded) {
			w.Errorf("returned after %v: %v", took, err)
		}
	case <-time.After(timeout):
		w.Errorf("not returned after %v", timeout)
	}
}

// TestListenNoticesAHalfOpenSocket after 10 seconds, and bears a quiet one.
func TestListenNoticesAHalfOpenSocket(t *testing.T) {
	inBubble(t, func(w *world) {
		stands, ended := make(chan struct{}), make(chan error, 1)
		go func() {
			ended <- Listen(w.Context(), w.rdb, "*", func() { close(stands) }, func(string, string) error { return nil })
		}()
		<-stands
		select {
		case err := <-ended:
			w.Fatalf("in a quiet hour: %v", err)
		case <-time.After(time.Hour):
		}
		w.net.Inject(redistest.Rule{Match: redistest.Named("PING"), Fault: redistest.SwallowReply})
		start := time.Now()
		if err := <-ended; !errors.Is(err, errSilent) || time.Since(start) > 2*quiet {
			w.Errorf("after %v: %v", time.Since(start), err)
		}
	})
}

// TestListenEndsNoConnectionUnasked: a process that was held up, for however long, has to send
// a PING first.
func TestListenEndsNoConnectionUnasked(t *testing.T) {
	const late = time.Minute
	var p pulse
	if _, ping, err := p.check(late); !ping || err != nil {
		t.Fatalf("after it was held up: PING %v, %v", ping, err)
	}
	p.heard.Store(int64(late + time.Second))
	if next, ping, err := p.check(late + 2*time.Second); next != quiet-time.Second || ping || err != nil {
		t.Errorf("after the answer: next in %v, PING %v, %v", next, ping, err)
	}
	if _, ping, err := p.check(2 * late); !ping || err != nil {
		t.Fatalf("after it was held up again: PING %v, %v", ping, err)
	}
	if next, ping, err := p.check(2*late + time.Second); next != quiet-time.Second || ping || err != nil {
		t.Errorf("before the answer is overdue: next in %v, PING %v, %v", next, ping, err)
	}
	if _, _, err := p.check(2*late + quiet); !errors.Is(err, errSilent) {
		t.Errorf("without an answer: %v", err)
	}
}
