package berthpool_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"
	"weak"

	"go.uber.org/goleak"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/berthadmin"
	"github.com/berth-go/berth/berthpool"
	"github.com/berth-go/berth/internal/clock"
	"github.com/berth-go/berth/internal/testkit/redistest"
	"github.com/berth-go/berth/internal/testkit/testenv"
)

// How loans and pools end: by losses, by errors, by Close.

// lostLoan waits for the end of a loan and returns why.
func (e *env) lostLoan(l *berthpool.Loan) *berth.LostError {
	e.Helper()
	select {
	case <-l.Context().Done():
	case <-e.Ctx.Done():
		e.Fatal("the loan did not end")
	}
	var lost *berth.LostError
	if cause := context.Cause(l.Context()); !errors.As(cause, &lost) {
		e.Fatalf("the loan ended with %v, want a LostError", cause)
	}
	return lost
}

// A lease that is lost ends its loan and is not lent again.
func TestLoanEndsWithItsLease(t *testing.T) {
	for what, force := range map[string]bool{"asked": false, "forced": true} {
		t.Run(what, func(t *testing.T) {
			each(t, func(e *env) {
				pool := e.pool(e.Peer().Sem(1), 1, kept)
				loan := e.borrow(pool)
				next := e.wait(pool)
				evict := e.Inspector.Evict
				if force {
					evict = e.Inspector.ForceEvict
				}
				e.Must(evict(e.Ctx, testenv.Name, loan.ID()))
				if lost := e.lostLoan(loan); lost.ID != loan.ID() || lost.Reason != berth.LostEvicted {
					e.Errorf("told %+v", lost)
				}
				if loan.Valid() || !loan.ValidUntil().IsZero() {
					e.Error("still valid")
				}
				next.waits()
				err := loan.Release()
				e.WantErr(err, berth.ErrLost)
				e.WantErr(err, berth.ErrEvicted)
				e.WantErr(loan.Release(), berth.ErrReleased)
				if other := next.lent(); other.ID() == loan.ID() || !other.Valid() {
					e.Errorf("lent %s, valid %v", other.ID(), other.Valid())
				} else {
					e.finish(other)
				}
				if s := pool.Stats(); s != (berthpool.Stats{Leases: 1, Idle: 1}) {
					e.Errorf("the pool has %+v", s)
				}
			})
		})
	}
}

// An idle lease that is lost leaves the pool, and is given back at Redis.
func TestLostIdleLeasesLeaveThePool(t *testing.T) {
	each(t, func(e *env) {
		pool := e.pool(e.Peer().Sem(2), 2, kept)
		a, b := e.borrow(pool), e.borrow(pool)
		e.finish(a, b)
		e.Must(e.Inspector.Evict(e.Ctx, testenv.Name, b.ID()))
		e.untilPool(pool, "one lease less", func(s berthpool.Stats) bool { return s == berthpool.Stats{Leases: 1, Idle: 1} })
		e.Until("given back", func(s *berthadmin.State) bool { return s.Holders == 1 })
		l := e.borrow(pool)
		if l.ID() != a.ID() {
			e.Errorf("lent %s, want %s", l.ID(), a.ID())
		}
		e.Must(e.Inspector.ForceEvict(e.Ctx, testenv.Name, a.ID()))
		e.lostLoan(l)
		e.WantErr(l.Release(), berth.ErrLost)
		e.untilEmpty(pool)
	})
}

// While Redis is away for longer than a TTL, loans end, idle leases are not lent, and
// those who wait are told. When it is back, the pool lends again.
func TestPoolWhileRedisIsAway(t *testing.T) {
	exactly(t, func(e *env) {
		p := e.Peer()
		pool := e.pool(p.Sem(3, berth.TTL(e.TTL)), 3, kept)
		lent, idle := e.borrow(pool), e.borrow(pool)
		e.finish(idle)
		p.Net.Down()
		e.finish(e.borrow(pool)) // needs no Redis
		until := lent.ValidUntil()
		if lost := e.lostLoan(lent); lost.Reason != berth.LostUntrusted {
			e.Errorf("told %q", lost.Reason)
		}
		if time.Now().After(until.Add(5 * time.Millisecond)) {
			e.Errorf("ended %v after the trust deadline", time.Since(until))
		}
		start := time.Now()
		_, err := pool.Acquire(e.Ctx)
		e.WantErr(err, berth.ErrUnreachable)
		e.Within(start, 0, 7*time.Second, "told")
		e.WantErr(lent.Release(), berth.ErrLost)
		p.Net.Up()
		e.Pass(10 * time.Second)
		loan := e.borrow(pool)
		if loan.ID() == lent.ID() || loan.ID() == idle.ID() {
			e.Error("an old lease was lent")
		}
		e.finish(loan)
	})
}

