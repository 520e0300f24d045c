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
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/berthadmin"
)

const (
	// share bounds sampling to 1/share of the server's time. The search for names may take
	// as much again.
	share = 50
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
	Rows    []Row     // by name
	At      time.Time // of Rows; zero: there are none yet
	Whole   bool      // Rows was sampled since the sampler woke up, and has all names, as far as a search since then can tell
	Err     error     // of the last attempt, if that failed
	Cost    time.Duration
	Pace    time.Duration // between samples
	Found   bool          // the search for names has been completed once
	Search  time.Duration // how long the last search took, with its pauses
	Dropped int           // names for which there was no room

	SearchErr error // why the last search did not find all names

	Events Feed
}

// Sampler is safe for concurrent use.
type Sampler struct {
	in    *berthadmin.Inspector
	cfg   Options
	wake  chan struct{} // capacity 1: somebody looks
	kick  chan struct{} // capacity 1: a semaphore is to be read in full
	first chan struct{} // capacity 1: the first search since it woke up is complete

	mu      sync.Mutex
	view    View
	looked  time.Time
	awake   bool
	ended   bool                // Run has
	fresh   bool                // it has sampled since it woke up
	whole   bool                // names are all, as of a search since then
	news    chan struct{}       // closed at the next attempt to read anything
	names   map[string]*track   // what is sampled
	invalid []Row               // of the names given, those that no semaphore can have
	details map[string]*closeUp // what is read in full
	dropped int
	round   int // of the search

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
	v.Dropped = s.dropped
	v.Events.Last = slices.Clone(v.Events.Last)
	return v
}

// Run works until ctx ends.
func (s *Sampler) Run(ctx context.Context) {
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
	dropped := 0
	for cursor := ""; len(s.cfg.Names) == 0; {
		names, next, err := s.in.Names(ctx, cursor, step)
		if err != nil {
			return View{}, err
		}
		dropped += s.add(names, 0)
		if cursor = next; cursor == "" {
			break
		}
	}
	s.mu.Lock()
	s.dropped, s.view.Found, s.whole = dropped, true, true
	s.mu.Unlock()
	s.list(ctx)
	v := s.Look()
	return v, v.Err
}

func (s *Sampler) idle() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Since(s.looked) >= idle
}

// sample samples until ctx ends, or there was no look for a while.
func (s *Sampler) sample(ctx context.Context) {
	nextList, nextDetail := time.Now(), time.Now()
	for ctx.Err() == nil && !s.idle() {
		now := time.Now()
		among, next := time.Duration(share), nextList
		name, due := s.due()
		if due = later(due, nextDetail); name != "" {
			among *= 2 // the list and the details get half of the share each
		}
		inFull := name != "" && due.Before(nextList)
		if inFull {
			next = due
		}
		switch {
		case now.Before(next):
			select {
			case <-ctx.Done():
			case <-s.kick:
			case <-s.first:
				nextList = time.Now()
			case <-time.After(next.Sub(now)):
			}
		case inFull:
			nextDetail = now.Add(among * s.detail(ctx, name)) //nolint:durationcheck // among is a number
		default:
			nextList = now.Add(s.paced(s.list(ctx), among))
		}
	}
}

// rouse sets whether the sampler is awake. What came into use while it slept is known only
// after the next search, and nothing of what it knew is up to date before the next sample.
func (s *Sampler) rouse(awake bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.awake, s.fresh, s.whole = awake, false, len(s.cfg.Names) > 0
	s.view.Whole = false
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// paced returns the time from one sample of this cost to the next.
func (s *Sampler) paced(cost, among time.Duration) time.Duration {
	return max(s.cfg.Every, among*cost) //nolint:durationcheck // among is a number
}

// list samples all semaphores, and returns the cost.
func (s *Sampler) list(ctx context.Context) time.Duration {
	s.mu.Lock()
	names := make([]string, 0, len(s.names))
	for name := range s.names {
		names = append(names, name)
	}
	whole := s.whole
	s.mu.Unlock()
	slices.Sort(names)
	var rows []Row
	cost, err := s.cost(ctx, func() (trips int, err error) {
		rows, err = s.read(ctx, names)
		return (len(names) + 99) / 100, err
	})
	if err == nil && whole && s.cfg.Leases {
		cost += s.leases(ctx, rows)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.tell()
	s.fresh = true
	if s.view.Err = err; err != nil || ctx.Err() != nil {
		return cost
	}
	s.view.Rows, s.view.At, s.view.Cost, s.view.Pace = rows, time.Now(), cost, s.paced(cost, share)
	s.view.Whole = whole
	s.remember(rows)
	return cost
}

// read samples semaphores, and puts names aside that none can have.
func (s *Sampler) read(ctx context.Context, names []string) ([]Row, error) {
	rows := make([]Row, 0, len(names))
	for st, err := range s.in.Sample(ctx, names, berthadmin.SampleOptions{}) {
		switch {
		case err == nil:
			rows = append(rows, Row{Summary: st.Summary})
		case errors.Is(err, berth.ErrNotFound):
			rows = append(rows, Row{Summary: st.Summary, Idle: true})
		case errors.Is(err, berth.ErrCorrupt):
			rows = append(rows, Row{Summary: st.Summary, Err: err})
		case errors.Is(err, berth.ErrInvalid): // of this name, before anything was sent
			s.setAside(Row{Summary: st.Summary, Err: err})
			return s.read(ctx, slices.DeleteFunc(names, func(name string) bool { return name == st.Name }))
		default:
			return nil, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.invalid) > 0 {
		rows = append(rows, s.invalid...)
		slices.SortFunc(rows, func(a, b Row) int { return strings.Compare(a.Name, b.Name) })
	}
	return rows, nil
}

func (s *Sampler) setAside(r Row) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.names, r.Name)
	s.invalid = append(s.invalid, r)
}

// cost calls f, which returns how many round trips it made, and returns an upper bound of the
// server's time for that: the time that f took, less that of the network.
func (s *Sampler) cost(ctx context.Context, f func() (trips int, err error)) (time.Duration, error) {
	before, err := s.trip(ctx)
	if err != nil {
		return 0, err
	}
	start := time.Now()
	trips, err := f()
	if err != nil {
		return 0, err
	}
	took := time.Since(start)
	after, err := s.trip(ctx)
	return max(took-time.Duration(trips)*min(before, after), 0), err
}

// trip measures a round trip.
func (s *Sampler) trip(ctx context.Context) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	start := time.Now()
	err := s.in.Ping(ctx)
	return time.Since(start), err
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

// busier orders rows by how busy they are. Among equals, those with a history come first.
func (s *Sampler) busier(a, b Row) int {
	weight := func(r Row) int {
		w := 4*r.Waiting + 2*r.InUse
		if t := s.names[r.Name]; t != nil && t.fine.points != nil {
			w++
		}
		return w
	}
	if d := weight(b) - weight(a); d != 0 {
		return d
	}
	return strings.Compare(a.Name, b.Name)
}
