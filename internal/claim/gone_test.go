package claim

import (
	"strconv"
	"testing"
	"time"

	"github.com/berth-go/berth/internal/clock"
	"github.com/berth-go/berth/internal/protocol"
)

// made returns a claim that has asked, with the first request sent at 1 s.
func made(t *testing.T) *Claim {
	t.Helper()
	n := 0
	c := Make("s", &protocol.Terms{Wait: true, Weight: 1, TTL: time.Second, Heartbeat: time.Second}, func() string {
		n++
		return "id" + strconv.Itoa(n)
	})
	c.Ask(at(time.Second))
	if _, ok := c.Op(at(time.Second)); !ok {
		t.Fatal("nothing is sent")
	}
	return &c
}

func at(d time.Duration) clock.Instant { return clock.Instant(0).Add(d) }

// TestStaleGrantIsNotBelieved: a process stood still for longer than the TTL. Its
// place was granted and has run out meanwhile, and the message that tells of the grant
// comes after the repeated acquire has met the tombstone.
func TestStaleGrantIsNotBelieved(t *testing.T) {
	for _, reason := range []protocol.Reason{protocol.Unknown, protocol.Expired} {
		c := made(t)
		old := c.ID
		op, _ := c.Op(at(3 * time.Second))
		op.Result = protocol.Result{Code: protocol.Gone, Reason: reason}
		c.Answered(&op, &Answer{Sent: at(3 * time.Second), Got: at(3 * time.Second)})
		if c.State != Asking || c.ID == old {
			t.Errorf("reason %d: %d with id %s: a message about the old id would be believed", reason, c.State, c.ID)
		}
	}
}

// TestAdoptedLeaseThatIsGoneIsLost: an adopted lease has run out before it was
// confirmed. No other one is asked for instead.
func TestAdoptedLeaseThatIsGoneIsLost(t *testing.T) {
	c := Make("s", &protocol.Terms{}, func() string { return "id" })
	c.Adopt("handle", at(time.Second))
	op, _ := c.Op(at(time.Second))
	op.Result = protocol.Result{Code: protocol.Moved, Token: 1, Weight: 1, Remaining: time.Second, TTL: time.Second}
	c.Answered(&op, &Answer{Sent: at(time.Second), Got: at(3 * time.Second)}) // too late to be relied on
	if op, _ = c.Op(at(3 * time.Second)); op.Verb != protocol.Renew {
		t.Fatalf("%c is sent", op.Verb)
	}
	op.Result = protocol.Result{Code: protocol.Gone, Reason: protocol.Expired}
	c.Answered(&op, &Answer{Sent: at(3 * time.Second), Got: at(3 * time.Second)})
	if lost, ok := c.Err.(*LostError); c.State != Ended || !ok || lost.Cause != Expired {
		t.Errorf("state %d, %v", c.State, c.Err)
	}
}
