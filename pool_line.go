package berth

import (
	"context"
	"errors"
	"slices"

	"github.com/berth-go/berth/internal/clock"
)

// The goroutines that wait for a loan, and what the pool asks of Redis for them.
// The pool's mutex is held in all of this file, except where a function takes it.

// waiter is a goroutine in line.
type waiter struct {
	next, prev *waiter
	number     uint64
	turn       chan struct{} // has room for one; gets it when the rest is set
	served     bool
	lease      *berthing
	err        error
}

func (w *waiter) serve(b *berthing, err error) {
	w.served, w.lease, w.err = true, b, err
	w.turn <- struct{}{}
}

// waiters is a line: who comes first is served first, and any of them may leave.
type waiters struct {
	first, last *waiter
	n           int
	number      uint64    // of the one who came last
	spare       []*waiter // for those who come
}

func (l *waiters) push() *waiter {
	l.n++
	l.number++
	var w *waiter
	if n := len(l.spare); n > 0 {
		w, l.spare = l.spare[n-1], l.spare[:n-1]
	} else {
		w = &waiter{turn: make(chan struct{}, 1)}
	}
	w.prev, w.number = l.last, l.number
	if l.last == nil {
		l.first = w
	} else {
		l.last.next = w
	}
	l.last = w
	return w
}

// reuse takes back what the borrower of b waited with, if it had to wait. Where more
// goroutines borrow than there are leases, each loan would make a waiter and a channel.
func (l *waiters) reuse(b *berthing) {
	if w := b.waiter; w != nil {
		*w, b.waiter = waiter{turn: w.turn}, nil
		l.spare = append(l.spare, w)
	}
}

// pop returns the first in line, nil if there is none.
func (l *waiters) pop() *waiter {
	w := l.first
	if w != nil {
		l.remove(w)
	}
	return w
}

func (l *waiters) remove(w *waiter) {
	if w.prev == nil {
		l.first = w.next
	} else {
		w.prev.next = w.next
	}
	if w.next == nil {
		l.last = w.prev
	} else {
		w.next.prev = w.prev
	}
	w.next, w.prev = nil, nil
	l.n--
}

// leave takes w out of the line; false: it has had its turn. It takes the mutex.
func (p *Pool) leave(w *waiter) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if w.served {
		return false
	}
	p.line.remove(w)
	p.spare(clock.Now())
	return true
}

// ask is a request for one more lease.
type ask struct {
	cancel   context.CancelFunc
	canceled bool
	last     uint64 // who had come when it was sent
}

// room returns how many more leases the pool may ask for.
func (p *Pool) room() int { return p.max - p.leases - p.away - p.tries - len(p.asks) }

// spare sees to it that requests for nobody do not stay in line.
func (p *Pool) spare(now clock.Instant) {
	if len(p.asks)-p.unsaid > p.line.n {
		p.wakeBy(now.Add(linger))
	}
}

// fill asks Redis for as many leases as there are waiters, and as there is room.
func (p *Pool) fill() {
	if p.closed {
		return
	}
	for n := min(p.line.n-len(p.asks)+p.unsaid, p.room()); n > 0; n-- {
		ctx, cancel := context.WithCancel(context.Background())
		a := &ask{cancel: cancel, last: p.line.number}
		p.asks = append(p.asks, a)
		p.work.Go(func() {
			defer cancel()
			b, err := berthed(p.sem.Acquire(ctx))
			p.answered(a, b, err)
		})
	}
}

// trim cancels the requests that came last, as many as nobody waits for.
func (p *Pool) trim() {
	for i := len(p.asks) - 1; i >= 0 && len(p.asks)-p.unsaid > p.line.n; i-- {
		if a := p.asks[i]; !a.canceled {
			a.canceled = true
			p.unsaid++
			a.cancel()
		}
	}
}

// answered takes what came of a. It takes the mutex.
func (p *Pool) answered(a *ask, b *berthing, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asks = slices.DeleteFunc(p.asks, func(other *ask) bool { return other == a })
	if a.canceled {
		p.unsaid--
	}
	switch {
	case err == nil:
		p.arrived(b)
	case !a.canceled:
		p.failed(a, err)
	}
	p.fill()
}

// arrived takes a lease that may have come too late.
func (p *Pool) arrived(b *berthing) {
	now := p.now()
	p.keep(b, now)
	if p.closed || !b.usable(now) {
		p.sendBack(b)
		return
	}
	p.offer(b, now)
}

// failed tells those who had come when a was sent; an eviction was of one request.
// Later ones have a request of their own, or get one now.
func (p *Pool) failed(a *ask, err error) {
	for p.line.first != nil && p.line.first.number <= a.last {
		p.line.pop().serve(nil, err)
		if errors.Is(err, ErrEvicted) {
			return
		}
	}
}

// tried takes what came of a TryAcquire. It takes the mutex, and gives the lease
// back if the pool was closed meanwhile.
func (p *Pool) tried(b *berthing, err error) (*berthing, error) {
	p.mu.Lock()
	p.tries--
	if err != nil {
		p.fill()
		p.mu.Unlock()
		return nil, err
	}
	p.keep(b, p.now())
	if p.closed {
		p.drop(b)
		p.mu.Unlock()
		_ = p.giveBack(b)
		return nil, p.isClosed()
	}
	p.mu.Unlock()
	return b, nil
}
