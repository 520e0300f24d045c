package inbox

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// What comes in which order: requests, answers, refusals, ends.

// bench is a node whose connection the test plays.
type bench struct {
	*owner
	*node
}

func newBench(w *world) *bench {
	o := open(w, w.rdb)
	return &bench{o, newNode(o.Inbox, "")}
}

// want gives the node a channel.
func (b *bench) want(channel string) *subscription {
	s := &subscription{channel: channel, endTry: func() {}}
	b.assign(s, b.rdb)
	return s
}

// sends fails unless the node sends exactly these now.
func (b *bench) sends(want ...verb) {
	b.Helper()
	var got []verb
	for _, r := range b.take() {
		got = append(got, r.verb)
	}
	if len(got) != len(want) || len(got) > 0 && got[0] != want[0] {
		b.Errorf("it sends %v, want %v", got, want)
	}
}

// noPermission is a refusal.
type noPermission struct{}

func (noPermission) Error() string { return "NOPERM no" }
func (noPermission) RedisError()   {}

// TestRefusalOfWhatWasLeft: a channel is left, and perhaps taken again, before its request is
// refused. That refusal is nobody's trouble, and keeps nobody from what comes next.
func TestRefusalOfWhatWasLeft(t *testing.T) {
	for what, told := range map[string]bool{"before the server is told": false, "after it": true} {
		for what2, again := range map[string]bool{"": false, ", and taken again": true} {
			inBubbleNamed(t, what+what2, func(w *world) {
				b := newBench(w)
				first := b.want("c")
				b.sends(subscribe)
				b.leave(first)
				if told {
					b.sends(unsubscribe)
				}
				second := (*subscription)(nil)
				if again {
					second = b.want("c")
					b.sends(subscribe)
				}
				if err := b.refused(noPermission{}); err != nil || first.node != b.node || b.logs("WARN") > 0 {
					w.Errorf("it is somebody's trouble: %v", err)
				}
				if !told && !again {
					b.sends(unsubscribe)
				}
				if told || !again {
					b.ended("c")
				}
				if again {
					b.confirmed("c")
					if second.state != standing || b.count(event{resumed: "c"}) != 1 {
						w.Errorf("the second request: state %d, %v", second.state, b.all())
					}
				}
				if len(b.waiting) > 0 {
					w.Errorf("it waits for %v", b.waiting)
				}
				b.sends()
			})
		}
	}
}

// TestRefusalIsOfTheOldestRequest, also when an earlier one was a PING, which any answer answers.
func TestRefusalIsOfTheOldestRequest(t *testing.T) {
	inBubble(t, func(w *world) {
		b := newBench(w)
		a := b.want("a")
		b.sends(subscribe)
		c := b.want("c")
		b.sends(subscribe)
		b.confirmed("a")
		if err := b.refused(noPermission{}); err != nil || a.state != standing || c.state != unrouted || b.logs("WARN") != 1 {
			w.Errorf("states %d and %d, %v", a.state, c.state, err)
		}
		b.waiting = []request{{verb: ping}}
		if err := b.refused(noPermission{}); err != nil || a.state != standing {
			w.Errorf("a PING was refused: state %d, %v", a.state, err)
		}
		if err := b.refused(noPermission{}); err == nil {
			w.Error("what nobody asked was refused, and that is no trouble")
		}
	})
}

// TestAnswersComeInOrder: one answers all that was asked before it.
func TestAnswersComeInOrder(t *testing.T) {
	inBubble(t, func(w *world) {
		b := newBench(w)
		b.waiting = []request{{verb: ping}, {verb: subscribe, channel: "a"}, {verb: unsubscribe, channel: "a"}, {verb: ping}, {verb: subscribe, channel: "c"}}
		for _, step := range []struct {
			verb    verb
			channel string
			found   bool
			left    int
		}{{subscribe, "a", true, 3}, {subscribe, "a", false, 3}, {unsubscribe, "b", false, 3}, {ping, "", true, 1}, {subscribe, "c", true, 0}} {
			if found := b.answered(step.verb, step.channel); found != step.found || len(b.waiting) != step.left {
				w.Errorf("%+v: found %v, left are %v", step, found, b.waiting)
			}
		}
	})
}

