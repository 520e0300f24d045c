package berthwatch

import (
	"iter"
	"math"
	"slices"
	"time"

	"github.com/berth-go/berth"
)

const (
	// mostPoints is how many points a ring has, and mostHistories how many semaphores
	// have a history, which is two rings. With 40 bytes a point that is 24 MB.
	mostPoints    = 300
	mostHistories = 1000
	// coarse is the time between two points in the second ring, which goes back for an
	// hour.
	coarse = 12 * time.Second
)

// Point is the state of a semaphore at one moment.
type Point struct {
	At           int64 `json:"at_ms"` // Unix time, ms
	InUse        int32 `json:"in_use"`
	Limit        int32 `json:"limit"`
	Waiting      int32 `json:"waiting"`
	OldestWait   int32 `json:"oldest_wait_s"`
	LimitChanges int32 `json:"limit_changes"`  // until then
	Handoffs     int32 `json:"handoffs"`       // grants to waiters that were heard of until then
	Expired      int32 `json:"expired"`        // leases and waiters that were heard to expire until then
	Idle         bool  `json:"idle,omitempty"` // it was not in use, and had no limit
}

// track is the history of one semaphore.
type track struct {
	found      time.Time // when it was last known to be in use
	fine, wide ring

	handoffs, expired int32 // events

	declared     declaration
	limit, rates change
}

// ring is the last points of a semaphore.
type ring struct {
	points []Point
	next   int // where the oldest point is, once the ring is full
}

func (r *ring) add(p Point) {
	if len(r.points) < mostPoints {
		r.points = append(r.points, p)
		return
	}
	r.points[r.next] = p
	r.next = (r.next + 1) % mostPoints
}

// newest returns the last point that was added, or nil.
func (r *ring) newest() *Point {
	if len(r.points) == 0 {
		return nil
	}
	return r.at(len(r.points) - 1)
}

// at returns a point, counted from the oldest.
func (r *ring) at(i int) *Point { return &r.points[(r.next+i)%len(r.points)] }

// between yields the points from one moment until before another, in ms, as long as that
// returns true, and reports whether it did.
func (r *ring) between(from, to int64, yield func(Point) bool) bool {
	for i := range r.points {
		if p := r.at(i); p.At >= from && p.At < to && !yield(*p) {
			return false
		}
	}
	return true
}

// add remembers a point in the fine ring, and the peaks of each interval in the wide one.
func (t *track) add(p Point) {
	t.fine.add(p)
	last := t.wide.newest()
	if last == nil || p.At/coarse.Milliseconds() != last.At/coarse.Milliseconds() {
		t.wide.add(p)
		return
	}
	last.InUse, last.Waiting, last.OldestWait = max(last.InUse, p.InUse), max(last.Waiting, p.Waiting), max(last.OldestWait, p.OldestWait)
	last.LimitChanges, last.Handoffs, last.Expired, last.Idle = p.LimitChanges, p.Handoffs, p.Expired, last.Idle && p.Idle
	if !p.Idle {
		last.Limit = p.Limit
	}
}

// remember adds a point to the histories of the busiest semaphores. s.mu is held.
func (s *Sampler) remember(rows []Row, at time.Time) {
	if len(rows) > mostHistories {
		rows = slices.Clone(rows)
		slices.SortFunc(rows, s.busier)
		for _, r := range rows[mostHistories:] {
			if t := s.names[r.Name]; t != nil {
				*t = track{found: t.found}
			}
		}
		rows = rows[:mostHistories]
	}
	for _, r := range rows {
		// The search may have dropped it meanwhile. Of a damaged one nothing is known: its history has a gap.
		if t := s.names[r.Name]; t != nil && r.Err == nil {
			t.record(&r, at)
		}
	}
}

// record adds a point.
func (t *track) record(r *Row, at time.Time) {
	t.notice(r, at)
	t.add(Point{
		At: at.UnixMilli(), InUse: int32(r.InUse), Limit: int32(r.Limit), Waiting: int32(r.Waiting),
		OldestWait: int32(min(r.OldestWait/time.Second, 1<<31-1)), LimitChanges: int32(min(r.LimitChanges, 1<<31-1)),
		Handoffs: t.handoffs, Expired: t.expired, Idle: r.Idle,
	})
}

// History returns the points of a semaphore since a moment, the oldest first: every sample
// of about the last five minutes, and for the hour before the peaks of each 12 seconds.
func (s *Sampler) History(name string, since time.Time) []Point {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(s.names[name].since(since))
}

// Histories returns the History of each of some semaphores, all from one look: if one of them has the
// point of a sample, so have the others that were sampled then.
func (s *Sampler) Histories(names []string, since time.Time) [][]Point {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([][]Point, len(names))
	for i, name := range names {
		all[i] = slices.Collect(s.names[name].since(since))
	}
	return all
}

// since returns the points since a moment, the oldest first; of nil none. The intervals of the wide ring
// end where the fine ring begins: one that goes on in it would tell later numbers first.
func (t *track) since(moment time.Time) iter.Seq[Point] {
	return func(yield func(Point) bool) {
		if t == nil || len(t.fine.points) == 0 {
			return
		}
		from, first := moment.UnixMilli(), t.fine.at(0).At
		whole := first / coarse.Milliseconds() * coarse.Milliseconds()
		_ = t.wide.between(from, whole, yield) && t.fine.between(max(from, first), math.MaxInt64, yield)
	}
}

// Drawn is the limit for a chart; 0 for berth.NoLimit, beside which nothing else could be seen.
func (p *Point) Drawn() int32 {
	if p.Limit == berth.NoLimit {
		return 0
	}
	return p.Limit
}

// LimitChanges returns how often the limit of a semaphore has changed since a moment, as
// far as its history goes back.
func (s *Sampler) LimitChanges(name string, since time.Time) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	changes, last := 0, int32(-1)
	for p := range s.names[name].since(since) {
		switch {
		case last < 0: // the first
		case p.LimitChanges < last: // the count began again when the semaphore's keys were gone
			changes += int(p.LimitChanges)
		default:
			changes += int(p.LimitChanges - last)
		}
		last = p.LimitChanges
	}
	return changes
}
