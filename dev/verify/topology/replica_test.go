package topology

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth/internal/testkit/redistest"
)

// TestFailoverToAReplicaThatLagged is the worst failover: the new master knows
// none of the leases that are out. The limit may be exceeded until their holders
// have heard of it, and a fence would refuse every one of them.
func TestFailoverToAReplicaThatLagged(t *testing.T) {
	for name, strike := range map[string]func(*redistest.Server){
		"the master is gone":   (*redistest.Server).Kill, // clients notice at once
		"the master is silent": (*redistest.Server).Stop, // they notice when their calls take too long
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			master := redistest.Start(t, redistest.WithTCP())
			replica := redistest.StartReplica(t, master)
			replica.Promote(t) // cut off before anything was granted

			var current atomic.Pointer[redistest.Server]
			current.Store(master)
			c := startWorkers(t, func() redis.UniversalClient {
				return master.Client(t, suited, func(o *redis.Options) {
					o.Dialer = func(ctx context.Context, _, _ string) (net.Conn, error) {
						return new(net.Dialer).DialContext(ctx, "unix", current.Load().Socket())
					}
				})
			})
			current.Store(replica)
			strike(master)
			first, last := c.served(t, "after the failover", time.Now())
			t.Logf("all leases forgotten: first grant after %v, everybody served after %v", first.Round(time.Millisecond), last.Round(time.Millisecond))
			v := verdictOf(c.finish(t))
			v.report(t, ttl)
			if v.lost == 0 {
				t.Error("nothing was lost: nothing was tested")
			}
		})
	}
}
