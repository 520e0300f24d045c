package berth_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/internal/redistest"
)

// How a pool and its loans end: by losses, by errors, by Close.

// lostLoan waits for the end of a loan and returns why.
func (e *env) lostLoan(l *berth.Loan) *berth.LostError {
	e.t.Helper()
	select {
	case <-l.Context().Done():
	case <-e.ctx.Done():
		e.t.Fatal("the loan did not end")
	}
	var lost *berth.LostError
	if cause := context.Cause(l.Context()); !errors.As(cause, &lost) {
		e.t.Fatalf("the loan ended with %v, want a LostError", cause)
	}
	return lost
}

// A lease that is lost ends its loan, and is not lent again.
func TestLoanEndsWithItsLease(t *testing.T) {
	for what, force := range map[string]bool{"asked": false, "forced": true} {
		t.Run(what, func(t *testing.T) {
			each(t, func(_ *testing.T, e *env) {
				pool := e.pool(e.peer().sem(1), 1, kept)
				loan := e.borrow(pool)
				next := e.wait(pool)
				e.must(e.eye.Evict(e.ctx, name, loan.ID(), force))
				if lost := e.lostLoan(loan); lost.ID != loan.ID() || lost.Reason != berth.LostEvicted {
					e.t.Errorf("told %+v", lost)
				}
				if loan.Valid() || !loan.ValidUntil().IsZero() {
					e.t.Error("still valid")
				}
				next.waits()
				err := loan.Release()
				wantErr(e.t, err, berth.ErrLost)
				wantErr(e.t, err, berth.ErrEvicted)
				wantErr(e.t, loan.Release(), berth.ErrReleased)
				if other := next.lent(); other.ID() == loan.ID() || !other.Valid() {
					e.t.Errorf("lent %s, valid %v", other.ID(), other.Valid())
				} else {
					e.finish(other)
				}
				if s := pool.Stats(); s != (berth.PoolStats{Leases: 1, Idle: 1}) {
					e.t.Errorf("the pool has %+v", s)
				}
			})
		})
	}
}

// An idle lease that is lost leaves the pool, and what Redis still has of it goes.
func TestPoolDropsIdleLeasesThatAreLost(t *testing.T) {
	each(t, func(_ *testing.T, e *env) {
		pool := e.pool(e.peer().sem(2), 2, kept)
		a, b := e.borrow(pool), e.borrow(pool)
		e.finish(a, b)
		e.must(e.eye.Evict(e.ctx, name, b.ID(), false))
		e.untilPool(pool, "one lease less", func(s berth.PoolStats) bool { return s == berth.PoolStats{Leases: 1, Idle: 1} })
		e.until("given back", func(s *berth.State) bool { return s.Holders == 1 })
		l := e.borrow(pool)
		if l.ID() != a.ID() {
			e.t.Errorf("lent %s, want %s", l.ID(), a.ID())
		}
		e.must(e.eye.Evict(e.ctx, name, a.ID(), true))
		e.lostLoan(l)
		wantErr(e.t, l.Release(), berth.ErrLost)
		e.returned(pool)
	})
}

// Redis is away for longer than a TTL: loans end, idle leases are not lent, those
// who wait are told; and when it is back, all is well.
func TestPoolWhileRedisIsAway(t *testing.T) {
	exactly(t, func(_ *testing.T, e *env) {
		p := e.peer()
		pool := e.pool(p.sem(3, berth.TTL(e.ttl)), 3, kept)
		lent, idle := e.borrow(pool), e.borrow(pool)
		e.finish(idle)
		p.net.Down()
		e.finish(e.borrow(pool)) // needs no Redis
		until := lent.ValidUntil()
		if lost := e.lostLoan(lent); lost.Reason != berth.LostUntrusted {
			e.t.Errorf("told %q", lost.Reason)
		}
		if time.Now().After(until.Add(5 * time.Millisecond)) {
			e.t.Errorf("ended %v after the trust deadline", time.Since(until))
		}
		start := time.Now()
		_, err := pool.Acquire(e.ctx)
		wantErr(e.t, err, berth.ErrUnreachable)
		e.within(start, 0, 7*time.Second, "told")
		wantErr(e.t, lent.Release(), berth.ErrLost)
		p.net.Up()
		e.pass(10 * time.Second)
		loan := e.borrow(pool)
		if loan.ID() == lent.ID() || loan.ID() == idle.ID() {
			e.t.Error("an old lease was lent")
		}
		e.finish(loan)
	})
}

