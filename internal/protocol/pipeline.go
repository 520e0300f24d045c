package protocol

import (
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// Trips of different semaphores share pipelines: while some are in flight, the next trips
// gather, and one pipeline then carries them all. A trip is sent at once while fewer than
// mostInFlight pipelines are in flight, so this costs a lone one nothing.
// docs/decisions/0010-calls-travel-together.md tells what it gains.

const (
	// mostInFlight is how many pipelines may be in flight before trips gather.
	mostInFlight = 3
	// mostQueued bounds a pipeline, whose replies come back together.
	mostQueued = 40
	// hangs is how long pipelines may keep others waiting: if they take longer, their
	// connections hang or the server is busy, and the next one uses another connection. While
	// those hang, too, the time doubles, so that an outage takes few connections and
	// goroutines, however long it lasts and however many trips wait for its end.
	hangs = 20 * time.Millisecond
)

// pipeline is where trips gather on their way to one server.
type pipeline struct {
	rdb *redis.Client

	mu         sync.Mutex
	inFlight   int // pipelines of this generation
	landing    int // flights that have their replies, and will soon take what gathers
	generation int // a new one begins when all in flight hang: those no longer count
	hangs      time.Duration
	started    time.Time // the latest pipeline
	waiting    []*Trip   // those that were dropped stay for a while
	dropped    int       // of waiting
}

func newPipeline(rdb *redis.Client) *pipeline { return &pipeline{rdb: rdb, hangs: hangs} }

// join returns the flight of st, if it may start at once, or nil when st waits for one that
// is under way.
func (p *pipeline) join(st *Trip) *Flight {
	p.mu.Lock()
	defer p.mu.Unlock()
	if st.stage == tripDropped {
		return nil
	}
	if p.inFlight >= mostInFlight && time.Since(p.started) > p.hangs {
		p.inFlight, p.generation, p.hangs = 0, p.generation+1, 2*p.hangs
	}
	if p.inFlight >= mostInFlight || p.landing > 0 {
		st.stage = tripWaits
		p.waiting = append(p.waiting, st)
		return nil
	}
	f := &Flight{pipe: p}
	p.take(f, mostQueued-1)
	st.stage = tripSent
	f.trips = append(f.trips, st)
	p.start(f)
	return f
}

// start notes that f starts. p.mu is held.
func (p *pipeline) start(f *Flight) {
	p.inFlight++
	p.started = time.Now()
	f.generation = p.generation
}

// take moves up to n trips that wait to f. p.mu is held.
func (p *pipeline) take(f *Flight, n int) {
	used := 0
	f.trips = f.trips[:0]
	for _, st := range p.waiting {
		if len(f.trips) == n {
			break
		}
		used++
		if st.stage == tripDropped {
			p.dropped--
			continue
		}
		st.stage = tripSent
		f.trips = append(f.trips, st)
	}
	rest := copy(p.waiting, p.waiting[used:])
	clear(p.waiting[rest:])
	p.waiting = p.waiting[:rest]
}

// land notes that f has its replies. The trips that their outcomes lead to need no goroutine
// of their own: f takes them.
func (p *pipeline) land(f *Flight) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.landing++
	if f.generation == p.generation {
		p.hangs = hangs
	}
}

// launch reports whether st may leave without the pipeline, and notes that it does.
func (p *pipeline) launch(st *Trip) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if st.stage == tripDropped {
		return false
	}
	st.stage = tripSent
	return true
}

// next ends the flight, whose trips have their outcomes, and loads it with those that have
// gathered meanwhile; false: there are none, or enough others are in flight.
func (p *pipeline) next(f *Flight) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.landing--
	if f.generation == p.generation {
		p.inFlight--
	}
	if p.inFlight >= mostInFlight {
		return false
	}
	if p.take(f, mostQueued); len(f.trips) == 0 {
		if cap(p.waiting) > 16*mostQueued { // an outage is over
			p.waiting = nil
		}
		return false
	}
	p.start(f)
	return true
}

// drop takes st out of the line, and reports whether it could: it has not been sent.
func (p *pipeline) drop(st *Trip) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch st.stage {
	case tripFresh:
	case tripWaits:
		if p.dropped++; p.dropped > len(p.waiting)/2 {
			st.stage = tripDropped
			p.compact()
			return true
		}
	default:
		return false
	}
	st.stage = tripDropped
	return true
}

// compact removes what was dropped, so that each drop costs little, and memory follows what
// still waits. p.mu is held.
func (p *pipeline) compact() {
	kept := p.waiting[:0]
	for _, st := range p.waiting {
		if st.stage != tripDropped {
			kept = append(kept, st)
		}
	}
	clear(p.waiting[len(kept):])
	p.waiting, p.dropped = kept, 0
}
