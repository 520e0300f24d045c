// Package berthwatch samples many semaphores for live views such as "berth top", dashboards
// and exporters of metrics. However many views there are, Redis is asked once, for at most
// 2 % of its time, and not at all when nobody looks. It writes nothing to Redis.
//
//	in, err := berthadmin.New(rdb, berthadmin.Options{})
//	sampler := berthwatch.New(in, berthwatch.Options{})
//	go sampler.Run(ctx)
//	view := sampler.Look()
package berthwatch

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/berth-go/berth/berthadmin"
)

const (
	// idle is how long after the last look the sampler goes to sleep.
	idle = time.Minute
	// mostNames bounds how many semaphores are sampled.
	mostNames = 20000
)

// Options configures a Sampler.
type Options struct {
	Names []string      // the semaphores to sample; none: all that are found. One that is invalid is a Row with Err
	Every time.Duration // between samples, or longer if they are expensive; 0: a second
	// Leases makes one sample of about ten read leases, too, for Row.Oldest and Ceiling.
	Leases bool
}

// Row describes one semaphore.
type Row struct {
	berthadmin.Summary
	Idle bool  // it has no holder and no waiter, and is neither pinned nor paused: the numbers are 0, but for LimitChanges
	Err  error // it is damaged, or of a newer layout, or can have no such name: the numbers are 0

	// Only with Options.Leases and up to 500 holders and waiters. Zero: there is none, or it is
	// unknown.
	Oldest  time.Time // since when its oldest lease is held
	Ceiling time.Time // when the first lease reaches its MaxHold
}

// View is what the sampler knows at one moment. It is never changed.
type View struct {
	Rows    []Row         // by name
	At      time.Time     // of the oldest of Rows; zero: there are none yet
	Whole   bool          // Rows was sampled since the sampler woke up, and has all names, as far as a search since then can tell
	Err     error         // why Rows is not up to date: the last attempt failed, or Redis does not answer. nil: it is
	Cost    time.Duration // of a sample, in the server's time
	Pace    time.Duration // between samples
	Found   bool          // the search for names has been completed once
	NamesAt time.Time     // when the last complete search began: what came into use since may be missing. Zero: there was none, or names are given
	Search  time.Duration // how long it took, with its pauses
	Dropped int           // names for which there was no room

	SearchErr error // why the last search did not find all names

	Trips RoundTrips

	Events Feed
}

// Sampler is safe for concurrent use.
type Sampler struct {
	in    *berthadmin.Inspector
	cfg   Options
	wake  chan struct{} // capacity 1: somebody looks
	kick  chan struct{} // capacity 1: something is to be read before its time
	first chan struct{} // capacity 1: the first search since it woke up is complete
	gauge *gauge        // of the goroutine that samples
	costs usual         // of samples of all

	leaseCosts usual

	mu      sync.Mutex
	view    View
	pulse   pulse
	trips   trips
	looked  time.Time
	awake   bool
	ended   bool                // Run has
	fresh   bool                // it has sampled since it woke up
	whole   bool                // names are all, as of a search since then
	news    chan struct{}       // closed at the next attempt to read anything
	names   map[string]*track   // what is sampled
	total   track               // of all together
	added   []string            // to names, since the last sample of all began
	invalid []Row               // of the names given, those that no semaphore can have
	details map[string]*closeUp // what is read in full
	dropped int

	ages   map[string]ages // of leases, as of agesAt; never changed
	agesAt time.Time

	reasons   Reasons // as of reasonsAt
	reasonsAt time.Time
}

// New returns a Sampler that does nothing before Run.
func New(in *berthadmin.Inspector, o Options) *Sampler {
	if o.Every <= 0 {
		o.Every = time.Second
	}
	s := &Sampler{
		in: in, cfg: o, wake: make(chan struct{}, 1), kick: make(chan struct{}, 1), first: make(chan struct{}, 1),
		news: make(chan struct{}), names: map[string]*track{}, details: map[string]*closeUp{},
	}
	for _, name := range o.Names {
		s.names[name] = &track{}
	}
	s.view.Found = len(o.Names) > 0
	return s
}

// Look returns the present View, and keeps the sampler awake for a minute. It never waits
// for Redis.
func (s *Sampler) Look() View {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.looked = time.Now()
	signal(s.wake)
	v := s.view
	v.Err = cmp.Or(s.pulse.err, v.Err)
	v.Dropped = s.dropped
	v.Trips = s.trips.as(time.Now())
	v.Events.Last = slices.Clone(v.Events.Last)
	return v
}

// Run works until ctx ends.
func (s *Sampler) Run(ctx context.Context) {
	if s.in == nil { // it was not made by New
		return
	}
	s.gauge = newGauge(s.in)
	s.setEnded(false)
	defer s.setEnded(true)
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.wake:
		}
		if s.idle() {
			continue // an old look
		}
		s.rouse(true)
		awake, sleep := context.WithCancel(ctx)
		var others sync.WaitGroup
		if len(s.cfg.Names) == 0 {
			others.Go(func() { s.search(awake) })
		}
		others.Go(func() { s.listen(awake) })
		others.Go(func() { s.feel(awake) })
		s.sample(awake)
		sleep()
		others.Wait()
		s.rouse(false)
	}
}

func (s *Sampler) setEnded(ended bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = ended
	s.tell()
}

// Once finds all names and samples them once, without Run.
func (s *Sampler) Once(ctx context.Context) (View, error) {
	s.gauge = &gauge{timed: s.in, plain: s.in} // it gives up as early as others that ask once
	if err := s.ping(ctx); !answered(err) {
		return View{}, err
	}
	dropped, begun := 0, time.Now()
	for cursor := ""; len(s.cfg.Names) == 0; {
		names, next, err := s.in.Names(ctx, cursor, step)
		if err != nil {
			return View{}, err
		}
		dropped += s.add(names, begun)
		if cursor = next; cursor == "" {
			s.mu.Lock()
			s.view.NamesAt = begun
			s.mu.Unlock()
			break
		}
	}
	s.mu.Lock()
	s.dropped, s.view.Found, s.whole = dropped, true, true
	s.mu.Unlock()
	s.list(ctx, share)
	v := s.Look()
	return v, v.Err
}

func (s *Sampler) idle() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Since(s.looked) >= idle
}

// rouse sets whether the sampler is awake. What came into use while it slept is known only
// after the next search, and nothing of what it knew is up to date before the next sample.
func (s *Sampler) rouse(awake bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.awake, s.fresh, s.whole = awake, false, len(s.cfg.Names) > 0
	s.view.Whole, s.view.SearchErr = false, nil
	s.pulse = pulse{heard: time.Now()}
}

// rest waits; false: ctx has ended.
func rest(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
