package berth_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-go/berth"
)

// kept is for leases that are to stay in their pool.
var kept = berth.PoolIdle(time.Hour)

// pool makes a pool, which is closed before its client is.
func (e *env) pool(s *berth.Semaphore, size int, opts ...berth.PoolOption) *berth.Pool {
	e.t.Helper()
	p, err := s.Pool(size, opts...)
	e.must(err)
	e.t.Cleanup(func() { e.must(p.Close()) })
	return p
}

// borrow acquires a loan, which must work out.
func (e *env) borrow(p *berth.Pool) *berth.Loan {
	e.t.Helper()
	l, err := p.Acquire(e.ctx)
	e.must(err)
	return l
}

// borrower is an Acquire of a pool that waits in line.
type borrower struct {
	e      *env
	cancel context.CancelFunc
	done   chan struct{}
	loan   *berth.Loan // the rest is set when done is closed
	err    error
}

// wait begins an Acquire and returns when it is in the pool's line.
func (e *env) wait(p *berth.Pool) *borrower {
	e.t.Helper()
	n := p.Stats().Waiting
	ctx, cancel := context.WithCancel(e.ctx)
	b := &borrower{e: e, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(b.done)
		b.loan, b.err = p.Acquire(ctx)
	}()
	e.untilPool(p, "in line", func(s berth.PoolStats) bool { return s.Waiting == n+1 })
	return b
}

func (b *borrower) lent() *berth.Loan {
	b.e.t.Helper()
	<-b.done
	b.e.must(b.err)
	return b.loan
}

func (b *borrower) refused(want error) {
	b.e.t.Helper()
	<-b.done
	wantErr(b.e.t, b.err, want)
}

func (b *borrower) waits() {
	b.e.t.Helper()
	select {
	case <-b.done:
		b.e.t.Errorf("it does not wait any more: loan %v, error %v", b.loan, b.err)
	default:
	}
}

// untilPool looks at the pool again and again.
func (e *env) untilPool(p *berth.Pool, what string, ok func(berth.PoolStats) bool) {
	e.t.Helper()
	if e.exact {
		synctest.Wait()
	}
	for !ok(p.Stats()) {
		select {
		case <-time.After(time.Millisecond):
		case <-e.ctx.Done():
			e.t.Fatalf("never: %s; the pool has %+v", what, p.Stats())
		}
	}
}

// returned waits until the pool has nothing, and Redis nothing of it.
func (e *env) returned(p *berth.Pool) {
	e.t.Helper()
	e.untilPool(p, "empty", func(s berth.PoolStats) bool { return s == berth.PoolStats{} })
	e.until("nobody holds", func(s *berth.State) bool { return s.Holders+s.Waiting == 0 })
}

// finish releases loans, which must work out.
func (e *env) finish(loans ...*berth.Loan) {
	e.t.Helper()
	for _, l := range loans {
		e.must(l.Release())
	}
}

// What is idle is lent without a word to Redis, the lease that was used last first.
func TestPoolLendsFromMemory(t *testing.T) {
	each(t, func(_ *testing.T, e *env) {
		p := e.peer()
		pool := e.pool(p.sem(3), 2, kept)
		if n := p.net.Count(); n > 0 {
			e.t.Errorf("%d commands sent before the first Acquire", n)
		}
		a, b := e.borrow(pool), e.borrow(pool)
		if a.ID() == b.ID() || a.Slot() == b.Slot() || a.Token() == b.Token() {
			e.t.Errorf("two loans of one lease: %s and %s", a.ID(), b.ID())
		}
		e.finish(a, b)
		before := e.keys()
		for range 100 {
			l := e.borrow(pool)
			if l.ID() != b.ID() || l.Slot() != b.Slot() || l.Token() != b.Token() || !l.Valid() {
				e.t.Fatalf("lent %s, valid %v; want %s", l.ID(), l.Valid(), b.ID())
			}
			e.finish(l)
		}
		e.unchanged(before)
		if st := e.show(); st.Holders != 2 {
			e.t.Errorf("%d leases at Redis, want 2", st.Holders)
		}
	})
}

