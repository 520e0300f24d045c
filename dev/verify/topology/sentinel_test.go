package topology

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/internal/testkit/redistest"
)

// TestSentinelFailover: the master goes under load. Replication is not
// synchronous, so what it had granted last may be unknown to its successor.
func TestSentinelFailover(t *testing.T) {
	for name, fault := range map[string]struct {
		strike  func(*redistest.Server)
		restore func(*redistest.Server)
		opts    []berth.Option
	}{
		"the master is killed": {(*redistest.Server).Kill, func(s *redistest.Server) { s.Restart(t) }, nil},
		// When it goes on it takes itself for the master for a while yet.
		"the master stands still":              {(*redistest.Server).Stop, (*redistest.Server).Cont, nil},
		"the master stands still, MinReplicas": {(*redistest.Server).Stop, (*redistest.Server).Cont, []berth.Option{berth.MinReplicas(1)}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := redistest.StartWatched(t)
			c := startWorkers(t, onSentinels(t, w), fault.opts...)
			for round := range rounds(t) {
				if round > 0 {
					w.AwaitWhole(t)
				}
				master := w.Master(t)
				fault.strike(master)
				first, last := c.served(t, "after the failover", time.Now())
				t.Logf("%s: first grant after %v, everybody served after %v", name, first.Round(time.Millisecond), last.Round(time.Millisecond))
				for give := time.Now().Add(recovery); w.Master(t) == master; { // the first hears of it from another one
					if time.Now().After(give) {
						t.Fatal("the sentinels still name the old master")
					}
					wait(t.Context(), 20*time.Millisecond)
				}
				fault.restore(master)
				c.served(t, "when the old master is back", time.Now())
			}
			verdictOf(c.finish(t)).report(t, ttl)
		})
	}
}

func onSentinels(t *testing.T, w *redistest.Watched) func() redis.UniversalClient {
	return func() redis.UniversalClient {
		return w.Client(t, func(o *redis.FailoverOptions) {
			o.ContextTimeoutEnabled, o.DialerRetries, o.MaxRetries = true, 1, -1
		})
	}
}
