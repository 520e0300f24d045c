package berth

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/berth-go/berth/internal/clock"
)

// DefaultPoolIdle is how long a pool keeps a lease that nobody borrows, unless
// PoolIdle says otherwise.
const DefaultPoolIdle = time.Second

// PoolOption configures Semaphore.Pool.
type PoolOption func(*poolConfig)

type poolConfig struct{ idle time.Duration }

// PoolIdle sets how long the pool keeps a lease that nobody borrows; default
// DefaultPoolIdle, at most MaxTTL. 0 gives a lease back as soon as nobody in this
// process waits for it.
func PoolIdle(d time.Duration) PoolOption { return func(c *poolConfig) { c.idle = d } }

// Pool leases permits of a semaphore for this process and lends them to its
// goroutines: one lease for one loan at a time. To borrow what is idle costs no
// call to Redis. Leases go back as soon as somebody waits for them elsewhere, or
// when nobody borrows them for a while.
//
// Among the goroutines of the pool it is first come, first served; among
// processes it is so for leases, not for loans: whoever waits elsewhere waits
// for at most a third of the TTL, and a second, longer than in line, and for the
// end of a loan. Nothing else about the semaphore changes: see docs/pool.md.
//
// Make one for each semaphore and share it: it is safe for concurrent use.
type Pool struct {
	sem     *Semaphore
	max     int
	idle    time.Duration
	unwatch func()
	work    sync.WaitGroup // requests and returns under way

	mu     sync.Mutex
	stack  []*berthing // idle leases, the one that was used last on top
	line   waiters     // nobody waits while a lease is idle
	leases int         // idle or lent
	away   int         // being given back
	tries  int         // TryAcquires at Redis
	asks   []*ask      // Acquires at Redis, in their order
	unsaid int         // asks that are cancelled, but have not returned yet
	others int         // who wait elsewhere, as last heard
	debt   int         // leases to give back for them, when their loans end
	heard  clock.Instant
	crowd  clock.Instant // when some did last
	exact  clock.Instant // when the clock was last asked for suspensions
	timer  *time.Timer
	alarm  clock.Instant // when timer fires; 0: not set
	closed bool
}

// Pool returns a pool that keeps at most size leases of the semaphore, on its
// default options, and so makes at most size loans at once. Nothing is sent
// before the first Acquire. The pool is to be closed when it is no longer used.
//
// It fails with an *InvalidError, also when the semaphore's leases have a MaxHold
// or are WithoutRenewal: they would end in the midst of whatever loan they back.
func (s *Semaphore) Pool(size int, opts ...PoolOption) (*Pool, error) {
	cfg := poolConfig{idle: DefaultPoolIdle}
	for _, o := range opts {
		if o == nil {
			return nil, &InvalidError{"option", "it is nil"}
		}
		o(&cfg)
	}
	switch {
	case size < 1 || size > MaxLimit:
		return nil, &InvalidError{"pool size", fmt.Sprintf("%d is outside 1 to %d", size, MaxLimit)}
	case cfg.idle < 0 || cfg.idle > MaxTTL:
		return nil, &InvalidError{"PoolIdle", fmt.Sprintf("%v is outside 0 to %v", cfg.idle, MaxTTL)}
	case s.config.maxHold > 0:
		return nil, &InvalidError{"MaxHold", "a pool's leases outlast many loans: use Options(MaxHold(0))"}
	case s.config.noRenewal:
		return nil, &InvalidError{"WithoutRenewal", "a pool's leases outlast many loans, and nobody could renew them"}
	}
	p := &Pool{sem: s, max: size, idle: cfg.idle}
	p.unwatch = s.inner.Watch(p.news)
	return p, nil
}

// Acquire borrows a lease: an idle one, else it waits in line until ctx ends,
// for the first that a Release or Redis makes free. The pool asks Redis for as
// many more as its goroutines wait for, up to its size.
//
// On success the caller has the loan and must release it. On failure it has
// nothing. The errors are those of Semaphore.Acquire; what ends a request of the
// pool's is told to all who were in line when it was sent, for their own would
// have ended so.
func (p *Pool) Acquire(ctx context.Context) (*Loan, error) {
	if err := p.admits(ctx); err != nil {
		return nil, err
	}
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil, p.isClosed()
	}
	if b := p.take(); b != nil {
		p.mu.Unlock()
		return newLoan(ctx, p, b), nil
	}
	w := p.line.push()
	p.fill()
	p.mu.Unlock()
	select {
	case <-w.turn:
	case <-ctx.Done():
		if p.leave(w) {
			return nil, p.stopped(ctx)
		}
		<-w.turn // it came in the same moment
	}
	if w.err != nil {
		return nil, w.err
	}
	w.lease.waiter = w
	return newLoan(ctx, p, w.lease), nil
}

