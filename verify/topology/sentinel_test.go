package topology

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth/internal/redistest"
)

// TestSentinelFailover: the master is killed under load. Replication is not
// synchronous, so what it had granted last may be unknown to its successor.
func TestSentinelFailover(t *testing.T) {
	t.Parallel()
	w := redistest.StartWatched(t)
	c := assemble(t, func() redis.UniversalClient {
		return w.Client(t, func(o *redis.FailoverOptions) {
			o.ContextTimeoutEnabled, o.DialerRetries, o.MaxRetries = true, 1, -1
		})
	})
	for round := range rounds(t) {
		if round > 0 {
			w.AwaitWhole(t)
			c.served(t, "between two failovers", time.Now())
		}
		master := w.Master(t)
		master.Kill()
		first, last := c.served(t, "after the failover", time.Now())
		t.Logf("master killed: first grant after %v, everybody served after %v", first.Round(time.Millisecond), last.Round(time.Millisecond))
		if w.Master(t) == master {
			t.Error("the sentinels still name the dead master")
		}
		master.Restart(t)
	}
	judge(c.disband(t)).report(t, ttl)
}
