package session

import (
	"strconv"
	"strings"

	"github.com/berth-go/berth/internal/claim"
	"github.com/berth-go/berth/internal/clock"
)

// hear takes a message: the key, then a line for each event.
func (s *Session) hear(payload string) {
	key, lines, _ := strings.Cut(payload, "\n")
	if sem := s.find(key); sem != nil {
		sem.hear(lines)
	}
}

// resumed is called whenever a subscription is new: what was published while nobody
// listened is lost, so everybody concerned asks; and the server may be another one,
// with another policy.
func (s *Session) resumed(channel string) {
	if s.store.Sharded() {
		if sem := s.find(strings.TrimSuffix(channel, ":"+s.channel)); sem != nil {
			sem.recheck()
		}
		return
	}
	for _, sem := range s.active() {
		sem.recheck()
	}
	go s.askPolicy()
}

// hear takes events: a kind, an id, and what the kind has to say.
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

// number is -1 for what is none.
func number(s string) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return -1
	}
	return n
}

// recheck makes every waiter and every holder ask now: messages may have been lost,
// and after a reconnect perhaps more than messages.
func (s *Semaphore) recheck() {
	s.mu.Lock()
	defer s.unlock()
	for _, c := range s.claims {
		s.do(c, c.m.HeardEnd)
	}
	s.dispatch()
}
