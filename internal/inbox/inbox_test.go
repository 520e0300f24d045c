package inbox

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth/internal/testkit/redistest"
)

func TestMessagesAreDelivered(t *testing.T) {
	everywhere(t, func(w *world) {
		o := patiently(w, w.rdb)
		channels := []string{
			"plain", "berth:{name}:abcdefghij", "with space", "line\r\nbreak\n", "*[a-z]\\?", "\x00\xff", "", "é🚢\u202e", "a}b{c", strings.Repeat("long", 1000),
		}
		o.listen(channels...)
		for i, c := range channels {
			payload := fmt.Sprint("payload ", i)
			w.publish(c, payload, 1)
			o.await(event{message: payload}, 1)
		}
		for _, payload := range []string{"", "\r\n", "\x00\xff", strings.Repeat("x", 1<<20)} {
			w.publish("plain", payload, 1)
			o.await(event{message: payload}, 1)
		}
		if got, want := len(o.all()), 2*len(channels)+4; got != want {
			w.Errorf("%d events, want %d", got, want)
		}
	})
}

// TestOldProtocol: RESP2 marks no message as such, and answers a PING in one way
// while there is a channel and in another when there is none.
func TestOldProtocol(t *testing.T) {
	inBubble(t, func(w *world) {
		o := open(w, w.client(func(o *redis.Options) {
			o.Protocol, o.Dialer = 2, w.net.Dialer(redistest.Embedded(w.embedded))
		}))
		o.listen("c")
		<-time.After(time.Hour)
		w.publish("c", "m", 1)
		o.await(event{message: "m"}, 1)
		if n := o.count(event{resumed: "c"}); n != 1 || w.net.Count("PING") < 700 {
			w.Errorf("resumed %d times, %d PINGs in a quiet hour", n, w.net.Count("PING"))
		}
		w.net.Inject(redistest.Rule{Match: redistest.Named("PING"), Fault: redistest.SwallowReply})
		o.await(event{resumed: "c"}, 2)
	})
}

// TestTriedMeansSubscribed: who waits for the chan misses nothing from then on,
// and has been told that the subscription stands.
func TestTriedMeansSubscribed(t *testing.T) {
	everywhere(t, func(w *world) {
		o := patiently(w, w.rdb)
		for i := range 20 {
			c := fmt.Sprint("c", i)
			<-o.Subscribe(c)
			if o.count(event{resumed: c}) != 1 {
				w.Errorf("%s: tried before resumed", c)
			}
			w.publish(c, c, 1)
			o.await(event{message: c}, 1)
		}
	})
}

func TestSubscribingTwiceIsOnce(t *testing.T) {
	everywhere(t, func(w *world) {
		o := patiently(w, w.rdb)
		first, second := o.Subscribe("c"), o.Subscribe("c")
		if first != second {
			w.Error("two attempts")
		}
		<-first
		<-o.Subscribe("c")
		w.publish("c", "m", 1)
		o.await(event{message: "m"}, 1)
		o.Unsubscribe("c")
		eventually(w, "the server to be told", func() bool { return w.channels() == 0 })
		if n := w.net.Count("SUBSCRIBE"); n != 1 {
			w.Errorf("%d times SUBSCRIBE", n)
		}
	})
}

// TestUnsubscribeEndsDelivery: not even a message that was on its way is
// delivered, and the other channels stay.
func TestUnsubscribeEndsDelivery(t *testing.T) {
	everywhere(t, func(w *world) {
		o := patiently(w, w.rdb)
		o.listen("gone", "stays")
		late := w.net.Inject(redistest.Rule{Match: redistest.Named("message"), Fault: redistest.DelayMessage})
		w.publish("gone", "late", 1)
		<-late.Hit()
		o.Unsubscribe("gone")
		o.Unsubscribe("gone")
		o.Unsubscribe("never subscribed")
		late.Release()
		w.publish("stays", "m", 1)
		o.await(event{message: "m"}, 1)
		if o.count(event{message: "late"}) != 0 {
			w.Error("delivered after Unsubscribe")
		}
		eventually(w, "the server to be told", func() bool { return w.channels() == 1 })
		if n := w.net.Count("UNSUBSCRIBE"); n != 1 {
			w.Errorf("%d times UNSUBSCRIBE", n)
		}
	})
}

