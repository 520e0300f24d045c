package protocol

import (
	"context"

	"github.com/berth-go/berth/internal/reach"
)

// Reach is reach.Redis for the store's Redis.
func (s *Store) Reach(ctx context.Context) error { return reach.Redis(ctx, s.rdb) }
