package session

import (
	"context"

	"github.com/berth-go/berth/internal/claim"
	"github.com/berth-go/berth/internal/clock"
	"github.com/berth-go/berth/internal/commit"
	"github.com/berth-go/berth/internal/keeper"
	"github.com/berth-go/berth/internal/protocol"
)

// Request is one request for permits, from its first call to its end, and the lease that it
// leads to.
type Request struct {
	sem  *Semaphore
	wake chan struct{} // holds one signal: the state has changed

	// Guarded by sem.mu.
	claim    claim.Claim
	id       string // of claim, under which sem has it
	op       commit.Op[*Request]
	deadline keeper.Entry[*Request]
	callers  []caller    // that wait for an outcome
	released bool        // by its holder
	onEnd    func(error) // told once, when the holder can no longer rely on the lease
}

// caller waits for the outcome of what it asked for.
type caller struct {
	done    chan error  // has room for the outcome
	success claim.State // in which success leaves the claim
}

func (s *Semaphore) newRequest(terms *protocol.Terms, manual bool) *Request {
	r := &Request{sem: s, claim: claim.Make(s.name, terms, s.session.newID), wake: make(chan struct{}, 1)}
	r.claim.Manual = manual
	r.id = r.claim.ID
	r.op.Of, r.deadline.Of = r, r
	return r
}

// tell wakes the goroutine that waits, and calls the holder's OnEnd functions if the lease
// is over.
func (r *Request) tell(s *Semaphore) {
	select {
	case r.wake <- struct{}{}:
	default:
	}
	if f := r.onEnd; f != nil && r.claim.State != claim.Held && r.claim.State != claim.Detaching {
		r.onEnd = nil
		err := r.claim.Err
		s.later(func() { f(err) })
	}
}

// report tells callers the outcome.
func (r *Request) report() {
	for _, caller := range r.callers {
		outcome := r.claim.Outcome
		if outcome == nil && r.claim.State != caller.success {
			outcome = r.over() // what worked out is that another goroutine gave it back
		}
		caller.done <- outcome
	}
	r.callers = nil
}

// Name returns the semaphore's name.
func (r *Request) Name() string { return r.sem.name }

// Lease returns the lease and its id. They are not written any more once Acquire or Adopt
// has returned, so this takes no lock.
func (r *Request) Lease() (id string, lease claim.Lease) { return r.claim.ID, r.claim.Lease }

// Costs returns what the request said that it costs.
func (r *Request) Costs() protocol.Costs { return r.claim.Terms.Costs }

// Trust returns the instant until which the holder may rely on the lease. It is in the past
// when the lease is over.
func (r *Request) Trust() clock.Instant {
	r.sem.mu.Lock()
	defer r.sem.mu.Unlock()
	if r.claim.State != claim.Held {
		return 0
	}
	return r.claim.Trust
}

// Valid reports whether the holder may rely on the lease now. It sends nothing: until the
// trust deadline the server cannot grant the permit to anybody else.
func (r *Request) Valid() bool { return clock.Exact() < r.Trust() }

// OnEnd makes sure that f is called once, with the cause, when the holder can no longer rely
// on the lease; at once if that is already so. f must not block.
func (r *Request) OnEnd(f func(error)) {
	r.sem.mu.Lock()
	defer r.sem.unlock()
	r.onEnd = f
	if r.claim.State != claim.Held && r.claim.State != claim.Detaching {
		r.tell(r.sem)
	}
}

// lock locks sem.mu for an operation on the lease, when no Detach is under way: one that is refused
// leaves the lease as it was. It fails when ctx ends.
func (r *Request) lock(ctx context.Context) error {
	for {
		r.sem.mu.Lock()
		if r.claim.State != claim.Detaching {
			return nil
		}
		if ctx.Done() == nil {
			r.sem.apply(r, r.claim.Hasten(clock.Exact()))
		}
		moved := r.call(claim.Ended)
		r.sem.unlock()
		select {
		case <-moved: //nolint:errcheck // it comes, as the claim has a time-out of its own; who asked for the Detach is told
		case <-ctx.Done():
			return &claim.WaitError{Name: r.sem.name, Err: ended(ctx)}
		}
	}
}