// The trust deadline counts, not the moment at which the pool is told of it: here it passes while
// the machine is suspended, so that nobody can tell. (Not in parallel: the clock is the process's.)
func TestPoolLendsNothingPastTheTrustDeadline(t *testing.T) {
	testenv.Bubble(t, func(in *testenv.Env) {
		e := &env{in}
		p := e.Peer()
		pool := e.pool(p.Sem(20), 20, kept)
		var loans []*berthpool.Loan
		for range 20 {
			loans = append(loans, e.borrow(pool))
		}
		e.finish(loans[1:]...)
		p.Net.Down()
		clock.Suspend(time.Minute)
		e.Pass(time.Millisecond) // in which a pool may not see that
		if loans[0].Context().Err() != nil {
			e.Error("the pool was told")
		}
		if l, err := pool.Acquire(e.Ctx); err == nil {
			e.Errorf("a loan although no lease lasts; valid %v", l.Valid())
		}
		e.WantErr(loans[0].Release(), berth.ErrLost)
	})
}

// An error of a request ends the waits of those for whom it was sent.
func TestWaitersAreToldWhyARequestFailed(t *testing.T) {
	each(t, func(e *env) {
		other := e.Peer()
		all := e.Hold(other.Sem(2), berth.Weight(2))
		e.Queue(other.Sem(2), berth.Weight(2))

		full := e.pool(e.Peer().Sem(2, berth.QueueLimit(1)), 2)
		start := time.Now()
		for range 3 {
			_, err := e.acquire(e.Ctx, full)
			e.WantErr(err, berth.ErrQueueFull)
		}
		e.Within(start, 0, 0, "refused")

		// Of two requests, one is in the queue, and the refusal of the other ends both waits.
		half := e.pool(e.Peer().Sem(2, berth.QueueLimit(2)), 2)
		first := e.wait(half)
		e.UntilWaiting(2)
		_, err := e.acquire(e.Ctx, half)
		e.WantErr(err, berth.ErrQueueFull)
		first.refused(berth.ErrQueueFull)
		e.UntilWaiting(1)

		heavy := e.pool(e.Peer().Sem(2, berth.Weight(3)), 2)
		_, err = e.acquire(e.Ctx, heavy)
		e.WantErr(err, berth.ErrTooHeavy)

		closed := e.Peer()
		pool := e.pool(closed.Sem(2), 2)
		waiting := []*pending{e.wait(pool), e.wait(pool), e.wait(pool), e.wait(pool)}
		e.Must(closed.Close())
		for _, r := range waiting {
			r.refused(berth.ErrClosed)
		}
		_, err = pool.Acquire(e.Ctx)
		e.WantErr(err, berth.ErrClosed)
		_, err = pool.TryAcquire(e.Ctx)
		e.WantErr(err, berth.ErrClosed)
		e.Release(all)
	})
}

// All who wait are told within 10 seconds, the time-outs of two requests, however many
// they are.
func TestAllWaitersAreToldThatRedisIsAway(t *testing.T) {
	exactly(t, func(e *env) {
		p := e.Peer()
		e.Release(e.Hold(p.Sem(2))) // it was there
		pool := e.pool(p.Sem(2), 2)
		p.Net.Down()
		start := time.Now()
		var rs []*pending
		for range 20 {
			rs = append(rs, e.wait(pool))
		}
		for _, r := range rs {
			r.refused(berth.ErrUnreachable)
		}
		e.Within(start, time.Second, 10*time.Second, "all were told")
		p.Net.Up()
		e.Pass(10 * time.Second)
		e.finish(e.borrow(pool))
	})
}

func TestWaitersAreToldThatRedisRefuses(t *testing.T) {
	exactly(t, func(e *env) {
		pool := e.pool(e.Peer().Sem(2), 2)
		e.Embedded.SetError("NOPERM this user has no permissions")
		start := time.Now()
		for range 5 {
			_, err := pool.Acquire(e.Ctx)
			e.WantErr(err, berth.ErrRefused)
			_, err = pool.TryAcquire(e.Ctx)
			e.WantErr(err, berth.ErrRefused)
		}
		e.Within(start, 0, 0, "told")
	})
}

// An operator who evicts one of the pool's requests evicts one waiter, also when
// others waited when it was sent.
func TestEvictionOfARequestEndsOneWait(t *testing.T) {
	each(t, func(e *env) {
		pool := e.pool(e.Peer().Sem(1), 1)
		loan := e.borrow(pool)
		elsewhere := e.Queue(e.Peer().Sem(1))
		first, second := e.wait(pool), e.wait(pool)
		e.Must(e.Inspector.ForceEvict(e.Ctx, testenv.Name, loan.ID()))
		lease := elsewhere.Granted()
		e.lostLoan(loan)
		e.WantErr(loan.Release(), berth.ErrLost) // now the pool asks
		e.UntilWaiting(1)
		e.Must(e.Inspector.ForceEvict(e.Ctx, testenv.Name, e.Show().Queue[0].ID))
		first.refused(berth.ErrEvicted)
		e.UntilWaiting(1)
		second.waits()
		e.Release(lease)
		e.finish(second.lent())
	})
}

