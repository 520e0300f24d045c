package berthwatch

import (
	"context"
	"errors"
	"time"

	"github.com/berth-go/berth"
)

const (
	mostEvents = 500             // that are remembered
	afterFlood = 5 * time.Minute // until it is tried again
	afterBreak = time.Second     // the same where the connection broke
)

// Event is an event and when it was heard.
type Event struct {
	berth.Event
	At time.Time
}

// Feed is what was heard.
type Feed struct {
	Listening bool
	Err       error                   // why nothing is heard
	Last      []Event                 // the newest last
	Counts    map[berth.EventKind]int // since the sampler began, as far as it listened
}

// listen hears events until ctx ends, or until there is no use in trying again.
func (s *Sampler) listen(ctx context.Context) {
	for ctx.Err() == nil {
		err := s.in.Listen(ctx, s.hear)
		s.mu.Lock()
		s.view.Events.Listening = false
		if ctx.Err() == nil {
			s.view.Events.Err = err
		}
		s.mu.Unlock()
		pause := afterBreak
		switch {
		case errors.Is(err, berth.ErrUnsupported), errors.Is(err, berth.ErrRefused):
			return
		case errors.Is(err, berth.ErrFlood):
			pause = afterFlood
		}
		rest(ctx, pause)
	}
}

// hear takes an event. One of a semaphore that the search has not found yet finds it.
func (s *Sampler) hear(e berth.Event) {
	if e.Kind == berth.EventListening {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.view.Events.Listening, s.view.Events.Err = true, nil
		return
	}
	s.mu.Lock()
	round := s.round
	s.mu.Unlock()
	if len(s.cfg.Names) == 0 {
		s.add([]string{e.Name}, round)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.names[e.Name] == nil {
		return
	}
	f := &s.view.Events
	if len(f.Last) == mostEvents {
		f.Last = append(f.Last[:0], f.Last[1:]...)
	}
	f.Last = append(f.Last, Event{e, time.Now()})
	counts := map[berth.EventKind]int{e.Kind: f.Counts[e.Kind] + 1}
	for kind, n := range f.Counts {
		if kind != e.Kind {
			counts[kind] = n
		}
	}
	f.Counts = counts // views share the old one
}
