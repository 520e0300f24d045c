// Package berthpool lends leases of a semaphore to the goroutines of a process,
// from memory. It is for processes that acquire and release every few milliseconds
// or more often: there the two calls to Redis of each pair cost the most.
//
// A Pool keeps some leases and lends each of them to one goroutine at a time. The
// guarantees about limits, slots and tokens hold as without a pool. The order between
// processes does not: a process with a pool serves its own goroutines with the leases
// that it has, and releases leases when it learns that others wait. docs/pool.md says
// how long that takes.
package berthpool

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/internal/bridge"
	"github.com/berth-go/berth/internal/clock"
	"github.com/berth-go/berth/internal/session"
)

// DefaultIdle is how long a pool keeps an idle lease, unless Idle is given.
const DefaultIdle = time.Second

// mostClosing is how long Close waits. Redis alone takes no more: the 2 seconds in which a request
// is withdrawn, and the 5 of a Release.
const mostClosing = 7 * time.Second

// Option configures New.
type Option func(*config)

type config struct{ idle time.Duration }

// Idle sets how long the pool keeps a lease that is not borrowed, at most berth.MaxTTL;
// the default is DefaultIdle. With 0 a lease is released as soon as no goroutine of the
// pool waits for it.
func Idle(d time.Duration) Option { return func(c *config) { c.idle = d } }

// Pool keeps leases of a semaphore and lends them to the goroutines of this process:
// one lease backs one loan at a time. Borrowing an idle lease costs no call to Redis. A
// lease is released when other processes wait for it, when an operator makes the limit
// smaller than what is in use or pauses grants, or when it was not borrowed for a while.
//
// The client's hooks run in goroutines of the pool, since its requests are no borrower's. One that
// blocks takes the room of a lease, and holds up the goroutine that waits in the last place.
//
// Make one Pool for each semaphore and share it: it is safe for concurrent use.
type Pool struct {
	sem     *berth.Semaphore
	inner   *session.Semaphore
	weight  int // of each lease
	size    int
	keep    time.Duration // an idle lease
	unwatch func()
	work    sync.WaitGroup // calls to Redis in flight; not those of Loan.Release

	mu        sync.Mutex     // guards what follows
	idle      []*pooledLease // the one that was used last at the end
	waiters   waiters        // none while a lease is idle
	leases    int            // idle or lent
	releasing int            // on their way back
	trying    int            // TryAcquires at Redis
	requests  []*request     // Acquires at Redis that somebody waits for, in their order
	canceling int            // Acquires at Redis that were canceled
	elsewhere elsewhere
	alarm     clock.Alarm   // calls tick
	exact     clock.Instant // when the clock was last asked for suspensions
	closed    bool
}

// New returns a pool that keeps at most size leases of sem, and so makes at most size
// loans at once. The leases have the options of sem. New sends nothing. Close the pool
// when it is no longer used.
//
// The only error is a *berth.InvalidError. MaxHold and WithoutRenewal on sem are
// invalid, too: leases would end while they back loans. So is a Rate, which counts
// grants: one lease backs many loans.
func New(sem *berth.Semaphore, size int, opts ...Option) (*Pool, error) {
	cfg := config{idle: DefaultIdle}
	for _, o := range opts {
		if o == nil {
			return nil, invalid("option", "it is nil")
		}
		o(&cfg)
	}
	switch {
	case size < 1 || size > berth.MaxLimit:
		return nil, invalid("pool size", fmt.Sprintf("%d is outside 1 to %d", size, berth.MaxLimit))
	case cfg.idle < 0 || cfg.idle > berth.MaxTTL:
		return nil, invalid("Idle", fmt.Sprintf("%v is outside 0 to %v", cfg.idle, berth.MaxTTL))
	}
	inner, terms, manual, err := internals.Semaphore(sem)
	switch {
	case err != nil:
		return nil, err
	case terms.Rates != "":
		return nil, invalid("Rate", "a rate counts grants, and a pool makes many loans of one grant: take leases of the semaphore itself, or use With(berth.Rate(0, 0)) if loans are to be free")
	case terms.MaxHold > 0:
		return nil, invalid("MaxHold", "a pool's leases outlast many loans: use With(berth.MaxHold(0))")
	case manual:
		return nil, invalid("WithoutRenewal", "a pool's leases outlast many loans, and nobody could renew them")
	}
	p := &Pool{sem: sem, inner: inner, weight: terms.Weight, size: size, keep: cfg.idle}
	p.alarm = clock.NewAlarm(p.tick)
	p.unwatch = inner.Watch(p.onAnswer)
	return p, nil
}

