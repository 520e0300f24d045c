package berth_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/berth-go/berth"
)

// What a pool owes to those who wait elsewhere, and to the limit.

// tally judges the holders of one semaphore, whichever way they came by it.
type tally struct {
	e     *env
	limit int
	mu    sync.Mutex
	held  map[believer]bool
	count int
}

// believer is a *Lease or a *Loan.
type believer interface {
	ID() string
	Slot() int
	Token() int64
	Valid() bool
	Release() error
}

func (g *tally) enter(b believer) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.count++
	live := 1
	for other := range g.held {
		if !other.Valid() {
			continue
		}
		live++
		if b.Valid() && (other.ID() == b.ID() || other.Slot() == b.Slot() || other.Token() == b.Token()) {
			g.e.t.Errorf("two holders of lease %s, slot %d, token %d", b.ID(), b.Slot(), b.Token())
		}
	}
	if live > g.limit && b.Valid() {
		g.e.t.Errorf("%d holders, the limit is %d", live, g.limit)
	}
	g.held[b] = true
}

func (g *tally) leave(b believer) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.held, b)
}

// work acquires and gives back n times, and sometimes gives up.
func (g *tally) work(n int, acquire func(context.Context) (believer, error)) {
	for range n {
		ctx, cancel := context.WithCancel(g.e.ctx)
		if rand.N(10) == 0 {
			ctx, cancel = context.WithTimeout(g.e.ctx, time.Duration(rand.N(2000))*time.Microsecond)
		}
		b, err := acquire(ctx)
		cancel()
		if err != nil {
			wantErr(g.e.t, err, ctx.Err())
			continue
		}
		g.enter(b)
		if g.e.exact || rand.N(10) == 0 {
			g.e.pass(time.Duration(rand.N(3)) * time.Millisecond)
		}
		g.leave(b)
		g.e.must(b.Release())
	}
}

// S1 and S7 with two pools, a pool of the same client, and a client without, by
// what all of them believe; and no two loans share a lease.
func TestPoolsNeverExceedTheLimit(t *testing.T) {
	each(t, func(_ *testing.T, e *env) {
		const limit = 4
		g := &tally{e: e, limit: limit, held: map[believer]bool{}}
		p, q, plain := e.peer(), e.peer(), e.peer().sem(limit)
		pools := []*berth.Pool{e.pool(p.sem(limit), limit), e.pool(q.sem(limit), 3), e.pool(q.sem(limit), 1)}
		var wg sync.WaitGroup
		for _, pool := range pools {
			for range 4 {
				wg.Go(func() {
					g.work(e.many(1000), func(ctx context.Context) (believer, error) { return pool.Acquire(ctx) })
				})
			}
		}
		wg.Go(func() { g.work(30, func(ctx context.Context) (believer, error) { return plain.Acquire(ctx) }) })
		wg.Wait()
		if g.count < e.many(10000) {
			e.t.Errorf("%d grants", g.count)
		}
		for _, pool := range pools {
			e.returned(pool)
		}
	})
}

// keepBusy borrows on n goroutines until the function it returns is called.
func (e *env) keepBusy(pool *berth.Pool, n int) (stop func()) {
	ctx, cancel := context.WithCancel(e.ctx)
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			for {
				loan, err := pool.Acquire(ctx)
				if err != nil {
					return
				}
				e.pass(time.Millisecond)
				if err := loan.Release(); err != nil {
					e.t.Error(err)
				}
			}
		})
	}
	return func() {
		cancel()
		wg.Wait()
	}
}

// Whoever waits elsewhere is served within a second, and a renewal interval,
// however busy the pool is; and the next ones sooner, for by then it looks more
// often.
func TestPoolServesWaitersElsewhere(t *testing.T) {
	for _, ttl := range []time.Duration{30 * time.Second, 900 * time.Millisecond} {
		t.Run(ttl.String(), func(t *testing.T) {
			each(t, func(_ *testing.T, e *env) {
				pool := e.pool(e.peer().sem(2, berth.TTL(ttl)), 2)
				other := e.peer().sem(2)
				stop := e.keepBusy(pool, 6)
				e.untilPool(pool, "busy", func(s berth.PoolStats) bool { return s.Leases == 2 && s.Waiting > 0 })
				e.pass(500 * time.Millisecond)
				most := min(time.Second, ttl/3)
				for range 3 {
					start := time.Now()
					lease := e.hold(other)
					e.within(start, 0, most, "served elsewhere")
					if s := pool.Stats(); s.Leases != 1 {
						e.t.Errorf("one waits elsewhere, and the pool keeps %d leases of 2", s.Leases)
					}
					most = min(most, 50*time.Millisecond)
					e.release(lease)
					e.untilPool(pool, "whole again", func(s berth.PoolStats) bool { return s.Leases == 2 })
				}
				stop()
				e.returned(pool)
			})
		})
	}
}

// A pool does not starve its own process either.
func TestPoolServesPlainWaitersOfItsClient(t *testing.T) {
	each(t, func(_ *testing.T, e *env) {
		s := e.peer().sem(2)
		pool := e.pool(s, 2)
		stop := e.keepBusy(pool, 6)
		e.untilPool(pool, "busy", func(s berth.PoolStats) bool { return s.Leases == 2 && s.Waiting > 0 })
		start := time.Now()
		e.release(e.hold(s))
		e.within(start, 0, time.Second, "served")
		stop()
	})
}

