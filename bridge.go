package berth

import (
	"context"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth/internal/bridge"
	"github.com/berth-go/berth/internal/clock"
	"github.com/berth-go/berth/internal/events"
	"github.com/berth-go/berth/internal/protocol"
	"github.com/berth-go/berth/internal/session"
)

// Packages berthpool, berthadmin and berthhttp build on these, and nobody else is to.
func init() {
	bridge.Failed = failed
	bridge.Semaphore = func(sem any) (*session.Semaphore, *protocol.Terms, bool) {
		s := sem.(*Semaphore) //nolint:forcetypeassert // by berthpool.New
		return s.inner, s.wait, s.config.noRenewal
	}
	bridge.Trust = func(lease any) clock.Instant {
		return lease.(*Lease).claim.Trust() //nolint:forcetypeassert // by berthpool
	}
	bridge.Admin = func(client any) (*protocol.Store, redis.UniversalClient, string, *slog.Logger) {
		c := client.(*Client) //nolint:forcetypeassert // by berthadmin.Of
		return c.session.Store(), c.rdb, c.prefix, c.log
	}
	bridge.Events = func(client any) *events.Queue {
		return &client.(*Client).events //nolint:forcetypeassert // by berthhttp
	}
	bridge.Order = func(sems any) ([]int, error) {
		return inOrder(sems.([]*Semaphore)) //nolint:forcetypeassert // by berthhttp
	}
	bridge.Look = func(ctx context.Context, within time.Duration, sem, opts any) (*protocol.Snapshot, *protocol.Terms, error) {
		s := sem.(*Semaphore)                              //nolint:forcetypeassert // by berthhttp
		cfg, err := with(s.config, opts.([]AcquireOption)) //nolint:forcetypeassert // by berthhttp
		if err != nil {
			return nil, nil, err
		}
		terms, store := cfg.terms(s.limit, false), s.client.session.Store()
		snap, err := protocol.Bounded(ctx, within, func(ctx context.Context) (*protocol.Snapshot, error) {
			return store.Look(ctx, store.Key(s.name), terms.Costs())
		})
		return snap, terms, public(s.name, err)
	}
}
