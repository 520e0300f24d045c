package session

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

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

// doubtAfter is how long a call may take before it is asked what keeps it, unless half of its time
// is less.
const doubtAfter = 250 * time.Millisecond

// doubtful is when it is to be asked what keeps call.
func doubtful(call *commit.Call[*Request]) clock.Instant {
	return call.Sent.Add(min(doubtAfter, call.Deadline.Sub(call.Sent)/2))
}

// inDoubt is doubtful of the call in flight; Never if there is none, or it was asked. s.mu is held.
func (s *Semaphore) inDoubt() clock.Instant {
	if s.queue.InFlight() == nil {
		return clock.Never
	}
	return s.doubtAt
}

// doubt looks for life if a call that has no answer may be waiting for a connection of the client's
// pool, so that starved can tell when the call is given up. To look only then would be too late: the
// next call might begin after Redis has answered, and Redis may have died in between.
func (s *Session) doubt() {
	if s.store.UsedUp() {
		s.lookForLife(func(time.Duration) {})
	}
}

// starved reports whether a call made at sent, which has no answer, lacks a connection: Redis has
// answered since on another one, so it is most likely the application that uses up the client's
// pool, with BLPOP say. Where Redis is away, calls that hang use it up as well.
func (s *Session) starved(sent clock.Instant) bool {
	return s.alive() > sent && s.store.UsedUp()
}

// starved is Session.starved for the call in flight, and what waits for it. Until it is asked what
// keeps it, and while no call is in flight, why the last one failed is all that is known. s.mu is
// held.
func (s *Semaphore) starved() bool {
	call := s.queue.InFlight()
	if call == nil || s.doubtAt != clock.Never {
		return errors.Is(s.queue.Err(), redis.ErrPoolTimeout)
	}
	return s.session.starved(call.Sent)
}

// silence returns why Redis has not answered, as far as is known; nil: it has, or nobody knows.
// s.mu is held.
func (s *Semaphore) silence() error {
	if s.starved() {
		return protocol.NoConnectionFree()
	}
	return s.queue.Err()
}

// mayBeDead looks whether Redis is silent, or just the connection of call, which was given up.
// s.mu is held.
func (s *Semaphore) mayBeDead(call *commit.Call[*Request]) {
	s.session.lookForLife(func(took time.Duration) {
		s.mu.Lock()
		dead := call.Hangs() && clock.Exact().Sub(call.Sent) > deadAfter*took
		s.mu.Unlock()
		if dead {
			s.session.checkIdle(s.key, took)
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
// likely a dead one, too.
func (s *Semaphore) restart() {
	s.mu.Lock()
	defer s.unlock()
	if call := s.queue.Overdue(clock.Never); call != nil {
		s.giveUp(call)
	}
	s.dispatch()
}
