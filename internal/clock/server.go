package clock

import (
	"sync"
	"time"
)

// Server bounds the time that a server's clock shows, by the times in its replies and the
// local monotonic clock. The zero value has seen no reply. It is safe for concurrent use.
type Server struct {
	mu          sync.Mutex
	known       bool
	least, most bound // of the server's time minus the local time
}

// bound is a bound of the distance between two clocks, in milliseconds, at an instant. It
// gets less tight with time, because the clocks may run apart by a hundredth.
type bound struct {
	offset int64
	seen   Instant
}

func (b bound) slack(i Instant) int64 { return max(0, i.Sub(b.seen).Milliseconds()/100) }

// Vague bounds by how much a sharp Latest may be off because of the time since a reply was seen.
const Vague = time.Second

// Latest returns the latest time, in milliseconds, that the server's clock can show at instant i; 0 if
// no reply was seen. It is sharp if it says enough: after a long pause, slack would let a copy of a
// request run long after all was done that could make it harmless.
func (c *Server) Latest(i Instant) (latest int64, sharp bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.known {
		return 0, false
	}
	slack := c.most.slack(i)
	return millis(i) + c.most.offset + slack + 1, slack <= Vague.Milliseconds()
}

// See takes the server's time, in milliseconds, from a reply, and the local instants at
// which its request was sent and the reply was got. The server read its clock in between:
// so the distance of the clocks is at most server - sent and at least server - got. The
// tightest bounds count, because a reply may have been under way for long. See returns by
// how much the server's clock was stepped, or 0 if delays explain the reply.
func (c *Server) See(server int64, sent, got Instant) (step time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	least, most := bound{server - millis(got) - 1, got}, bound{server - millis(sent) + 1, sent}
	if c.known {
		if ahead := least.offset - c.most.offset - c.most.slack(got); ahead > 0 {
			step = time.Duration(ahead) * time.Millisecond
		} else if behind := c.least.offset - c.least.slack(got) - most.offset; behind > 0 {
			step = -time.Duration(behind) * time.Millisecond
		}
	}
	if !c.known || step != 0 || most.offset < c.most.offset+c.most.slack(got) {
		c.most = most
	}
	if !c.known || step != 0 || least.offset > c.least.offset-c.least.slack(got) {
		c.least = least
	}
	c.known = true
	return step
}

func millis(i Instant) int64 { return time.Duration(i).Milliseconds() }
