package berth

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/berth-go/berth/internal/clock"
)

// The leases of a pool. Its mutex is held in all of this file, except where a
// function takes it.
//
//	a lease is   means                              leaves it by
//	idle         on the stack                       borrowed → lent; lost, owed to others or too long
//	                                                idle → away
//	lent         a loan has it                      released → lent again, or idle; lost or owed → away
//	away         its Release is on its way          answered, or given up → not the pool's any more
//
// leases + away + tries + asks never exceed the pool's size, so the process never
// has more leases at Redis than that.

const (
	// News of who waits elsewhere are at most longLook old, or shortLook when somebody
	// did in the last longLook: whoever comes once comes again. A third of the TTL
	// bounds both.
	shortLook = 50 * time.Millisecond
	longLook  = time.Second
	// linger is how long the pool's request stays in line for nobody: those who
	// come and go within that time share it.
	linger = 10 * time.Millisecond
)

// berthing is one lease of the pool.
type berthing struct {
	*Lease
	held  context.Context //nolint:containedctx // the lease's life
	stop  func() bool     // stops the pool's interest in held
	trust clock.Instant   // the trust deadline; renewals may have moved it on meanwhile
	since clock.Instant   // idle since then

	waiter *waiter // with which its borrower stood in line; nil: it had not to
}

// usable reports whether b may be lent at now. It looks at what the lease's own
// Valid looks at, without its cost: the deadline only ever moves on.
func (b *berthing) usable(now clock.Instant) bool {
	if b.held.Err() != nil {
		return false
	}
	if now >= b.trust {
		b.trust = b.claim.Trust()
	}
	return now < b.trust
}

// now returns the present instant. Once in a millisecond it asks the system how
// long the machine was suspended, which is too expensive to do for each loan: a
// lease that ran out while the machine slept is lent for no longer than that.
func (p *Pool) now() clock.Instant {
	now := clock.Now()
	if now.Sub(p.exact) >= time.Millisecond {
		now = clock.Exact()
		p.exact = now
	}
	return now
}

// berthed wraps what Acquire returned. It is not to be called under the mutex: a
// lease that is lost already tells the hooks so.
func berthed(lease *Lease, err error) (*berthing, error) {
	if err != nil {
		return nil, err
	}
	return &berthing{Lease: lease, held: lease.Context()}, nil
}

// keep takes a new lease among the pool's.
func (p *Pool) keep(b *berthing, now clock.Instant) {
	b.stop = context.AfterFunc(b.held, func() { p.ended(b) })
	p.leases++
	p.wakeBy(now.Add(p.look(now)))
}

// take returns the idle lease that was used last, nil if there is none.
func (p *Pool) take() *berthing {
	if len(p.stack) == 0 {
		return nil
	}
	now := p.now()
	for n := len(p.stack) - 1; n >= 0; n-- {
		b := p.stack[n]
		p.stack[n] = nil
		p.stack = p.stack[:n]
		if b.usable(now) {
			return b
		}
		p.sendBack(b)
	}
	return nil
}

// put takes b from a loan that has ended. Who waits elsewhere comes first: it has
// perhaps waited for longer than the goroutines here, and they had their turns.
func (p *Pool) put(b *berthing, now clock.Instant) {
	if p.debt > 0 {
		p.debt--
		p.sendBack(b)
		return
	}
	p.offer(b, now)
}

// offer gives b to the first in line. A lease that has just been granted passes
// by the debt: it was this process's turn.
func (p *Pool) offer(b *berthing, now clock.Instant) {
	if w := p.line.pop(); w != nil {
		w.serve(b, nil)
		p.spare(now)
		return
	}
	if p.debt > 0 || p.idle == 0 {
		p.debt = max(p.debt-1, 0)
		p.sendBack(b)
		return
	}
	b.since = now
	p.stack = append(p.stack, b)
	p.wakeBy(p.stack[0].since.Add(p.idle))
}

