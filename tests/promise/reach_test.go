package promise_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/berthtest"
)

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
