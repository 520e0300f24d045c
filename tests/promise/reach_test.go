package promise_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/berthtest"
	"github.com/berth-go/berth/internal/testkit/redistest"
	"github.com/berth-go/berth/internal/testkit/testenv"
)

// TestReachOfACrowdedServer: one that keeps a new connection waiting, because of all the
// others, and answers calls, is there.
func TestReachOfACrowdedServer(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		p := e.Peer()
		sem := p.Sem(1)
		p.Net.Inject(redistest.Rule{Fault: redistest.SwallowRequest, Match: redistest.Named("ping"), Times: -1})
		began := time.Now()
		time.AfterFunc(time.Second, func() { e.Must(e.Hold(sem).Release()) })
		e.Must(p.Reach(e.Ctx))
		e.Within(began, 3*time.Second, 3*time.Second, "found out")
		if err := p.Reach(e.Ctx); !errors.Is(err, berth.ErrUnreachable) {
			e.Errorf("when no call is answered: %v", err)
		}
	})
}

// TestReach: whether Redis is there, not whether it is quick or willing.
func TestReach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := berthtest.New(t)
		client := store.Client()
		store.Slow(time.Second)
		if err := client.Reach(t.Context()); err != nil {
			t.Errorf("slow: %v", err)
		}
		store.Slow(time.Hour)
		began := time.Now()
		if err := client.Reach(t.Context()); !errors.Is(err, berth.ErrUnreachable) || time.Since(began) != 3*time.Second {
			t.Errorf("hangs: %v after %v", err, time.Since(began))
		}
		store.Slow(0)
		store.Down()
		if err := client.Reach(t.Context()); !errors.Is(err, berth.ErrUnreachable) {
			t.Errorf("away: %v", err)
		}
		store.Up()
		ctx, leave := context.WithCancel(t.Context())
		leave()
		if err := client.Reach(ctx); !errors.Is(err, context.Canceled) || errors.Is(err, berth.ErrUnreachable) {
			t.Errorf("the caller has left: %v", err)
		}
		if err := client.Reach(nil); !errors.Is(err, berth.ErrInvalid) { //nolint:staticcheck // a mistake that callers make
			t.Errorf("no context: %v", err)
		}
	})
}
