package berthpool_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/berthpool"
)

// A hook that blocks for good costs the pool the room of one lease, and no more. Close returns.
func TestBlockedHookTakesRoomForOneLease(t *testing.T) {
	hooks := map[string]func(block func()) berth.Hooks{
		"AcquireDone": func(block func()) berth.Hooks {
			return berth.Hooks{AcquireDone: func(context.Context, berth.AcquireInfo, *berth.Lease, error) { block() }}
		},
		"Released": func(block func()) berth.Hooks {
			return berth.Hooks{Released: func(*berth.Lease, time.Duration, error) { block() }}
		},
	}
	for which, hook := range hooks {
		t.Run(which, func(t *testing.T) {
			exactly(t, func(e *env) {
				var blocked atomic.Bool
				unblock := make(chan struct{})
				defer close(unblock)
				p := e.Peer(berth.Hook(hook(func() {
					if blocked.CompareAndSwap(false, true) {
						<-unblock
					}
				})))
				pool, err := berthpool.New(p.Sem(2), 2, berthpool.Idle(time.Second))
				e.Must(err)
				for range 3 {
					var both sync.WaitGroup
					for range 2 {
						both.Go(func() { e.WantErr(pool.Do(e.Ctx, func(context.Context) error { return nil }), nil) })
					}
					both.Wait()
					e.Pass(2 * time.Second) // the leases are given back
				}
				start := time.Now()
				e.Must(pool.Close())
				e.Within(start, 0, 7*time.Second, "closed")
			})
		})
	}
}