// Close, with leases idle and lent, and with goroutines and requests that wait.
func TestClose(t *testing.T) {
	each(t, func(e *env) {
		p := e.Peer()
		pool := e.pool(p.Sem(3), 3, kept)
		idle, lent := e.borrow(pool), e.borrow(pool)
		e.finish(idle)
		e.Must(pool.Close())
		if !e.Exact { // Close may have gone on while a busy machine was still at it
			e.Until("one lease", func(s *berthadmin.State) bool { return s.Holders == 1 })
		}
		e.holdsLoans(lent)
		if !lent.Valid() || lent.Context().Err() != nil {
			e.Error("Close ended a loan")
		}
		_, err := pool.Acquire(e.Ctx)
		e.WantErr(err, berth.ErrClosed)
		_, err = pool.TryAcquire(e.Ctx)
		e.WantErr(err, berth.ErrClosed)
		e.finish(lent)
		e.Idle() // it was given back before Release returned
		e.Must(pool.Close())
		e.Release(e.Hold(p.Sem(3))) // the client stays open

		unused := e.pool(p.Sem(3), 3)
		e.Must(unused.Close())

		all := e.Hold(p.Sem(3), berth.Weight(3))
		busy := e.pool(p.Sem(3), 2)
		rs := []*pending{e.wait(busy), e.wait(busy), e.wait(busy)}
		e.UntilWaiting(2)
		e.Must(busy.Close())
		for _, r := range rs {
			r.refused(berth.ErrClosed)
		}
		e.UntilWaiting(0)
		e.Release(all)
		e.UntilNoKeys(3 * time.Second)
	})
}

// Close waits for a TryAcquire that is in flight, and what it was granted goes back.
func TestCloseDuringATryAcquire(t *testing.T) {
	each(t, func(e *env) {
		p, blocked, unblock := e.blockTry()
		pool := e.pool(p.Sem(1), 1)
		failed := make(chan error, 1)
		go func() { failed <- e.Timely(func() error { return second(pool.TryAcquire(e.Ctx)) }) }()
		<-blocked
		closed := make(chan struct{})
		go func() {
			e.Must(pool.Close())
			close(closed)
		}()
		for !errors.Is(second(pool.Acquire(e.Ctx)), berth.ErrClosed) {
			e.Pass(e.Tick())
		}
		unblock()
		e.WantErr(<-failed, berth.ErrClosed)
		<-closed
		if !e.Exact { // an attempt that was too slow is given back in the background
			e.Until("given back", func(s *berthadmin.State) bool { return s.Holders+s.Waiting == 0 })
		}
		e.Idle()
	})
}

// A closed pool is not told of anything any more: nothing keeps it, although its
// semaphore is in use.
func TestClosedPoolIsFreed(t *testing.T) {
	each(t, func(e *env) {
		sem := e.Peer().Sem(1)
		pool, err := berthpool.New(sem, 1)
		e.Must(err)
		e.finish(e.borrow(pool))
		e.Must(pool.Close())
		for freed := weak.Make(pool); freed.Value() != nil; e.Pass(e.Tick()) {
			runtime.GC()
		}
		e.Release(e.Hold(sem))
	})
}

// holdsLoans fails unless exactly these loans' leases are out.
func (e *env) holdsLoans(want ...*berthpool.Loan) {
	e.Helper()
	st := e.Show()
	if len(st.Leases) != len(want) {
		e.Errorf("%d leases out, want %d", len(st.Leases), len(want))
		return
	}
	for i, l := range want {
		if st.Leases[i].ID != l.ID() {
			e.Errorf("lease %s is out, want %s", st.Leases[i].ID, l.ID())
		}
	}
}

// The client's Close ends its pools, with their loans.
func TestCloseOfTheClientEndsItsPools(t *testing.T) {
	each(t, func(e *env) {
		p := e.Peer()
		pool := e.pool(p.Sem(2), 2, kept)
		lent, idle := e.borrow(pool), e.borrow(pool)
		ctx := lent.Context()
		e.finish(idle)
		again := e.borrow(pool)
		r := e.wait(pool) // all leases are lent: nothing is asked of Redis
		e.Must(p.Close())
		<-ctx.Done()
		e.WantErr(context.Cause(ctx), berth.ErrClosed)
		r.refused(berth.ErrClosed)
		e.WantErr(lent.Release(), berth.ErrClosed)
		e.WantErr(again.Release(), berth.ErrClosed)
		_, err := pool.Acquire(e.Ctx)
		e.WantErr(err, berth.ErrClosed)
		e.Idle()
	})
}

