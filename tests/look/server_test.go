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
