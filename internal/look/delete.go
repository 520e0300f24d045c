package look

import (
	"cmp"
	"context"
	"errors"

	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth/internal/protocol"
)

// Delete removes a semaphore's keys, whatever they hold, but for a newer layout, which is
// refused with protocol.ErrVersion. It reports whether there were any. go-redis does not repeat it:
// the second copy would find none.
func Delete(ctx context.Context, s *protocol.Store, k protocol.Key) (bool, error) {
	if newer, err := isNewer(ctx, s, k); err != nil || newer {
		return false, cmp.Or(err, error(&protocol.Failure{
			Kind: protocol.ErrRejected, Detail: protocol.ErrVersion, Err: errors.New("nothing was deleted"),
		}))
	}
	// Both at once: a call in between would find half of a semaphore.
	gone, err := del(ctx, s, k.State, k.Order())
	if redis.HasErrorPrefix(err, "TRYAGAIN") { // their slot is moving, and they are apart
		var order int64
		if gone, err = del(ctx, s, k.State); err == nil {
			if order, err = del(ctx, s, k.Order()); err != nil {
				return false, protocol.Unsure("one of the semaphore's two keys was deleted", s.Failed(err))
			}
		}
		gone += order
	}
	if err != nil {
		return false, s.Failed(err)
	}
	return gone > 0, nil
}

// once is a command that go-redis must not repeat by itself.
type once struct{ *redis.Cmd }

// NoRetry implements redis.Cmder.
func (once) NoRetry() bool { return true }

func del(ctx context.Context, s *protocol.Store, keys ...any) (int64, error) {
	cmd := once{redis.NewCmd(ctx, append([]any{"del"}, keys...)...)}
	_ = s.Redis().Process(ctx, cmd) // its error is the command's
	return cmd.Int64()
}

// isNewer reports whether the keys have a layout that this berth does not know. A key of another
// type has none.
func isNewer(ctx context.Context, s *protocol.Store, k protocol.Key) (bool, error) {
	text, err := s.Redis().HGet(ctx, k.State, "state").Result()
	if err != nil && !errors.Is(err, redis.Nil) && !redis.HasErrorPrefix(err, "WRONGTYPE") {
		return false, s.Failed(err)
	}
	_, err = protocol.ParseState(text, 0)
	return errors.Is(err, protocol.ErrVersion), nil
}
