package berthpool_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/berthpool"
)

// How many leases a pool has and asks for.

// ledger counts the leases that a client has, asks for, or gives back.
type ledger struct {
	mu      sync.Mutex
	out     int
	most    int
	fetched int
}

func (l *ledger) add(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.out += n
	l.most = max(l.most, l.out)
}

// asked returns how many leases were fetched so far.
func (l *ledger) asked() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.fetched
}

// peak returns the most that there were at once so far; some may be on their way back yet.
func (l *ledger) peak() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.most
}

// hooks keep the ledger. At the beginning and the end of each request, pause lets others come
// meanwhile.
func (l *ledger) hooks(pause func()) berth.ClientOption {
	return berth.Hook(berth.Hooks{
		AcquireStart: func(ctx context.Context, _ berth.AcquireInfo) context.Context {
			l.add(1)
			pause()
			return ctx
		},
		AcquireDone: func(_ context.Context, _ berth.AcquireInfo, _ *berth.Lease, err error) {
			if err != nil {
				pause()
				l.add(-1)
				return
			}
			l.mu.Lock()
			defer l.mu.Unlock()
			l.fetched++
		},
		Released: func(*berth.Lease, time.Duration, error) {
			pause()
			l.add(-1)
		},
	})
}

// Whatever goroutines do at once, what a pool has, asks for and gives back is never more than
// its size, whether Redis has room or its requests wait in the queue until they are canceled.
func TestPoolNeverOutgrowsItsSize(t *testing.T) {
	for _, limit := range []int{8, 1} {
		t.Run(fmt.Sprint("limit ", limit), func(t *testing.T) {
			each(t, func(e *env) {
				const size = 2
				var l ledger
				pool := e.pool(e.Peer(l.hooks(func() { e.Pass(time.Millisecond) })).Sem(limit), size, berthpool.Idle(0))
				var wg sync.WaitGroup
				for i := range 12 {
					wg.Go(func() {
						acquire := pool.Acquire
						if i%2 == 0 {
							acquire = pool.TryAcquire
						}
						for range e.Many(200) {
							e.briefly(acquire)
						}
					})
				}
				wg.Wait()
				if most := l.peak(); most != size {
					e.Errorf("a pool of %d had %d leases or requests at once", size, most)
				}
			})
		})
	}
}

// briefly borrows, if that takes a few milliseconds at most, and gives back.
func (e *env) briefly(acquire func(context.Context) (*berthpool.Loan, error)) {
	ctx, cancel := context.WithTimeout(e.Ctx, time.Duration(1+rand.N(5))*time.Millisecond)
	defer cancel()
	if loan, err := acquire(ctx); err == nil {
		e.Pass(time.Duration(rand.N(3)) * time.Millisecond)
		e.giveBack(loan)
		return
	}
	e.Pass(time.Duration(rand.N(30)) * time.Millisecond) // time for a request to be canceled
}

// A pool that is larger than the limit always has requests in the queue. They are not taken for
// those of others, for whom leases would have to go back.
func TestPoolAboveTheLimitKeepsItsLeases(t *testing.T) {
	each(t, func(e *env) {
		const limit = 2
		var l ledger
		p := e.Peer(l.hooks(func() {}))
		pool := e.pool(p.Sem(limit, berth.TTL(time.Hour)), 2*limit, kept)
		stop := e.keepBusy(pool, 4*limit)
		e.UntilWaiting(limit)
		for n := p.Net.Count("evalsha"); p.Net.Count("evalsha") < n+5; { // answers tell of the queue
			e.Pass(e.Tick())
		}
		stop()
		if n := l.asked(); n != limit {
			e.Errorf("%d leases were fetched for a limit of %d", n, limit)
		}
	})
}

// A pool keeps its leases for many TTLs, as long as they are renewed.
func TestPoolKeepsItsLeasesForManyTTLs(t *testing.T) {
	exactly(t, func(e *env) {
		var l ledger
		pool := e.pool(e.Peer(l.hooks(func() {})).Sem(1, berth.TTL(e.TTL)), 1, kept)
		for start := time.Now(); time.Since(start) < 20*e.TTL; e.Pass(e.TTL / 5) {
			e.finish(e.borrow(pool))
		}
		if n := l.asked(); n != 1 {
			e.Errorf("%d leases were fetched, and none was lost", n)
		}
	})
}
