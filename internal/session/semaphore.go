package session

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/berth-go/berth/internal/claim"
	"github.com/berth-go/berth/internal/clock"
	"github.com/berth-go/berth/internal/commit"
	"github.com/berth-go/berth/internal/keeper"
	"github.com/berth-go/berth/internal/protocol"
)

// Semaphore has the claims of this process on one semaphore.
type Semaphore struct {
	session *Session
	name    string
	key     protocol.Key
	clock   *clock.Server

	// Level is what AcquireAll took it for last, and 1 more; 0: it has not taken it.
	Level atomic.Int64
	// Carried: a request was told of that waits for it, and whose context carries a lease of it.
	Carried atomic.Bool
	// Costless: a request was told of that has no cost in a unit of which it declares a rate.
	Costless atomic.Bool

	mu        sync.Mutex // guards what follows
	requests  map[string]*Request
	queue     commit.Queue[*Request]
	woken     int  // whom the last answer has woken: they are likely to have more to send
	lined     bool // it is in line for a call
	deadlines keeper.Deadlines[*Request]
	alarm     clock.Alarm   // calls tick
	underWay  time.Duration // how long a call may be on its way to Redis, if that is more than leastUnderWay
	warned    clock.Instant // of a changed limit
	watchers  map[*func(Sighting)]struct{}
	after     []func()      // to be run once mu is free
	drained   chan struct{} // closed when there are no claims; made by drain
	listens   bool          // in a cluster: it is subscribed to its messages
	closed    bool          // nothing new is admitted
}

func newSemaphore(s *Session, name string, key protocol.Key) *Semaphore {
	sem := &Semaphore{session: s, name: name, key: key, requests: map[string]*Request{}, clock: s.clock}
	if sem.clock == nil {
		sem.clock = new(clock.Server)
	}
	sem.alarm = clock.NewAlarm(sem.tick)
	return sem
}

// unlock frees mu. If there is something to send, no call is in flight and no pause is on, the semaphore
// stands in line for a call then; and the alarm is set for what comes next. What must not run under mu
// runs last.
func (s *Semaphore) unlock() {
	lines := !s.lined && s.queue.Due(clock.Now())
	s.lined = s.lined || lines
	_, next := s.deadlines.First()
	if !s.lined { // else the worker sets it
		next = min(next, s.queue.Wakeup())
	}
	s.alarm.Set(next)
	after := s.after
	s.after = nil
	s.mu.Unlock()
	if lines {
		s.session.workers.line(s)
	}
	for _, f := range after {
		f()
	}
}

func (s *Semaphore) later(f func()) { s.after = append(s.after, f) }

// apply carries out what an event asks of r's owner. s.mu is held.
func (s *Semaphore) apply(r *Request, effect claim.Effect) {
	if r.claim.ID != r.id { // it asks anew
		delete(s.requests, r.id)
		s.requests[r.claim.ID], r.id = r, r.claim.ID
	}
	if effect&claim.TakeBack != 0 {
		s.queue.Remove(&r.op)
	}
	if effect&claim.Send != 0 {
		s.queue.Put(&r.op, r.claim.State == claim.Leaving)
		if s.queue.InFlight() != nil {
			now := clock.Now()
			s.queue.Hurry(now, r.claim.Patience(now))
		}
	}
	if effect&claim.Wake != 0 {
		r.tell(s)
	}
	if effect&claim.Report != 0 {
		r.report()
	}
	s.deadlines.Set(&r.deadline, r.claim.Next())
	if r.claim.State == claim.Ended {
		s.end(r)
	}
}

// end forgets r, once: an event may still come for what has ended.
func (s *Semaphore) end(r *Request) {
	s.queue.Remove(&r.op)
	if s.requests[r.claim.ID] != r {
		return
	}
	delete(s.requests, r.claim.ID)
	if len(s.requests) > 0 {
		return
	}
	s.listen(false)
	s.session.delist(s)
	if s.drained != nil {
		close(s.drained)
	}
}

// listen subscribes to the semaphore's messages, or notes that they are not needed any more. Outside a
// cluster the session has a subscription for all.
func (s *Semaphore) listen(yes bool) {
	if s.listens != yes && s.session.store.Sharded() {
		s.listens = yes
		s.session.shards.use(s.key.State, yes)
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

// tellWatchers tells what an answer shows, when its claims have had it.
func (s *Semaphore) tellWatchers(a *claim.Answer) {
	here := 0
	for _, r := range s.requests {
		if r.claim.State == claim.Queued {
			here++
		}
	}
	seen := Sighting{Others: max(a.Waiting-here, 0), Here: here, Excess: max(a.Used-a.Limit(), 0)}
	if a.Paused {
		seen.Excess = a.Used
	}
	for f := range s.watchers {
		s.later(func() { (*f)(seen) })
	}
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
}

// drain gives all claims back, and closes the channel when that is done.
func (s *Semaphore) drain() <-chan struct{} {
	s.mu.Lock()
	defer s.unlock()
	s.closed = true
	done := make(chan struct{})
	if len(s.requests) == 0 {
		close(done)
		return done
	}
	s.drained = done
	now := clock.Now()
	for _, r := range s.requests {
		if r.claim.State != claim.Doing { // that goes on to its end, which is near
			s.apply(r, r.claim.Cancel(claim.ErrClosed, now))
		}
	}
	return done
}

// stop ends all activity after drain. Claims that are left end with claim.ErrClosed.
func (s *Semaphore) stop() {
	s.mu.Lock()
	defer s.unlock()
	s.queue.Stop()
	for _, r := range s.requests {
		s.apply(r, r.claim.Drop(claim.ErrClosed))
	}
	s.alarm.Stop()
}
