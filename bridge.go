package berth

import (
	"log/slog"

	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth/internal/bridge"
	"github.com/berth-go/berth/internal/clock"
	"github.com/berth-go/berth/internal/protocol"
	"github.com/berth-go/berth/internal/session"
)

// Packages berthpool and berthadmin build on these, and nobody else is to.
func init() {
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
}
