package protocol_test

import (
	"context"
	"time"

	"github.com/berth-go/berth/internal/look"
	"github.com/berth-go/berth/internal/protocol"
)

func init() {
	protocol.Delete = look.Delete
	protocol.Inspect = func(ctx context.Context, s *protocol.Store, k protocol.Key, records bool) (*protocol.Seen, error) {
		snap, err := look.New(s).Inspect(ctx, k, records)
		if err != nil {
			return nil, err
		}
		seen := &protocol.Seen{
			Exists: snap.Exists, Now: snap.Now, State: snap.State, Remnant: snap.Remnant, Oldest: snap.Oldest,
			Expired: snap.Expired, Who: snap.Who, Stale: snap.Stale,
		}
		for _, r := range snap.Leases {
			seen.Leases = append(seen.Leases, protocol.SeenRecord(r))
		}
		for _, r := range snap.Queue {
			seen.Queue = append(seen.Queue, protocol.SeenRecord(r))
		}
		for _, c := range snap.Counted {
			seen.Counted = append(seen.Counted, protocol.SeenCounted(c))
		}
		return seen, nil
	}
	protocol.Rest = func(ctx context.Context, s *protocol.Store, k protocol.Key, weight int, costs protocol.Costs) (time.Duration, error) {
		snap, err := look.New(s).Inspect(ctx, k, true)
		if err != nil {
			return 0, err
		}
		return snap.Rest(weight, costs), nil
	}
}