// The deadline counts, not the news of it: here nobody gets round to tell the pool
// that its leases have run out, for a hook blocks.
func TestPoolLendsNothingPastTheTrustDeadline(t *testing.T) {
	exactly(t, func(_ *testing.T, e *env) {
		blocked, blocks := make(chan struct{}), make(chan struct{})
		p := e.peer(berth.WithHooks(berth.Hooks{Lost: func(*berth.Lease, time.Duration, error) {
			select {
			case blocked <- struct{}{}:
				<-blocks
			case <-blocks:
			}
		}}))
		pool := e.pool(p.sem(20), 20, kept)
		var loans []*berth.Loan
		for range 20 {
			loans = append(loans, e.borrow(pool))
		}
		e.finish(loans[1:]...)
		p.net.Down()
		<-blocked
		if l, err := pool.Acquire(e.ctx); err == nil {
			e.t.Errorf("a loan although no lease lasts; valid %v", l.Valid())
		}
		wantErr(e.t, loans[0].Release(), berth.ErrLost)
		close(blocks)
	})
}

// What ends the pool's request ends the waits of those for whom it was sent.
func TestPoolTellsWhyItsRequestFailed(t *testing.T) {
	each(t, func(_ *testing.T, e *env) {
		other := e.peer()
		all := e.hold(other.sem(2), berth.Weight(2))
		e.queue(other.sem(2), berth.Weight(2))

		full := e.pool(e.peer().sem(2, berth.QueueLimit(1)), 2)
		start := time.Now()
		for range 3 {
			_, err := full.Acquire(e.ctx)
			wantErr(e.t, err, berth.ErrQueueFull)
		}
		e.within(start, 0, 0, "refused")

		heavy := e.pool(e.peer().sem(2, berth.Weight(3)), 2)
		_, err := heavy.Acquire(e.ctx)
		wantErr(e.t, err, berth.ErrTooHeavy)

		closed := e.peer()
		pool := e.pool(closed.sem(2), 2)
		waiting := []*borrower{e.wait(pool), e.wait(pool), e.wait(pool), e.wait(pool)}
		e.must(closed.Close())
		for _, r := range waiting {
			r.refused(berth.ErrClosed)
		}
		_, err = pool.Acquire(e.ctx)
		wantErr(e.t, err, berth.ErrClosed)
		_, err = pool.TryAcquire(e.ctx)
		wantErr(e.t, err, berth.ErrClosed)
		e.release(all)
	})
}

// All who wait are told within the time-outs of two requests, the one that was
// under way and the next, however many they are.
func TestPoolTellsAllWhoWaitThatRedisIsAway(t *testing.T) {
	exactly(t, func(_ *testing.T, e *env) {
		p := e.peer()
		e.release(e.hold(p.sem(2))) // it was there
		pool := e.pool(p.sem(2), 2)
		p.net.Down()
		start := time.Now()
		var rs []*borrower
		for range 20 {
			rs = append(rs, e.wait(pool))
		}
		for _, r := range rs {
			r.refused(berth.ErrUnreachable)
		}
		e.within(start, time.Second, 13*time.Second, "all were told")
		p.net.Up()
		e.pass(10 * time.Second)
		e.finish(e.borrow(pool))
	})
}

func TestPoolTellsThatRedisRefuses(t *testing.T) {
	exactly(t, func(_ *testing.T, e *env) {
		pool := e.pool(answering(e, "-NOPERM this user has no permissions").sem(2), 2)
		start := time.Now()
		for range 5 {
			_, err := pool.Acquire(e.ctx)
			e.refusedFor(err, "NOPERM")
			_, err = pool.TryAcquire(e.ctx)
			e.refusedFor(err, "NOPERM")
		}
		e.within(start, 0, 0, "told")
	})
}

// An operator who evicts one of the pool's requests evicts one waiter, also when
// others were in line as well when it was sent.
func TestPoolWaiterIsEvicted(t *testing.T) {
	each(t, func(_ *testing.T, e *env) {
		pool := e.pool(e.peer().sem(1), 1)
		loan := e.borrow(pool)
		elsewhere := e.queue(e.peer().sem(1))
		first, second := e.wait(pool), e.wait(pool)
		e.must(e.eye.Evict(e.ctx, name, loan.ID(), true))
		lease := elsewhere.granted()
		e.lostLoan(loan)
		wantErr(e.t, loan.Release(), berth.ErrLost) // now the pool asks
		e.untilWaiting(1)
		e.must(e.eye.Evict(e.ctx, name, e.show().Queue[0].ID, true))
		first.refused(berth.ErrEvicted)
		e.untilWaiting(1)
		second.waits()
		e.release(lease)
		e.finish(second.lent())
	})
}

