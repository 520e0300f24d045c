package inbox

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth/internal/testkit/redistest"
)

// TestSwallowedSubscribe: the server takes the request and never answers. Those
// who wait for the first attempt go on after two seconds, and the next attempt
// follows.
func TestSwallowedSubscribe(t *testing.T) {
	for what, fault := range map[string]redistest.Fault{"request": redistest.SwallowRequest, "answer": redistest.DropMessage} {
		inBubbleNamed(t, what, func(w *world) {
			rule := redistest.Rule{Match: redistest.Named("SUBSCRIBE"), Fault: fault}
			swallowed := w.net.Inject(rule)
			o := open(w, w.rdb)
			start := time.Now()
			tried := o.Subscribe("c")
			if took := time.Since(start); took > 0 {
				t.Errorf("Subscribe took %v", took)
			}
			<-tried
			if took := time.Since(start); took != trying || swallowed.Hits() != 1 {
				t.Errorf("tried for %v", took)
			}
			o.await(event{resumed: "c"}, 1)
			if took := time.Since(start); took > quiet+leastPause {
				t.Errorf("tried again after %v", took)
			}
			w.net.CutAll()
			w.net.Inject(rule)
			<-time.After(time.Second)
			start = time.Now()
			o.Close()
			if took := time.Since(start); took > 0 {
				t.Errorf("Close took %v", took)
			}
		})
	}
}

func inBubbleNamed(t *testing.T, name string, test func(*world)) {
	t.Run(name, func(t *testing.T) { inBubble(t, test) })
}

// TestDialerThatNeverReturns: nobody waits for it longer than two seconds, and
// when it returns in the end, nothing is left of the inbox.
func TestDialerThatNeverReturns(t *testing.T) {
	inBubble(t, func(w *world) {
		free := make(chan struct{})
		rdb := w.client(func(o *redis.Options) {
			o.Dialer = func(context.Context, string, string) (net.Conn, error) {
				<-free
				return w.embedded.Dial() // after all this time
			}
		})
		o := open(w, rdb)
		start := time.Now()
		tried := o.Subscribe("c")
		<-tried
		if took := time.Since(start); took != trying {
			t.Errorf("tried for %v", took)
		}
		for i := range 1000 { // they leave nothing that waits for the dialer
			c := fmt.Sprint("c", i)
			o.Subscribe(c)
			synctest.Wait()
			o.Unsubscribe(c)
		}
		o.Inbox.mu.Lock()
		for _, n := range o.nodes {
			if len(n.todo) > 1 {
				t.Errorf("%d channels wait for the dialer", len(n.todo))
			}
		}
		o.Inbox.mu.Unlock()
		start = time.Now()
		o.Close()
		if took := time.Since(start); took > mostWaiting {
			t.Errorf("Close took %v", took)
		}
		<-o.Subscribe("late")
		close(free)
		o.running.Wait()
		if len(o.all()) > 0 {
			t.Errorf("told after Close: %v", o.all())
		}
	})
}

// TestHandshakeThatNeverEnds: as above, with a server that is silent from the
// beginning and a client without a time-out. It does not keep the inbox from
// trying again.
func TestHandshakeThatNeverEnds(t *testing.T) {
	inBubble(t, func(w *world) {
		silent := redistest.Rule{Fault: redistest.SwallowRequest, Times: -1}
		hangs := w.net.Inject(silent)
		rdb := w.client(func(o *redis.Options) {
			o.Dialer = w.net.Dialer(redistest.Embedded(w.embedded))
			o.ReadTimeout, o.WriteTimeout = -1, -1
		})
		o := open(w, rdb)
		<-o.Subscribe("c")
		hangs.Stop()
		start := time.Now()
		o.await(event{resumed: "c"}, 1)
		if took := time.Since(start); took > quiet+mostPause {
			t.Errorf("tried again after %v", took)
		}
		w.net.Inject(silent)
		second := open(w, rdb)
		<-second.Subscribe("c")
		start = time.Now()
		second.Close()
		if took := time.Since(start); took > mostWaiting {
			t.Errorf("Close took %v", took)
		}
	})
}

// TestReconnectThatNeverEnds: go-redis reconnects by itself before it tells of a
// broken connection, and can be reached by nobody meanwhile. Close does not wait
// for that either.
func TestReconnectThatNeverEnds(t *testing.T) {
	onServer(t, func(w *world) { // a bubble's time stands still while somebody waits for a mutex
		o := open(w, w.rdb)
		o.listen("c")
		hangs := w.net.Inject(redistest.Rule{Match: redistest.Named("HELLO"), Fault: redistest.SwallowRequest, Times: -1})
		w.net.CutAll()
		<-hangs.Hit()
		closed := make(chan struct{})
		go func() {
			o.Close()
			close(closed)
		}()
		select {
		case <-closed:
		case <-time.After(timeout):
			w.Error("Close does not return")
		}
	})
}

// TestNothingIsDeliveredAfterClose: neither what was on its way nor what is sent
// all the time.
func TestNothingIsDeliveredAfterClose(t *testing.T) {
	onServer(t, func(w *world) {
		publisher := w.client()
		stop := make(chan struct{})
		done := make(chan struct{})
		go func() {
			defer close(done)
			for {
				select {
				case <-stop:
					return
				default:
					publisher.Publish(w.Context(), "c", "m")
				}
			}
		}()
		for range 20 {
			o := patiently(w, w.rdb)
			o.listen("c")
			o.await(event{message: "m"}, 10)
			o.Close()
			n := len(o.all())
			w.real.Do(w, "PUBLISH", "c", "m")
			if more := len(o.all()) - n; more > 0 {
				w.Errorf("%d events after Close", more)
			}
		}
		close(stop)
		<-done
		eventually(w, "the server to have no channel", func() bool { return w.channels() == 0 })
	})
}

// TestCloseWaitsForDelivery: when it returns, the owner is not being told anything.
func TestCloseWaitsForDelivery(t *testing.T) {
	inBubble(t, func(w *world) {
		var told atomic.Bool
		in, cancel := opened(w.rdb, func(string) {
			<-time.After(time.Second)
			told.Store(true)
		}, func(string) {}, slog.New(slog.DiscardHandler))
		<-in.Subscribe("c")
		w.publish("c", "m", 1)
		synctest.Wait()
		cancel()
		in.Wait()
		if !told.Load() {
			t.Error("Close has left a delivery behind")
		}
	})
}

// TestCloseEndsAll: two at once wait for the same, and everybody who waits for an
// attempt is let go.
func TestCloseEndsAll(t *testing.T) {
	everywhere(t, func(w *world) {
		o := open(w, w.rdb)
		o.listen("c")
		w.net.Down()
		tried := o.Subscribe("d")
		done := make(chan struct{})
		go func() { o.Close(); close(done) }()
		o.Close()
		<-done
		<-tried
		<-o.Subscribe("e")
		o.Unsubscribe("c")
		o.Unsubscribe("e")
	})
}
