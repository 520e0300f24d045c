package session

import (
	"context"
	"time"

	"github.com/berth-go/berth/internal/clock"
	"github.com/berth-go/berth/internal/commit"
	"github.com/berth-go/berth/internal/protocol"
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

// lookForLife finds out in the background, by a connection of its own, whether a Redis that is
// silent is slow or away. answered is told how long the answer took. One look at a time is
// enough.
func (s *Session) lookForLife(answered func(took time.Duration)) {
	if !s.looking.CompareAndSwap(false, true) {
		return
	}
	go func() {
		defer s.looking.Store(false)
		began := clock.Exact()
		if reach.Redis(s.ctx, s.rdb) == nil {
			s.seen()
			answered(clock.Exact().Sub(began))
		}
	}()
}

// A call is on a dead connection if it has been silent for deadAfter times as long as Redis takes
// to answer on a new one. That is more than a connection that is being made takes.
const deadAfter = 4

// idlePatience is how long an idle connection may take to answer, at least.
const idlePatience = time.Second

// mayBeDead looks whether Redis is silent, or just the connection of call, which was given up, or
// the pool is used up. s.mu is held.
func (s *Semaphore) mayBeDead(call *commit.Call[*Request]) {
	s.session.lookForLife(func(took time.Duration) {
		s.mu.Lock()
		dead := call.Hangs() && clock.Exact().Sub(call.Sent) > deadAfter*took
		s.mu.Unlock()
		if dead {
			s.session.checkIdle(s.key, took)
		}
		if dead || s.session.store.UsedUp() {
			s.restart()
		}
	})
}

// checkIdle takes the connections out of the pool that have been idle for as long as one that has
// turned out to be dead. Those that are well come back.
func (s *Session) checkIdle(k protocol.Key, took time.Duration) {
	s.store.CheckIdle(s.ctx, k, max(idlePatience, deadAfter*took))
}

// restart gives up the call in flight, which was sent on a connection of the old pool, most
// likely a dead one, too; or it waits for one, because the pool is used up: then it fails so.
func (s *Semaphore) restart() {
	s.mu.Lock()
	defer s.unlock()
	if call := s.queue.Overdue(clock.Never); call != nil {
		s.giveUp(call)
	}
	s.dispatch()
}
