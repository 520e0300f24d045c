package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/berth-go/berth/internal/claim"
	"github.com/berth-go/berth/internal/clock"
	"github.com/berth-go/berth/internal/protocol"
)

// Acquire asks for permits on terms and, if terms.Wait is set, waits in the queue until ctx
// ends. On success it returns a request that is held. Otherwise nothing is taken, or what may
// have been taken is given back in the background; the error is a *claim.Refusal,
// *claim.LostError, *claim.Unreplicated, *protocol.Failure, *claim.WaitError or claim.ErrClosed. Acquire
// returns when Redis has been silent for claim.Timeout, or within claim.TryTimeout if it does
// not wait.
//
// manual leaves renewal to the holder. onPlace, if not nil, is called in this goroutine
// whenever Acquire learns that the place in the queue has changed. While it blocks, the end of ctx
// still ends the request. With terms.FailEarly a request is refused, too, that a rate or a pause
// keeps out until after ctx's deadline.
func (s *Semaphore) Acquire(ctx context.Context, terms *protocol.Terms, manual bool, onPlace func(claim.Place)) (*Request, error) {
	start := clock.Exact()
	r := s.newRequest(terms, manual)
	r.claim.Places = onPlace != nil
	if deadline, ok := ctx.Deadline(); ok && terms.FailEarly {
		r.claim.Deadline = start.Add(time.Until(deadline))
	}
	return s.request(ctx, r, r.claim.Ask(start), onPlace)
}

// Adopt takes over the lease called id, which its holder has given away by Detach. It fails
// with a *claim.LostError when there is no such lease any more, and when Redis has been silent
// for claim.Timeout. After any failure but a refusal the lease may have been adopted, and is
// given back.
func (s *Semaphore) Adopt(ctx context.Context, id string, terms *protocol.Terms, manual bool) (*Request, error) {
	start := clock.Exact()
	r := s.newRequest(terms, manual)
	r.op.Shared = true
	return s.request(ctx, r, r.claim.Adopt(id, start), nil)
}

// Do executes op, which takes no permits and is harmless to repeat: a pause, or an operation on a lease
// that nobody holds, by its id. While Redis does not answer, or refuses for the moment, op is tried
// again, for claim.Timeout at most or until ctx ends. A copy that arrives later is refused. The error is
// a *protocol.Failure, which tells whether op may have been executed, a *claim.WaitError, after which it
// may have been, or claim.ErrClosed.
func (s *Semaphore) Do(ctx context.Context, op protocol.Op) (protocol.Result, error) {
	if ctx.Err() != nil {
		return protocol.Result{}, &claim.WaitError{Name: s.name, Err: ended(ctx)}
	}
	r := s.newRequest(new(protocol.Terms), false)
	r.op.Shared = true
	if err := s.admit(r, r.claim.Do(&op, clock.Exact())); err != nil {
		return protocol.Result{}, err
	}
	select {
	case <-r.wake:
		_, _, err := r.look()
		return op.Result, err
	case <-ctx.Done():
		return protocol.Result{}, s.cancel(ctx, r)
	}
}

// request sends the first operation of r and waits until r is held, is refused, or ctx ends.
//
// Messages must be able to arrive before that operation is sent: the grant that it leads to may
// be told by one at once. From admit on other goroutines move the claim: whoever has the answer
// to a call, a message or a time-out. Each of them sets the state before it signals wake, which
// has room for one signal: so whatever happened before a look is seen by that look, and what
// happens after it leads to another one.
func (s *Semaphore) request(ctx context.Context, r *Request, first claim.Effect, onPlace func(claim.Place)) (*Request, error) {
	if ctx.Err() != nil {
		return nil, &claim.WaitError{Name: s.name, Err: ended(ctx)}
	}
	s.session.open()
	if err := s.admit(r, first); err != nil {
		return nil, err
	}
	for told := (claim.Place{}); ; {
		select {
		case <-r.wake:
		case <-ctx.Done():
			return nil, s.cancel(ctx, r)
		}
		switch state, place, err := r.see(); state {
		case claim.Held:
			return r, nil
		case claim.Lost: // before anybody could use it
			s.abandon(r, err)
			return nil, err
		case claim.Leaving, claim.Ended:
			return nil, err
		case claim.Queued:
			if onPlace == nil || place == told {
				continue
			}
			told = place
			if err := s.tellPlace(ctx, r, onPlace, place); err != nil {
				return nil, err
			}
		}
	}
}

// admit counts r among the requests of the semaphore, and sends its first operation.
func (s *Semaphore) admit(r *Request, first claim.Effect) error {
	s.mu.Lock()
	defer s.unlock()
	if s.closed {
		return claim.ErrClosed
	}
	if len(s.requests) == 0 {
		if err := s.session.enlist(s); err != nil {
			return err
		}
	}
	if r.claim.State != claim.Doing { // messages tell nothing of that
		s.listen(true)
	}
	s.requests[r.id] = r
	s.apply(r, first)
	return nil
}

// look returns what has become of the request so far.
func (r *Request) look() (claim.State, claim.Place, error) {
	r.sem.mu.Lock()
	defer r.sem.mu.Unlock()
	return r.claim.State, r.claim.Place, r.claim.Err
}

// see is look for whoever gets the lease.
func (r *Request) see() (claim.State, claim.Place, error) {
	r.sem.mu.Lock()
	defer r.sem.mu.Unlock()
	if r.claim.State == claim.Held {
		r.claim.Unseen = false
	}
	return r.claim.State, r.claim.Place, r.claim.Err
}

// tellPlace calls onPlace. If ctx ends meanwhile it cancels r at once, since onPlace may block for
// good, and returns the error when onPlace has returned. If that panics, nobody waits for r any more.
func (s *Semaphore) tellPlace(ctx context.Context, r *Request, onPlace func(claim.Place), place claim.Place) error {
	canceled := make(chan error, 1)
	stop := context.AfterFunc(ctx, func() { canceled <- s.cancel(ctx, r) })
	returned := false
	defer func() {
		if !returned {
			stop()
			s.abandon(r, claim.ErrReleased)
		}
	}()
	onPlace(place)
	returned = true
	if stop() {
		return nil
	}
	return <-canceled
}

// cancel ends r because ctx has ended, and returns an error with its place.
func (s *Semaphore) cancel(ctx context.Context, r *Request) error {
	s.mu.Lock()
	defer s.unlock()
	why := &claim.WaitError{Name: s.name, Err: ended(ctx), Queued: r.claim.State == claim.Queued, Place: r.claim.Place}
	switch r.claim.State {
	case claim.Asking, claim.Adopting:
		why.Failure = s.noAnswer(s.queue.Err())
	case claim.Doing: // a refusal would say that nothing has happened
		why.Failure = r.claim.Unsure(s.noAnswer(cmp.Or(s.queue.Err(), error(protocol.NoAnswer()))))
	}
	s.apply(r, r.claim.Cancel(claim.ErrReleased, clock.Now()))
	return why
}

// abandon ends r for a holder or waiter that no longer wants it, without waiting.
func (s *Semaphore) abandon(r *Request, why error) {
	s.mu.Lock()
	defer s.unlock()
	s.apply(r, r.claim.Cancel(why, clock.Now()))
}

// ended returns ctx's error, with its cause.
func ended(ctx context.Context) error {
	if cause := context.Cause(ctx); !errors.Is(cause, ctx.Err()) {
		return fmt.Errorf("%w: %w", ctx.Err(), cause)
	}
	return ctx.Err()
}