var internals = berth.Internal(bridge.NewKey())

func invalid(what, reason string) error { return &berth.InvalidError{What: what, Reason: reason} }

// Acquire borrows a lease. If none is idle it waits, until ctx ends, for the first that
// is released in this process or granted by Redis. The goroutines of a pool are served
// first come, first served. The pool requests as many leases from Redis as goroutines
// wait for, up to its size.
//
// On success the caller has the loan and must release it. On failure it has nothing.
// The error is ctx's (a *berth.WaitError), berth.ErrClosed after Close, or one of
// Semaphore.Acquire: an error that ends a request of the pool ends the wait of every
// goroutine that already waited when the request was sent, except that an eviction ends
// only one wait. While Redis does not answer, Acquire returns within 10 seconds, after
// the request in flight and one more have failed; but if all leases of the pool are
// lent or have requests in the queue, which outlast an outage, it waits for one of them.
func (p *Pool) Acquire(ctx context.Context) (*Loan, error) {
	if err := p.admit(ctx); err != nil {
		return nil, err
	}
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil, p.closedError()
	}
	if l := p.takeIdle(); l != nil {
		p.mu.Unlock()
		return newLoan(ctx, p, l), nil
	}
	w := p.waiters.push()
	p.ask()
	lent := p.leases == p.size // none is idle
	p.mu.Unlock()
	carried := p.carried(ctx)
	if carried != "" && lent {
		internals.WarnOfCarried(p.sem, carried)
	}
	select {
	case <-w.served:
	case <-ctx.Done():
		if p.leave(w) {
			p.waiters.reuse(w)
			return nil, p.ended(ctx, carried)
		}
		<-w.served // in the same moment
	}
	l, err := w.lease, w.err
	p.waiters.reuse(w)
	if err != nil {
		return nil, err
	}
	return newLoan(ctx, p, l), nil
}

// TryAcquire borrows an idle lease, or one that Redis grants at once, unless another
// goroutine of the pool waits. It returns within 2 seconds.
//
// On success the caller has the loan and must release it. On failure it has nothing.
// The error is a *berth.BusyError (berth.ErrBusy) when no permit is free. Usually it
// comes from Redis; but if all leases of the pool are lent, or on their way from or to
// Redis, or a goroutine waits for one, the pool itself returns it, with the permits of
// the pool as InUse and Limit and its waiting goroutines as Waiting. Other errors are
// those of Acquire.
func (p *Pool) TryAcquire(ctx context.Context) (*Loan, error) {
	if err := p.admit(ctx); err != nil {
		return nil, err
	}
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil, p.closedError()
	}
	if l := p.takeIdle(); l != nil {
		p.mu.Unlock()
		return newLoan(ctx, p, l), nil
	}
	if p.waiters.len() > 0 || p.room() == 0 {
		defer p.mu.Unlock()
		return nil, &berth.BusyError{Name: p.sem.Name(), Status: berth.Status{
			InUse: p.leases * p.weight, Limit: p.size * p.weight, Waiting: p.waiters.len(),
		}}
	}
	p.trying++
	p.work.Add(1) // under mu: Close waits for it
	p.mu.Unlock()
	defer p.work.Done()
	// The lease remembers the context of its Acquire, and is kept for others: it must not keep
	// the values of its first borrower's.
	alone, cancel := context.WithCancel(context.Background())
	defer cancel()
	defer context.AfterFunc(ctx, cancel)()
	l, err := p.pooled(p.sem.TryAcquire(alone))
	if errors.Is(err, context.Canceled) && ctx.Err() != nil {
		err = p.ended(ctx, "")
	}
	if err = p.tried(l, err); err != nil {
		return nil, err
	}
	return newLoan(ctx, p, l), nil
}

