package berthwatch

import (
	"context"
	"errors"
	"maps"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/berthadmin"
)

const (
	mostEvents = 500             // how many are remembered
	afterFlood = 5 * time.Minute // the pause after ErrFlood
	afterBreak = time.Second     // the pause after other errors
)

// Event is an event and when it was received.
type Event struct {
	berthadmin.Event
	At time.Time
}

// Feed is what the sampler knows of events.
type Feed struct {
	Listening bool
	Err       error                        // why no events come
	Last      []Event                      // the newest last
	Counts    map[berthadmin.EventKind]int // since the sampler began, as far as it listened
}

// listen receives events until ctx ends, or an error shows that retrying is useless.
func (s *Sampler) listen(ctx context.Context) {
	for ctx.Err() == nil {
		err := s.in.Listen(ctx, s.note)
		s.mu.Lock()
		s.view.Events.Listening = false
		if ctx.Err() == nil {
			s.view.Events.Err = err
		}
		s.mu.Unlock()
		pause := afterBreak
		switch {
		case errors.Is(err, berthadmin.ErrUnsupported), errors.Is(err, berth.ErrRefused):
			return
		case errors.Is(err, berthadmin.ErrFlood):
			pause = afterFlood
		}
		rest(ctx, pause)
	}
}

// note handles an event. If the search has not found its semaphore yet, the event adds it.
func (s *Sampler) note(e berthadmin.Event) {
	if e.Kind == berthadmin.EventListening {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.view.Events.Listening, s.view.Events.Err = true, nil
		return
	}
	s.inUse(e.Name)
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.names[e.Name]
	if t == nil {
		return
	}
	t.hear(e.Kind)
	s.total.hear(e.Kind)
	f := &s.view.Events
	if len(f.Last) == mostEvents {
		f.Last = append(f.Last[:0], f.Last[1:]...)
	}
	f.Last = append(f.Last, Event{e, time.Now()})
	counts := map[berthadmin.EventKind]int{}
	maps.Copy(counts, f.Counts)
	counts[e.Kind]++
	f.Counts = counts // views share the old one
}
