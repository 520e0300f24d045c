package session

import (
	"context"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth/internal/clock"
)

// TestIdleConnectionsThatAnswerAreHeard: when a call has no answer, those that were idle are asked,
// and what they answer is heard of Redis, too.
func TestIdleConnectionsThatAnswerAreHeard(t *testing.T) {
	inBubble(t, func(s *server) {
		s.warm()
		s.on("evalsha", func(ctx context.Context, cmd redis.Cmder, _ func() error) error { return hang(ctx, cmd) })
		began := clock.Exact()
		if _, err := s.do(pin); err == nil {
			s.Error("done without an answer")
		}
		if s.alive() <= began {
			s.Error("nothing was heard")
		}
	})
}
