package berthpool

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/internal/clock"
)

// The goroutines that wait for a loan, and the pool's requests to Redis for them.
// Pool.mu is held in all of this file, except where a function says that it takes
// it.

// linger is how long the pool keeps a request for which no goroutine waits any more, so
// that the next goroutine can use it.
const linger = 10 * time.Millisecond

// waiter is a goroutine that waits for a loan.
type waiter struct {
	number uint64        // larger than that of any who came before
	served chan struct{} // has room for one signal: lease or err is set
	lease  *pooledLease
	err    error
}

func (w *waiter) serve(l *pooledLease, err error) {
	w.lease, w.err = l, err
	w.served <- struct{}{}
}

// waiters wait in the order in which they came.
type waiters struct {
	all    []*waiter
	number uint64    // of the one who came last
	spare  sync.Pool // of *waiter, which saves two of the three allocations of a wait
}

func (ws *waiters) len() int { return len(ws.all) }

func (ws *waiters) push() *waiter {
	w, ok := ws.spare.Get().(*waiter)
	if !ok {
		w = &waiter{served: make(chan struct{}, 1)}
	}
	ws.number++
	w.number = ws.number
	ws.all = append(ws.all, w)
	return w
}

// pop removes the first waiter and returns it, nil if there is none.
func (ws *waiters) pop() *waiter {
	if len(ws.all) == 0 {
		return nil
	}
	w := ws.all[0]
	ws.all[0] = nil
	ws.all = ws.all[1:]
	return w
}

// reuse keeps a waiter that is done for a later one. It needs no lock.
func (ws *waiters) reuse(w *waiter) {
	w.lease, w.err = nil, nil
	ws.spare.Put(w)
}

// leave removes w; false: it was served before. It takes mu.
func (p *Pool) leave(w *waiter) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.Index(p.waiters.all, w)
	if i < 0 {
		return false
	}
	p.waiters.all = slices.Delete(p.waiters.all, i, i+1)
	p.cancelLater(clock.Now())
	return true
}

// request is an Acquire of one more lease.
type request struct {
	cancel context.CancelFunc
	last   uint64 // the number of the waiter who came last before it was sent
}

// room returns how many more leases the pool may ask for.
func (p *Pool) room() int {
	return p.size - p.leases - p.releasing - p.trying - len(p.requests) - p.canceling
}

// ask sends a request for each waiter that has none, as far as there is room.
func (p *Pool) ask() {
	if p.closed {
		return
	}
	for range min(-p.surplus(), p.room()) {
		ctx, cancel := context.WithCancel(context.Background())
		r := &request{cancel: cancel, last: p.waiters.number}
		p.requests = append(p.requests, r)
		p.work.Go(func() {
			defer cancel()
			l, err := p.pooled(p.sem.Acquire(ctx))
			p.answered(r, l, err)
		})
	}
}

// surplus returns how many more requests than waiters there are.
func (p *Pool) surplus() int { return len(p.requests) - p.waiters.len() }

// cancelLater makes sure that surplus requests do not stay in the queue.
func (p *Pool) cancelLater(now clock.Instant) {
	if p.surplus() > 0 {
		p.wakeBy(now.Add(linger))
	}
}

// cancel ends the n requests that were sent last, if n is positive: the others are
// further ahead in the queue.
func (p *Pool) cancel(n int) {
	for ; n > 0; n-- {
		last := len(p.requests) - 1
		p.requests[last].cancel()
		p.requests = slices.Delete(p.requests, last, last+1)
		p.canceling++
	}
}

// answered handles the outcome of r. It takes mu.
func (p *Pool) answered(r *request, l *pooledLease, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.Index(p.requests, r)
	if i >= 0 {
		p.requests = slices.Delete(p.requests, i, i+1)
	} else {
		p.canceling--
	}
	switch {
	case err == nil:
		p.granted(l)
	case i >= 0:
		p.failed(r, err)
	}
	p.ask()
}

// granted handles a grant, which may have come too late.
func (p *Pool) granted(l *pooledLease) {
	now := p.now()
	p.add(now)
	if p.closed || !l.usable(now) {
		p.release(l)
		return
	}
	p.lend(l, now)
}

// failed ends the waits that had begun when r was sent; for an eviction, only the first.
// Later waiters have a request of their own, or get one now.
func (p *Pool) failed(r *request, err error) {
	for p.waiters.len() > 0 && p.waiters.all[0].number <= r.last {
		p.waiters.pop().serve(nil, err)
		if errors.Is(err, berth.ErrEvicted) {
			return
		}
	}
	p.cancelLater(p.now())
}

// tried handles the outcome of a TryAcquire, and returns its error, or that of a pool
// that was closed meanwhile. It takes mu.
func (p *Pool) tried(l *pooledLease, err error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.trying--
	if err != nil {
		p.ask() // for those who came meanwhile and had no room for a request
		return err
	}
	p.add(p.now())
	if p.closed {
		p.release(l)
		return p.closedError()
	}
	return nil
}
