package session

import (
	"strconv"
	"strings"

	"github.com/berth-go/berth/internal/clock"
	"github.com/berth-go/berth/internal/protocol"
)

// hear takes events: a kind, an id, and what the kind has to say.
func (s *Semaphore) hear(lines string) {
	s.mu.Lock()
	defer s.unlock()
	for line := range strings.SplitSeq(lines, "\n") {
		f := strings.Fields(line)
		if len(f) < 3 {
			continue
		}
		c := s.claims[f[1]]
		switch {
		case f[0] == "g" && len(f) == 5:
			s.heardGrant(c, f)
		case c == nil:
		case f[0] == "x":
			s.heardGone(c, protocol.Reason(number(f[2])))
		case f[0] == "t":
			if c.state == queued {
				s.refuse(c, protocol.Result{Code: protocol.Heavy, Limit: int(number(f[2]))}, 0)
			}
		}
	}
	s.kick()
}

func number(s string) int64 {
	n, _ := strconv.ParseInt(s, 10, 64)
	return n
}

// heardGrant takes the news of a hand-off. A message carries no time that could
// be trusted, it may have been under way for long. But the grant came after the
// heartbeat that the server acknowledged last, and left its deadline as it was:
// so the lease lasts at least one heartbeat TTL from when that was sent.
func (s *Semaphore) heardGrant(c *Claim, f []string) {
	// A claim that is not here any more is not to be given back: the message may
	// be older than a Detach, and the lease somebody else's.
	if c == nil || c.state != queued && c.state != asking || c.sent == 0 {
		return
	}
	lasts := c.Terms.Heartbeat
	if c.Terms.MaxHold > 0 {
		lasts = min(lasts, c.Terms.MaxHold)
	}
	c.token, c.slot, c.limit = number(f[2]), int(number(f[3])), int(number(f[4]))
	s.withdraw(c, protocol.Heartbeat)
	s.hold(c, c.sent, clock.Exact(), lasts, false)
}

// heardGone takes the news that the server no longer has c.
func (s *Semaphore) heardGone(c *Claim, why protocol.Reason) {
	switch c.state {
	case queued, confirming:
		s.gone(c, why)
	case adopting:
		// The renewal's answer will tell.
	case held:
		if why == protocol.Evicted {
			s.lose(c, Evicted, false)
		} else {
			s.lose(c, Expired, true)
		}
	}
}
