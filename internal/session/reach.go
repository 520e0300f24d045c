package session

import (
	"context"

	"github.com/berth-go/berth/internal/clock"
	"github.com/berth-go/berth/internal/commit"
	"github.com/berth-go/berth/internal/protocol"
	"github.com/berth-go/berth/internal/reach"
)

// Silence is that nothing is heard of Redis: no answer to any call, be it late, and no message.
// After claim.Timeout of it a request ends that is not in the queue. Nothing is sent to find out
// more. docs/decisions/0021-silence.md has what follows from all that a call meets.

// hearAt notes that Redis was heard of at now.
func (s *Session) hearAt(now clock.Instant) { s.heard.Store(int64(now)) }

// hearNow notes that Redis is heard of.
func (s *Session) hearNow() { s.hearAt(clock.Exact()) }

// alive returns when Redis was last heard of.
func (s *Session) alive() clock.Instant { return clock.Instant(s.heard.Load()) }

// Reach is reach.Redis, and nil if Redis has been heard of meanwhile: a server with more to do than it
// can keeps a new connection waiting, but it is there.
func (s *Session) Reach(ctx context.Context) error {
	began := clock.Exact()
	err := reach.Redis(ctx, s.rdb)
	if s.alive() >= began {
		return nil
	}
	return err
}

// A call may be on a dead connection if it has been silent for deadAfter times as long as the last
// answer took. That is more than a connection that is being made takes.
const deadAfter = 4

// giveUp ends the wait for a call, whose outcome is unknown until it comes. If its connection may be
// dead, so may be those that were idle with it: they have to answer before they carry another call.
func (s *Semaphore) giveUp(call *commit.Call[*Request]) {
	why := s.noAnswer(protocol.NoAnswer())
	s.queue.GiveUp()
	if clock.Exact().Sub(call.Sent) > deadAfter*s.queue.Took {
		go s.session.store.CheckIdle(s.session.ctx, s.key, s.session.hearNow)
	}
	s.failed(call, why)
}

// noAnswer returns why a call has no answer: it may wait for a connection of the client's pool, if the
// application uses up all of them, with BLPOP say; or it waits for calls which do so. Else that is err.
func (s *Semaphore) noAnswer(err error) error {
	waits := s.queue.InFlight() != nil || s.queue.Hangs() || s.lined
	if waits && s.session.store.UsedUp() {
		return protocol.NoConnectionFree()
	}
	return err
}