// TryAcquire borrows an idle lease, or one that Redis has at once, if nobody in
// this process waits. Otherwise the error is a *BusyError (ErrBusy): Redis', or,
// when all leases of the pool are lent or somebody waits for one, the pool's, with
// its permits, its size and its waiters as InUse, Limit and Waiting. Other errors
// are as with Acquire.
func (p *Pool) TryAcquire(ctx context.Context) (*Loan, error) {
	if err := p.admits(ctx); err != nil {
		return nil, err
	}
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil, p.isClosed()
	}
	if b := p.take(); b != nil {
		p.mu.Unlock()
		return newLoan(ctx, p, b), nil
	}
	if p.line.n > 0 || p.room() == 0 {
		defer p.mu.Unlock()
		each := p.sem.config.weight
		return nil, &BusyError{Name: p.sem.name, InUse: p.leases * each, Limit: p.max * each, Waiting: p.line.n}
	}
	p.tries++
	p.mu.Unlock()
	b, err := p.tried(berthed(p.sem.TryAcquire(ctx)))
	if err != nil {
		return nil, err
	}
	return newLoan(ctx, p, b), nil
}

// With runs fn while it has a loan and ends the loan afterwards, also when fn
// panics. fn's context is ctx's child, ends with cause ErrLost when the lease is
// lost, and carries the loan (LoanFromContext). With returns fn's error; if fn
// returned nil although the lease was lost before it ended, the *LostError; and
// Acquire's error if fn was not run.
func (p *Pool) With(ctx context.Context, fn func(context.Context) error) error {
	loan, err := p.Acquire(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = loan.Release() }()
	inner, cancel := context.WithCancelCause(context.WithValue(ctx, loanKey{}, loan))
	defer cancel(nil)
	held := loan.lease.held
	stop := context.AfterFunc(held, func() { cancel(context.Cause(held)) })
	defer stop()
	if err := fn(inner); err != nil {
		return err
	}
	if err := loan.Release(); errors.Is(err, ErrLost) {
		return err
	}
	return nil
}

// Close gives back the leases that are idle, cancels what waits, which ends with
// ErrClosed, and refuses what comes. A lease that is lent is given back when its
// loan is released. Close waits for Redis for at most a few seconds, as Release
// does, and leaves the rest to berth's next attempts in the background. It returns
// nil, always. The Client's Close closes its pools too.
func (p *Pool) Close() error {
	p.mu.Lock()
	p.shut()
	p.mu.Unlock()
	p.work.Wait()
	return nil
}

// PoolStats is what a pool has at one moment.
type PoolStats struct {
	Leases  int // kept: idle or lent
	Idle    int // of these, not lent
	Waiting int // goroutines in line
	Asking  int // requests at Redis for more
}

// Stats returns what the pool has now.
func (p *Pool) Stats() PoolStats {
	p.mu.Lock()
	defer p.mu.Unlock()
	return PoolStats{Leases: p.leases, Idle: len(p.stack), Waiting: p.line.n, Asking: len(p.asks) + p.tries}
}

func (p *Pool) admits(ctx context.Context) error {
	if err := validContext(ctx); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return p.stopped(ctx)
	}
	return nil
}

// stopped is the error of a wait that ctx has ended.
func (p *Pool) stopped(ctx context.Context) error {
	if cause := context.Cause(ctx); !errors.Is(cause, ctx.Err()) {
		return fmt.Errorf("berth: semaphore %q: %w: %w", p.sem.name, ctx.Err(), cause)
	}
	return fmt.Errorf("berth: semaphore %q: %w", p.sem.name, ctx.Err())
}

func (p *Pool) isClosed() error { return closedPool{p.sem.name} }

// closedPool is ErrClosed, of a pool.
type closedPool struct{ name string }

// Error implements error.
func (e closedPool) Error() string {
	return fmt.Sprintf("berth: the pool of semaphore %q is closed", e.name)
}

// Is reports whether target is ErrClosed.
func (e closedPool) Is(target error) bool { return target == ErrClosed }
