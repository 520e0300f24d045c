package topology

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/internal/testkit/redistest"
)

// TestSingle: one server, by socket and by TCP, in both versions of the protocol,
// whose connections are cut again and again.
func TestSingle(t *testing.T) {
	for _, resp := range []int{2, 3} {
		for _, network := range []string{"unix", "tcp"} {
			t.Run(fmt.Sprintf("%s RESP%d", network, resp), func(t *testing.T) {
				t.Parallel()
				s := redistest.Start(t, redistest.WithTCP())
				c := startWorkers(t, func() redis.UniversalClient {
					return s.Client(t, suited, func(o *redis.Options) {
						o.Protocol = resp
						if network == "tcp" {
							o.Network, o.Addr = network, s.Addr()
						}
					})
				}, berth.TTL(lasting))
				cutAndJudge(t, s, c)
			})
		}
	}
}

// TestTLSWithLeastRights: a server that asks for certificates, and a user with
// the rights of docs/operations.md.
func TestTLSWithLeastRights(t *testing.T) {
	t.Parallel()
	s, addr, conf := redistest.StartTLS(t)
	args := []any{"ACL", "SETUSER", "berth", "reset", "on", ">secret"}
	rights, _ := redistest.LeastRights(t, "../../..")
	for _, right := range rights {
		args = append(args, right)
	}
	s.Do(t, args...)
	c := startWorkers(t, func() redis.UniversalClient {
		return s.Client(t, suited, func(o *redis.Options) {
			o.Network, o.Addr, o.TLSConfig = "tcp", addr, conf
			o.Username, o.Password = "berth", "secret"
		})
	}, berth.TTL(lasting))
	cutAndJudge(t, s, c)
}

// TestRestart: a server that writes everything down before it answers is killed
// and started again. Nothing is lost.
func TestRestart(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, redistest.WithConfig("appendonly yes", "appendfsync always"))
	c := startWorkers(t, func() redis.UniversalClient { return s.Client(t, suited) })
	for range rounds(t) {
		struck := time.Now()
		s.Kill()
		s.Restart(t)
		up := time.Since(struck)
		first, last := c.served(t, "after the restart", time.Now())
		t.Logf("away for %v; first served %v later, everybody after %v", up.Round(time.Millisecond), first.Round(time.Millisecond), last.Round(time.Millisecond))
	}
	verdictOf(c.finish(t)).report(t, 0)
}

// suited are the options that docs/operations.md recommends.
func suited(o *redis.Options) {
	o.ContextTimeoutEnabled, o.DialerRetries, o.MaxRetries = true, 1, -1
}

// cutAndJudge cuts every connection of the workers, commands and subscriptions, and
// expects that nobody notices more than a delay.
func cutAndJudge(t *testing.T, s *redistest.Server, c *workers) {
	t.Helper()
	for range 5 * rounds(t) {
		struck := time.Now()
		s.Do(t, "CLIENT", "KILL", "TYPE", "pubsub")
		s.Do(t, "CLIENT", "KILL", "TYPE", "normal")
		first, last := c.served(t, "after the cut", struck)
		t.Logf("cut: first served after %v, everybody after %v", first.Round(time.Millisecond), last.Round(time.Millisecond))
	}
	v := verdictOf(c.finish(t))
	v.report(t, 0)
	if v.lost > 0 {
		t.Errorf("%d leases were lost by a cut", v.lost)
	}
}
