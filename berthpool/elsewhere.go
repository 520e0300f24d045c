package berthpool

import (
	"time"

	"github.com/berth-go/berth/internal/clock"
	"github.com/berth-go/berth/internal/session"
)

// What the pool knows of waiters for the same semaphore that are not its own, those of
// other processes and of callers of its Client that do not use the pool; and of a limit that
// has become smaller than what is in use. Each answer of Redis tells. Pool.mu is held in all
// of this file, except where a function says that it takes it.

const (
	// A pool that has leases asks when it was told nothing for longInterval; or for
	// shortInterval, when somebody waited within the last longInterval. (Renewals
	// are answered every third of the TTL, which bounds both.)
	longInterval  = time.Second
	shortInterval = 50 * time.Millisecond
)

type elsewhere struct {
	waiting int           // as last told
	owed    int           // leases that go back when loans end
	told    clock.Instant // when the pool was last told, or asked
	seen    clock.Instant // when some waited, as last told
}

// interval returns how old what the pool was told may be at now.
func (e *elsewhere) interval(now clock.Instant) time.Duration {
	if now.Sub(e.seen) < longInterval {
		return shortInterval
	}
	return longInterval
}

// onAnswer is told of waiters in other processes and in this one, and of permits that an
// operator has taken from the limit. The pool owes a lease to each waiter, and the permits
// to the operator: idle leases at once, lent ones when their loans end; leases that are
// being released count. It takes mu.
func (p *Pool) onAnswer(seen session.Sighting) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	others := seen.Others + max(seen.Here-len(p.requests)-p.canceling, 0)
	now := clock.Now()
	e := &p.elsewhere
	e.waiting, e.told = others, now
	if others > 0 {
		e.seen = now
	}
	taken := (seen.Excess + p.weight - 1) / p.weight
	e.owed = max(max(others, taken)-p.releasing, 0)
	if n := min(e.owed, len(p.idle)); n > 0 {
		e.owed -= n
		p.releaseOldest(n)
	}
	if p.leases > 0 {
		p.wakeBy(now.Add(e.interval(now)))
	}
}

// wakeBy makes sure that tick is called at the given time or earlier.
func (p *Pool) wakeBy(at clock.Instant) {
	if !p.closed {
		p.alarm.Set(at)
	}
}

// tick releases leases that were idle for too long, cancels surplus requests, and asks
// how many waiters there are elsewhere. It takes mu.
func (p *Pool) tick() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	p.alarm.Rang()
	now := clock.Now()
	n := 0
	for n < len(p.idle) && p.idle[n].since.Add(p.keep) <= now {
		n++
	}
	p.releaseOldest(n)
	p.cancel(p.surplus())
	if len(p.idle) > 0 {
		p.wakeBy(p.idle[0].since.Add(p.keep))
	}
	if p.leases == 0 {
		return
	}
	e := &p.elsewhere
	if e.told.Add(e.interval(now)) <= now {
		e.told = now
		p.inner.Probe()
	}
	p.wakeBy(e.told.Add(e.interval(now)))
}
