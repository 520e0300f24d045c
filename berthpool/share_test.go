package berthpool_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/berthpool"
	"github.com/berth-go/berth/internal/testkit/testenv"
)

// What a pool owes to the limit, and to those who wait elsewhere.

// tally judges the holders of one semaphore, of leases and of loans.
type tally struct {
	e     *env
	limit int
	mu    sync.Mutex
	held  map[holding]bool
	count int
}

// holding is a *berth.Lease or a *berthpool.Loan.
type holding interface {
	ID() string
	Slot() int
	Token() int64
	Valid() bool
	Release() error
}

func (g *tally) enter(b holding) {
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
			g.e.Errorf("two holders of lease %s, slot %d, token %d", b.ID(), b.Slot(), b.Token())
		}
	}
	if live > g.limit && b.Valid() {
		g.e.Errorf("%d holders, the limit is %d", live, g.limit)
	}
	g.held[b] = true
}

func (g *tally) leave(b holding) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.held, b)
}

// work acquires and gives back n times, and sometimes gives up.
func (g *tally) work(n int, acquire func(context.Context) (holding, error)) {
	for range n {
		ctx, cancel := context.WithCancel(g.e.Ctx)
		if rand.N(10) == 0 {
			ctx, cancel = context.WithTimeout(g.e.Ctx, time.Duration(rand.N(2000))*time.Microsecond)
		}
		var b holding
		err := g.e.Timely(func() (err error) {
			b, err = acquire(ctx)
			return err
		})
		cancel()
		if err != nil {
			g.e.WantErr(err, ctx.Err())
			continue
		}
		g.enter(b)
		if g.e.Exact || rand.N(10) == 0 {
			g.e.Pass(time.Duration(rand.N(3)) * time.Millisecond)
		}
		g.leave(b)
		g.e.giveBack(b)
	}
}

// S1 and S7 with two pools, a third one of the same client, and a client without, by
// what all of them may rely on; and no two loans share a lease.
func TestPoolsNeverExceedTheLimit(t *testing.T) {
	each(t, func(e *env) {
		const limit = 4
		g := &tally{e: e, limit: limit, held: map[holding]bool{}}
		p, q, plain := e.Peer(), e.Peer(), e.Peer().Sem(limit)
		pools := []*berthpool.Pool{e.pool(p.Sem(limit), limit), e.pool(q.Sem(limit), 3), e.pool(q.Sem(limit), 1)}
		var wg sync.WaitGroup
		for _, pool := range pools {
			for range 4 {
				wg.Go(func() {
					g.work(e.Many(1000), func(ctx context.Context) (holding, error) { return pool.Acquire(ctx) })
				})
			}
		}
		wg.Go(func() { g.work(30, func(ctx context.Context) (holding, error) { return plain.Acquire(ctx) }) })
		wg.Wait()
		if g.count < e.Many(10000) {
			e.Errorf("%d grants", g.count)
		}
		for _, pool := range pools {
			e.untilEmpty(pool)
		}
	})
}

// keepBusy borrows on n goroutines until the function it returns is called.
func (e *env) keepBusy(pool *berthpool.Pool, n int) (stop func()) {
	ctx, cancel := context.WithCancel(e.Ctx)
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			for {
				loan, err := e.acquire(ctx, pool)
				if err != nil {
					if ctx.Err() == nil {
						e.Error(err)
					}
					return
				}
				e.Pass(time.Millisecond)
				e.giveBack(loan)
			}
		})
	}
	return func() {
		cancel()
		wg.Wait()
	}
}

// A waiter elsewhere is served within a second, or a third of the TTL if that is
// shorter, however busy the pool is. The next ones are served sooner: by then the pool
// asks more often.
func TestPoolServesWaitersElsewhere(t *testing.T) {
	for ttl, run := range map[time.Duration]func(*testing.T, func(*env)){
		30 * time.Second:       each,
		900 * time.Millisecond: exactly, // in real time a busy machine would lose the leases
	} {
		t.Run(ttl.String(), func(t *testing.T) {
			run(t, func(e *env) {
				p := e.Peer()
				pool := e.pool(p.Sem(2, berth.TTL(ttl)), 2)
				other := e.Peer().Sem(2)
				stop := e.keepBusy(pool, 6)
				e.untilPool(pool, "busy", func(s berthpool.Stats) bool { return s.Leases == 2 && s.Waiting > 0 })
				// The longest wait begins just after the pool was told that nobody waits.
				for n := p.Net.Count("evalsha"); p.Net.Count("evalsha") == n; {
					e.Pass(time.Millisecond)
				}
				most := min(time.Second, ttl/3)
				for range 3 {
					start := time.Now()
					lease := e.Hold(other)
					e.Within(start, 0, most, "served elsewhere")
					if s := pool.Stats(); e.Exact && s.Leases != 1 {
						e.Errorf("one waits elsewhere, and the pool keeps %d leases of 2", s.Leases)
					}
					e.untilPool(pool, "its other lease", func(s berthpool.Stats) bool { return s.Leases == 1 })
					most = min(most, 50*time.Millisecond)
					e.Release(lease)
					e.untilPool(pool, "whole again", func(s berthpool.Stats) bool { return s.Leases == 2 })
				}
				stop()
				e.untilEmpty(pool)
			})
		})
	}
}

