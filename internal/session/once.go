package session

import (
	"context"
	"errors"
	"time"

	"github.com/berth-go/berth/internal/claim"
	"github.com/berth-go/berth/internal/protocol"
)

// mostOnce bounds one attempt of an operation without a claim.
const mostOnce = 2 * time.Second

// Do executes one operation on the semaphore called name. The operation must be harmless to
// repeat: while Redis does not answer, or refuses for the moment, it is tried again, for
// claim.Timeout at most, or until ctx ends. again tells that the outcome of an earlier
// attempt is not known; then every failure is protocol.ErrUnknown. Do fails with claim.ErrClosed
// when the session is closed, and ends when it is closed meanwhile.
func (s *Session) Do(ctx context.Context, name string, op protocol.Op) (result protocol.Result, again bool, err error) {
	if s.isClosing() {
		return result, false, claim.ErrClosed
	}
	ctx, cancel := context.WithTimeout(ctx, claim.Timeout)
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	key := s.store.Key(name)
	for {
		done, err := s.once(ctx, key, op)
		if err == nil {
			for more := done.more; more; {
				rest, failed := s.once(ctx, key)
				more = failed == nil && rest.more // or whoever calls next does the rest
			}
			return done.result, again, nil
		}
		if protocol.Silent(err) {
			s.store.CheckIdle(s.ctx, key, s.hearNow) // the connections may be dead
		}
		useless := errors.Is(err, protocol.ErrRejected) || protocol.ByClient(err)
		if again = again || errors.Is(err, protocol.ErrUnknown); again {
			err = protocol.Unsure(protocol.NoReply, err)
		}
		if useless || !rest(ctx) {
			return result, again, err
		}
	}
}

// rest makes the pause before another attempt; false: ctx has ended, and an attempt would only
// make the outcome of the last one uncertain.
func rest(ctx context.Context) bool {
	select {
	case <-ctx.Done():
	case <-time.After(oncePause):
	}
	return ctx.Err() == nil
}

// outcome is that of one call.
type outcome struct {
	result protocol.Result // of the operation, if there is one
	more   bool            // hand-offs are left for another call, without operations
}

// once makes one call.
func (s *Session) once(ctx context.Context, key protocol.Key, ops ...protocol.Op) (outcome, error) {
	o, err := protocol.Bounded(ctx, mostOnce, func(ctx context.Context) (outcome, error) {
		var o outcome
		reply, err := s.store.Do(ctx, key, 0, ops)
		if o.more = reply.More; len(ops) > 0 {
			o.result = ops[0].Result
		}
		return o, err
	})
	if protocol.GivenUp(err) && s.store.UsedUp() {
		err = protocol.NoConnectionFree()
	}
	return o, err
}

// oncePause is the pause between two attempts.
const oncePause = 50 * time.Millisecond
