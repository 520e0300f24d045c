package berthpool_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/berthadmin"
	"github.com/berth-go/berth/berthpool"
	"github.com/berth-go/berth/internal/testkit/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

type env struct{ *testenv.Env }

// each runs body on the embedded store and on a real server.
func each(t *testing.T, body func(e *env)) {
	t.Helper()
	testenv.Each(t, func(e *testenv.Env) { body(&env{e}) })
}

// exactly runs body on the embedded store alone: for what only exact time can tell.
func exactly(t *testing.T, body func(e *env)) {
	t.Helper()
	testenv.Embedded(t, func(e *testenv.Env) { body(&env{e}) })
}

// kept is for leases that are to stay in their pool.
var kept = berthpool.Idle(time.Hour)

// pool makes a pool, which is closed before its client is.
func (e *env) pool(s *berth.Semaphore, size int, opts ...berthpool.Option) *berthpool.Pool {
	e.Helper()
	p, err := berthpool.New(s, size, opts...)
	e.Must(err)
	e.Cleanup(func() { e.Must(p.Close()) })
	return p
}

// borrow acquires a loan, which must work out.
func (e *env) borrow(p *berthpool.Pool) *berthpool.Loan {
	e.Helper()
	l, err := e.acquire(e.Ctx, p)
	e.Must(err)
	return l
}

// acquire is an Acquire that is made again where a busy machine was too slow for it.
func (e *env) acquire(ctx context.Context, p *berthpool.Pool) (l *berthpool.Loan, err error) {
	e.Helper()
	err = e.Timely(func() error {
		l, err = p.Acquire(ctx)
		return err
	})
	return l, err
}

// finish releases loans, which must work out.
func (e *env) finish(loans ...*berthpool.Loan) {
	e.Helper()
	for _, l := range loans {
		e.giveBack(l)
	}
}

// giveBack releases a lease or a loan, which must work out. If a busy machine was too slow for
// that, it waits until the lease has been given back in the background.
func (e *env) giveBack(b holding) {
	e.Helper()
	start := time.Now()
	err := b.Release()
	if !e.Exact && errors.Is(err, berth.ErrUnreachable) && time.Since(start) >= 5*time.Second {
		e.Until("given back", func(s *berthadmin.State) bool {
			return !slices.ContainsFunc(s.Leases, func(l berthadmin.Holder) bool { return l.ID == b.ID() })
		})
		return
	}
	e.Must(err)
}

// pending is an Acquire of a pool in the background.
type pending struct {
	e      *env
	cancel context.CancelFunc
	done   chan struct{}
	loan   *berthpool.Loan // this and the rest are set when done is closed
	err    error
}

// start begins an Acquire.
func (e *env) start(p *berthpool.Pool) *pending {
	ctx, cancel := context.WithCancel(e.Ctx)
	b := &pending{e: e, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(b.done)
		b.loan, b.err = e.acquire(ctx, p)
	}()
	return b
}

// wait begins an Acquire and returns when it waits for a loan.
func (e *env) wait(p *berthpool.Pool) *pending {
	e.Helper()
	n := p.Stats().Waiting
	b := e.start(p)
	e.untilPool(p, "one more waits", func(s berthpool.Stats) bool { return s.Waiting == n+1 })
	return b
}

// lent returns the loan, as soon as it is there.
func (b *pending) lent() *berthpool.Loan {
	b.e.Helper()
	<-b.done
	b.e.Must(b.err)
	return b.loan
}

// refused waits for the error, which must be want to errors.Is.
func (b *pending) refused(want error) {
	b.e.Helper()
	<-b.done
	b.e.WantErr(b.err, want)
}

// waits fails unless b still waits.
func (b *pending) waits() {
	b.e.Helper()
	if b.e.Exact {
		synctest.Wait()
	}
	select {
	case <-b.done:
		b.e.Errorf("it does not wait any more: loan %v, error %v", b.loan, b.err)
	default:
	}
}

// untilPool looks at the pool again and again.
func (e *env) untilPool(p *berthpool.Pool, what string, ok func(berthpool.Stats) bool) {
	e.Helper()
	if e.Exact {
		synctest.Wait()
	}
	for !ok(p.Stats()) {
		select {
		case <-time.After(time.Millisecond):
		case <-e.Ctx.Done():
			e.Fatalf("never: %s; the pool has %+v", what, p.Stats())
		}
	}
}

// untilEmpty waits until the pool has nothing, and Redis nothing of it.
func (e *env) untilEmpty(p *berthpool.Pool) {
	e.Helper()
	e.untilPool(p, "empty", func(s berthpool.Stats) bool { return s == berthpool.Stats{} })
	e.Until("nobody holds", func(s *berthadmin.State) bool { return s.Holders+s.Waiting == 0 })
}

func second[T any](_ T, err error) error { return err }