// A caller of the same client that does not use the pool is elsewhere, too.
func TestPoolServesPlainWaitersOfItsClient(t *testing.T) {
	each(t, func(e *env) {
		s := e.Peer().Sem(2)
		pool := e.pool(s, 2)
		stop := e.keepBusy(pool, 6)
		e.untilPool(pool, "busy", func(s berthpool.Stats) bool { return s.Leases == 2 && s.Waiting > 0 })
		start := time.Now()
		e.Release(e.Hold(s))
		e.Within(start, 0, time.Second, "served")
		stop()
	})
}

// As many idle leases go back as there are waiters elsewhere, and no more.
func TestPoolGivesIdleLeasesToWaitersElsewhere(t *testing.T) {
	each(t, func(e *env) {
		pool := e.pool(e.Peer().Sem(4), 4, kept)
		loans := []*berthpool.Loan{e.borrow(pool), e.borrow(pool), e.borrow(pool), e.borrow(pool)}
		e.finish(loans...)
		other := e.Peer().Sem(4)
		a, b := e.Queue(other), e.Queue(other)
		a.Granted()
		b.Granted()
		e.Pass(2 * time.Second) // time for more answers
		if s := pool.Stats(); s != (berthpool.Stats{Leases: 2, Idle: 2}) {
			e.Errorf("two waited elsewhere, and the pool has %+v of 4", s)
		}
		if l := e.borrow(pool); l.ID() != loans[3].ID() {
			e.Error("the lease that was used last is not the one that stayed")
		}
	})
}

// Leases that are lent go back when their loans end, before goroutines that wait here
// get them; these are served afterwards.
func TestPoolGivesLentLeasesToWaitersElsewhere(t *testing.T) {
	each(t, func(e *env) {
		pool := e.pool(e.Peer().Sem(1), 1)
		loan := e.borrow(pool)
		local := e.wait(pool)
		elsewhere := e.Queue(e.Peer().Sem(1))
		start := time.Now()
		e.untilPool(pool, "told of it", func(berthpool.Stats) bool { return pool.Owed() == 1 })
		e.Within(start, 0, time.Second, "told of it")
		elsewhere.Waits()
		e.finish(loan)
		lease := elsewhere.Granted()
		local.waits()
		e.UntilWaiting(1)
		e.Release(lease)
		next := local.lent()
		if next.ID() == loan.ID() || next.Token() <= lease.Token() {
			e.Errorf("lent %s with token %d after %s with %d", next.ID(), next.Token(), lease.ID(), lease.Token())
		}
		e.finish(next)
	})
}

// A lease that was just granted is lent, although others wait elsewhere, behind it.
// Otherwise two processes that both wait would pass it on and neither would work.
func TestPoolTakesItsTurn(t *testing.T) {
	each(t, func(e *env) {
		s := e.Peer().Sem(1)
		pool := e.pool(s, 1)
		first := e.Hold(e.Peer().Sem(1))
		local := e.wait(pool)
		e.UntilWaiting(1)
		elsewhere := e.Queue(e.Peer().Sem(1))
		e.WantErr(e.Try(s), berth.ErrBusy) // the answer tells of it
		e.Release(first)
		loan := local.lent()
		elsewhere.Waits()
		e.finish(loan)
		if lease := elsewhere.Granted(); lease.Token() <= loan.Token() {
			e.Error("the one behind was granted first")
		}
	})
}

// A waiter elsewhere that needs several permits gets them one after the other without
// delay: when a lease is back the pool asks whether that was enough.
func TestPoolServesHeavyWaitersElsewhere(t *testing.T) {
	each(t, func(e *env) {
		pool := e.pool(e.Peer().Sem(4), 4)
		stop := e.keepBusy(pool, 8)
		e.untilPool(pool, "busy", func(s berthpool.Stats) bool { return s.Leases == 4 && s.Waiting > 0 })
		start := time.Now()
		lease := e.Hold(e.Peer().Sem(4), berth.Weight(4))
		e.Within(start, 0, time.Second+20*time.Millisecond, "served elsewhere")
		e.untilPool(pool, "requests", func(s berthpool.Stats) bool { return s.Requests == 4 })
		e.Release(lease)
		e.untilPool(pool, "whole again", func(s berthpool.Stats) bool { return s.Leases == 4 })
		stop()
	})
}

