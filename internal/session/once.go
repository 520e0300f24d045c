package session

import (
	"context"
	"errors"
	"time"

	"github.com/berth-go/berth/internal/claim"
	"github.com/berth-go/berth/internal/protocol"
)

// mostOnce bounds one try of an operation that no claim makes.
const mostOnce = 2 * time.Second

// Do executes one operation on the semaphore called name, which must be harmless to
// repeat: while Redis does not answer, or refuses for the moment, it is tried again,
// for claim.Timeout at most, or until ctx ends. again tells that the outcome of a
// copy before the answer is not known; then no failure says that nothing has happened. It
// fails with ErrClosed when the session is closed.
func (s *Session) Do(ctx context.Context, name string, op protocol.Op) (result protocol.Result, again bool, err error) {
	if s.isClosing() {
		return result, false, ErrClosed
	}
	ctx, cancel := context.WithTimeout(ctx, claim.Timeout)
	defer cancel()
	key := s.store.Key(name)
	for {
		result, err = Bounded(ctx, mostOnce, func(ctx context.Context) (protocol.Result, error) {
			ops := []protocol.Op{op}
			_, err := s.store.Do(ctx, key, 0, ops)
			return ops[0].Result, err
		})
		if err == nil {
			return result, again, nil
		}
		useless := errors.Is(err, protocol.ErrRejected)
		if again = again || errors.Is(err, protocol.ErrUnknown); again {
			err = protocol.Unsure(err)
		}
		if useless {
			return result, again, err
		}
		select {
		case <-ctx.Done():
			return result, again, err
		case <-time.After(oncePause):
		}
	}
}

// oncePause is between two tries.
const oncePause = 50 * time.Millisecond

// Bounded calls f and returns what it does, or after d, or when ctx ends, an error
// of unknown outcome: a client may not know time-outs. f is left to end by itself.
func Bounded[T any](ctx context.Context, d time.Duration, f func(context.Context) (T, error)) (T, error) {
	type outcome struct {
		value T
		err   error
	}
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	done := make(chan outcome, 1)
	go func() {
		value, err := f(ctx)
		done <- outcome{value, err}
	}()
	select {
	case o := <-done:
		return o.value, o.err
	case <-ctx.Done():
		var none T
		return none, protocol.NoAnswer()
	}
}
