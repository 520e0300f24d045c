package session

import (
	"context"

	"github.com/berth-go/berth/internal/clock"
	"github.com/berth-go/berth/internal/reach"
)

// Reach is reach.Redis, and nil if Redis has answered a call meanwhile: a server with more
// to do than it can keeps a new connection waiting, but it is there.
func (s *Session) Reach(ctx context.Context) error {
	began := clock.Exact()
	err := reach.Redis(ctx, s.rdb)
	if s.heard.Load() >= int64(began) {
		return nil
	}
	return err
}

// alive returns when Redis last gave a sign of life, as far as this session knows.
func (s *Session) alive() clock.Instant { return clock.Instant(max(s.heard.Load(), s.sign.Load())) }

// seen notes a sign of life that is not an answer to a call.
func (s *Session) seen() { s.sign.Store(int64(clock.Exact())) }

// lookForLife finds out in the background, by a connection of its own, whether a Redis that
// keeps a call waiting is slow or away. One look at a time is enough.
func (s *Session) lookForLife() {
	if !s.looking.CompareAndSwap(false, true) {
		return
	}
	go func() {
		defer s.looking.Store(false)
		if reach.Redis(s.ctx, s.rdb) == nil {
			s.seen()
		}
	}()
}
