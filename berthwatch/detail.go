package berthwatch

import (
	"context"
	"time"

	"github.com/berth-go/berth/berthadmin"
)

const (
	// glance is how long a semaphore is read in full after a call of Detail.
	glance = 10 * time.Second
	// mostDetail bounds the time for one, in which the others, and the list, get older.
	mostDetail = 10 * time.Second
	// mostDetails bounds how many semaphores are remembered in full.
	mostDetails = 64
)

// Detail describes one semaphore in full.
type Detail struct {
	State *berthadmin.State // with its records; nil: not read yet. It is never changed
	At    time.Time         // of State
	Err   error             // why State is not up to date; with ErrNotFound the semaphore is idle
	Why   []string          // who paused or pinned it, and why
	Old   bool              // the rest is from before a time in which nobody looked, or before a Refresh
}

// closeUp is what the sampler keeps of a semaphore that is looked at.
type closeUp struct {
	Detail
	looked time.Time // last
	next   time.Time // when it is to be read again
	wanted int       // grows when what was read becomes outdated
	tried  int       // wanted, when the last attempt began
	costs  usual
}

// Detail returns what is known of a semaphore with its holders and waiters, and keeps the
// sampler reading it for 10 seconds. It never waits for Redis. All semaphores that are read
// in full together take half of the sampler's share of the server's time.
func (s *Sampler) Detail(name string) Detail {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.closeUp(name)
	d := c.Detail
	d.Old = c.tried != c.wanted
	return d
}

// closeUp notes that a semaphore is looked at. s.mu is held.
func (s *Sampler) closeUp(name string) *closeUp {
	now := time.Now()
	c := s.details[name]
	if s.details == nil { // it was not made by New
		return &closeUp{}
	}
	if c == nil {
		s.makeRoom(now)
		c = &closeUp{}
		s.details[name] = c
	}
	if now.Sub(c.looked) > glance { // it was not read meanwhile
		c.wanted, c.next = c.wanted+1, now
		signal(s.kick)
	}
	c.looked, s.looked = now, now
	signal(s.wake)
	return c
}

// makeRoom forgets what was not looked at for a while, and makes room for one more. s.mu is
// held.
func (s *Sampler) makeRoom(now time.Time) {
	oldest := ""
	for name, c := range s.details {
		if now.Sub(c.looked) > idle {
			delete(s.details, name)
		} else if oldest == "" || c.looked.Before(s.details[oldest].looked) {
			oldest = name
		}
	}
	if len(s.details) >= mostDetails {
		delete(s.details, oldest)
	}
}

// Refresh makes the sampler read a semaphore again as soon as its share allows. Call it
// after a change.
func (s *Sampler) Refresh(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.closeUp(name)
	c.wanted, c.next = c.wanted+1, time.Now()
	s.reasonsAt = time.Time{}
	signal(s.kick)
}

// Wait waits until there is a sample of all semaphores that was taken since the sampler
// woke up and, unless name is "", a Detail of name that is up to date; or until an attempt
// to read them has failed. It reports false if ctx or Run ended before.
func (s *Sampler) Wait(ctx context.Context, name string) bool {
	for s.in != nil { // else it was not made by New, and will not run

		s.mu.Lock()
		signal(s.wake)
		s.looked = time.Now()
		ready, news := s.view.Err != nil || s.view.SearchErr != nil || s.view.Whole, s.news
		ready = ready && s.fresh
		if name != "" {
			c := s.closeUp(name)
			ready = ready && c.tried == c.wanted
		}
		ready = s.awake && (ready || s.pulse.err != nil)
		ended := s.ended
		s.mu.Unlock()
		if ready || ended {
			return ready
		}
		select {
		case <-ctx.Done():
			return false
		case <-news:
		}
	}
	return false
}

// tell wakes the callers of Wait. s.mu is held.
func (s *Sampler) tell() {
	close(s.news)
	s.news = make(chan struct{})
}

// due returns which semaphore is to be read next, and when; "": none.
func (s *Sampler) due() (name string, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for n, c := range s.details {
		next := c.next
		if c.tried != c.wanted {
			next = time.Time{} // a Wait may depend on it
		}
		if time.Since(c.looked) <= glance && (name == "" || next.Before(at)) {
			name, at = n, next
		}
	}
	return name, at
}

// wanted returns how often what was read of a semaphore has become outdated.
func (s *Sampler) wanted(name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.details[name]; c != nil {
		return c.wanted
	}
	return 0
}

// detail reads one semaphore with its records, and returns what that usually costs.
func (s *Sampler) detail(ctx context.Context, name string) time.Duration {
	begun, wanted := time.Now(), s.wanted(name)
	bounded, cancel := context.WithTimeout(ctx, mostDetail)
	defer cancel()
	var state *berthadmin.State
	var why []string
	cost, err := s.gauge.cost(bounded, func(in *berthadmin.Inspector) (trips int, err error) {
		err = s.ask(bounded, func(ctx context.Context) error {
			state, err = inFull(ctx, in, name)
			return err
		})
		if err != nil {
			return 0, err
		}
		why = s.whys(bounded, state)
		return 1 + (len(state.Leases)+2*len(state.Queue))/500, nil // a waiter has two members
	})
	if state != nil {
		s.inUse(name)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.tell()
	c := s.details[name]
	if c == nil || ctx.Err() != nil {
		return 0
	}
	if c.tried = wanted; c.wanted == wanted { // else it was changed meanwhile
		c.next = begun.Add(s.cfg.Every)
	}
	if bounded.Err() != nil { // it cannot be read in this time, which the others shall not wait for
		c.next = later(c.next, begun.Add(2*share*cost))
		cost = 0
	} else if err == nil {
		c.costs.add(cost, 1)
		cost = c.costs.cost()
	}
	if c.Err = err; err == nil {
		c.State, c.At, c.Why = state, time.Now(), why
	}
	return cost
}

// inFull reads one semaphore with its records.
func inFull(ctx context.Context, in *berthadmin.Inspector, name string) (state *berthadmin.State, err error) {
	for st, err := range in.Sample(ctx, []string{name}, berthadmin.SampleOptions{Records: true}) {
		if err != nil {
			return nil, err
		}
		state = st
	}
	return state, nil
}
