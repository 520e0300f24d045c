package topology

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/internal/testkit/redistest"
)

// TestClusterMigration: the slot of a semaphore moves to another master while
// clients hold and wait. Nothing may be lost: the keys move as one.
func TestClusterMigration(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, redistest.Steady)
	c := startWorkers(t, onCluster(t, cluster), berth.TTL(lasting))
	slot := cluster.Slot(t, "{"+c.name+"}")
	for range 3 * rounds(t) {
		from := cluster.Owner(t, slot)
		struck := time.Now()
		cluster.Migrate(t, slot, (from+1)%3)
		took := time.Since(struck)
		first, last := c.served(t, "after the migration", time.Now())
		t.Logf("slot moved in %v; first served %v later, everybody after %v", took.Round(time.Millisecond), first.Round(time.Millisecond), last.Round(time.Millisecond))
		t.Logf("everybody hears of hand-offs again %v after the slot had moved", c.hears(t, struck.Add(took)).Round(time.Millisecond))
	}
	v := verdictOf(c.finish(t))
	v.report(t, 0)
	if v.lost > 0 {
		t.Errorf("%d leases were lost by a migration", v.lost)
	}
}

// TestClusterMasterDies: the master of a semaphore's slot is killed under load,
// and its replica takes over.
func TestClusterMasterDies(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t)
	c := startWorkers(t, onCluster(t, cluster))
	slot := cluster.Slot(t, "{"+c.name+"}")
	for range rounds(t) {
		master := cluster.Nodes[cluster.Owner(t, slot)]
		master.Kill()
		died := time.Now()
		first, last := c.served(t, "after the master's death", died)
		t.Logf("master killed: first grant after %v, everybody served after %v", first.Round(time.Millisecond), last.Round(time.Millisecond))
		t.Logf("everybody hears of hand-offs again %v after it", c.hears(t, died).Round(time.Millisecond))
		master.Restart(t)
		cluster.AwaitWhole(t)
	}
	verdictOf(c.finish(t)).report(t, ttl)
}

func onCluster(t *testing.T, cluster *redistest.Cluster) func() redis.UniversalClient {
	return func() redis.UniversalClient {
		return cluster.Client(t, func(o *redis.ClusterOptions) {
			o.ContextTimeoutEnabled, o.DialerRetries = true, 1
			o.ClusterStateReloadInterval = time.Second
		})
	}
}
