package inbox

import (
	"log/slog"
	"testing"
	"time"
)

// word is a refusal that begins with it.
type word string

func (w word) Error() string { return string(w) + " no" }
func (word) RedisError()     {}

// TestPauseAfterARefusal: what only an operator can change is tried again every 30 seconds in the
// end, and anything else every 2.
func TestPauseAfterARefusal(t *testing.T) {
	for refusal, most := range map[word]time.Duration{"NOPERM": 30 * time.Second, "ERR": 30 * time.Second, "LOADING": 2 * time.Second, "MOVED": 2 * time.Second} {
		inBubbleNamed(t, string(refusal), func(w *world) {
			b := newBench(w)
			s := b.want("c")
			for range 20 {
				b.take()
				if err := b.refused(refusal); err != nil {
					w.Fatal(err)
				}
				b.assign(s, b.rdb)
			}
			if s.pause != most {
				w.Errorf("in the end it pauses for %v, want %v", s.pause, most)
			}
		})
	}
}

// TestRefusedChannelLeavesItsNode: the node that refused it gives nothing back to the router when
// its connection ends, neither at once what has to pause, nor what nobody wants any more.
func TestRefusedChannelLeavesItsNode(t *testing.T) {
	inBubble(t, func(w *world) {
		b := newBench(w)
		s := b.want("c")
		b.owner.subs["c"] = s
		b.take()
		if err := b.refused(word("NOPERM")); err != nil || !b.idle() || len(b.live) > 0 {
			w.Errorf("it has %d channels, %d of them live; %v", len(b.subs), len(b.live), err)
		}
		due := s.due
		if b.surrender(); s.due != due {
			w.Error("it does not pause")
		}
		b.Unsubscribe("c")
		if b.surrender(); len(b.unrouted) > 0 {
			w.Error("it comes back, and nobody wants it")
		}
	})
}

// TestResumedBeforeTried: whoever waited for the attempt, and it was successful, finds that its
// owner was told.
func TestResumedBeforeTried(t *testing.T) {
	inBubble(t, func(w *world) {
		subscribed := make(chan (<-chan struct{}), 1)
		in, cancel := opened(w.rdb, func(string) {}, func(string) {
			select {
			case <-<-subscribed:
				w.Error("the attempt is over before its owner is told")
			default:
			}
		}, slog.New(slog.DiscardHandler))
		tried := in.Subscribe("c")
		subscribed <- tried
		<-tried
		cancel()
		in.Wait()
	})
}

// TestChannelServedElsewhereIsLeft: a node that no longer serves a channel, and has not told, must
// not go on sending its messages, which would come twice.
func TestChannelServedElsewhereIsLeft(t *testing.T) {
	inBubble(t, func(w *world) {
		o := open(w, w.rdb)
		b := &bench{o, newNode(o.Inbox, "a node that was cut off")} // the client knows one server, which is not that
		stood := b.want("stood")
		b.sends(subscribe)
		b.confirmed("stood")
		fresh := b.want("fresh")
		b.follow()
		for _, s := range []*subscription{stood, fresh} {
			if _, ok := b.unrouted[s]; !ok || s.state != unrouted || s.node != nil || s.due.After(time.Now()) {
				w.Errorf("%s is not routed anew at once", s.channel)
			}
		}
		b.sends(unsubscribe)
		if b.ended("stood"); !b.idle() || len(b.live)+len(b.waiting) > 0 {
			w.Errorf("the node keeps %v, and waits for %v", b.live, b.waiting)
		}
	})
}
