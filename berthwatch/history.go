package berthwatch

import (
	"slices"
	"time"
)

const (
	// mostPoints is how far back a history goes, and mostHistories how many semaphores
	// have one: with 32 bytes a point, 10 MB.
	mostPoints    = 300
	mostHistories = 1000
)

// Point is one moment of a semaphore.
type Point struct {
	At                    int64 // Unix time, ms
	InUse, Limit, Waiting int32
	OldestWait            int32 // s
}

// track is what is remembered of one semaphore.
type track struct {
	found  int     // in which round of the search it was last found
	points []Point // a ring; nil: it is not busy enough
	next   int     // where the oldest point is, once the ring is full
}

func (t *track) add(p Point) {
	if len(t.points) < mostPoints {
		t.points = append(t.points, p)
		return
	}
	t.points[t.next] = p
	t.next = (t.next + 1) % mostPoints
}

// remember adds a point to the history of each of the busiest. s.mu is held.
func (s *Sampler) remember(rows []Row) {
	if len(rows) > mostHistories {
		rows = slices.Clone(rows)
		slices.SortFunc(rows, s.busier)
		for _, r := range rows[mostHistories:] {
			if t := s.names[r.Name]; t != nil {
				t.points, t.next = nil, 0
			}
		}
		rows = rows[:mostHistories]
	}
	for _, r := range rows {
		if t := s.names[r.Name]; t != nil { // the search may have dropped it meanwhile
			t.add(Point{
				At: s.view.At.UnixMilli(), InUse: int32(r.InUse), Limit: int32(r.Limit), Waiting: int32(r.Waiting),
				OldestWait: int32(min(r.OldestWait/time.Second, 1<<31-1)),
			})
		}
	}
}

// History returns the points of a semaphore since a moment, the oldest first.
func (s *Sampler) History(name string, since time.Time) (points []Point) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.names[name]
	if t == nil {
		return nil
	}
	for i := range t.points {
		if p := t.points[(t.next+i)%len(t.points)]; p.At >= since.UnixMilli() {
			points = append(points, p)
		}
	}
	return points
}
