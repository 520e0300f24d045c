package session

import (
	"time"

	"github.com/berth-go/berth/internal/clock"
	"github.com/berth-go/berth/internal/protocol"
)

// The keeper is one timer for each semaphore that has claims. When it fires it
// looks at all of them: who is due for a heartbeat or a renewal, who can no
// longer be trusted; and at the call in flight. It is set for the earliest of
// what comes next, so an idle claim costs nothing.

// wakeBy makes the keeper fire at i or earlier. s.mu is held.
func (s *Semaphore) wakeBy(i clock.Instant) {
	if i == clock.Never || s.stopped || s.alarm != 0 && s.alarm <= i {
		return
	}
	s.alarm = i
	d := max(i.Sub(clock.Now()), 0)
	if s.timer == nil {
		s.timer = time.AfterFunc(d, s.tick)
	} else {
		s.timer.Reset(d)
	}
}

// tick is the keeper's round.
func (s *Semaphore) tick() {
	s.mu.Lock()
	defer s.unlock()
	if s.stopped {
		return
	}
	s.alarm = 0
	now := clock.Exact()
	for _, f := range s.air {
		if f != nil && now >= f.giveUp {
			// It may be executed yet; whatever it answers will not be looked at.
			s.retire(f)
			s.failed(f, protocol.NoAnswer())
		}
	}
	s.endure(now)
	for _, c := range s.claims {
		s.attend(c, now)
	}
	if s.waiters > 0 && s.nearest <= now {
		s.nearest = clock.Never
		s.poke = true
	}
	s.kick()
	s.rearm()
}

// attend does what is due for c. What will be due soon is done at once, so that
// one call carries the heartbeats of many waiters.
func (s *Semaphore) attend(c *Claim, now clock.Instant) {
	if c.state == held && c.trust <= now {
		cause := Untrusted
		if c.capped {
			cause = MaxHold
		}
		s.lose(c, cause, false)
		return
	}
	switch {
	case c.state == lost && c.trust.Add(c.Terms.TTL+Patience) <= now:
		s.end(c, c.err) // nobody has come for it, and the server has long dropped it
	case c.due == clock.Never:
	case c.state == queued && c.due <= now.Add(c.Terms.Heartbeat/12):
		s.sendHeartbeat(c)
	case c.state == held && c.due <= now.Add(c.trust.Sub(now)/12):
		s.sendRenew(c, nil)
	}
}

func (s *Semaphore) sendHeartbeat(c *Claim) {
	c.due = clock.Never
	s.line(&op{
		Op:    protocol.Op{Verb: protocol.Heartbeat, ID: c.id, TTL: c.Terms.Heartbeat, Flag: c.places},
		claim: c, giveUp: clock.Never,
	})
}

// rearm sets the timer for what comes next.
func (s *Semaphore) rearm() {
	next := clock.Never
	for _, c := range s.claims {
		next = min(next, c.due)
		if c.state == held {
			next = min(next, c.trust)
		}
	}
	if s.waiters > 0 {
		next = min(next, s.nearest)
	}
	for _, f := range s.air {
		if f != nil {
			next = min(next, f.giveUp)
		}
	}
	if s.air == [2]*flight{} && len(s.pending)+len(s.releases) > 0 {
		next = min(next, s.retryAt)
	}
	if clock.Now() < s.retryAt {
		next = min(next, s.patience())
	}
	s.wakeBy(next)
}

// recheck makes every waiter and every holder ask now: messages may have been
// lost, and after a reconnect perhaps more than messages.
func (s *Semaphore) recheck() {
	s.mu.Lock()
	defer s.unlock()
	for _, c := range s.claims {
		switch {
		case c.due == clock.Never: // it is asking already, or must not
		case c.state == queued:
			s.sendHeartbeat(c)
		case c.state == held:
			s.sendRenew(c, nil)
		}
	}
	s.kick()
}
