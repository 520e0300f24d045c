package berthpool_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/berthpool"
	"github.com/berth-go/berth/internal/testkit/testenv"
)

// An idle lease is lent without a call to Redis, the one that was used last first.
func TestIdleLeasesAreLentFromMemory(t *testing.T) {
	each(t, func(e *env) {
		p := e.Peer()
		pool := e.pool(p.Sem(3, berth.TTL(time.Hour)), 2, kept) // not renewed meanwhile
		if n := p.Net.Count(); n > 0 {
			e.Errorf("%d commands sent before the first Acquire", n)
		}
		a, b := e.borrow(pool), e.borrow(pool)
		if a.ID() == b.ID() || a.Slot() == b.Slot() || a.Token() == b.Token() {
			e.Errorf("two loans of one lease: %s and %s", a.ID(), b.ID())
		}
		e.finish(a, b)
		before := e.Keys()
		for range 100 {
			l := e.borrow(pool)
			if l.ID() != b.ID() || l.Slot() != b.Slot() || l.Token() != b.Token() || !l.Valid() {
				e.Fatalf("lent %s, valid %v; want %s", l.ID(), l.Valid(), b.ID())
			}
			e.finish(l)
		}
		e.Unchanged(before)
		if st := e.Show(); st.Holders != 2 {
			e.Errorf("%d leases at Redis, want 2", st.Holders)
		}
	})
}

func TestLoanTellsWhatItsLeaseIs(t *testing.T) {
	each(t, func(e *env) {
		pool := e.pool(e.Peer().Sem(7, berth.Weight(3), berth.Label("nightly")), 2, kept)
		type key struct{}
		ctx, cancel := context.WithCancel(context.WithValue(e.Ctx, key{}, "value"))
		l, err := e.acquire(ctx, pool)
		e.Must(err)
		cancel() // limits the wait alone
		h := e.Show().Leases[0]
		if l.Name() != testenv.Name || l.ID() != h.ID || l.Slot() != h.Slot || l.Token() != h.Token || l.Weight() != 3 || l.Limit() != 7 || h.Label != "nightly" {
			e.Errorf("loan %s: slot %d, token %d, weight %d; Redis has %+v", l.ID(), l.Slot(), l.Token(), l.Weight(), h)
		}
		if !l.Valid() || l.ValidUntil().Before(time.Now()) || l.Context().Err() != nil || l.Context().Value(key{}) != "value" {
			e.Errorf("valid %v until %v, context %v", l.Valid(), l.ValidUntil(), l.Context())
		}
		if got, ok := berthpool.FromContext(l.Context()); !ok || got != l {
			e.Errorf("the context carries %v", got)
		}
		other := e.borrow(pool)
		if st := e.Show(); st.InUse != 6 {
			e.Errorf("%d permits out, want 6", st.InUse)
		}
		late := l.Context()
		e.finish(l, other)
		if l.Valid() || !l.ValidUntil().IsZero() || l.Context() != late {
			e.Errorf("after Release: valid %v until %v", l.Valid(), l.ValidUntil())
		}
		for _, ctx := range []context.Context{late, other.Context()} { // asked for before and after the end
			e.WantErr(context.Cause(ctx), berth.ErrReleased) // at once, before the lease is anybody else's
		}
	})
}

