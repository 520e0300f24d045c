package session

import (
	"strconv"
	"strings"

	"github.com/berth-go/berth/internal/claim"
	"github.com/berth-go/berth/internal/clock"
)

// hear handles a message: the key, then a line for each event.
func (s *Session) hear(payload string) {
	s.seen()
	key, lines, _ := strings.Cut(payload, "\n")
	if sem := s.find(key); sem != nil {
		sem.hear(lines)
	}
}

// resumed is called whenever a subscription is new. Messages may have been lost before, so
// all claims concerned ask; and the server may be another one, with another policy.
func (s *Session) resumed(channel string) {
	s.seen()
	if s.store.Sharded() {
		if sem := s.find(strings.TrimSuffix(channel, ":"+s.channel)); sem != nil {
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

// hear handles events: a kind, an id, and the kind's values.
func (s *Semaphore) hear(lines string) {
	now := clock.Exact()
	s.mu.Lock()
	defer s.unlock()
	for line := range strings.SplitSeq(lines, "\n") {
		f := strings.Fields(line)
		if len(f) < 2 || s.claims[f[1]] == nil {
			continue
		}
		c := s.claims[f[1]]
		s.do(c, func() claim.Effect {
			if f[0] != "g" || len(f) != 5 {
				return c.m.HeardEnd()
			}
			latest := int64(0)
			if s.clock.Known() {
				latest = s.clock.Latest(now)
			}
			return c.m.HeardGrant(number(f[2]), int(number(f[3])), int(number(f[4])), now, latest)
		})
	}
	s.dispatch()
}

// number parses a number; what is not a number is -1.
func number(s string) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return -1
	}
	return n
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
