package inbox

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth/internal/testkit/redistest"
)

// TestCutConnectionResumes: after every cut all channels are subscribed anew, and
// the owner is told of each.
func TestCutConnectionResumes(t *testing.T) {
	everywhere(t, func(w *world) {
		o := patiently(w, w.rdb)
		o.listen("a", "b", "c")
		for round := range 5 {
			if w.real != nil && round%2 == 0 {
				w.real.Do(w, "CLIENT", "KILL", "TYPE", "pubsub")
			} else {
				w.net.CutAll()
			}
			for _, c := range []string{"a", "b", "c"} {
				o.await(event{resumed: c}, round+2)
				payload := fmt.Sprint(c, round)
				w.publish(c, payload, 1)
				o.await(event{message: payload}, 1)
			}
		}
		if o.logs("WARN") != 5 || o.logs("INFO") != 5 {
			w.Errorf("logged %d ends and %d beginnings of 5 outages", o.logs("WARN"), o.logs("INFO"))
		}
	})
}

// TestNothingIsMissedSilently: messages are numbered and the connection is killed
// all the time. Between two that arrive and are not neighbours the owner has been
// told to look.
func TestNothingIsMissedSilently(t *testing.T) {
	onServer(t, func(w *world) {
		o := patiently(w, w.rdb)
		o.listen("c")
		publisher := w.client()
		for i := range 3000 {
			if i%100 == 50 {
				w.real.Do(w, "CLIENT", "KILL", "TYPE", "pubsub")
			}
			if i%300 == 299 { // or the new connections would be killed as well
				o.await(event{resumed: "c"}, 1+i/300)
			}
			if err := publisher.Publish(w.Context(), "c", strconv.Itoa(i)).Err(); err != nil {
				w.Fatal(err)
			}
		}
		o.until("a last message", func() bool {
			publisher.Publish(w.Context(), "c", "3000")
			return o.count(event{message: "3000"}) > 0
		})
		if missed := o.judge(); missed == 0 {
			w.Error("no message was lost: nothing was tried")
		}
	})
}

// judge fails the test if a gap between numbers has no resumption in it, and
// returns how many numbers were missed.
func (o *owner) judge() (missed int) {
	o.Helper()
	last, told := -1, false
	for _, e := range o.all() {
		if e.message == "" {
			told = true
			continue
		}
		i, err := strconv.Atoi(e.message)
		if err != nil {
			o.Fatal(err)
		}
		if gap := max(i-last-1, 0); gap > 0 {
			if missed += gap; !told {
				o.Errorf("%d messages before %d were missed silently", gap, i)
			}
		}
		last, told = i, false
	}
	return missed
}

// TestHalfOpenSocketIsNoticed: the server is silent and does not answer a PING. A
// new connection is made after 10 seconds.
func TestHalfOpenSocketIsNoticed(t *testing.T) {
	inBubble(t, func(w *world) {
		o := open(w, w.rdb)
		o.listen("c")
		<-time.After(time.Hour) // PINGs are answered
		if n := o.count(event{resumed: "c"}); n != 1 {
			t.Fatalf("resumed %d times in a quiet hour", n)
		}
		dead := w.net.Inject(redistest.Rule{Match: redistest.Named("PING"), Fault: redistest.SwallowReply})
		start := time.Now()
		o.await(event{resumed: "c"}, 2)
		if took := time.Since(start); took > 2*quiet+leastPause || dead.Hits() != 1 {
			t.Errorf("noticed after %v, %d PINGs", took, dead.Hits())
		}
		w.publish("c", "m", 1)
		o.await(event{message: "m"}, 1)
	})
}

// TestTrafficIsAsGoodAsPings: a connection that is never quiet is not asked.
func TestTrafficIsAsGoodAsPings(t *testing.T) {
	inBubble(t, func(w *world) {
		o := open(w, w.rdb)
		o.listen("c")
		for i := range 100 {
			<-time.After(quiet - time.Millisecond)
			w.publish("c", fmt.Sprint(i), 1)
			o.await(event{message: fmt.Sprint(i)}, 1)
		}
		if n := w.net.Count("PING"); n != 0 {
			t.Errorf("%d PINGs", n)
		}
	})
}

