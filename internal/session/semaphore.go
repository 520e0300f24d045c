package session

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/berth-go/berth/internal/claim"
	"github.com/berth-go/berth/internal/clock"
	"github.com/berth-go/berth/internal/commit"
	"github.com/berth-go/berth/internal/keeper"
	"github.com/berth-go/berth/internal/protocol"
)

// ErrClosed: the session was closed.
var ErrClosed = errors.New("session is closed")

// Semaphore has the claims of this process on one semaphore.
type Semaphore struct {
	session *Session
	name    string
	key     protocol.Key
	clock   *clock.Server

	mu        sync.Mutex // guards what follows
	claims    map[string]*Claim
	waiting   int // claims that are queued
	queue     commit.Queue[*Claim]
	starting  *commit.Call[*Claim] // to be started once mu is free
	deadlines keeper.Deadlines[*Claim]
	nearest   clock.Instant // when something may run out at the server
	alarm     clock.Alarm   // calls tick
	lastErr   error         // of the last call, nil when it succeeded
	underWay  time.Duration // how long a call may be on its way to Redis, if that is more than leastUnderWay
	hanging   int           // calls that were given up and have not returned
	warned    clock.Instant // of a changed limit
	watchers  map[*func(Sighting)]struct{}
	after     []func()      // to be run once mu is free
	drained   chan struct{} // closed when there are no claims; made by drain
	closed    bool          // nothing new is admitted
	stopped   bool          // nothing more is sent
}

func newSemaphore(s *Session, name string, key protocol.Key) *Semaphore {
	sem := &Semaphore{session: s, name: name, key: key, claims: map[string]*Claim{}, clock: s.clock, nearest: clock.Never}
	if sem.clock == nil {
		sem.clock = new(clock.Server)
	}
	sem.alarm = clock.NewAlarm(sem.tick)
	return sem
}

// unlock frees mu and then starts a call, and runs what must not run under it.
func (s *Semaphore) unlock() {
	after, call := s.after, s.starting
	s.after, s.starting = nil, nil
	var trip *protocol.Trip
	if call != nil {
		trip = call.Trip
	}
	s.mu.Unlock()
	if trip != nil {
		s.start(trip)
	}
	for _, f := range after {
		f()
	}
}

func (s *Semaphore) later(f func()) { s.after = append(s.after, f) }

// Acquire asks for permits on terms and, if terms.Wait is set, waits in the queue until ctx
// ends. On success it returns a claim that is held. Otherwise nothing is taken, or what may
// have been taken is given back in the background; the error is a *claim.Refusal,
// *claim.LostError, *claim.Unreplicated, *protocol.Failure, *Ended or ErrClosed. While Redis
// does not answer, Acquire returns within claim.Timeout of its start, or within
// claim.TryTimeout if it does not wait.
//
// manual leaves renewal to the holder. onPlace, if not nil, is called in this goroutine
// whenever Acquire learns that the place in the queue has changed.
func (s *Semaphore) Acquire(ctx context.Context, terms *protocol.Terms, manual bool, onPlace func(claim.Place)) (*Claim, error) {
	start := clock.Exact()
	c := s.newClaim(terms, manual)
	c.m.Places = onPlace != nil
	if err := s.open(ctx, c); err != nil {
		return nil, err
	}
	if err := s.begin(c, func() claim.Effect { return c.m.Ask(start) }); err != nil {
		return nil, err
	}
	return s.await(ctx, c, onPlace)
}

// open waits until messages can arrive, and refuses contexts that have ended.
func (s *Semaphore) open(ctx context.Context, c *Claim) error {
	if ctx.Err() != nil || s.session.open(ctx) != nil {
		return &Ended{Name: s.name, Err: ended(ctx), Place: c.m.Place}
	}
	return nil
}

// begin admits c and sends its first operation.
func (s *Semaphore) begin(c *Claim, first func() claim.Effect) error {
	s.mu.Lock()
	defer s.unlock()
	if s.closed {
		return ErrClosed
	}
	if len(s.claims) == 0 {
		if err := s.session.enlist(s, true); err != nil {
			return err
		}
	}
	s.claims[c.m.ID] = c
	s.do(c, first)
	s.dispatch()
	return nil
}

// await waits until c is held, is refused, or ctx ends.
func (s *Semaphore) await(ctx context.Context, c *Claim, onPlace func(claim.Place)) (*Claim, error) {
	var told claim.Place
	for {
		select {
		case <-c.wake:
		case <-ctx.Done():
			return nil, s.cancel(ctx, c)
		}
		s.mu.Lock()
		state, place, err := c.m.State, c.m.Place, c.m.Err
		s.mu.Unlock()
		switch state {
		case claim.Held:
			return c, nil
		case claim.Lost:
			s.abandon(c, err) // before anybody could use it
			return nil, err
		case claim.Leaving, claim.Ended:
			return nil, err
		case claim.Queued:
			if onPlace != nil && place != told {
				told = place
				s.tellPlace(c, onPlace, place)
			}
		}
	}
}

