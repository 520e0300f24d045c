package session

import (
	"iter"

	"github.com/berth-go/berth/internal/claim"
	"github.com/berth-go/berth/internal/clock"
	"github.com/berth-go/berth/internal/protocol"
)

// hear handles a message.
func (s *Session) hear(payload string) {
	s.seen()
	key, notes := protocol.ReadMessage(payload)
	if sem := s.find(key); sem != nil {
		sem.hear(notes)
	}
}

// resumed is called whenever a subscription is new. Messages may have been lost before, so
// all claims concerned ask; and the server may be another one, with another policy.
func (s *Session) resumed(channel string) {
	s.seen()
	if s.store.Sharded() {
		if sem := s.find(s.store.StateOf(channel)); sem != nil {
			sem.recheck()
		}
		s.askPolicySoon()
		return
	}
	for _, sem := range s.active() {
		sem.recheck()
	}
	go s.askPolicy()
}

// hear handles the lines of a message. One that does not tell of a grant is a reason to ask.
func (s *Semaphore) hear(notes iter.Seq[protocol.Note]) {
	now := clock.Exact()
	s.mu.Lock()
	defer s.unlock()
	for n := range notes {
		c := s.claims[n.ID]
		if c == nil {
			continue
		}
		s.do(c, func() claim.Effect {
			if !n.Granted {
				return c.m.HeardEnd()
			}
			latest := int64(0)
			if s.clock.Known() {
				latest = s.clock.Latest(now)
			}
			return c.m.HeardGrant(n.Token, n.Slot, n.Limit, now, latest)
		})
	}
	s.dispatch()
}

// recheck makes all waiters and holders ask now: messages may have been lost, and after a
// reconnect perhaps data, too.
func (s *Semaphore) recheck() {
	s.mu.Lock()
	defer s.unlock()
	for _, c := range s.claims {
		s.do(c, c.m.HeardEnd)
	}
	s.dispatch()
}