// TestStoppedServerIsNoticed: as a half-open socket, with a real one.
func TestStoppedServerIsNoticed(t *testing.T) {
	onServer(t, func(w *world) {
		o := open(w, w.rdb)
		o.listen("c")
		w.real.Stop()
		o.until("a warning", func() bool { // wakes with the log
			signal(o.changed)
			<-time.After(10 * time.Millisecond)
			return o.logs("WARN") == 1
		})
		w.real.Cont()
		o.await(event{resumed: "c"}, 2)
		o.until("a message", func() bool {
			w.real.Do(w, "PUBLISH", "c", "m")
			return o.count(event{message: "m"}) > 0
		})
	})
}

// TestServerAwayForLong: attempts are made every two seconds, the log is told
// once, and the subscription is back within two seconds of the server.
func TestServerAwayForLong(t *testing.T) {
	inBubble(t, func(w *world) {
		var dials atomic.Int64
		dial := w.net.Dialer(redistest.Embedded(w.embedded))
		o := open(w, w.client(func(o *redis.Options) {
			o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
				dials.Add(1)
				return dial(ctx, network, addr)
			}
		}))
		o.listen("a", "b")
		w.net.Down()
		<-time.After(time.Hour)
		if n := dials.Load(); n < 1790 || n > 1820 {
			t.Errorf("%d attempts in an hour, want one every %v", n, mostPause)
		}
		start := time.Now()
		<-o.Subscribe("c")
		if took := time.Since(start); took > 0 {
			t.Errorf("that a server is away was told after %v", took)
		}
		w.net.Up()
		start = time.Now()
		for c, n := range map[string]int{"a": 2, "b": 2, "c": 1} {
			o.await(event{resumed: c}, n)
		}
		if took := time.Since(start); took > mostPause {
			t.Errorf("back after %v", took)
		}
		if o.logs("WARN") != 1 || o.logs("INFO") != 1 {
			t.Errorf("logged %d ends and %d beginnings of one outage", o.logs("WARN"), o.logs("INFO"))
		}
		w.net.CutAll() // the pauses begin anew
		start = time.Now()
		o.await(event{resumed: "a"}, 3)
		if took := time.Since(start); took > leastPause {
			t.Errorf("back after %v from a short outage", took)
		}
	})
}

// TestFailedAttemptIsTold: who waits for the first attempt hears of a failure at
// once.
func TestFailedAttemptIsTold(t *testing.T) {
	inBubble(t, func(w *world) {
		w.net.Down()
		o := open(w, w.rdb)
		start := time.Now()
		<-o.Subscribe("c")
		if took := time.Since(start); took > 0 {
			t.Errorf("after %v", took)
		}
	})
}

func TestServerKilledAndBack(t *testing.T) {
	onServer(t, func(w *world) {
		o := patiently(w, w.rdb)
		o.listen("c")
		for round := range 3 {
			w.real.Kill()
			w.real.Restart(t)
			o.await(event{resumed: "c"}, round+2)
			w.publish("c", fmt.Sprint(round), 1)
			o.await(event{message: fmt.Sprint(round)}, 1)
		}
	})
}

// TestChannelsAreNotCollectedWhileAway: what is subscribed and unsubscribed while
// the server cannot be reached leaves nothing to do when it is back.
func TestChannelsAreNotCollectedWhileAway(t *testing.T) {
	inBubble(t, func(w *world) {
		o := open(w, w.rdb)
		o.listen("c")
		w.net.Down()
		for i := range 10_000 {
			c := fmt.Sprint("c", i)
			o.Subscribe(c)
			if i%100 == 0 {
				<-time.After(100 * time.Millisecond)
			}
			o.Unsubscribe(c)
		}
		synctest.Wait()
		o.Inbox.mu.Lock()
		left := len(o.subs) + len(o.unrouted)
		for _, n := range o.nodes {
			left += len(n.subs) + len(n.todo) + len(n.live) + len(n.waiting)
		}
		o.Inbox.mu.Unlock()
		if left > 10 { // of c
			t.Errorf("%d entries are left", left)
		}
		w.net.Up()
		o.await(event{resumed: "c"}, 2)
		if n := w.channels(); n != 1 {
			t.Errorf("%d channels", n)
		}
	})
}
