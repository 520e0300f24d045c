package demo

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/berth-go/berth/internal/judge"
	"github.com/berth-go/berth/internal/quantile"
)

// hold is one permit that one worker holds. Its End is 0 while it lasts.
type hold struct {
	judge.Request

	slot int
	work time.Duration
}

// State is what the workers have reported.
type State struct {
	cfg     Config
	begin   time.Duration
	over    bool                  // what is reported from now on is not shown
	holds   []*hold               // in the order of their tokens
	crashed *hold                 // of the worker that was killed
	line    map[int]time.Duration // since when a worker is in line
	log     []Event
}

// Event is something that happened, in words.
type Event struct {
	At   time.Duration // since the beginning
	Text string
	Loud bool // not everyday
}

func newState(cfg Config) *State {
	if cfg.Told == nil {
		cfg.Told = func(Event) {}
	}
	if cfg.Frame == nil {
		cfg.Frame = func(*State) {}
	}
	return &State{cfg: cfg, begin: clock(), line: map[int]time.Duration{}}
}

func (s *State) add(e event) {
	switch e.Kind {
	case queued:
		s.line[e.worker] = e.At
		s.say(e.At, false, "worker %d waits in line", e.worker)
	case started:
		s.start(e)
	case ended, killed:
		h := s.last(func(h *hold) bool { return h.Client == e.worker })
		if h == nil || h.End != 0 {
			return
		}
		h.End = e.At
		if e.Kind == ended {
			s.say(e.At, false, "worker %d gives slot %d back", e.worker, h.slot)
			return
		}
		s.crashed = h
		s.say(e.At, true, "worker %d is killed (-9) while it holds slot %d; its lease lasts up to %.1fs", e.worker, h.slot, ttl.Seconds())
	}
}

func (s *State) start(e event) {
	h := &hold{slot: e.Slot, work: e.Work, Request: judge.Request{
		Client: e.worker, Asked: e.Asked, Answered: cmp.Or(s.line[e.worker], e.At), Granted: true, Start: e.At, Token: e.Token,
	}}
	delete(s.line, e.worker)
	// Reports of different workers can arrive in another order than they were made.
	s.holds = append(s.holds, h)
	slices.SortFunc(s.holds, func(a, b *hold) int { return cmp.Compare(a.Token, b.Token) })
	if c := s.crashed; c != nil && s.successor(c) == h {
		s.say(e.At, true, "slot %d came back: worker %d has it, %.2fs after the kill", h.slot, e.worker, (e.At - c.End).Seconds())
		return
	}
	s.say(e.At, false, "worker %d takes slot %d", e.worker, h.slot)
}

func (s *State) say(at time.Duration, loud bool, format string, args ...any) {
	if s.over {
		return
	}
	e := Event{At: at - s.begin, Text: fmt.Sprintf(format, args...), Loud: loud}
	s.log = append(s.log, e)
	s.cfg.Told(e)
}

// last returns the newest hold that fits, or nil.
func (s *State) last(fits func(*hold) bool) *hold {
	for _, h := range slices.Backward(s.holds) {
		if fits(h) {
			return h
		}
	}
	return nil
}

// inSlot returns the newest hold of a slot, or nil.
func (s *State) inSlot(slot int) *hold {
	return s.last(func(h *hold) bool { return h.slot == slot })
}

// successor returns the hold that got the slot of h next, or nil.
func (s *State) successor(h *hold) *hold {
	i := slices.IndexFunc(s.holds, func(next *hold) bool { return next.slot == h.slot && next.Token > h.Token })
	if i < 0 {
		return nil
	}
	return s.holds[i]
}

// amidWork returns the hold of a worker in the first half of its work, or nil.
func (s *State) amidWork() *hold {
	return s.last(func(h *hold) bool { return h.End == 0 && clock()-h.Start <= h.work/2 })
}

// queue returns the waiting workers, in order.
func (s *State) queue() []int {
	return slices.SortedFunc(maps.Keys(s.line), func(a, b int) int { return cmp.Compare(s.line[a], s.line[b]) })
}

// requests returns what the workers remember at a time.
func (s *State) requests(now time.Duration) []judge.Request {
	var all []judge.Request
	for _, h := range s.holds {
		r := h.Request
		r.End = cmp.Or(r.End, now)
		all = append(all, r)
	}
	return all
}

// handOffs returns, in order of length, the times from a release to the next
// holder at work, for next holders that were waiting when it happened.
func (s *State) handOffs() []time.Duration {
	var times []time.Duration
	for _, h := range s.holds {
		if next := s.successor(h); next != nil && h != s.crashed && next.Asked <= h.End {
			times = append(times, next.Start-h.End)
		}
	}
	slices.Sort(times)
	return times
}

// crash tells what happened to the permit of the worker that was killed.
func (s *State) crash() *Crash {
	h := s.crashed
	if h == nil {
		return nil
	}
	c := &Crash{Worker: h.Client, Slot: h.slot, AtSeconds: (h.End - s.begin).Seconds(), TTLMS: millis(ttl)}
	if next := s.successor(h); next != nil {
		c.CameBack, c.BackTo, c.BackAfterMS = true, next.Client, millis(next.Start-h.End)
	}
	return c
}

func (s *State) summary(end time.Duration) Summary {
	times, requests := s.handOffs(), s.requests(end)
	sum := Summary{
		Workers: s.cfg.Workers, Limit: s.cfg.Limit, Seconds: (end - s.begin).Seconds(), Grants: len(s.holds),
		MostHeld: judge.Limit(requests, s.cfg.Limit).Held, Overtaken: judge.Overtakings(requests).Overtaken,
		HandOffs: len(times), HandOffP50MS: millis(quantile.Of(times, 0.50)), HandOffP99MS: millis(quantile.Of(times, 0.99)),
		Crash: s.crash(),
	}
	for _, r := range requests {
		if r.Answered < r.Start {
			sum.Waited++
		}
	}
	sum.LimitKept, sum.OrderKept = sum.MostHeld <= s.cfg.Limit, sum.Overtaken == 0
	return sum
}

func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