func TestLoanTellsWhatItsLeaseIs(t *testing.T) {
	each(t, func(_ *testing.T, e *env) {
		pool := e.pool(e.peer().sem(7, berth.Weight(3), berth.Label("nightly")), 2, kept)
		type key struct{}
		ctx, cancel := context.WithCancel(context.WithValue(e.ctx, key{}, "value"))
		l, err := pool.Acquire(ctx)
		e.must(err)
		cancel() // limits the wait alone
		h := e.show().Leases[0]
		if l.Name() != name || l.ID() != h.ID || l.Slot() != h.Slot || l.Token() != h.Token || l.Weight() != 3 || l.Limit() != 7 || h.Label != "nightly" {
			e.t.Errorf("loan %s: slot %d, token %d, weight %d; Redis has %+v", l.ID(), l.Slot(), l.Token(), l.Weight(), h)
		}
		if !l.Valid() || l.ValidUntil().Before(time.Now()) || l.Context().Err() != nil || l.Context().Value(key{}) != "value" {
			e.t.Errorf("valid %v until %v, context %v", l.Valid(), l.ValidUntil(), l.Context())
		}
		if got, ok := berth.LoanFromContext(l.Context()); !ok || got != l {
			e.t.Errorf("the context carries %v", got)
		}
		other := e.borrow(pool)
		if st := e.show(); st.InUse != 6 {
			e.t.Errorf("%d permits out, want 6", st.InUse)
		}
		late := l.Context()
		e.finish(l, other)
		if l.Valid() || !l.ValidUntil().IsZero() || l.Context() != late {
			e.t.Errorf("after Release: valid %v until %v", l.Valid(), l.ValidUntil())
		}
		for _, ctx := range []context.Context{late, other.Context()} { // asked for before and after the end
			wantErr(e.t, context.Cause(ctx), berth.ErrReleased) // at once, before the lease is anybody else's
		}
	})
}

// Who came first is served first, among the goroutines of a pool.
func TestPoolServesItsGoroutinesInOrder(t *testing.T) {
	each(t, func(_ *testing.T, e *env) {
		pool := e.pool(e.peer().sem(1), 1)
		loan := e.borrow(pool)
		var rs []*borrower
		for range 20 {
			rs = append(rs, e.wait(pool))
		}
		for i, r := range rs {
			if i%5 == 3 { // some leave
				r.cancel()
				r.refused(context.Canceled)
				continue
			}
			r.waits()
			e.finish(loan)
			loan = r.lent()
		}
		e.finish(loan)
	})
}

// A pool never has more leases than its size, and stands in line for no more than
// its goroutines wait for.
func TestPoolAsksForNoMoreThanIsWaitedFor(t *testing.T) {
	each(t, func(_ *testing.T, e *env) {
		pool := e.pool(e.peer().sem(3), 2)
		all := e.hold(e.peer().sem(3, berth.Weight(3)))
		first := e.wait(pool)
		e.untilWaiting(1)
		rs := []*borrower{e.wait(pool), e.wait(pool), e.wait(pool)}
		e.untilWaiting(2)
		if s := pool.Stats(); s != (berth.PoolStats{Waiting: 4, Asking: 2}) {
			e.t.Errorf("the pool has %+v", s)
		}
		e.release(all)
		a, b := first.lent(), rs[0].lent()
		if st := e.show(); st.Holders != 2 || st.Waiting != 0 {
			e.t.Errorf("%d leases and %d in line at Redis, want 2 and 0", st.Holders, st.Waiting)
		}
		e.finish(a, b)
		e.finish(rs[1].lent(), rs[2].lent())
		e.returned(pool)
	})
}

// Whoever does not wait any more leaves Redis' line as well.
func TestPoolWithdrawsRequestsOfThoseWhoLeave(t *testing.T) {
	each(t, func(_ *testing.T, e *env) {
		pool := e.pool(e.peer().sem(2), 2, kept)
		other := e.hold(e.peer().sem(2))
		mine := e.borrow(pool)
		a, b := e.wait(pool), e.wait(pool)
		e.untilWaiting(1)
		b.cancel()
		b.refused(context.Canceled)
		e.finish(mine)
		mine = a.lent() // by the Release
		e.untilWaiting(0)
		e.untilPool(pool, "asks for nothing", func(s berth.PoolStats) bool { return s == berth.PoolStats{Leases: 1} })
		e.release(other)
		e.finish(mine)
		e.finish(e.borrow(pool), e.borrow(pool))
	})
}

