package demo

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/berth-go/berth/internal/judge"
	"github.com/berth-go/berth/internal/quantile"
)

// Summary is what the demo has shown. Everything in it comes from the workers'
// own reports and from watching the queue, not from what Redis believes.
type Summary struct {
	Workers   int     `json:"workers"`
	Limit     int     `json:"limit"`
	Seconds   float64 `json:"seconds"`
	Grants    int     `json:"grants"`
	MostHeld  int     `json:"most_held"`
	LimitKept bool    `json:"limit_kept"`
	Waited    int     `json:"waited"`    // grants to workers that had been in line
	Overtaken int     `json:"overtaken"` // of them, by somebody who asked later
	OrderKept bool    `json:"order_kept"`
	// Hand-offs: from just before a release to the next holder at work.
	HandOffs     int     `json:"hand_offs"`
	HandOffP50MS float64 `json:"hand_off_p50_ms"`
	HandOffP99MS float64 `json:"hand_off_p99_ms"`
	Crash        *Crash  `json:"crash,omitempty"`
}

// Crash is the end of the worker that was killed while it held a permit.
type Crash struct {
	Worker      int     `json:"worker"`
	Slot        int     `json:"slot"`
	AtSeconds   float64 `json:"at_seconds"`
	CameBack    bool    `json:"came_back"`
	BackAfterMS float64 `json:"back_after_ms"` // until another worker was at work in its place
	BackTo      int     `json:"back_to"`
	TTLMS       float64 `json:"ttl_ms"`
}

// OK reports whether berth kept its promises.
func (s Summary) OK() bool {
	return s.LimitKept && s.OrderKept && s.Grants > 0 && (s.Crash == nil || s.Crash.CameBack)
}

// hold is one permit that one worker holds. Its End is 0 while it lasts.
type hold struct {
	judge.Request

	slot    int
	work    time.Duration
	crashed bool
}

// tally collects holds.
type tally struct {
	holds []*hold
	open  map[int]*hold         // by worker
	line  map[int]time.Duration // since when a worker is in line
}

func newTally() *tally { return &tally{open: map[int]*hold{}, line: map[int]time.Duration{}} }

func (t *tally) add(e event) {
	switch e.Kind {
	case queued:
		t.line[e.worker] = e.At
	case started:
		h := &hold{slot: e.Slot, work: e.Work, Request: judge.Request{
			Client: e.worker, Asked: e.Asked, Answered: cmp.Or(t.line[e.worker], e.At), Granted: true, Start: e.At, Token: e.Token,
		}}
		delete(t.line, e.worker)
		t.holds = append(t.holds, h)
		t.open[e.worker] = h
	case ended, killed:
		if h := t.open[e.worker]; h != nil {
			h.End, h.crashed = e.At, e.Kind == killed
			delete(t.open, e.worker)
		}
	}
}

// requests returns what the workers remember at a time.
func (t *tally) requests(now time.Duration) []judge.Request {
	var all []judge.Request
	for _, h := range t.holds {
		r := h.Request
		r.End = cmp.Or(r.End, now)
		all = append(all, r)
	}
	return all
}

// successor returns the hold that got the slot of h next.
func (t *tally) successor(h *hold) *hold {
	var next *hold
	for _, other := range t.holds {
		if other.slot == h.slot && other.Token > h.Token && (next == nil || other.Token < next.Token) {
			next = other
		}
	}
	return next
}

// handOffs returns, in order of length, the times from a release to the next
// holder at work, for next holders that were waiting when it happened.
func (t *tally) handOffs() []time.Duration {
	var times []time.Duration
	for _, h := range t.holds {
		next := t.successor(h)
		if h.End == 0 || h.crashed || next == nil || next.Asked > h.End {
			continue
		}
		times = append(times, next.Start-h.End)
	}
	slices.Sort(times)
	return times
}

// crash tells what happened to the permit of the worker that was killed.
func (t *tally) crash(begin time.Duration) *Crash {
	i := slices.IndexFunc(t.holds, func(h *hold) bool { return h.crashed })
	if i < 0 {
		return nil
	}
	h := t.holds[i]
	c := &Crash{Worker: h.Client, Slot: h.slot, AtSeconds: (h.End - begin).Seconds(), TTLMS: millis(ttl)}
	if next := t.successor(h); next != nil {
		c.CameBack, c.BackTo, c.BackAfterMS = true, next.Client, millis(next.Start-h.End)
	}
	return c
}

// cameBack reports whether a worker was killed and another has its permit.
func (t *tally) cameBack() bool {
	c := t.crash(0)
	return c != nil && c.CameBack
}

// queue returns the waiting workers, in order.
func (t *tally) queue() []int {
	return slices.SortedFunc(maps.Keys(t.line), func(a, b int) int { return cmp.Compare(t.line[a], t.line[b]) })
}

func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func (t *tally) summary(begin, end time.Duration, limit, workers int) Summary {
	times, requests := t.handOffs(), t.requests(end)
	s := Summary{
		Workers: workers, Limit: limit, Seconds: (end - begin).Seconds(),
		Grants: len(t.holds), MostHeld: judge.Limit(requests, limit).Held, Overtaken: judge.Overtakings(requests).Overtaken,
		HandOffs:     len(times),
		HandOffP50MS: millis(quantile.Of(times, 0.50)), HandOffP99MS: millis(quantile.Of(times, 0.99)),
		Crash: t.crash(begin),
	}
	for _, r := range requests {
		if r.Answered < r.Start {
			s.Waited++
		}
	}
	s.LimitKept, s.OrderKept = s.MostHeld <= limit, s.Overtaken == 0
	return s
}
