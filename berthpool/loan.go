package berthpool

import (
	"context"
	"fmt"
	"time"

	"github.com/berth-go/berth"
)

// Loan is the right to use a lease of a Pool until the loan is released or the lease is
// lost. Successive loans of one lease have the same ID, Slot and Token, which fence
// between processes; within the process, each loan is released before the next one
// begins.
//
// A Loan that is never released keeps its lease. A Loan is safe for concurrent use.
// Only Release may wait for Redis.
type Loan struct {
	pool   *Pool
	lease  *pooledLease
	parent context.Context //nolint:containedctx // for its values only

	// Guarded by pool.mu.
	over bool
	ctx  context.Context //nolint:containedctx // the loan's life, made by Context
	end  func(error)     // ends ctx; nil until Context is called
}

type loanKey struct{}

// FromContext returns the loan that ctx carries, if it is derived from a context of
// Loan.Context or Pool.Do.
func FromContext(ctx context.Context) (*Loan, bool) {
	l, ok := ctx.Value(loanKey{}).(*Loan)
	return l, ok
}

// carried returns the id of a lease that ctx carries as a loan of p, or as one of p's semaphore that
// was acquired without p; "": there is none.
func (p *Pool) carried(ctx context.Context) string {
	for l, ok := FromContext(ctx); ok; l, ok = FromContext(l.parent) {
		if l.pool == p && !l.isOver() {
			return l.ID()
		}
	}
	return internals.Carried(ctx, p.sem)
}

func newLoan(ctx context.Context, p *Pool, l *pooledLease) *Loan {
	return &Loan{pool: p, lease: l, parent: ctx}
}

// none reports whether l is nil or zero, as one has that ignored the error of an Acquire. It is over.
func (l *Loan) none() bool { return l == nil || l.pool == nil }

// backing is the lease; nil, which berth takes for one that is over, where there is no loan.
func (l *Loan) backing() *berth.Lease {
	if l.none() {
		return nil
	}
	return l.lease.Lease
}

// Context returns a context that ends when the loan does. Its cause (context.Cause) is
// a *berth.LostError, which is berth.ErrLost to errors.Is, when the lease is lost, at
// the trust deadline at the latest; berth.ErrReleased after Release; and
// berth.ErrClosed after the Client's Close. It has the values of Acquire's context but
// not its deadline or cancellation, which only bound the wait.
func (l *Loan) Context() context.Context {
	if l.none() {
		return l.backing().Context() // which has ended
	}
	l.pool.mu.Lock()
	defer l.pool.mu.Unlock()
	if l.ctx == nil {
		ctx, cancel := context.WithCancelCause(context.WithValue(context.WithoutCancel(l.parent), loanKey{}, l))
		life := l.lease.life
		stop := context.AfterFunc(life, func() { cancel(context.Cause(life)) })
		l.ctx, l.end = ctx, func(err error) {
			stop()
			cancel(err)
		}
		if l.over {
			l.end(l.released())
		}
	}
	return l.ctx
}

// Name returns the semaphore's name.
func (l *Loan) Name() string { return l.backing().Name() }

// ID returns the lease's id, as the CLI and berthadmin show it.
func (l *Loan) ID() string { return l.backing().ID() }

// Slot returns the lease's slot. No other loan or lease has it while this loan lasts.
func (l *Loan) Slot() int { return l.backing().Slot() }

// Token returns the lease's token, which is the same for all loans of the lease.
func (l *Loan) Token() int64 { return l.backing().Token() }

// Weight returns how many permits the lease takes.
func (l *Loan) Weight() int { return l.backing().Weight() }

// Limit returns the limit that was in force when the lease was granted.
func (l *Loan) Limit() int { return l.backing().Limit() }

// Valid reports whether the loan can be relied on at this moment, as berth.Lease.Valid
// does.
func (l *Loan) Valid() bool { return !l.isOver() && l.lease.Valid() }

// ValidUntil returns the lease's trust deadline, which renewals extend. It is zero when
// the loan or the lease is over.
func (l *Loan) ValidUntil() time.Time {
	if l.isOver() {
		return time.Time{}
	}
	return l.lease.ValidUntil()
}

func (l *Loan) isOver() bool {
	if l.none() {
		return true
	}
	l.pool.mu.Lock()
	defer l.pool.mu.Unlock()
	return l.over
}

// Release ends the loan. The lease goes to the goroutine that has waited longest, is
// kept, or is released in the background, and Release returns at once: nil when the
// lease was held until now, and berth.ErrReleased when the loan was released before. If
// the lease was lost or the pool is closed, Release releases the lease itself, within 5
// seconds, and returns what berth.Lease.Release does, for example a *berth.LostError.
// In every case the loan is over.
func (l *Loan) Release() error {
	if l.none() {
		return berth.ErrReleased
	}
	p := l.pool
	p.mu.Lock()
	if l.over {
		p.mu.Unlock()
		return l.released()
	}
	l.over = true
	if l.end != nil { // before anybody else can have the lease
		p.mu.Unlock()
		l.end(l.released())
		p.mu.Lock()
	}
	now := p.now()
	if p.closed || !l.lease.usable(now) {
		p.remove(l.lease)
		p.mu.Unlock()
		return p.giveBack(l.lease)
	}
	p.returned(l.lease, now)
	p.mu.Unlock()
	return nil
}

func (l *Loan) released() error {
	return fmt.Errorf("%w (a loan of semaphore %q)", berth.ErrReleased, l.Name())
}
