package session

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/berth-go/berth/internal/clock"
	"github.com/berth-go/berth/internal/inbox"
	"github.com/berth-go/berth/internal/protocol"
)

// Semaphore is what this process has to do with one semaphore.
type Semaphore struct {
	session *Session
	name    string
	keys    protocol.Keys
	clock   *serverClock

	mu       sync.Mutex
	claims   map[string]*Claim // by id
	waiters  int               // claims that are queued
	after    []func()          // to run once mu is free
	drained  chan struct{}     // closed when there are no claims; made by drain
	closed   bool              // nothing new is admitted
	stopped  bool              // nothing more is sent
	box      *inbox.Inbox      // in a cluster
	releases []*op
	pending  []*op
	poke     bool          // a call is wanted even without operations
	air      [2]*flight    // calls under way
	spare    []*flight     // landed, and cleared for the next ones
	used     int           // permits in use, as the last answer had it
	lastErr  error         // of the last call
	answered clock.Instant // when the last one succeeded
	pause    time.Duration // before the next call, while calls fail
	retryAt  clock.Instant
	nearest  clock.Instant // when something may run out at the server
	timer    *time.Timer
	alarm    clock.Instant // when timer fires; 0: not set
	watchers map[*func(others, here int)]struct{}
}

// unlock frees mu and then runs what must not run under it.
func (s *Semaphore) unlock() {
	after := s.after
	s.after = nil
	s.mu.Unlock()
	for _, f := range after {
		f()
	}
}

func (s *Semaphore) later(f func()) { s.after = append(s.after, f) }

// Acquire asks for permits on terms and, if these say so, waits in line until
// ctx ends. It returns a claim that is held. Otherwise nothing is taken, or what
// may have been taken is given back in the background; the error is a *Refusal,
// a *Lost, a *protocol.Failure, ErrClosed or wraps ctx's.
//
// manual leaves renewal to the holder. onPlace, if not nil, is called from here
// whenever the place in line is seen to have changed.
func (s *Semaphore) Acquire(ctx context.Context, terms *protocol.Terms, manual bool, onPlace func(Place)) (*Claim, error) {
	if err := s.open(ctx); err != nil {
		return nil, err
	}
	c := &Claim{
		sem: s, Terms: terms, manual: manual, places: onPlace != nil, patient: ctx.Done() == nil,
		wake: make(chan struct{}, 1), id: s.session.newID(), due: clock.Never,
	}
	if err := s.ask(c); err != nil {
		return nil, err
	}
	return s.await(ctx, c, onPlace)
}

// open waits until messages can arrive, and refuses dead contexts.
func (s *Semaphore) open(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return stopped(ctx, s.name)
	}
	if err := s.session.open(ctx); err != nil {
		return stopped(ctx, s.name)
	}
	if s.session.store.Sharded() {
		return s.openShard(ctx)
	}
	return nil
}

// openShard subscribes to this semaphore's own channel: in a cluster a message
// reaches only the node that has its slot.
func (s *Semaphore) openShard(ctx context.Context) error {
	s.mu.Lock()
	if s.box == nil {
		s.box = s.session.openShard(s.keys)
	}
	box := s.box
	s.mu.Unlock()
	if box == nil {
		return ErrClosed
	}
	select {
	case <-box.Tried():
		return nil
	case <-ctx.Done():
		return stopped(ctx, s.name)
	}
}

func stopped(ctx context.Context, name string) error {
	if cause := context.Cause(ctx); !errors.Is(cause, ctx.Err()) {
		return fmt.Errorf("semaphore %q: %w: %w", name, ctx.Err(), cause)
	}
	return fmt.Errorf("semaphore %q: %w", name, ctx.Err())
}

// ask sends the acquire of c.
func (s *Semaphore) ask(c *Claim) error {
	s.mu.Lock()
	if err := s.admit(c); err != nil {
		s.unlock()
		return err
	}
	s.sendAcquire(c)
	s.depart(c)
	return nil
}

// admit takes c among the claims, unless the session is closed or closing.
func (s *Semaphore) admit(c *Claim) error {
	if s.closed {
		return ErrClosed
	}
	if len(s.claims) == 0 {
		if err := s.session.enlist(s, true); err != nil {
			return err
		}
	}
	s.claims[c.id] = c
	return nil
}

func (s *Semaphore) sendAcquire(c *Claim) {
	patience := Patience
	if !c.Terms.Wait {
		patience = TryPatience
	}
	s.sendAcquireUntil(c, clock.Now().Add(patience))
}

func (s *Semaphore) sendAcquireUntil(c *Claim, giveUp clock.Instant) {
	c.sent = 0
	s.line(&op{Op: protocol.Op{Verb: protocol.Acquire, ID: c.id, Terms: c.Terms}, claim: c, giveUp: giveUp})
}

// await waits until c is held, is refused, or ctx ends.
func (s *Semaphore) await(ctx context.Context, c *Claim, onPlace func(Place)) (*Claim, error) {
	var told Place
	for {
		select {
		case <-c.wake:
		case <-ctx.Done():
			return nil, s.tired(ctx, c)
		}
		s.mu.Lock()
		st, place, err := c.state, c.place, c.err
		s.mu.Unlock()
		switch st {
		case held:
			return c, nil
		case lost:
			s.abandon(c, err) // before anybody could use it
			return nil, err
		case leaving, ended:
			return nil, err
		case queued:
			if onPlace != nil && place != told {
				told = place
				onPlace(place)
			}
		}
	}
}

