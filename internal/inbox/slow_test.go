package inbox

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth/internal/testkit/redistest"
)

// latePings counts the PINGs that a link has answered late.
func latePings(w *world) int { return w.net.Count("PING") }

// TestSlowLinkKeepsItsSubscription: everything from the server comes seconds late, for ever, and
// in a quiet time nothing but the answers to PINGs. That is slow, and not dead.
func TestSlowLinkKeepsItsSubscription(t *testing.T) {
	for _, late := range [][]time.Duration{{2 * time.Second}, {4 * time.Second}, {4500 * time.Millisecond}, {2 * time.Second, 4 * time.Second, 0, 3 * time.Second}} {
		for _, begins := range []bool{true, false} { // late from the beginning, or later
			inBubbleNamed(t, fmt.Sprint(late, begins), func(w *world) {
				rdb := w.client(func(o *redis.Options) {
					o.Dialer, o.ReadTimeout = w.net.Dialer(redistest.Embedded(w.embedded)), time.Minute
				})
				o := open(w, rdb)
				if begins {
					w.net.Latency(late[0])
				}
				o.listen("c")
				for i := range 200 {
					w.net.Latency(late[i%len(late)])
					if i%3 == 0 { // a message in between
						w.publish("c", fmt.Sprint("m", i), 1)
					}
					if i%40 == 0 { // another channel comes and goes
						o.Subscribe("d")
						<-time.After(7 * time.Second)
						o.Unsubscribe("d")
					}
					<-time.After(7 * time.Second)
					if i%3 == 0 && o.count(event{message: fmt.Sprint("m", i)}) != 1 {
						w.Fatalf("message %d has not come", i)
					}
				}
				if n := o.count(event{resumed: "c"}); n != 1 || o.logs("WARN") > 0 || latePings(w) < 20 {
					w.Errorf("subscribed %d times, %d PINGs: %s", n, latePings(w), &o.logged)
				}
			})
		}
	}
}

// TestSlowServerKeepsItsSubscription: the same on a real server, in a shorter time.
func TestSlowServerKeepsItsSubscription(t *testing.T) {
	onServer(t, func(w *world) {
		for range 20 { // a busy machine may stand still for longer than the link is late
			o := open(w, w.rdb)
			o.quiet = time.Second / 2
			o.listen("c")
			w.net.Latency(o.quiet / 2)
			pings, subscribed := latePings(w), o.count(event{resumed: "c"})
			eventually(w, "late answers", func() bool { return latePings(w) >= pings+4 })
			w.net.Latency(0)
			lost := o.count(event{resumed: "c"}) - subscribed
			o.Close()
			if lost == 0 {
				return
			}
		}
		w.Error("it loses its subscription again and again")
	})
}