// Who waits elsewhere gets as many idle leases as there are waiters, and no more.
func TestPoolGivesIdleLeasesToWaitersElsewhere(t *testing.T) {
	each(t, func(_ *testing.T, e *env) {
		pool := e.pool(e.peer().sem(4), 4, kept)
		loans := []*berth.Loan{e.borrow(pool), e.borrow(pool), e.borrow(pool), e.borrow(pool)}
		e.finish(loans...)
		other := e.peer().sem(4)
		a, b := e.queue(other), e.queue(other)
		a.granted()
		b.granted()
		e.pass(2 * time.Second) // time for more news
		if s := pool.Stats(); s != (berth.PoolStats{Leases: 2, Idle: 2}) {
			e.t.Errorf("two waited elsewhere, and the pool has %+v of 4", s)
		}
		if l := e.borrow(pool); l.ID() != loans[3].ID() {
			e.t.Error("the lease that was used last is not the one that stayed")
		}
	})
}

// Leases that are lent are given back when their loans end, before local waiters
// have them; and these are served after.
func TestPoolGivesLentLeasesToWaitersElsewhere(t *testing.T) {
	each(t, func(_ *testing.T, e *env) {
		pool := e.pool(e.peer().sem(1), 1)
		loan := e.borrow(pool)
		local := e.wait(pool)
		elsewhere := e.queue(e.peer().sem(1))
		e.pass(1100 * time.Millisecond) // the news are there
		elsewhere.waits()
		e.finish(loan)
		lease := elsewhere.granted()
		local.waits()
		e.untilWaiting(1)
		e.release(lease)
		next := local.lent()
		if next.ID() == loan.ID() || next.Token() <= lease.Token() {
			e.t.Errorf("lent %s with token %d after %s with %d", next.ID(), next.Token(), lease.ID(), lease.Token())
		}
		e.finish(next)
	})
}

// A lease that was just granted is lent, though others wait elsewhere, behind: or
// two processes that both wait would give it to each other and nobody would work.
func TestPoolTakesItsTurn(t *testing.T) {
	each(t, func(_ *testing.T, e *env) {
		s := e.peer().sem(1)
		pool := e.pool(s, 1)
		first := e.hold(e.peer().sem(1))
		local := e.wait(pool)
		e.untilWaiting(1)
		elsewhere := e.queue(e.peer().sem(1))
		_, err := s.TryAcquire(e.ctx) // the answer brings the news
		wantErr(e.t, err, berth.ErrBusy)
		e.release(first)
		loan := local.lent()
		elsewhere.waits()
		e.finish(loan)
		if lease := elsewhere.granted(); lease.Token() <= loan.Token() {
			e.t.Error("the one behind was granted first")
		}
	})
}

// A waiter elsewhere that needs several permits gets them one after the other,
// each at once: when a lease is back the pool asks whether that was enough.
func TestPoolServesHeavyWaitersElsewhere(t *testing.T) {
	each(t, func(_ *testing.T, e *env) {
		pool := e.pool(e.peer().sem(4), 4)
		stop := e.keepBusy(pool, 8)
		e.untilPool(pool, "busy", func(s berth.PoolStats) bool { return s.Leases == 4 && s.Waiting > 0 })
		start := time.Now()
		lease := e.hold(e.peer().sem(4), berth.Weight(4))
		e.within(start, 0, time.Second+20*time.Millisecond, "served elsewhere")
		e.untilPool(pool, "in line", func(s berth.PoolStats) bool { return s.Asking == 4 })
		e.release(lease)
		e.untilPool(pool, "whole again", func(s berth.PoolStats) bool { return s.Leases == 4 })
		stop()
	})
}

func TestPoolGivesIdleLeasesToHeavyWaitersElsewhere(t *testing.T) {
	each(t, func(_ *testing.T, e *env) {
		pool := e.pool(e.peer().sem(4), 4, kept)
		e.finish(e.borrow(pool), e.borrow(pool), e.borrow(pool), e.borrow(pool))
		start := time.Now()
		e.release(e.hold(e.peer().sem(4), berth.Weight(4)))
		e.within(start, 0, time.Second+20*time.Millisecond, "served elsewhere")
	})
}

// Two busy pools take turns, and neither starves.
func TestPoolsTakeTurns(t *testing.T) {
	each(t, func(_ *testing.T, e *env) {
		a, b := e.pool(e.peer().sem(2), 2), e.pool(e.peer().sem(2), 2)
		stopA, stopB := e.keepBusy(a, 4), e.keepBusy(b, 4)
		for range 5 {
			for _, p := range []*berth.Pool{a, b} {
				start := time.Now()
				e.untilPool(p, "its turn", func(s berth.PoolStats) bool { return s.Leases > 0 })
				e.within(start, 0, time.Second, "its turn came")
			}
		}
		stopA()
		stopB()
		e.returned(a)
		e.returned(b)
	})
}

// What a pool asks of Redis while nothing happens is one call in a second.
func TestPoolThatIsLentAndIdleCostsLittle(t *testing.T) {
	exactly(t, func(_ *testing.T, e *env) {
		p := e.peer()
		pool := e.pool(p.sem(3), 3, kept)
		e.finish(e.borrow(pool), e.borrow(pool))
		e.pass(10 * time.Second)
		before := p.net.Count("evalsha")
		e.pass(60 * time.Second)
		if n := p.net.Count("evalsha") - before; n < 60 || n > 70 {
			e.t.Errorf("%d calls in a minute", n)
		}
		e.must(pool.Close())
		e.pass(time.Second)
		before = p.net.Count("evalsha")
		e.pass(10 * time.Minute)
		if n := p.net.Count("evalsha") - before; n > 0 {
			e.t.Errorf("%d calls of a pool that keeps nothing", n)
		}
	})
}