func TestGoroutinesAreServedInTheOrderInWhichTheyCame(t *testing.T) {
	each(t, func(e *env) {
		pool := e.pool(e.Peer().Sem(1), 1)
		loan := e.borrow(pool)
		var rs []*pending
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

// A pool never has more leases than its size, and requests no more than its
// goroutines wait for.
func TestPoolRequestsNoMoreThanIsWaitedFor(t *testing.T) {
	each(t, func(e *env) {
		pool := e.pool(e.Peer().Sem(3), 2)
		all := e.Hold(e.Peer().Sem(3, berth.Weight(3)))
		first := e.wait(pool)
		e.UntilWaiting(1)
		rs := []*pending{e.wait(pool)}
		e.UntilWaiting(2)
		rs = append(rs, e.wait(pool), e.wait(pool))
		if s := pool.Stats(); s != (berthpool.Stats{Waiting: 4, Requests: 2}) {
			e.Errorf("the pool has %+v", s)
		}
		e.Release(all)
		a, b := first.lent(), rs[0].lent()
		if st := e.Show(); st.Holders != 2 || st.Waiting != 0 {
			e.Errorf("%d leases and %d in the queue at Redis, want 2 and 0", st.Holders, st.Waiting)
		}
		e.finish(a, b)
		e.finish(rs[1].lent(), rs[2].lent())
		e.untilEmpty(pool)
	})
}

// A loan that ended served the goroutine for which the pool had a request in the queue:
// the request is canceled.
func TestRequestIsCanceledWhenALoanServedItsWaiter(t *testing.T) {
	each(t, func(e *env) {
		pool := e.pool(e.Peer().Sem(2), 2, kept)
		other := e.Hold(e.Peer().Sem(2))
		mine := e.borrow(pool)
		a, b := e.wait(pool), e.wait(pool)
		e.UntilWaiting(1)
		b.cancel()
		b.refused(context.Canceled)
		e.finish(mine)
		mine = a.lent() // by the Release
		e.UntilWaiting(0)
		e.untilPool(pool, "asks for nothing", func(s berthpool.Stats) bool { return s == berthpool.Stats{Leases: 1} })
		e.Release(other)
		e.finish(mine)
		e.finish(e.borrow(pool), e.borrow(pool))
	})
}

// A goroutine that leaves takes its request out of the queue, also when the pool has no
// lease that would make it look after its requests.
func TestRequestIsCanceledWhenItsWaiterLeaves(t *testing.T) {
	each(t, func(e *env) {
		pool := e.pool(e.Peer().Sem(1), 1)
		other := e.Hold(e.Peer().Sem(1))
		w := e.wait(pool)
		e.UntilWaiting(1)
		start := time.Now()
		w.cancel()
		w.refused(context.Canceled)
		e.untilPool(pool, "empty", func(s berthpool.Stats) bool { return s == berthpool.Stats{} })
		e.Within(start, 0, 11*time.Millisecond, "canceled")
		e.UntilWaiting(0)
		e.Release(other)
	})
}

// The request that is further ahead in the queue stays for the goroutine that still waits.
func TestNewestRequestIsCanceled(t *testing.T) {
	each(t, func(e *env) {
		pool := e.pool(e.Peer().Sem(1), 2)
		first := e.Hold(e.Peer().Sem(1))
		a := e.wait(pool)
		e.UntilWaiting(1)
		elsewhere := e.Queue(e.Peer().Sem(1))
		b := e.wait(pool)
		e.UntilWaiting(3)
		a.cancel()
		a.refused(context.Canceled)
		e.UntilWaiting(2)
		e.Release(first)
		loan := b.lent()
		elsewhere.Waits()
		e.finish(loan)
		e.Release(elsewhere.Granted())
	})
}

// blockTry makes a client whose first TryAcquire blocks before anything is sent, until
// the function that is returned is called.
func (e *env) blockTry() (p *testenv.Peer, blocked <-chan struct{}, unblock func()) {
	at, gate := make(chan struct{}), make(chan struct{})
	var once sync.Once
	p = e.Peer(berth.Hook(berth.Hooks{AcquireStart: func(ctx context.Context, a berth.AcquireInfo) context.Context {
		if a.Try {
			once.Do(func() { close(at) })
			<-gate
		}
		return ctx
	}}))
	return p, at, func() { close(gate) }
}

// A goroutine that came while a TryAcquire had the last place of the pool gets a request
// when that fails.
func TestWaiterIsServedAfterAFailedTryAcquire(t *testing.T) {
	each(t, func(e *env) {
		p, blocked, unblock := e.blockTry()
		pool := e.pool(p.Sem(1), 1)
		other := e.Hold(e.Peer().Sem(1))
		failed := make(chan error, 1)
		go func() { failed <- e.Timely(func() error { return second(pool.TryAcquire(e.Ctx)) }) }()
		<-blocked
		w := e.wait(pool)
		unblock()
		e.WantErr(<-failed, berth.ErrBusy)
		e.UntilWaiting(1)
		e.Release(other)
		e.finish(w.lent())
	})
}

// Leases that nobody borrows go back, and the keys with the last of them.
func TestIdleLeasesGoBack(t *testing.T) {
	each(t, func(e *env) {
		pool := e.pool(e.Peer().Sem(3), 3)
		a, b, c := e.borrow(pool), e.borrow(pool), e.borrow(pool)
		start := time.Now()
		e.finish(a, b)
		for time.Since(start) < berthpool.DefaultIdle-100*time.Millisecond {
			e.finish(e.borrow(pool)) // b each time
			e.Pass(10 * time.Millisecond)
		}
		e.untilPool(pool, "one idle lease less", func(s berthpool.Stats) bool { return s.Idle < 2 })
		e.Within(start, berthpool.DefaultIdle, berthpool.DefaultIdle, "the first idle lease went")
		start = time.Now()
		e.finish(c)
		e.untilEmpty(pool)
		e.Within(start, berthpool.DefaultIdle, berthpool.DefaultIdle+e.Tick(), "the last one went")
		e.UntilNoKeys(3 * time.Second)
	})
}

func TestPoolWithoutIdleTimeKeepsNothing(t *testing.T) {
	each(t, func(e *env) {
		pool := e.pool(e.Peer().Sem(1), 1, berthpool.Idle(0))
		loan := e.borrow(pool)
		next := e.wait(pool)
		e.finish(loan)
		again := next.lent() // idle time or not, a waiter gets it
		if again.ID() != loan.ID() {
			e.Error("another lease")
		}
		start := time.Now()
		e.finish(again)
		e.untilEmpty(pool)
		e.Within(start, 0, e.Tick(), "given back")
	})
}

func TestTryAcquire(t *testing.T) {
	each(t, func(e *env) {
		pool := e.pool(e.Peer().Sem(4, berth.Weight(2)), 1, kept)
		try := func() (*berthpool.Loan, *berth.BusyError) {
			var l *berthpool.Loan
			err := e.Timely(func() (err error) {
				l, err = pool.TryAcquire(e.Ctx)
				return err
			})
			busy := (*berth.BusyError)(nil)
			if err != nil && (!errors.As(err, &busy) || !errors.Is(err, berth.ErrBusy)) {
				e.Fatal(err)
			}
			return l, busy
		}
		all := e.Hold(e.Peer().Sem(4, berth.Weight(3)))
		if _, busy := try(); busy == nil || busy.InUse != 3 || busy.Limit != 4 {
			e.Errorf("Redis has no room, told %v", busy)
		}
		roomy := e.pool(e.Peer().Sem(4, berth.Weight(2)), 3)
		first := e.wait(roomy)
		e.UntilWaiting(1)
		_, err := roomy.TryAcquire(e.Ctx)
		if told, ok := errors.AsType[*berth.BusyError](err); !ok || told.Limit != 6 || told.Waiting != 1 {
			e.Errorf("somebody waits for what Redis has, told %v", err)
		}
		e.Release(all)
		e.finish(first.lent())
		e.Must(roomy.Close())
		loan, busy := try()
		if busy != nil {
			e.Fatal(busy)
		}
		if _, busy := try(); busy == nil || busy.InUse != 2 || busy.Limit != 2 || busy.Waiting != 0 {
			e.Errorf("the pool is full, told %v", busy)
		}
		r := e.wait(pool)
		if _, busy := try(); busy == nil || busy.Waiting != 1 {
			e.Errorf("somebody waits, told %v", busy)
		}
		e.finish(loan)
		e.finish(r.lent())
		loan, busy = try()
		if busy != nil || loan.ID() != r.loan.ID() {
			e.Errorf("a lease is idle, told %v", busy)
		}
		e.finish(loan)
	})
}

// Of several releases of one loan one counts, and no other loan ends.
func TestLoanIsReleasedOnce(t *testing.T) {
	each(t, func(e *env) {
		pool := e.pool(e.Peer().Sem(1), 1)
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
				e.Fatalf("%d of 5 releases counted: %v", n, errs[:n])
			}
			last := next.lent()
			if s := pool.Stats(); s != (berthpool.Stats{Leases: 1}) || !last.Valid() {
				e.Fatalf("the next loan is valid: %v; the pool has %+v", last.Valid(), s)
			}
			e.finish(last)
		}
	})
}

func TestDo(t *testing.T) {
	each(t, func(e *env) {
		pool := e.pool(e.Peer().Sem(1), 1, kept)
		e.finish(e.borrow(pool)) // all that follow borrow this lease
		broken := errors.New("broken")
		e.WantErr(pool.Do(e.Ctx, func(context.Context) error { return broken }), broken)
		func() {
			defer func() { _ = recover() }()
			_ = pool.Do(e.Ctx, func(context.Context) error { panic("fn") })
		}()
		e.Must(pool.Do(e.Ctx, func(ctx context.Context) error {
			loan, ok := berthpool.FromContext(ctx)
			if !ok || !loan.Valid() {
				e.Errorf("the context carries %v", loan)
			}
			return nil
		}))
		e.Must(pool.Do(e.Ctx, func(ctx context.Context) error {
			loan, _ := berthpool.FromContext(ctx)
			return loan.Release()
		}))
		for _, returned := range []func(context.Context) error{func(context.Context) error { return nil }, context.Context.Err} {
			e.WantErr(pool.Do(e.Ctx, func(ctx context.Context) error {
				loan, _ := berthpool.FromContext(ctx)
				e.Must(e.Inspector.ForceEvict(e.Ctx, testenv.Name, loan.ID()))
				<-ctx.Done()
				e.WantErr(context.Cause(ctx), berth.ErrLost)
				return returned(ctx)
			}), berth.ErrEvicted)
		}
		dead, cancel := context.WithCancel(e.Ctx)
		cancel()
		e.WantErr(pool.Do(dead, func(context.Context) error { panic("must not run") }), context.Canceled)
	})
}

// TestRequestThatWaitsForItsOwnLoanIsTold: a borrower of a pool whose last lease its own context
// carries is told by one warning, and in its error.
func TestRequestThatWaitsForItsOwnLoanIsTold(t *testing.T) {
	testenv.Embedded(t, func(te *testenv.Env) {
		e := &env{te}
		var log bytes.Buffer
		p := e.Peer(berth.Logger(slog.New(slog.NewTextHandler(&log, nil))))
		s := p.Sem(1)
		pool := e.pool(s, 1)
		inside := func(ctx context.Context) error {
			ctx, cancel := context.WithTimeout(ctx, time.Minute)
			defer cancel()
			err := pool.Do(ctx, func(context.Context) error { return nil })
			if ended, ok := errors.AsType[*berth.WaitError](err); !ok || ended.Carried == "" || !strings.Contains(err.Error(), ended.Carried) {
				e.Errorf("error %v, want one that names the lease", err)
			}
			return nil
		}
		e.Must(pool.Do(e.Ctx, inside))
		e.Must(pool.Do(e.Ctx, inside))
		e.Must(pool.Close())
		e.Must(s.Do(e.Ctx, func(ctx context.Context) error { // a lease without the pool
			pool = e.pool(s, 1)
			return inside(ctx)
		}))
		e.Must(p.Close())
		if n := strings.Count(log.String(), "its own context carries"); n != 1 {
			e.Errorf("%d warnings, want 1: %s", n, log.String())
		}
	})
}

// Hooks are called for leases, not for loans.
func TestHooksAreCalledForLeases(t *testing.T) {
	each(t, func(e *env) {
		var mu sync.Mutex
		var acquired, released int
		count := func(n *int) {
			mu.Lock()
			defer mu.Unlock()
			*n++
		}
		p := e.Peer(berth.Hook(berth.Hooks{
			AcquireDone: func(_ context.Context, _ berth.AcquireInfo, _ *berth.Lease, err error) {
				if err == nil || e.Exact { // a busy machine may need a second attempt
					count(&acquired)
				}
			},
			Released: func(*berth.Lease, time.Duration, error) { count(&released) },
		}))
		pool := e.pool(p.Sem(1), 1, kept)
		for range 10 {
			e.finish(e.borrow(pool))
		}
		e.Must(pool.Close())
		if acquired != 1 || released != 1 {
			e.Errorf("%d leases acquired and %d released, want 1 of each", acquired, released)
		}
	})
}

func TestInvalidArgumentsAreRefused(t *testing.T) {
	each(t, func(e *env) {
		s := e.Peer().Sem(1)
		for what, err := range map[string]error{
			"no semaphore":    second(berthpool.New(nil, 1)),
			"size 0":          second(berthpool.New(s, 0)),
			"a huge size":     second(berthpool.New(s, berth.MaxLimit+1)),
			"a nil option":    second(berthpool.New(s, 1, nil)),
			"negative idle":   second(berthpool.New(s, 1, berthpool.Idle(-1))),
			"a huge idle":     second(berthpool.New(s, 1, berthpool.Idle(berth.MaxTTL+1))),
			"MaxHold":         second(berthpool.New(e.Peer().Sem(1, berth.MaxHold(time.Minute)), 1)),
			"WithoutRenewal":  second(berthpool.New(e.Peer().Sem(1, berth.WithoutRenewal()), 1)),
			"Acquire(nil)":    second(e.pool(s, 1).Acquire(nil)),    //nolint:staticcheck // that is the test
			"TryAcquire(nil)": second(e.pool(s, 1).TryAcquire(nil)), //nolint:staticcheck // that is the test
		} {
			if !errors.Is(err, berth.ErrInvalid) {
				e.Errorf("%s: %v", what, err)
			}
		}
		cause := errors.New("the shift is over")
		dead, cancel := context.WithCancelCause(e.Ctx)
		cancel(cause)
		for _, err := range []error{second(e.pool(s, 1).Acquire(dead)), second(e.pool(s, 1).TryAcquire(dead))} {
			e.WantErr(err, context.Canceled)
			e.WantErr(err, cause)
		}
		e.Idle()
	})
}

// When a loan has begun, nobody believes in the one before it any more: its context and all that
// was derived from it are over.
func TestLoanBeginsAfterTheOneBeforeItHasEnded(t *testing.T) {
	each(t, func(e *env) {
		pool := e.pool(e.Peer().Sem(1), 1, kept)
		loan := e.borrow(pool)
		for range 5 {
			var derived []context.Context
			for range 5000 { // so many that their end takes a while
				ctx, cancel := context.WithCancel(loan.Context())
				defer cancel()
				derived = append(derived, ctx)
			}
			next := e.wait(pool)
			go e.finish(loan)
			loan = next.lent()
			for _, ctx := range derived {
				if ctx.Err() == nil {
					e.Fatal("two believe in one lease")
				}
			}
		}
		e.finish(loan)
	})
}
