package demo

import (
	"cmp"
	"maps"
	"slices"
	"time"

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
	// Pairs is how many times a worker asked when another knew that it was in line,
	// and both were granted later; Overtaken, how many of them in the other order.
	Pairs     int  `json:"pairs_compared"`
	Overtaken int  `json:"pairs_overtaken"`
	OrderKept bool `json:"order_kept"`
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

// OK tells whether everything that berth promises was seen.
func (s Summary) OK() bool {
	return s.LimitKept && s.OrderKept && s.Grants > 0 && (s.Crash == nil || s.Crash.CameBack)
}

// hold is one permit that one worker holds.
type hold struct {
	worker, slot int
	token        int64
	asked        time.Duration
	queued       time.Duration // when it knew that it was in line; 0: it was not
	start, end   time.Duration // end is 0 while it lasts
	work         time.Duration
	crashed      bool
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
		if t.open[e.worker] == nil { // or the report was overtaken by that of the start
			t.line[e.worker] = e.At
		}
	case started:
		h := &hold{
			worker: e.worker, slot: e.Slot, token: e.Token,
			asked: e.Asked, queued: t.line[e.worker], start: e.At, work: e.Work,
		}
		delete(t.line, e.worker)
		t.holds = append(t.holds, h)
		t.open[e.worker] = h
	case ended, killed:
		if h := t.open[e.worker]; h != nil {
			h.end, h.crashed = e.At, e.Kind == killed
			delete(t.open, e.worker)
		}
	}
}

// mostHeld sweeps over the workers' reports and returns how many were at work
// at once at most. An end and a start at the same instant do not overlap.
func (t *tally) mostHeld() int {
	type edge struct {
		at    time.Duration
		delta int
	}
	var edges []edge
	for _, h := range t.holds {
		edges = append(edges, edge{h.start, +1})
		if h.end != 0 {
			edges = append(edges, edge{h.end, -1})
		}
	}
	slices.SortFunc(edges, func(a, b edge) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.delta, b.delta))
	})
	now, most := 0, 0
	for _, e := range edges {
		now += e.delta
		most = max(most, now)
	}
	return most
}

// successor returns the hold that got the slot of h next.
func (t *tally) successor(h *hold) *hold {
	var next *hold
	for _, other := range t.holds {
		if other.slot == h.slot && other.token > h.token && (next == nil || other.token < next.token) {
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
		if h.end == 0 || h.crashed || next == nil || next.asked > h.end {
			continue
		}
		times = append(times, next.start-h.end)
	}
	slices.Sort(times)
	return times
}

// crash returns what became of the permit of the worker that was killed.
func (t *tally) crash(begin time.Duration) *Crash {
	i := slices.IndexFunc(t.holds, func(h *hold) bool { return h.crashed })
	if i < 0 {
		return nil
	}
	h := t.holds[i]
	c := &Crash{Worker: h.worker, Slot: h.slot, AtSeconds: (h.end - begin).Seconds(), TTLMS: millis(ttl)}
	if next := t.successor(h); next != nil {
		c.CameBack, c.BackTo, c.BackAfterMS = true, next.worker, millis(next.start-h.end)
	}
	return c
}

// cameBack tells whether a worker was killed and another has its permit.
func (t *tally) cameBack() bool {
	c := t.crash(0)
	return c != nil && c.CameBack
}

// queue returns the workers in line, in order.
func (t *tally) queue() []int {
	return slices.SortedFunc(maps.Keys(t.line), func(a, b int) int { return cmp.Compare(t.line[a], t.line[b]) })
}

// order compares those in line with those who asked later: the first must have been
// granted first.
func (t *tally) order() (pairs, overtaken int) {
	for _, front := range t.holds {
		for _, behind := range t.holds {
			if front.queued == 0 || behind.asked <= front.queued || behind.asked >= front.start {
				continue
			}
			pairs++
			if behind.token < front.token {
				overtaken++
			}
		}
	}
	return pairs, overtaken
}

func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func (t *tally) summary(begin, end time.Duration, limit, workers int) Summary {
	times := t.handOffs()
	s := Summary{
		Workers: workers, Limit: limit, Seconds: (end - begin).Seconds(),
		Grants: len(t.holds), MostHeld: t.mostHeld(),
		HandOffs:     len(times),
		HandOffP50MS: millis(quantile.Of(times, 0.50)), HandOffP99MS: millis(quantile.Of(times, 0.99)),
		Crash: t.crash(begin),
	}
	s.LimitKept = s.MostHeld <= limit
	s.Pairs, s.Overtaken = t.order()
	s.OrderKept = s.Overtaken == 0
	return s
}