// TestChannelComesBack: a channel that is left and taken again and again is
// subscribed each time that its chan says so, and in the end.
func TestChannelComesBack(t *testing.T) {
	everywhere(t, func(w *world) {
		o := patiently(w, w.rdb)
		for i := range 50 {
			<-o.Subscribe("c")
			payload := fmt.Sprint("m", i)
			w.publish("c", payload, 1)
			o.await(event{message: payload}, 1)
			o.Unsubscribe("c")
			if i%2 == 0 { // at once: the requests may meet
				o.Subscribe("c")
				o.Unsubscribe("c")
			}
		}
		eventually(w, "the channel to be left", func() bool { return w.channels() == 0 })
	})
}

// TestIdleConnectionIsClosed: the last channel takes the connection with it, but
// not at once, for the next one may come soon.
func TestIdleConnectionIsClosed(t *testing.T) {
	inBubble(t, func(w *world) {
		o := open(w, w.rdb)
		for range 3 {
			o.Subscribe("c")
			<-time.After(linger - time.Millisecond)
			o.Unsubscribe("c")
			<-time.After(linger - time.Millisecond)
		}
		if n := w.embedded.TotalConnectionCount(); n != 1 {
			t.Errorf("%d connections were made, want 1", n)
		}
		<-time.After(2 * time.Millisecond)
		if n := w.embedded.CurrentConnectionCount(); n != 0 {
			t.Errorf("%d connections are left", n)
		}
		<-time.After(linger)
		if n := o.connections(); n != 0 {
			t.Errorf("the goroutines of %d connections are left", n)
		}
		<-o.Subscribe("c")
		w.publish("c", "m", 1)
		o.await(event{message: "m"}, 1)
	})
}

// goroutines is how many there are. One that ends has left its bubble before the runtime has it off
// the count, and a busy machine may stop its thread in between: so it counts once the world has
// stood still, which waits for that.
func goroutines() int {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return runtime.NumGoroutine()
}

// TestManyChannelsLeaveNothing: channels that come and go, one after the other or
// all at once, leave no goroutine, no connection and no memory. It is not
// parallel, so nobody else makes or frees any.
func TestManyChannelsLeaveNothing(t *testing.T) {
	const many = 3_500 // a round
	synctest.Test(t, func(t *testing.T) {
		w := newEmbedded(t)
		o := open(w, w.rdb)
		before := goroutines()
		var used [3]uint64
		for round := range used {
			for i := range many {
				c := fmt.Sprint("c", i)
				<-o.Subscribe(c)
				o.Unsubscribe(c)
			}
			for i := range many {
				o.Subscribe(fmt.Sprint("c", i))
			}
			synctest.Wait()
			if n := w.channels(); n != many {
				t.Errorf("%d channels", n)
			}
			// A connection has a few at each of its ends, and in the network between.
			if n := goroutines() - before; n > 20 {
				t.Errorf("%d goroutines for %d channels", n, many)
			}
			for i := range many {
				o.Unsubscribe(fmt.Sprint("c", i))
			}
			<-time.After(2*linger + time.Second)
			synctest.Wait()
			if n := goroutines(); n > before {
				t.Errorf("%d goroutines are left of %d", n, before)
			}
			if n := w.embedded.CurrentConnectionCount(); n != 0 {
				t.Errorf("%d connections are left", n)
			}
			o.events = nil
			var m runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&m)
			used[round] = m.HeapAlloc
		}
		if used[2] > used[0]+1<<20 {
			t.Errorf("%d bytes are in use after the first round, %d after the last", used[0], used[2])
		}
	})
}