// tired ends c because ctx has ended. Where Redis has not answered yet, its
// failure is a part of the error.
func (s *Semaphore) tired(ctx context.Context, c *Claim) error {
	s.mu.Lock()
	unanswered := c.state == asking && s.lastErr != nil
	failure := s.lastErr
	s.mu.Unlock()
	s.abandon(c, ErrReleased)
	if unanswered {
		return fmt.Errorf("%w: %w", stopped(ctx, s.name), failure)
	}
	return stopped(ctx, s.name)
}

// abandon ends c for a holder or waiter that no longer wants it, without waiting.
func (s *Semaphore) abandon(c *Claim, why error) {
	s.mu.Lock()
	defer s.unlock()
	if c.state == leaving || c.state == ended {
		return
	}
	s.leave(c, why, nil)
	s.kick()
}

// leave gives c back. done, if not nil, gets the outcome. s.mu is held.
func (s *Semaphore) leave(c *Claim, why error, done chan error) {
	if c.state == asking && s.withdraw(c, protocol.Acquire) {
		s.end(c, why)
		return
	}
	s.withdraw(c, protocol.Renew) // somebody may wait for it; a heartbeat is left behind when a call is loaded
	trust := c.trust
	s.set(c, leaving)
	c.err = why
	s.notify(c, why)
	s.line(&op{
		Op:    protocol.Op{Verb: protocol.Release, ID: c.id},
		claim: c, done: done, answer: clock.Now().Add(Patience),
		// By then it has run out by itself.
		giveUp: max(trust, clock.Now().Add(c.Terms.TTL+Patience)),
	})
}

// set moves c to another state and keeps count. s.mu is held.
func (s *Semaphore) set(c *Claim, to state) {
	if c.state == queued {
		s.waiters--
	}
	if to == queued {
		s.waiters++
	}
	c.state = to
	if to != queued && to != held {
		c.due = clock.Never
	}
}

// end is the last step of every claim. s.mu is held.
func (s *Semaphore) end(c *Claim, why error) {
	s.set(c, ended)
	if c.err == nil {
		c.err = why
	}
	delete(s.claims, c.id)
	s.notify(c, why)
	if len(s.claims) == 0 {
		_ = s.session.enlist(s, false)
		if s.drained != nil {
			close(s.drained)
			s.drained = nil
		}
	}
}

// notify tells whoever waits, and whoever holds, that c has changed for the worse.
func (s *Semaphore) notify(c *Claim, why error) {
	c.signal()
	if f := c.onEnd; f != nil {
		c.onEnd = nil
		s.later(func() { f(why) })
	}
}

// lose ends the holder's reliance on c. gone tells that the server no longer has
// it either. s.mu is held.
func (s *Semaphore) lose(c *Claim, cause Cause, gone bool) {
	why := &Lost{Name: s.name, ID: c.id, Cause: cause, Err: c.last}
	c.err = why
	if gone {
		s.end(c, why)
	} else {
		s.set(c, lost)
		s.notify(c, why)
	}
}

// Watch has f told after every answer how many wait in line: here, as claims of
// this process, and others, of whom those that are cancelling, or were just granted
// a permit by a message under way, may be counted. f must not block. It is told
// until stop is called, and perhaps once more.
func (s *Semaphore) Watch(f func(others, here int)) (stop func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.watchers == nil {
		s.watchers = map[*func(others, here int)]struct{}{}
	}
	s.watchers[&f] = struct{}{}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.watchers, &f)
	}
}

// tell passes on what an answer says of the queue. s.mu is held.
func (s *Semaphore) tell(waiting int) {
	here := s.waiters
	others := max(waiting-here, 0)
	for f := range s.watchers {
		s.later(func() { (*f)(others, here) })
	}
}

// Poke makes a call, empty if need be, whose answer Watch tells.
func (s *Semaphore) Poke() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.poke = true
	s.kick()
}

// drain gives everything back; the channel is closed when that is done.
func (s *Semaphore) drain() <-chan struct{} {
	s.mu.Lock()
	defer s.unlock()
	s.closed = true
	done := make(chan struct{})
	if len(s.claims) == 0 {
		close(done)
		return done
	}
	s.drained = done
	for _, c := range s.claims {
		if c.state != leaving {
			s.leave(c, ErrClosed, nil)
		}
	}
	s.kick()
	return done
}

// stop ends all activity; what is left of claims ends with ErrClosed.
func (s *Semaphore) stop() {
	s.mu.Lock()
	s.closed, s.stopped = true, true
	for _, o := range append(s.releases, s.pending...) {
		o.finish(ErrClosed)
	}
	s.releases, s.pending = nil, nil
	for _, c := range s.claims {
		s.end(c, ErrClosed)
	}
	if s.timer != nil {
		s.timer.Stop()
	}
	s.unlock()
}