// Do runs fn with a loan and releases the loan afterwards, even if fn panics. The
// context of fn is a child of ctx, ends with cause berth.ErrLost when the lease is
// lost, and carries the loan (FromContext), which fn may release. Do returns Acquire's error if
// fn was not run, otherwise fn's error and Release's, as berth.Semaphore.Do does: a lease that was
// lost before fn returned is reported, whatever fn returns. It takes as long as these three do.
func (p *Pool) Do(ctx context.Context, fn func(context.Context) error) error {
	if fn == nil {
		return invalid("function", "it is nil")
	}
	loan, err := p.Acquire(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = loan.Release() }() // for a panic; else it was released before
	inner, cancel := context.WithCancelCause(context.WithValue(ctx, loanKey{}, loan))
	defer cancel(nil)
	life := loan.lease.life
	defer context.AfterFunc(life, func() { cancel(context.Cause(life)) })()
	return internals.Outcome(fn(inner), loan.Release())
}

// Close releases the idle leases, ends all waits with berth.ErrClosed, and refuses
// every later call. A lease that is lent is released when its loan is.
//
// Close always returns nil, within 7 seconds, whatever Redis and hooks do: leases that are not
// released by then are retried in the background. A second Close waits for the first.
// The Client's Close also ends its pools.
func (p *Pool) Close() error {
	if p.none() { // there is nothing to close
		return nil
	}
	p.mu.Lock()
	p.close()
	p.mu.Unlock()
	done := make(chan struct{})
	go func() {
		defer close(done)
		p.work.Wait()
	}()
	select {
	case <-done:
	case <-time.After(mostClosing): // a hook blocks
	}
	return nil
}

// Stats describes a pool at one moment.
type Stats struct {
	Leases   int // idle or lent
	Idle     int // of these, not lent
	Waiting  int // goroutines that wait
	Requests int // for more leases, at Redis
}

// Stats returns the pool's present state. It sends nothing.
func (p *Pool) Stats() Stats {
	if p.none() {
		return Stats{}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return Stats{
		Leases: p.leases, Idle: len(p.idle), Waiting: p.waiters.len(),
		Requests: len(p.requests) + p.canceling + p.trying,
	}
}

// none reports whether p is nil or zero.
func (p *Pool) none() bool { return p == nil || p.sem == nil }

// admit refuses contexts that have ended, and a nil or zero Pool.
func (p *Pool) admit(ctx context.Context) error {
	if p.none() {
		return invalid("pool", "it was not made by New, or New failed: look at its error")
	}
	if ctx == nil {
		return invalid("context", "it is nil")
	}
	if ctx.Err() != nil {
		return p.ended(ctx, "")
	}
	return nil
}

// ended is the error of a wait that ctx has ended, which may have been for the lease called carried.
func (p *Pool) ended(ctx context.Context, carried string) error {
	err := ctx.Err()
	if cause := context.Cause(ctx); !errors.Is(cause, err) {
		err = fmt.Errorf("%w: %w", err, cause)
	}
	return &berth.WaitError{Name: p.sem.Name(), Carried: carried, Err: err}
}

func (p *Pool) closedError() error { return closedError{p.sem.Name()} }

// closedError is berth.ErrClosed, of a pool.
type closedError struct{ name string }

// Error implements error.
func (e closedError) Error() string {
	return fmt.Sprintf("berthpool: the pool of semaphore %q is closed", e.name)
}

// Is reports whether target is berth.ErrClosed.
func (e closedError) Is(target error) bool { return target == berth.ErrClosed }