// Leases that nobody borrows go back, and the keys with the last of them.
func TestPoolGivesIdleLeasesBack(t *testing.T) {
	each(t, func(_ *testing.T, e *env) {
		pool := e.pool(e.peer().sem(3), 3)
		a, b, c := e.borrow(pool), e.borrow(pool), e.borrow(pool)
		e.finish(a, b)
		start := time.Now()
		for time.Since(start) < berth.DefaultPoolIdle-100*time.Millisecond {
			e.finish(e.borrow(pool)) // b again and again
			e.pass(10 * time.Millisecond)
		}
		e.untilPool(pool, "one idle lease less", func(s berth.PoolStats) bool { return s.Idle < 2 })
		e.within(start, berth.DefaultPoolIdle, berth.DefaultPoolIdle, "the first idle lease went")
		e.finish(c)
		start = time.Now()
		e.returned(pool)
		e.within(start, berth.DefaultPoolIdle, berth.DefaultPoolIdle+e.tick(), "the last one went")
		e.untilNoKeys(3 * time.Second)
	})
}

func TestPoolWithoutIdleTimeKeepsNothing(t *testing.T) {
	each(t, func(_ *testing.T, e *env) {
		pool := e.pool(e.peer().sem(1), 1, berth.PoolIdle(0))
		loan := e.borrow(pool)
		next := e.wait(pool)
		e.finish(loan)
		again := next.lent() // a waiter has it nevertheless
		if again.ID() != loan.ID() {
			e.t.Error("another lease")
		}
		start := time.Now()
		e.finish(again)
		e.returned(pool)
		e.within(start, 0, e.tick(), "given back")
	})
}

func TestPoolTryAcquire(t *testing.T) {
	each(t, func(_ *testing.T, e *env) {
		pool := e.pool(e.peer().sem(4, berth.Weight(2)), 1, kept)
		try := func() (*berth.Loan, *berth.BusyError) {
			l, err := pool.TryAcquire(e.ctx)
			busy := (*berth.BusyError)(nil)
			if err != nil && (!errors.As(err, &busy) || !errors.Is(err, berth.ErrBusy)) {
				e.t.Fatal(err)
			}
			return l, busy
		}
		all := e.hold(e.peer().sem(4, berth.Weight(3)))
		if _, busy := try(); busy == nil || busy.InUse != 3 || busy.Limit != 4 {
			e.t.Errorf("Redis is full, told %v", busy)
		}
		roomy := e.pool(e.peer().sem(4, berth.Weight(2)), 3)
		first := e.wait(roomy)
		_, err := roomy.TryAcquire(e.ctx)
		if told, ok := errors.AsType[*berth.BusyError](err); !ok || told.Limit != 6 || told.Waiting != 1 {
			e.t.Errorf("somebody waits for what Redis has, told %v", err)
		}
		e.release(all)
		e.finish(first.lent())
		e.must(roomy.Close())
		loan, busy := try()
		if busy != nil {
			e.t.Fatal(busy)
		}
		if _, busy := try(); busy == nil || busy.InUse != 2 || busy.Limit != 2 || busy.Waiting != 0 {
			e.t.Errorf("the pool is full, told %v", busy)
		}
		r := e.wait(pool)
		if _, busy := try(); busy == nil || busy.Waiting != 1 {
			e.t.Errorf("somebody waits, told %v", busy)
		}
		e.finish(loan)
		e.finish(r.lent())
		loan, busy = try()
		if busy != nil || loan.ID() != r.loan.ID() {
			e.t.Errorf("a lease is idle, told %v", busy)
		}
		e.finish(loan)
	})
}

