package berthpool_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/berthpool"
	"github.com/berth-go/berth/internal/testkit/testenv"
)

// BenchmarkPool is acquire and release through a Pool, while a second client
// shares the limit: with room for both, where its goroutine acquires and releases
// without a pool, and with a pool each for the whole limit, so that leases change
// sides all the time. "elsewhere" are the second client's pairs, and none of it may
// ever see more holders than the limit.
func BenchmarkPool(b *testing.B) {
	for _, n := range []int{1, 64} {
		b.Run(fmt.Sprintf("beside/%d", n), func(b *testing.B) { poolBeside(b, n) })
		b.Run(fmt.Sprintf("against/%d", n), func(b *testing.B) { poolAgainst(b, n) })
	}
}

const poolLimit = 5

// poolBeside: the pool may keep all permits but one.
func poolBeside(b *testing.B, workers int) {
	e := testenv.NewBench(b)
	pool := newPool(b, e.Semaphore(b, "pool", poolLimit), poolLimit-1)
	other := e.Semaphore(b, "pool", poolLimit)
	busy := &gauge{b: b}
	beside(b, pool, busy, workers, 1, func(ctx context.Context) error {
		lease, err := other.Acquire(ctx)
		if err != nil {
			return err
		}
		busy.add(1)
		busy.add(-1)
		return lease.Release()
	})
}

// poolAgainst: both pools want all permits.
func poolAgainst(b *testing.B, workers int) {
	e := testenv.NewBench(b)
	pool := newPool(b, e.Semaphore(b, "pool", poolLimit), poolLimit)
	other := newPool(b, e.Semaphore(b, "pool", poolLimit), poolLimit)
	busy := &gauge{b: b}
	beside(b, pool, busy, workers, workers, func(ctx context.Context) error {
		loan, err := other.Acquire(ctx)
		if err != nil {
			return err
		}
		busy.add(1)
		busy.add(-1)
		return loan.Release()
	})
}

func newPool(b *testing.B, s *berth.Semaphore, size int) *berthpool.Pool {
	b.Helper()
	p, err := berthpool.New(s, size)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = p.Close() })
	return p
}

func borrow(b *testing.B, p *berthpool.Pool, busy *gauge) {
	loan, err := p.Acquire(context.Background())
	if err != nil {
		b.Error(err)
		return
	}
	busy.add(1)
	busy.add(-1)
	if err := loan.Release(); err != nil {
		b.Error(err)
	}
}

// gauge counts holders, of both clients, and fails above the limit.
type gauge struct {
	b *testing.B
	n atomic.Int64
}

func (g *gauge) add(d int64) {
	if n := g.n.Add(d); n > poolLimit {
		g.b.Errorf("%d holders at once", n)
	}
}

// beside measures the pool on some goroutines while others repeat elsewhere.
func beside(b *testing.B, pool *berthpool.Pool, busy *gauge, workers, others int, elsewhere func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	var done atomic.Int64
	var wg sync.WaitGroup
	for range others {
		wg.Go(func() {
			for ctx.Err() == nil {
				if err := elsewhere(ctx); err != nil && ctx.Err() == nil {
					b.Error(err)
					return
				}
				done.Add(1)
			}
		})
	}
	borrow(b, pool, busy) // everything is connected, and the leases are where they are wanted
	b.ReportAllocs()
	before := done.Load()
	testenv.Spread(b, workers, func(int) { borrow(b, pool, busy) })
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "pairs/s")
	b.ReportMetric(float64(done.Load()-before)/b.Elapsed().Seconds(), "elsewhere/s")
	cancel()
	wg.Wait()
}
