package look_test

import (
	"errors"
	"regexp"
	"testing"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/internal/testkit/testenv"
)

// TestServerTellsWhatItIs, and a user who may not ask is told so.
func TestServerTellsWhatItIs(t *testing.T) {
	testenv.OwnServer(t, []string{"maxmemory-policy allkeys-lru"}, func(e *testenv.Env) {
		e.Must(e.Inspector.Ping(e.Ctx))
		got, err := e.Inspector.Server(e.Ctx)
		e.Must(err)
		if !regexp.MustCompile(`^(redis|valkey) \d+\.\d+\.\d+$`).MatchString(got.Version) || got.Policy != "allkeys-lru" || got.Role != "master" {
			e.Errorf("%+v", got)
		}
		write := func() error { return e.Redis.Set(e.Ctx, "x", "", 0).Err() }
		for _, refusing := range []string{"maxmemory", "min-replicas-to-write"} {
			e.Must(e.Redis.ConfigSet(e.Ctx, refusing, "1").Err())
			if err := write(); err == nil {
				e.Errorf("%s 1: it writes", refusing)
			}
			e.Must(e.Redis.ConfigSet(e.Ctx, refusing, "0").Err())
		}
		e.Must(e.Redis.ReplicaOf(e.Ctx, "127.0.0.1", "1").Err())
		if err := write(); err == nil {
			e.Error("a replica writes")
		}
		e.Must(e.Redis.ReplicaOf(e.Ctx, "NO", "ONE").Err())
		got, err = e.Inspector.Server(e.Ctx)
		e.Must(err)
		if r := got.Refusals; r.OOM == 0 || r.NoReplicas == 0 || r.ReadOnly == 0 || r.Misconf != 0 {
			e.Errorf("refused were %+v", r)
		}
		e.Must(e.Redis.ACLSetUser(e.Ctx, "default", "-info").Err())
		if _, err := e.Inspector.Server(e.Ctx); !errors.Is(err, berth.ErrRefused) {
			e.Errorf("without the right: %v", err)
		}
	})
}

// TestPingTellsWhenRedisIsAway.
func TestPingTellsWhenRedisIsAway(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		p := e.Peer()
		e.Must(e.Patient(p.Inspector()).Ping(e.Ctx))
		p.Net.Down()
		if err := p.Inspector().Ping(e.Ctx); !errors.Is(err, berth.ErrUnreachable) {
			e.Errorf("while it is away: %v", err)
		}
	})
}
