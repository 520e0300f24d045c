package demo

import (
	"fmt"
	"slices"
	"time"
)

// State is what is known at a moment.
type State struct {
	cfg   Config
	begin time.Duration
	tally *tally
	slots []*hold // the last holder of each slot
	dead  *hold   // of the worker that was killed, until its permit is back
	log   []Event
}

func newState(cfg Config) *State {
	return &State{cfg: cfg, begin: clock(), tally: newTally(), slots: make([]*hold, cfg.Limit)}
}

func (s *State) now() time.Duration { return clock() - s.begin }

func (s *State) handle(e event, view View) {
	s.tally.add(e)
	switch e.Kind {
	case queued:
		s.say(view, e.At, false, "worker %d waits in line", e.worker)
	case started:
		s.start(e, view)
	case ended:
		if h := s.holding(e.worker); h != nil {
			s.say(view, e.At, false, "worker %d gives slot %d back", e.worker, h.slot)
		}
	}
}

// holding returns the newest hold of a worker.
func (s *State) holding(worker int) *hold {
	for _, h := range slices.Backward(s.tally.holds) {
		if h.Client == worker {
			return h
		}
	}
	return nil
}

func (s *State) start(e event, view View) {
	h := s.holding(e.worker)
	if h.slot < len(s.slots) {
		// Reports of different workers can arrive in another order than they
		// were made; tokens tell.
		if last := s.slots[h.slot]; last == nil || last.Token < h.Token {
			s.slots[h.slot] = h
		}
	}
	if d := s.dead; d != nil && d.slot == h.slot && h.Token > d.Token {
		s.dead = nil
		s.say(view, e.At, true, "slot %d came back: worker %d has it, %.2fs after the kill", h.slot, e.worker, (e.At - d.End).Seconds())
		return
	}
	s.say(view, e.At, false, "worker %d takes slot %d", e.worker, e.Slot)
}

// killOne kills a worker in the middle of its work, if there is one.
func (s *State) killOne(workers *workers, view View) bool {
	for _, h := range s.slots {
		if h == nil || h.End != 0 || clock()-h.Start > h.work/2 {
			continue
		}
		at := clock()
		workers.kill(h.Client)
		s.tally.add(event{Kind: killed, At: at, worker: h.Client})
		s.dead = h
		s.say(view, at, true, "worker %d is killed (-9) while it holds slot %d; its lease lasts up to %.1fs",
			h.Client, h.slot, ttl.Seconds())
		return true
	}
	return false
}

func (s *State) say(view View, at time.Duration, loud bool, format string, args ...any) {
	e := Event{At: at - s.begin, Text: fmt.Sprintf(format, args...), Loud: loud}
	s.log = append(s.log, e)
	view.Event(s, e)
}
