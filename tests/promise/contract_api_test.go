package promise_test

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/internal/testkit/testenv"
)

// api is an API that refuses what its contract does not allow, by its own clock: it knows nothing of
// berth.
type api struct {
	atOnce int // 0: any number
	rules  []rule

	mu      sync.Mutex
	now     int       // guarded by mu; calls in progress
	began   []use     // guarded by mu; all that were let in
	refused []string  // guarded by mu; why
	closed  time.Time // guarded by mu; until then every call is refused
}

// rule is how much of a unit may be used in any time of a length, or with burst what a bucket gets back.
type rule struct {
	unit  string
	n     int
	per   time.Duration
	burst int
}

// use is what a call uses, by unit.
type use struct {
	at time.Time
	of map[string]int
}

// call is a call that takes a while, and reports whether it was let in.
func (a *api) call(takes time.Duration, of map[string]int) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if why := a.refuses(of); why != "" {
		a.refused = append(a.refused, why)
		return false
	}
	a.now++
	a.began = append(a.began, use{time.Now(), of})
	a.mu.Unlock()
	<-time.After(takes)
	a.mu.Lock()
	a.now--
	return true
}

func (a *api) refuses(of map[string]int) string {
	if time.Now().Before(a.closed) {
		return "closed"
	}
	if a.atOnce > 0 && a.now == a.atOnce {
		return "too many at once"
	}
	for _, r := range a.rules {
		if r.used(a.began)+float64(of[r.unit]) > r.most() {
			return "too many " + r.unit
		}
	}
	return ""
}

func (r rule) most() float64 { return float64(max(r.burst, r.n)) }

// used is how much of the rule is used now.
func (r rule) used(began []use) (sum float64) {
	last := time.Time{}
	for _, u := range began {
		switch {
		case r.burst > 0:
			sum = max(sum-r.refill(u.at.Sub(last)), 0) + float64(u.of[r.unit])
			last = u.at
		case time.Since(u.at) < r.per:
			sum += float64(u.of[r.unit])
		}
	}
	if r.burst > 0 {
		sum = max(sum-r.refill(time.Since(last)), 0)
	}
	return sum
}

func (r rule) refill(d time.Duration) float64 {
	return float64(r.n) * d.Seconds() / r.per.Seconds()
}

// contract is what an API allows, and how programs say that.
type contract struct {
	limit   int
	options []berth.Option
	asks    []berth.AcquireOption // of each call
	settle  map[string]int        // to which each call is settled
	uses    map[string]int        // of what the API counts
	api     api
	takes   time.Duration
	lasts   time.Duration
	least   int  // calls that get through, at the least
	again   bool // they do not wait, but try again after RetryAfter
	callers int  // of each process
}

// holds has two processes make as many calls as they can, of which the API refuses none.
func (c *contract) holds(e *testenv.Env) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(e.Ctx), c.lasts)
	defer cancel()
	var all sync.WaitGroup
	for range 2 {
		sem := e.Peer().Sem(c.limit, c.options...)
		for range cmp.Or(c.callers, 6) {
			all.Go(func() {
				for c.callOnce(ctx, e.T, sem) {
				}
			})
		}
	}
	all.Wait()
	if len(c.api.refused) > 0 {
		e.Errorf("the API refused %d calls, the first as %s", len(c.api.refused), c.api.refused[0])
	}
	if n := len(c.api.began); n < c.least {
		e.Errorf("in %v the API was called %d times, and allows %d", c.lasts, n, c.least)
	}
}

// callOnce makes a call with a permit, unless ctx ends before.
func (c *contract) callOnce(ctx context.Context, t *testing.T, sem *berth.Semaphore) bool {
	acquire := sem.Acquire
	if c.again {
		acquire = sem.TryAcquire
	}
	lease, err := acquire(ctx, c.asks...)
	if busy, ok := errors.AsType[*berth.BusyError](err); ok {
		select {
		case <-time.After(max(busy.RetryAfter, time.Millisecond)):
		case <-ctx.Done():
		}
		return ctx.Err() == nil
	}
	if err != nil {
		if ctx.Err() == nil {
			t.Error(err)
		}
		return false
	}
	c.api.call(c.takes, c.uses)
	for unit, n := range c.settle {
		if err := lease.Settle(n, unit); err != nil {
			t.Error(err)
		}
	}
	if err := lease.Release(); err != nil {
		t.Error(err)
		return false
	}
	return true
}