// Close, with leases idle and lent, and goroutines and requests in line.
func TestPoolClose(t *testing.T) {
	each(t, func(_ *testing.T, e *env) {
		p := e.peer()
		pool := e.pool(p.sem(3), 3, kept)
		idle, lent := e.borrow(pool), e.borrow(pool)
		e.finish(idle)
		e.must(pool.Close())
		e.holdsLoans(lent)
		if !lent.Valid() || lent.Context().Err() != nil {
			e.t.Error("Close ended a loan")
		}
		_, err := pool.Acquire(e.ctx)
		wantErr(e.t, err, berth.ErrClosed)
		_, err = pool.TryAcquire(e.ctx)
		wantErr(e.t, err, berth.ErrClosed)
		e.finish(lent)
		e.idle() // it was given back before Release returned
		e.must(pool.Close())
		e.release(e.hold(p.sem(3))) // the client stays open

		unused := e.pool(p.sem(3), 3)
		e.must(unused.Close())

		all := e.hold(p.sem(3), berth.Weight(3))
		busy := e.pool(p.sem(3), 2)
		rs := []*borrower{e.wait(busy), e.wait(busy), e.wait(busy)}
		e.untilWaiting(2)
		e.must(busy.Close())
		for _, r := range rs {
			r.refused(berth.ErrClosed)
		}
		e.untilWaiting(0)
		e.release(all)
		e.untilNoKeys(3 * time.Second)
	})
}

// holdsLoans fails unless exactly these loans' leases are out.
func (e *env) holdsLoans(want ...*berth.Loan) {
	e.t.Helper()
	st := e.show()
	if len(st.Leases) != len(want) {
		e.t.Errorf("%d leases out, want %d", len(st.Leases), len(want))
		return
	}
	for i, l := range want {
		if st.Leases[i].ID != l.ID() {
			e.t.Errorf("lease %s is out, want %s", st.Leases[i].ID, l.ID())
		}
	}
}

// The client's Close ends its pools, with their loans.
func TestCloseOfTheClientEndsItsPools(t *testing.T) {
	each(t, func(_ *testing.T, e *env) {
		p := e.peer()
		pool := e.pool(p.sem(2), 2, kept)
		lent, idle := e.borrow(pool), e.borrow(pool)
		ctx := lent.Context()
		e.finish(idle)
		again := e.borrow(pool)
		r := e.wait(pool) // all leases are lent: nothing is asked of Redis
		e.must(p.Close())
		<-ctx.Done()
		wantErr(e.t, context.Cause(ctx), berth.ErrClosed)
		r.refused(berth.ErrClosed)
		wantErr(e.t, lent.Release(), berth.ErrClosed)
		wantErr(e.t, again.Release(), berth.ErrClosed)
		_, err := pool.Acquire(e.ctx)
		wantErr(e.t, err, berth.ErrClosed)
		e.idle()
	})
}

// Close does not wait for ever for a Redis that hangs.
func TestCloseOfAPoolIsBounded(t *testing.T) {
	exactly(t, func(_ *testing.T, e *env) {
		p := e.peer()
		pool := e.pool(p.sem(2), 2, kept)
		e.finish(e.borrow(pool))
		p.net.Inject(redistest.Rule{Fault: redistest.SwallowRequest, Times: -1})
		start := time.Now()
		e.must(pool.Close())
		e.within(start, time.Second, 7*time.Second, "closed")
	})
}

// Everything that a pool started ends with it. (Bubbles check that by themselves.)
func TestCloseOfAPoolLeavesNoGoroutines(t *testing.T) { // not in parallel: the goroutines of others would count
	s := redistest.Shared(t)
	e := &env{t: t, ttl: time.Second, prefix: s.Prefix(t)}
	e.options.Network, e.options.Addr = "unix", s.Socket()
	e.open(time.Minute)
	p := e.peer()
	e.release(e.hold(p.sem(1))) // the client's own goroutines are there
	all := e.hold(e.peer().sem(3))
	leaks := goleak.IgnoreCurrent()
	pool := e.pool(p.sem(3), 3, kept)
	lent := e.borrow(pool)
	e.finish(e.borrow(pool))
	e.borrow(pool)
	r := e.wait(pool)
	e.untilWaiting(1)
	e.must(pool.Close())
	r.refused(berth.ErrClosed)
	calls := goleak.IgnoreAnyFunction("github.com/berth-go/berth/internal/session.(*crew).work") // the client's, not the pool's
	goleak.VerifyNone(t, leaks, calls)
	e.release(all)
	e.finish(lent)
}