// sendBack gives b back in the background.
func (p *Pool) sendBack(b *berthing) {
	p.drop(b)
	p.work.Go(func() { _ = p.giveBack(b) })
}

// drop ends b's time as the pool's; giveBack must follow.
func (p *Pool) drop(b *berthing) {
	b.stop()
	p.leases--
	p.away++
}

// giveBack releases b at Redis. It takes the mutex.
func (p *Pool) giveBack(b *berthing) error {
	err := b.Release()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.away--
	p.fill()
	if p.away == 0 && p.others > 0 && p.leases > 0 {
		// The news that counted them are older than this, or counted b as well.
		p.sem.inner.Poke()
	}
	return err
}

// ended hears of the end of a lease. One that is lent is given back by its loan.
// It takes the mutex.
func (p *Pool) ended(b *berthing) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if errors.Is(context.Cause(b.held), ErrClosed) {
		p.shut() // nothing more can come
		return
	}
	if i := slices.Index(p.stack, b); i >= 0 {
		p.stack = slices.Delete(p.stack, i, i+1)
		p.sendBack(b)
	}
}

// sendBackOldest gives back the n idle leases that were not used for longest.
func (p *Pool) sendBackOldest(n int) {
	for _, b := range p.stack[:n] {
		p.sendBack(b)
	}
	p.stack = slices.Delete(p.stack, 0, n)
}

// news tells how many wait elsewhere, and here. They are owed as many leases: idle
// ones at once, lent ones when their loans end; those under way count. Who waits
// here, but not for the pool, is elsewhere too. It takes the mutex.
func (p *Pool) news(others, here int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	others += max(here-len(p.asks), 0)
	p.heard, p.others = clock.Now(), others
	if others > 0 {
		p.crowd = p.heard
	}
	p.debt = max(others-p.away, 0)
	if n := min(p.debt, len(p.stack)); n > 0 {
		p.debt -= n
		p.sendBackOldest(n)
	}
	if p.leases > 0 {
		p.wakeBy(p.heard.Add(p.look(p.heard)))
	}
}

// look returns how old news of others may be at now.
func (p *Pool) look(now clock.Instant) time.Duration {
	if now.Sub(p.crowd) < longLook {
		return min(shortLook, p.sem.config.ttl/3)
	}
	return min(longLook, p.sem.config.ttl/3)
}

// wakeBy makes the pool's timer fire at i or earlier.
func (p *Pool) wakeBy(i clock.Instant) {
	if p.closed || p.alarm != 0 && p.alarm <= i {
		return
	}
	p.alarm = i
	d := max(i.Sub(clock.Now()), 0)
	if p.timer == nil {
		p.timer = time.AfterFunc(d, p.tick)
	} else {
		p.timer.Reset(d)
	}
}

// tick gives back what was idle for too long, cancels requests for nobody, and
// asks for news, where none came by themselves. It takes the mutex.
func (p *Pool) tick() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	p.alarm = 0
	now := clock.Now()
	n := 0
	for n < len(p.stack) && p.stack[n].since.Add(p.idle) <= now {
		n++
	}
	p.sendBackOldest(n)
	p.trim()
	if p.leases > 0 {
		if p.heard.Add(p.look(now)) <= now {
			p.heard = now
			p.sem.inner.Poke()
		}
		p.wakeBy(p.heard.Add(p.look(now)))
	}
	if len(p.stack) > 0 {
		p.wakeBy(p.stack[0].since.Add(p.idle))
	}
}

// shut ends the pool, but for its loans.
func (p *Pool) shut() {
	if p.closed {
		return
	}
	p.closed = true
	p.unwatch()
	if p.timer != nil {
		p.timer.Stop()
	}
	p.sendBackOldest(len(p.stack))
	for _, a := range p.asks {
		a.cancel()
	}
	for w := p.line.pop(); w != nil; w = p.line.pop() {
		w.serve(nil, p.isClosed())
	}
}
