package session

import (
	"iter"

	"github.com/berth-go/berth/internal/clock"
	"github.com/berth-go/berth/internal/protocol"
)

// hear handles a message.
func (s *Session) hear(payload string) {
	s.hearAt(clock.Exact())
	key, notes := protocol.ReadMessage(payload)
	if sem := s.find(key); sem != nil {
		sem.hear(notes)
	}
}

// resumed is called whenever a subscription is new. Messages may have been lost before, so
// all claims concerned ask; and the server may be another one, with another policy.
func (s *Session) resumed(channel string) {
	s.hearAt(clock.Exact())
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

// hear handles the lines of a message. One that is not known is a reason to ask.
func (s *Semaphore) hear(notes iter.Seq[protocol.Note]) {
	now := clock.Exact()
	s.mu.Lock()
	defer s.unlock()
	for n := range notes {
		r := s.requests[n.ID]
		switch {
		case r == nil:
		case n.Granted:
			latest, _ := s.clock.Latest(now)
			s.apply(r, r.claim.HeardGrant(n.Token, n.Slot, n.Limit, now, latest))
		case n.Next:
			s.apply(r, r.claim.HeardNext(n.Rest, now))
		default:
			s.apply(r, r.claim.HeardEnd())
		}
	}
}

// recheck makes all waiters and holders ask now: messages may have been lost, and after a
// reconnect perhaps data, too.
func (s *Semaphore) recheck() {
	s.mu.Lock()
	defer s.unlock()
	for _, r := range s.requests {
		s.apply(r, r.claim.HeardEnd())
	}
}