// TestEachChannelWaitsForItself: the pause of one is not that of another.
func TestEachChannelWaitsForItself(t *testing.T) {
	inBubble(t, func(w *world) {
		for range 20 { // the order of a map is any
			in, cancel := opened(w.rdb, nil, nil, nil)
			for i, pause := range []time.Duration{7 * time.Second, time.Second, 3 * time.Second} {
				in.unroute(&subscription{channel: string(rune('a' + i))}, pause)
			}
			for _, want := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second} {
				due, next := in.due()
				start := time.Now()
				if len(due) > 0 {
					w.Fatalf("%d too early", len(due))
				}
				<-next
				if took := time.Since(start); took != want {
					w.Fatalf("the next after %v, want %v", took, want)
				}
				if due, next = in.due(); len(due) != 1 || next != nil {
					w.Fatalf("%d are due", len(due))
				}
				delete(in.unrouted, due[0])
			}
			if due, next := in.due(); len(due) > 0 || next != nil {
				w.Error("there is another one")
			}
			cancel()
			in.Wait()
		}
	})
}

// TestPausesGrowForEachChannel by its own failures, and begin anew when it has stood.
func TestPausesGrowForEachChannel(t *testing.T) {
	inBubble(t, func(w *world) {
		b := newBench(w)
		often, once := b.want("often"), b.want("once")
		b.take()
		for want := leastPause; want < mostPause; want *= 2 {
			b.postpone(often, mostPause)
			if often.pause != want || time.Until(often.due) != want {
				w.Errorf("it pauses for %v, want %v", often.pause, want)
			}
		}
		b.postpone(often, mostPause)
		b.postpone(once, mostPause)
		if often.pause != mostPause || once.pause != leastPause {
			w.Errorf("they pause for %v and %v", often.pause, once.pause)
		}
		b.assign(often, w.rdb)
		b.take()
		b.confirmed("often")
		if b.postpone(often, mostPause); often.pause != leastPause {
			w.Errorf("after it stood it pauses for %v", often.pause)
		}
	})
}

// TestSubscribeWhenTheLastOneLingers: a connection without channels ends, and so does what makes
// it; a channel that comes at that very moment is subscribed.
func TestSubscribeWhenTheLastOneLingers(t *testing.T) {
	for what, pause := range map[string]time.Duration{"the connection ends": linger, "its goroutine ends": 2 * linger} {
		inBubbleNamed(t, what, func(w *world) {
			o := open(w, w.rdb)
			for i := range 100 {
				<-o.Subscribe("c")
				o.await(event{resumed: "c"}, i+1)
				o.Unsubscribe("c")
				<-time.After(pause)
			}
		})
	}
	inBubbleNamed(t, "it was given a channel before", func(w *world) {
		b := newBench(w)
		b.nodes[""] = b.node
		s := b.want("c")
		if b.retire() || b.nodes[""] != b.node {
			w.Error("it left with a channel")
		}
		b.leave(s)
		if !b.retire() || b.nodes[""] != nil {
			w.Error("it stays without one")
		}
	})
}

// TestSurrenderedChannelsAreRoutedAnew, and those that were left are not.
func TestSurrenderedChannelsAreRoutedAnew(t *testing.T) {
	inBubble(t, func(w *world) {
		b := newBench(w)
		stays, goes := b.want("stays"), b.want("goes")
		b.take()
		b.confirmed("stays")
		b.leave(goes)
		b.surrender()
		_, ok := b.unrouted[stays]
		if !ok || len(b.unrouted) != 1 || stays.state != unrouted || stays.node != nil || len(b.subs)+len(b.todo)+len(b.live)+len(b.waiting) > 0 {
			w.Errorf("unrouted are %d, the node has %v", len(b.unrouted), b.node)
		}
	})
}

// TestReaderDeliversNothingAfterTheEnd: what has come before it is read is dropped.
func TestReaderDeliversNothingAfterTheEnd(t *testing.T) {
	inBubble(t, func(w *world) {
		b := newBench(w)
		b.owner.subs["c"] = b.want("c")
		conn := w.rdb.Subscribe(w.Context(), "c")
		defer conn.Close()
		if _, err := conn.Receive(w.Context()); err != nil {
			w.Fatal(err)
		}
		w.publish("c", "m", 1)
		synctest.Wait()
		ended, cancel := context.WithCancel(w.Context())
		cancel()
		if err := b.read(ended, conn); !errors.Is(err, context.Canceled) || len(b.all()) > 0 {
			w.Errorf("%v, delivered %v", err, b.all())
		}
	})
}