// call returns a channel for the outcome of an operation, which with success leads to a state.
// sem.mu is held.
func (r *Request) call(success claim.State) <-chan error {
	done := make(chan error, 1)
	r.callers = append(r.callers, caller{done, success})
	return done
}

// ask passes an event, which with success leads to a state, to a lease that is held, and returns a
// channel for the outcome.
func (r *Request) ask(ctx context.Context, event func() claim.Effect, success claim.State) (<-chan error, error) {
	if err := r.lock(ctx); err != nil {
		return nil, err
	}
	defer r.sem.unlock()
	if r.claim.State != claim.Held {
		return nil, r.over()
	}
	return r.begin(event(), success), nil
}

// begin carries out the effect of an event, and returns a channel for its outcome. sem.mu is held.
func (r *Request) begin(effect claim.Effect, success claim.State) <-chan error {
	done := r.call(success)
	r.sem.apply(r, effect)
	return done
}

// over is the error of an operation that comes after the end of a lease.
func (r *Request) over() error {
	if r.claim.Err != nil {
		return r.claim.Err
	}
	return claim.ErrReleased
}

// Renew renews the lease now, within claim.Timeout. On success the holder may rely
// on it for a TTL.
func (r *Request) Renew(ctx context.Context) error {
	done, err := r.ask(ctx, func() claim.Effect { return r.claim.Renew(clock.Exact()) }, claim.Held)
	if err != nil {
		return err
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return &claim.WaitError{Name: r.sem.name, Err: ended(ctx)}
	}
}

// Settle tells the server what the lease has cost, in some units; what was said last counts. It
// sends that with the next call, or with the release that follows, and does not wait; it is lost
// with this process, and if the lease ends before. The error is that of a lease that is over.
func (r *Request) Settle(costs protocol.Costs) error {
	r.sem.mu.Lock()
	defer r.sem.unlock()
	if r.claim.State != claim.Held {
		return r.over()
	}
	effect, err := r.claim.Settle(costs)
	if err == nil {
		r.sem.apply(r, effect)
	}
	return err
}

// Unused notes that nobody has used the lease: its release costs nothing then.
func (r *Request) Unused() {
	r.sem.mu.Lock()
	defer r.sem.mu.Unlock()
	r.claim.Unseen = true
}

// Release gives the lease back and waits for the answer, for at most claim.Timeout. It
// returns nil when the lease was held until now, a *claim.LostError when it was lost
// before, claim.ErrReleased when it was given back before, and a *protocol.Failure when
// Redis did not do it: then berth retries, and the lease expires by itself.
func (r *Request) Release() error {
	done, err := r.releaseOnce()
	if err != nil {
		return err
	}
	return <-done // it comes: the claim has a time-out of its own
}

// releaseOnce begins the release for the first call of Release, or tells it why the lease
// was over before. Other calls get claim.ErrReleased.
func (r *Request) releaseOnce() (<-chan error, error) {
	now := clock.Exact() // its bound counts from here, even if it has to wait for a Detach
	_ = r.lock(context.Background())
	defer r.sem.unlock()
	switch {
	case r.released:
		return nil, claim.ErrReleased
	case r.claim.State != claim.Held && r.claim.State != claim.Lost:
		r.released = true
		return nil, r.over()
	}
	var renewals []caller
	if r.claim.State == claim.Held { // they are over, and their bound is earlier than that of a release
		renewals, r.callers = r.callers, nil
	}
	r.released = true
	done := r.begin(r.claim.Release(now), claim.Ended)
	for _, renewal := range renewals {
		renewal.done <- r.over()
	}
	return done, nil
}

// Detach moves the lease to id, which can be adopted, within claim.Timeout. When Redis
// refuses, the lease is unchanged; after any other failure it is over, and is given back.
func (r *Request) Detach(ctx context.Context, id string) error {
	done, err := r.ask(ctx, func() claim.Effect { return r.claim.Detach(id, clock.Exact()) }, claim.Ended)
	if err != nil {
		return err
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		r.sem.abandon(r, claim.ErrDetached)
		select {
		case err := <-done: // the answer had come already
			if err == nil {
				return nil
			}
		default:
		}
		return &claim.WaitError{Name: r.sem.name, Err: ended(ctx)}
	}
}
