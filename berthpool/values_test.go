package berthpool_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"
	"weak"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/berthpool"
	"github.com/berth-go/berth/internal/testkit/redistest"
)

// A lease that stays in the pool keeps nothing that its first borrower's context had.
func TestIdleLeasesKeepNoValuesOfTheirBorrowers(t *testing.T) {
	exactly(t, func(e *env) {
		for what, borrow := range map[string]func(*berthpool.Pool, context.Context) (*berthpool.Loan, error){
			"Acquire": (*berthpool.Pool).Acquire, "TryAcquire": (*berthpool.Pool).TryAcquire,
		} {
			pool := e.pool(e.Peer().Named(what, 1), 1, kept)
			value := e.borrowWithValue(func(ctx context.Context) (*berthpool.Loan, error) { return borrow(pool, ctx) })
			for range 10 {
				runtime.GC()
			}
			if value.Value() != nil || pool.Stats().Idle != 1 {
				e.Errorf("%s: the pool has %+v, and the value of a context", what, pool.Stats())
			}
		}
	})
}

// borrowWithValue borrows a lease by a context with a large value, and returns the value.
func (e *env) borrowWithValue(borrow func(context.Context) (*berthpool.Loan, error)) weak.Pointer[[1 << 20]byte] {
	type key struct{}
	value := new([1 << 20]byte)
	ctx, cancel := context.WithCancel(context.WithValue(e.Ctx, key{}, value))
	defer cancel()
	loan, err := borrow(ctx)
	e.Must(err)
	if loan.Context().Value(key{}) != value {
		e.Error("the loan has not the value of its context")
	}
	e.finish(loan)
	return weak.Make(value)
}

// A TryAcquire ends when its context does, and tells why, whatever Redis does.
func TestTryAcquireEndsWithItsContext(t *testing.T) {
	exactly(t, func(e *env) {
		over := errors.New("the shift is over")
		for what, bound := range map[string]func() (context.Context, context.CancelFunc){
			"deadline": func() (context.Context, context.CancelFunc) {
				return context.WithTimeoutCause(e.Ctx, time.Second, over)
			},
			"cancel": func() (context.Context, context.CancelFunc) {
				ctx, cancel := context.WithCancelCause(e.Ctx)
				time.AfterFunc(time.Second, func() { cancel(over) })
				return ctx, func() { cancel(nil) }
			},
		} {
			p := e.Peer()
			pool := e.pool(p.Sem(1), 1)
			p.Net.Inject(redistest.Rule{Match: redistest.IsScript, Fault: redistest.SwallowRequest})
			ctx, cancel := bound()
			start := time.Now()
			_, err := pool.TryAcquire(ctx)
			if took := time.Since(start); took != time.Second || !errors.Is(err, ctx.Err()) || !errors.Is(err, over) {
				e.Errorf("%s: after %v: %v", what, took, err)
			}
			if wait, ok := errors.AsType[*berth.WaitError](err); !ok || wait.Name != p.Sem(1).Name() {
				e.Errorf("%s: %v is no WaitError", what, err)
			}
			cancel()
		}
	})
}