// tellPlace calls onPlace. If that panics, nobody waits for c any more.
func (s *Semaphore) tellPlace(c *Claim, onPlace func(claim.Place), place claim.Place) {
	returned := false
	defer func() {
		if !returned {
			s.abandon(c, claim.ErrReleased)
		}
	}()
	onPlace(place)
	returned = true
}

// cancel ends c because ctx has ended, and returns an error with its place.
func (s *Semaphore) cancel(ctx context.Context, c *Claim) error {
	s.mu.Lock()
	defer s.unlock()
	why := &Ended{Name: s.name, Err: ended(ctx), Queued: c.m.State == claim.Queued, Place: c.m.Place}
	if c.m.State == claim.Asking {
		why.Failure = s.lastErr
	}
	s.do(c, func() claim.Effect { return c.m.Cancel(claim.ErrReleased, clock.Now()) })
	s.dispatch()
	return why
}

// abandon ends c for a holder or waiter that no longer wants it, without waiting.
func (s *Semaphore) abandon(c *Claim, why error) {
	s.mu.Lock()
	defer s.unlock()
	s.do(c, func() claim.Effect { return c.m.Cancel(why, clock.Now()) })
	s.dispatch()
}

// Ended is the error of a wait whose context ended.
type Ended struct {
	Name    string
	Err     error // the context's
	Failure error // why Redis had not answered; nil: it had, or there was no time
	Queued  bool
	Place   claim.Place // if Queued
}

// Error implements error.
func (e *Ended) Error() string { return fmt.Sprintf("semaphore %q: %v", e.Name, e.Err) }

// Unwrap returns the context's error, and that of Redis.
func (e *Ended) Unwrap() []error {
	if e.Failure == nil {
		return []error{e.Err}
	}
	return []error{e.Err, e.Failure}
}

func ended(ctx context.Context) error {
	if cause := context.Cause(ctx); !errors.Is(cause, ctx.Err()) {
		return fmt.Errorf("%w: %w", ctx.Err(), cause)
	}
	return ctx.Err()
}

// do passes an event to c and carries out its effects. s.mu is held; dispatch must follow.
func (s *Semaphore) do(c *Claim, event func() claim.Effect) {
	was, id := c.m.State, c.m.ID
	effect := event()
	if is := c.m.State; was != is {
		if was == claim.Queued {
			s.waiting--
		}
		if is == claim.Queued {
			s.waiting++
		}
	}
	if effect&claim.Settled != 0 {
		s.queue.Remove(&c.op)
	}
	if effect&claim.Send != 0 {
		s.queue.Put(&c.op, c.m.State == claim.Leaving)
		if s.queue.Busy() {
			now := clock.Now()
			s.queue.Hurry(now, c.m.Patience(now))
		}
	}
	if c.m.ID != id {
		delete(s.claims, id)
		s.claims[c.m.ID] = c
	}
	if effect&claim.Wake != 0 {
		c.tell(s)
	}
	if effect&claim.Report != 0 {
		c.report()
	}
	s.deadlines.Set(&c.deadline, c.m.Next())
	if c.m.State == claim.Ended {
		s.end(c)
	}
}

// end forgets c, once: an event may still come for what has ended.
func (s *Semaphore) end(c *Claim) {
	s.queue.Remove(&c.op)
	if s.claims[c.m.ID] != c {
		return
	}
	delete(s.claims, c.m.ID)
	if len(s.claims) > 0 {
		return
	}
	_ = s.session.enlist(s, false)
	if s.drained != nil {
		close(s.drained)
		s.drained = nil
	}
}

// Sighting is what an answer tells of a semaphore.
type Sighting struct {
	// Waiters in the queue: Here are the claims of this process; Others are all the rest,
	// which may include claims of this process that are being cancelled, or that were
	// granted by a message still under way.
	Others, Here int
	// Excess is how many permits in use are too many: beyond the limit in force, or all
	// while grants are paused.
	Excess int
}

// Watch calls f after every answer. f must not block. It is called until stop is called,
// and perhaps once more.
func (s *Semaphore) Watch(f func(Sighting)) (stop func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.watchers == nil {
		s.watchers = map[*func(Sighting)]struct{}{}
	}
	s.watchers[&f] = struct{}{}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.watchers, &f)
	}
}

// Probe makes a call, an empty one if necessary, whose answer goes to Watch.
func (s *Semaphore) Probe() {
	s.mu.Lock()
	defer s.unlock()
	s.queue.Probe()
	s.dispatch()
}

// drain gives all claims back, and closes the channel when that is done.
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
	now := clock.Now()
	for _, c := range s.claims {
		s.do(c, func() claim.Effect { return c.m.Cancel(ErrClosed, now) })
	}
	s.dispatch()
	return done
}

// stop ends all activity. Claims that are left end with ErrClosed.
func (s *Semaphore) stop() {
	s.mu.Lock()
	defer s.unlock()
	s.closed, s.stopped = true, true
	for _, c := range s.claims {
		s.do(c, func() claim.Effect { return c.m.Drop(ErrClosed) })
	}
	s.alarm.Stop()
}
