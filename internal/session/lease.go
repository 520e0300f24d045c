package session

import (
	"context"

	"github.com/berth-go/berth/internal/claim"
	"github.com/berth-go/berth/internal/clock"
	"github.com/berth-go/berth/internal/commit"
	"github.com/berth-go/berth/internal/keeper"
	"github.com/berth-go/berth/internal/protocol"
)

// Claim is one request for permits, from its first call to its end, and the lease that it
// leads to.
type Claim struct {
	sem  *Semaphore
	wake chan struct{} // holds one signal: the state has changed

	// Guarded by sem.mu.
	m        claim.Claim
	op       commit.Op[*Claim]
	deadline keeper.Entry[*Claim]
	callers  []caller    // that wait for an outcome
	released bool        // by its holder
	onEnd    func(error) // told once, when the holder can no longer rely on the lease
}

// caller waits for the outcome of what it asked for.
type caller struct {
	done    chan error  // has room for the outcome
	success claim.State // in which success leaves the claim
}

func (s *Semaphore) newClaim(terms *protocol.Terms, manual bool) *Claim {
	c := &Claim{sem: s, m: claim.Make(s.name, terms, s.session.newID), wake: make(chan struct{}, 1)}
	c.m.Manual = manual
	c.op.Of, c.deadline.Of = c, c
	return c
}

// tell wakes the goroutine that waits, and calls the holder's OnEnd functions if the lease
// is over.
func (c *Claim) tell(s *Semaphore) {
	select {
	case c.wake <- struct{}{}:
	default:
	}
	if f := c.onEnd; f != nil && c.m.State != claim.Held && c.m.State != claim.Detaching {
		c.onEnd = nil
		err := c.m.Err
		s.later(func() { f(err) })
	}
}

// report tells callers the outcome.
func (c *Claim) report() {
	for _, caller := range c.callers {
		outcome := c.m.Outcome
		if outcome == nil && c.m.State != caller.success {
			outcome = c.over() // what worked out is that another goroutine gave it back
		}
		caller.done <- outcome
	}
	c.callers = nil
}

// Name returns the semaphore's name.
func (c *Claim) Name() string { return c.sem.name }

// Lease returns the lease and its id. They are not written any more once Acquire or Adopt
// has returned, so this takes no lock.
func (c *Claim) Lease() (id string, lease claim.Lease) { return c.m.ID, c.m.Lease }

// Trust returns the instant until which the holder may rely on the lease. It is in the past
// when the lease is over.
func (c *Claim) Trust() clock.Instant {
	c.sem.mu.Lock()
	defer c.sem.mu.Unlock()
	if c.m.State != claim.Held {
		return 0
	}
	return c.m.Trust
}

// Valid reports whether the holder may rely on the lease now. It sends nothing: until the
// trust deadline the server cannot grant the permit to anybody else.
func (c *Claim) Valid() bool { return clock.Exact() < c.Trust() }

// OnEnd makes sure that f is called once, with the cause, when the holder can no longer rely
// on the lease; at once if that is already so. f must not block.
func (c *Claim) OnEnd(f func(error)) {
	c.sem.mu.Lock()
	defer c.sem.unlock()
	c.onEnd = f
	if c.m.State != claim.Held && c.m.State != claim.Detaching {
		c.tell(c.sem)
	}
}

// ask passes an event, which with success leads to a state, to a lease in one of the states,
// and returns a channel for the outcome.
func (c *Claim) ask(event func() claim.Effect, success claim.State, states ...claim.State) (<-chan error, error) {
	c.sem.mu.Lock()
	defer c.sem.unlock()
	return c.asked(event, success, states...)
}

// asked is ask for callers that hold sem.mu.
func (c *Claim) asked(event func() claim.Effect, success claim.State, states ...claim.State) (<-chan error, error) {
	ok := false
	for _, state := range states {
		ok = ok || c.m.State == state
	}
	if !ok {
		return nil, c.over()
	}
	done := make(chan error, 1)
	c.callers = append(c.callers, caller{done, success})
	c.sem.do(c, event)
	c.sem.dispatch()
	return done, nil
}

// over is the error of an operation that comes after the end of a lease.
func (c *Claim) over() error {
	if c.m.Err != nil {
		return c.m.Err
	}
	return claim.ErrReleased
}

// Renew renews the lease now, within claim.Timeout. On success the holder may rely
// on it for a TTL.
func (c *Claim) Renew(ctx context.Context) error {
	done, err := c.ask(func() claim.Effect { return c.m.Renew(clock.Exact()) }, claim.Held, claim.Held)
	if err != nil {
		return err
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return &Ended{Name: c.sem.name, Err: ended(ctx)}
	}
}

// Release gives the lease back and waits for the answer, for at most claim.Timeout. It
// returns nil when the lease was held until now, a *claim.LostError when it was lost
// before, claim.ErrReleased when it was given back before, and a *protocol.Failure when
// Redis did not do it: then berth retries, and the lease expires by itself.
func (c *Claim) Release() error {
	done, err := c.releaseOnce()
	if err != nil {
		return err
	}
	return <-done // it comes: the claim has a time-out of its own
}

// releaseOnce begins the release for the first call of Release, or tells it why the lease
// was over before. Other calls get claim.ErrReleased.
func (c *Claim) releaseOnce() (<-chan error, error) {
	now := clock.Exact()
	c.sem.mu.Lock()
	defer c.sem.unlock()
	if c.released {
		return nil, claim.ErrReleased
	}
	var renewals []caller
	if c.m.State == claim.Held { // they are over, and their bound is earlier than that of a release
		renewals, c.callers = c.callers, nil
	}
	done, err := c.asked(func() claim.Effect { return c.m.Release(now) }, claim.Ended, claim.Held, claim.Lost)
	c.released = c.m.State != claim.Detaching // if that is refused, the lease is as it was
	for _, renewal := range renewals {
		renewal.done <- c.over()
	}
	return done, err
}

// Detach moves the lease to id, which can be adopted, within claim.Timeout. When Redis
// refuses, the lease is unchanged; after any other failure it is over, and is given back.
func (c *Claim) Detach(ctx context.Context, id string) error {
	done, err := c.ask(func() claim.Effect { return c.m.Detach(id, clock.Exact()) }, claim.Ended, claim.Held)
	if err != nil {
		return err
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		c.sem.abandon(c, claim.ErrDetached)
		select {
		case err := <-done: // the answer had come already
			if err == nil {
				return nil
			}
		default:
		}
		return &Ended{Name: c.sem.name, Err: ended(ctx)}
	}
}

// Adopt takes over the lease called id, which its holder has given away by Detach. It fails
// with a *claim.LostError when there is no such lease any more, and within claim.Timeout
// when Redis does not answer. After any failure but a refusal the lease may have been
// adopted, and is given back.
func (s *Semaphore) Adopt(ctx context.Context, id string, terms *protocol.Terms, manual bool) (*Claim, error) {
	start := clock.Exact()
	c := s.newClaim(terms, manual)
	if err := s.open(ctx, c); err != nil {
		return nil, err
	}
	if err := s.begin(c, func() claim.Effect { return c.m.Adopt(id, start) }); err != nil {
		return nil, err
	}
	return s.await(ctx, c, nil)
}
