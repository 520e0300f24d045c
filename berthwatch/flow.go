package berthwatch

import (
	"slices"
	"time"

	"github.com/berth-go/berth/berthadmin"
)

// Flow is what was heard of a semaphore in a time. Only events are heard: a grant without a wait
// and a release make none, and in a Redis Cluster nothing does.
type Flow struct {
	Handoffs int           // grants to waiters
	Expired  int           // leases and waiters that expired
	Over     time.Duration // how much of the time was watched
}

// PerSecond is how many hand-offs there were per second.
func (f Flow) PerSecond() float64 {
	if f.Over <= 0 {
		return 0
	}
	return float64(f.Handoffs) / f.Over.Seconds()
}

// slept is the least time between two points in which nobody watched.
const slept = 30 * time.Second

// Flow returns what was heard of a semaphore since a moment, as far as its history goes back; of
// all together if name is "".
func (s *Sampler) Flow(name string, since time.Time) (f Flow) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.names[name]
	if name == "" {
		t = &s.total
	}
	var last *Point
	if t.young(since) {
		last = &Point{At: t.wide.at(0).At}
	}
	for p := range t.since(since) {
		if last != nil {
			f.Handoffs += int(p.Handoffs - last.Handoffs)
			f.Expired += int(p.Expired - last.Expired)
			if gap := time.Duration(p.At-last.At) * time.Millisecond; gap < max(slept, 3*s.view.Pace) {
				f.Over += gap
			}
		}
		last = &p
	}
	return f
}

// young reports whether all that was ever heard of it was heard since a moment.
func (t *track) young(since time.Time) bool {
	return t != nil && len(t.wide.points) > 0 && len(t.wide.points) < mostPoints && t.wide.at(0).At >= since.UnixMilli()
}

// hear counts an event. s.mu is held.
func (t *track) hear(kind berthadmin.EventKind) {
	switch kind {
	case berthadmin.EventHandoff:
		t.handoffs++
	case berthadmin.EventExpired:
		t.expired++
	}
}

// sum adds a point about all semaphores together. s.mu is held.
func (s *Sampler) sum(rows []Row, at time.Time) {
	all := Row{}
	for i := range rows {
		all.InUse, all.Waiting, all.OldestWait = all.InUse+rows[i].InUse, all.Waiting+rows[i].Waiting, max(all.OldestWait, rows[i].OldestWait)
	}
	s.total.record(&all, at)
}

// Waited returns for how long some percentages of the waiters in a queue have waited at most, so
// far: 50 is the median. Without a waiter they are 0.
func Waited(queue []berthadmin.Waiter, percent ...int) []time.Duration {
	waits := make([]time.Duration, len(queue))
	for i := range queue {
		waits[i] = queue[i].Waited
	}
	slices.Sort(waits)
	found := make([]time.Duration, len(percent))
	for i, p := range percent {
		if len(waits) > 0 {
			found[i] = waits[max((len(waits)*p+99)/100-1, 0)]
		}
	}
	return found
}
