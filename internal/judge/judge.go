// Package judge judges a semaphore by what its clients believed, without asking Redis. All
// its functions are pure.
package judge

import (
	"cmp"
	"slices"
	"time"
)

// Span is a span of time, in time since the beginning of a run. From belongs to it and To
// does not, so a span that begins where another one ends does not overlap it.
type Span struct {
	From time.Duration `json:"from"`
	To   time.Duration `json:"to"`
}

// Length returns how long it lasts.
func (s Span) Length() time.Duration { return max(0, s.To-s.From) }

// Request is a client's record of one request: when it asked for a permit, and from when
// until when it believed to hold one.
type Request struct {
	Client  int
	Asked   time.Duration
	Granted bool
	// Start and End of the belief. If it is not Granted, End is when the client was
	// last known to wait.
	Start time.Duration
	End   time.Duration
	// Stopped is when the client's process was suspended. Its belief did no harm then,
	// and does not count against the algorithm.
	Stopped Span
	// What the client can know about the server's order: the server had the request
	// when it first answered, at Answered. It granted it after Called, when the client
	// last asked, and before Start. Token, if not 0, numbers the server's grants.
	Answered time.Duration
	Called   time.Duration
	Token    int64
}

// Waited returns how long the client waited, or has waited so far.
func (r Request) Waited() time.Duration {
	if r.Granted {
		return r.Start - r.Asked
	}
	return r.End - r.Asked
}

// Beliefs returns when the client believed to hold the permit and could act.
func (r Request) Beliefs() []Span {
	if !r.Granted {
		return nil
	}
	parts := []Span{{r.Start, r.End}}
	if r.Stopped.Length() > 0 {
		parts = []Span{
			{r.Start, min(r.End, r.Stopped.From)},
			{max(r.Start, r.Stopped.To), r.End},
		}
	}
	return slices.DeleteFunc(parts, func(s Span) bool { return s.Length() == 0 })
}

// Level is the number of clients that believe to hold a permit, from At to the next Level.
type Level struct {
	At      time.Duration
	Holders int
}

// Levels returns every change of the number of beliefs.
func Levels(requests []Request) []Level {
	var edges []Level // Holders is the change
	for _, r := range requests {
		for _, s := range r.Beliefs() {
			edges = append(edges, Level{s.From, +1}, Level{s.To, -1})
		}
	}
	slices.SortFunc(edges, func(a, b Level) int { return cmp.Compare(a.At, b.At) })
	var levels []Level
	now := 0
	for i, e := range edges {
		now += e.Holders
		// Changes at the same time count as one, so an end makes room for a beginning.
		if i+1 < len(edges) && edges[i+1].At == e.At {
			continue
		}
		levels = append(levels, Level{e.At, now})
	}
	return levels
}

// Excess is a span in which more clients believed to hold a permit than the limit allows.
type Excess struct {
	Span
	By int `json:"by"` // at its worst
}

// Verdict says how well a limit was kept.
type Verdict struct {
	Moments []Excess
	// Worst is the largest number of holders above the limit.
	Worst int
	// Over is the total time for which the limit was exceeded.
	Over time.Duration
	// Stolen counts the beliefs that began when all permits were believed to be held.
	// Each of them shares its permit with another holder.
	Stolen int
	// Held is the largest number of holders.
	Held int
}

// Limit judges whether a limit was kept.
func Limit(requests []Request, limit int) Verdict {
	var v Verdict
	var open *Excess
	before := 0
	for _, l := range Levels(requests) {
		v.Held = max(v.Held, l.Holders)
		excess := l.Holders - limit
		v.Stolen += max(0, excess-max(0, before-limit))
		before = l.Holders
		switch {
		case excess > 0 && open == nil:
			open = &Excess{Span{From: l.At}, excess}
		case excess > 0:
			open.By = max(open.By, excess)
		case open != nil:
			open.To = l.At
			v.Moments = append(v.Moments, *open)
			v.Over += open.Length()
			v.Worst = max(v.Worst, open.By)
			open = nil
		}
	}
	return v
}
