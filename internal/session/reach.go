package session

import (
	"context"

	"github.com/berth-go/berth/internal/clock"
)

// Reach is Store.Reach, and nil if Redis has answered a call meanwhile: a server with more
// to do than it can keeps a new connection waiting, but it is there.
func (s *Session) Reach(ctx context.Context) error {
	began := clock.Exact()
	err := s.store.Reach(ctx)
	if s.heard.Load() >= int64(began) {
		return nil
	}
	return err
}