// Several releases of one loan: one of them counts, and nobody else's loan ends.
func TestLoanReleasedTwice(t *testing.T) {
	each(t, func(_ *testing.T, e *env) {
		pool := e.pool(e.peer().sem(1), 1)
		for range 20 {
			loan := e.borrow(pool)
			next := e.wait(pool)
			errs := make([]error, 5)
			var wg sync.WaitGroup
			for i := range errs {
				wg.Go(func() { errs[i] = loan.Release() })
			}
			wg.Wait()
			if n := len(slices.DeleteFunc(errs, func(err error) bool { return errors.Is(err, berth.ErrReleased) })); n != 1 || errs[0] != nil {
				e.t.Fatalf("%d of 5 releases counted: %v", n, errs[:n])
			}
			last := next.lent()
			if s := pool.Stats(); s != (berth.PoolStats{Leases: 1}) || !last.Valid() {
				e.t.Fatalf("the next loan is valid: %v; the pool has %+v", last.Valid(), s)
			}
			e.finish(last)
		}
	})
}

func TestPoolWith(t *testing.T) {
	each(t, func(_ *testing.T, e *env) {
		pool := e.pool(e.peer().sem(1), 1, kept)
		broken := errors.New("broken")
		wantErr(e.t, pool.With(e.ctx, func(context.Context) error { return broken }), broken)
		func() {
			defer func() { _ = recover() }()
			_ = pool.With(e.ctx, func(context.Context) error { panic("fn") })
		}()
		e.must(pool.With(e.ctx, func(ctx context.Context) error {
			loan, ok := berth.LoanFromContext(ctx)
			if !ok || !loan.Valid() {
				e.t.Errorf("the context carries %v", loan)
			}
			return nil
		}))
		wantErr(e.t, pool.With(e.ctx, func(ctx context.Context) error {
			loan, _ := berth.LoanFromContext(ctx)
			e.must(e.eye.Evict(e.ctx, name, loan.ID(), true))
			<-ctx.Done()
			wantErr(e.t, context.Cause(ctx), berth.ErrLost)
			return nil
		}), berth.ErrEvicted)
		dead, cancel := context.WithCancel(e.ctx)
		cancel()
		wantErr(e.t, pool.With(dead, func(context.Context) error { panic("must not run") }), context.Canceled)
	})
}

// Hooks are about leases: a loan from memory fires none.
func TestPoolFiresTheHooksOfItsLeases(t *testing.T) {
	each(t, func(_ *testing.T, e *env) {
		var mu sync.Mutex
		var acquired, released int
		count := func(n *int) {
			mu.Lock()
			defer mu.Unlock()
			*n++
		}
		p := e.peer(berth.WithHooks(berth.Hooks{
			AcquireDone: func(context.Context, berth.AcquireInfo, *berth.Lease, error) { count(&acquired) },
			Released:    func(*berth.Lease, time.Duration, error) { count(&released) },
		}))
		pool := e.pool(p.sem(1), 1, kept)
		for range 10 {
			e.finish(e.borrow(pool))
		}
		e.must(pool.Close())
		if acquired != 1 || released != 1 {
			e.t.Errorf("%d leases acquired and %d released, want 1 of each", acquired, released)
		}
	})
}

func TestPoolRefusesWhatIsInvalid(t *testing.T) {
	each(t, func(_ *testing.T, e *env) {
		s := e.peer().sem(1)
		for what, err := range map[string]error{
			"size 0":          second(s.Pool(0)),
			"a huge size":     second(s.Pool(berth.MaxLimit + 1)),
			"a nil option":    second(s.Pool(1, nil)),
			"negative idle":   second(s.Pool(1, berth.PoolIdle(-1))),
			"MaxHold":         second(e.peer().sem(1, berth.MaxHold(time.Minute)).Pool(1)),
			"WithoutRenewal":  second(e.peer().sem(1, berth.WithoutRenewal()).Pool(1)),
			"Acquire(nil)":    second(e.pool(s, 1).Acquire(nil)),    //nolint:staticcheck // that is the test
			"TryAcquire(nil)": second(e.pool(s, 1).TryAcquire(nil)), //nolint:staticcheck // that is the test
		} {
			if !errors.Is(err, berth.ErrInvalid) {
				e.t.Errorf("%s: %v", what, err)
			}
		}
		dead, cancel := context.WithCancelCause(e.ctx)
		cancel(errShift)
		for _, err := range []error{second(e.pool(s, 1).Acquire(dead)), second(e.pool(s, 1).TryAcquire(dead))} {
			wantErr(e.t, err, context.Canceled)
			wantErr(e.t, err, errShift)
		}
		e.idle()
	})
}

func second[T any](_ T, err error) error { return err }