func TestPoolGivesIdleLeasesToHeavyWaitersElsewhere(t *testing.T) {
	each(t, func(e *env) {
		pool := e.pool(e.Peer().Sem(4), 4, kept)
		e.finish(e.borrow(pool), e.borrow(pool), e.borrow(pool), e.borrow(pool))
		start := time.Now()
		e.Release(e.Hold(e.Peer().Sem(4), berth.Weight(4)))
		e.Within(start, 0, time.Second+20*time.Millisecond, "served elsewhere")
	})
}

// A pool whose goroutines always want its leases gives back what an operator takes away,
// within a second and the end of a loan, and has them again afterwards.
func TestBusyPoolObeysTheOperator(t *testing.T) {
	type change func(in *testenv.Inspector, ctx context.Context) error
	pin := func(limit int) change {
		return func(in *testenv.Inspector, ctx context.Context) error { return in.Pin(ctx, testenv.Name, limit) }
	}
	unpin := func(in *testenv.Inspector, ctx context.Context) error { return in.Unpin(ctx, testenv.Name) }
	pause := func(in *testenv.Inspector, ctx context.Context) error { return in.Pause(ctx, testenv.Name) }
	resume := func(in *testenv.Inspector, ctx context.Context) error { return in.Resume(ctx, testenv.Name) }
	for name, c := range map[string]struct {
		do, undo change
		leases   int // that stay
	}{
		"pin 5": {pin(5), unpin, 2}, // a permit is taken, and a lease has two
		"pin 2": {pin(2), unpin, 1},
		"pin 0": {pin(0), unpin, 0},
		"pause": {pause, resume, 0},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(e *env) {
				pool := e.pool(e.Peer().Sem(6, berth.Weight(2)), 3)
				stop := e.keepBusy(pool, 8)
				e.untilPool(pool, "busy", func(s berthpool.Stats) bool { return s.Leases == 3 && s.Waiting > 0 })
				start := time.Now()
				e.Must(c.do(e.Inspector, e.Ctx))
				e.untilPool(pool, "told", func(s berthpool.Stats) bool { return s.Leases == c.leases })
				e.Within(start, 0, time.Second+20*time.Millisecond, "told")
				e.Pass(2 * time.Second) // time for more answers
				if s := pool.Stats(); s.Leases > c.leases {
					e.Errorf("%d leases", s.Leases)
				}
				e.Must(c.undo(e.Inspector, e.Ctx))
				e.untilPool(pool, "whole again", func(s berthpool.Stats) bool { return s.Leases == 3 })
				stop()
			})
		})
	}
}

// Two busy pools take turns.
func TestPoolsTakeTurns(t *testing.T) {
	each(t, func(e *env) {
		a, b := e.pool(e.Peer().Sem(2), 2), e.pool(e.Peer().Sem(2), 2)
		stopA, stopB := e.keepBusy(a, 4), e.keepBusy(b, 4)
		for range 5 {
			for _, p := range []*berthpool.Pool{a, b} {
				start := time.Now()
				e.untilPool(p, "its turn", func(s berthpool.Stats) bool { return s.Leases > 0 })
				e.Within(start, 0, time.Second, "its turn came")
			}
		}
		stopA()
		stopB()
		e.untilEmpty(a)
		e.untilEmpty(b)
	})
}

// While nothing happens, a pool that has leases makes one call a second, and one that
// has none makes no call.
func TestPoolAsksOnceASecond(t *testing.T) {
	exactly(t, func(e *env) {
		p := e.Peer()
		pool := e.pool(p.Sem(3), 3, kept)
		e.finish(e.borrow(pool), e.borrow(pool))
		e.Pass(10 * time.Second)
		before := p.Net.Count("evalsha")
		e.Pass(60 * time.Second)
		if n := p.Net.Count("evalsha") - before; n < 60 || n > 70 {
			e.Errorf("%d calls in a minute", n)
		}
		e.Must(pool.Close())
		e.Pass(time.Second)
		before = p.Net.Count("evalsha")
		e.Pass(10 * time.Minute)
		if n := p.Net.Count("evalsha") - before; n > 0 {
			e.Errorf("%d calls of a pool that has nothing", n)
		}
	})
}