// No call waits longer than it promises for a Redis that hangs.
func TestCallsAreBounded(t *testing.T) {
	exactly(t, func(e *env) {
		p := e.Peer()
		pool := e.pool(p.Sem(3, berth.TTL(e.TTL)), 3, kept)
		lost, again, idle := e.borrow(pool), e.borrow(pool), e.borrow(pool)
		e.finish(idle)
		p.Net.Inject(redistest.Rule{Fault: redistest.SwallowRequest, Times: -1})
		took := func(what string, most time.Duration, call func() error, want error) {
			e.Helper()
			start := time.Now()
			e.WantErr(call(), want)
			e.Within(start, 0, most, what)
		}
		lent := e.borrow(pool)
		took("Release of a loan", 0, lent.Release, nil)
		e.lostLoan(lost)
		took("Release of a lost loan", 5*time.Second, lost.Release, berth.ErrLost)
		took("TryAcquire", 2*time.Second, func() error { return second(pool.TryAcquire(context.Background())) }, berth.ErrUnreachable)
		e.start(pool) // its request is in flight
		e.Pass(time.Second)
		took("Acquire", 10*time.Second, func() error { return second(pool.Acquire(context.Background())) }, berth.ErrUnreachable)
		took("Close", 7*time.Second, pool.Close, nil)
		took("Close again", 0, pool.Close, nil)
		took("Release after Close", 5*time.Second, again.Release, berth.ErrLost)
	})
}

// Close gives idle leases back, and does not wait forever for a Redis that hangs.
func TestCloseIsBounded(t *testing.T) {
	exactly(t, func(e *env) {
		p := e.Peer()
		pool := e.pool(p.Sem(2), 2, kept)
		e.finish(e.borrow(pool))
		p.Net.Inject(redistest.Rule{Fault: redistest.SwallowRequest, Times: -1})
		start := time.Now()
		e.Must(pool.Close())
		e.Within(start, time.Second, 5*time.Second, "closed")
	})
}

// Everything that a pool started ends with it. (Bubbles check that by themselves.)
func TestCloseLeavesNoGoroutines(t *testing.T) { // not in parallel: the goroutines of others would count
	e := &env{testenv.Shared(t)}
	p := e.Peer()
	e.Release(e.Hold(p.Sem(1))) // the client's own goroutines are there
	all := e.Hold(e.Peer().Sem(3))
	leaks := goleak.IgnoreCurrent()
	pool := e.pool(p.Sem(3), 3, kept)
	lent := e.borrow(pool)
	e.finish(e.borrow(pool))
	e.borrow(pool)
	r := e.wait(pool)
	e.UntilWaiting(1)
	e.Must(pool.Close())
	r.refused(berth.ErrClosed)
	// The client makes calls, and opens a connection for one beside another, for longer than the
	// pool: they are its own.
	const internal = "github.com/berth-go/berth/internal/"
	left := func() error {
		return goleak.Find(leaks,
			goleak.IgnoreAnyFunction(internal+"session.(*workers).work"),
			goleak.IgnoreAnyFunction(internal+"testkit/redistest.(*link).carryRequests"),
			goleak.IgnoreAnyFunction(internal+"testkit/redistest.(*link).carryReplies"),
			goleak.IgnoreAnyFunction(internal+"testkit/redistest.(*link).deliver"))
	}
	start := time.Now()
	for err := left(); err != nil; err = left() { // it waits for less than half a second
		if time.Since(start) > e.Slack() {
			e.Fatal(err)
		}
	}
	e.Release(all)
	e.finish(lent)
}

// Who comes after a request was sent does not share its failure, but has a request of its own.
func TestLaterWaitersOutlastAFailedRequest(t *testing.T) {
	each(t, func(e *env) {
		requests, sent := make(chan struct{}), make(chan struct{})
		pool := e.pool(e.Peer(berth.Hook(berth.Hooks{
			AcquireStart: func(ctx context.Context, _ berth.AcquireInfo) context.Context {
				sent <- struct{}{}
				<-requests
				return ctx
			},
		})).Sem(1, berth.QueueLimit(1)), 1)
		defer close(requests)
		all := e.Hold(e.Peer().Sem(1))
		elsewhere := e.Queue(e.Peer().Sem(1)) // now the queue is full
		first := e.wait(pool)
		<-sent
		second := e.wait(pool) // for whom there is no room
		requests <- struct{}{}
		first.refused(berth.ErrQueueFull)
		select {
		case <-sent:
		case <-second.done:
			e.Fatalf("it shared the failure: %v", second.err)
		}
		e.Release(all)
		e.Release(elsewhere.Granted())
		requests <- struct{}{}
		e.finish(second.lent())
	})
}
