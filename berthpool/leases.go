package berthpool

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/internal/clock"
)

// The leases of a pool. Pool.mu is held in all of this file, except where a
// function says that it takes it.
//
//	state       means                            leaves it by
//	idle        kept, for the next borrower      borrowed → lent; lost, owed or idle for too long → releasing
//	lent        a loan has it                    loan released → lent again, or idle; lost or owed → releasing
//	releasing   its Release is in flight         answered or given up → not the pool's any more
//
// A pool never has more leases at Redis than its size: see room.

// pooledLease is a lease that the pool lends.
type pooledLease struct {
	*berth.Lease
	life  context.Context //nolint:containedctx // the lease's
	stop  func() bool     // ends the pool's interest in life
	trust clock.Instant   // the trust deadline as last seen; it only ever moves to a later time
	since clock.Instant   // idle: since then
}

// pooled wraps what Acquire returned. It needs no lock.
func (p *Pool) pooled(lease *berth.Lease, err error) (*pooledLease, error) {
	if err != nil {
		return nil, err
	}
	l := &pooledLease{Lease: lease, life: lease.Context()}
	l.stop = context.AfterFunc(l.life, func() { p.onEnd(l) })
	return l, nil
}

// usable reports whether l can be lent at now. It is Lease.Valid at a fraction of the
// cost: it looks the trust deadline up only when the last known one has passed.
func (l *pooledLease) usable(now clock.Instant) bool {
	if l.life.Err() != nil {
		return false
	}
	if now >= l.trust {
		l.trust = internals.Trust(l.Lease)
	}
	return now < l.trust
}

// now returns the present instant. It checks for a suspension of the machine once in a
// millisecond, because a check for each loan would cost a third more. So a lease that
// expired while the machine was suspended is lent for a millisecond at most.
func (p *Pool) now() clock.Instant {
	now := clock.Now()
	if now.Sub(p.exact) >= time.Millisecond {
		now = clock.Exact()
		p.exact = now
	}
	return now
}

// takeIdle returns the idle lease that was used last, or nil. Leases that are not needed
// then stay idle, and are released.
func (p *Pool) takeIdle() *pooledLease {
	if len(p.idle) == 0 {
		return nil
	}
	now := p.now()
	for n := len(p.idle) - 1; n >= 0; n-- {
		l := p.idle[n]
		p.idle[n] = nil
		p.idle = p.idle[:n]
		if l.usable(now) {
			return l
		}
		p.release(l)
	}
	return nil
}

// add counts a lease that was granted.
func (p *Pool) add(now clock.Instant) {
	p.leases++
	p.wakeBy(now.Add(p.elsewhere.interval(now)))
}

// returned takes l from a loan that has ended. Waiters elsewhere come first, because the
// goroutines of the pool have had their turn.
func (p *Pool) returned(l *pooledLease, now clock.Instant) {
	if p.elsewhere.owed > 0 {
		p.elsewhere.owed--
		p.release(l)
		return
	}
	p.lend(l, now)
}

// lend gives l to the first waiter, or keeps it. A lease that was just granted is lent
// even if one is owed to others, because it was this process's turn.
func (p *Pool) lend(l *pooledLease, now clock.Instant) {
	if w := p.waiters.pop(); w != nil {
		w.serve(l, nil)
		p.cancelLater(now)
		return
	}
	if p.elsewhere.owed > 0 || p.keep == 0 {
		p.elsewhere.owed = max(p.elsewhere.owed-1, 0)
		p.release(l)
		return
	}
	l.since = now
	p.idle = append(p.idle, l)
	p.wakeBy(p.idle[0].since.Add(p.keep))
}

// release releases l in the background.
func (p *Pool) release(l *pooledLease) {
	p.remove(l)
	p.work.Go(func() { _ = p.giveBack(l) })
}

// releaseOldest releases the n leases that were idle for longest.
func (p *Pool) releaseOldest(n int) {
	for _, l := range p.idle[:n] {
		p.release(l)
	}
	p.idle = slices.Delete(p.idle, 0, n)
}

// remove counts l among the leases that are being released; giveBack must follow.
func (p *Pool) remove(l *pooledLease) {
	l.stop()
	p.leases--
	p.releasing++
}

// giveBack releases l at Redis, within the 5 seconds of Lease.Release. It takes mu.
func (p *Pool) giveBack(l *pooledLease) error {
	err := l.Release()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.releasing--
	p.ask()
	if p.releasing == 0 && p.elsewhere.waiting > 0 && p.leases > 0 {
		p.inner.Probe() // what was told before was of a time when l was out
	}
	return err
}

// onEnd is called when l is lost or closed while the pool has it. A lease that is lent
// is released when its loan is. It takes mu.
func (p *Pool) onEnd(l *pooledLease) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if errors.Is(context.Cause(l.life), berth.ErrClosed) {
		p.close() // the client is closed
		return
	}
	if i := slices.Index(p.idle, l); i >= 0 {
		p.idle = slices.Delete(p.idle, i, i+1)
		p.release(l)
	}
}

// close ends the pool, except for its loans.
func (p *Pool) close() {
	if p.closed {
		return
	}
	p.closed = true
	p.unwatch()
	p.alarm.Stop()
	p.releaseOldest(len(p.idle))
	p.cancel(len(p.requests))
	for w := p.waiters.pop(); w != nil; w = p.waiters.pop() {
		w.serve(nil, p.closedError())
	}
}
