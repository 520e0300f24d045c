// Package judge judges a semaphore by what its clients believed, without asking Redis: whether
// the limit was kept (Limit), the order of arrival (Overtakings), slots (Slots) and tokens
// (Tokens). All its functions are pure. Indices are those of the requests that were given.
package judge

import (
	"cmp"
	"slices"
	"time"
)

// Span is a span of time, in time since the beginning of a run. From belongs to it and To
// does not, so a span that begins where another one ends does not overlap it.
type Span struct {
	From, To time.Duration
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
	Start  time.Duration
	End    time.Duration
	Weight int // 0 counts as 1
	Slot   int
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

// Level is how many permits clients believe to hold, from At to the next Level.
type Level struct {
	At   time.Duration
	Held int
}

// Levels returns every change of that number.
func Levels(requests []Request) []Level {
	var edges []Level // Held is the change
	for _, r := range requests {
		weight := cmp.Or(r.Weight, 1)
		for _, s := range r.Beliefs() {
			edges = append(edges, Level{s.From, weight}, Level{s.To, -weight})
		}
	}
	slices.SortFunc(edges, func(a, b Level) int { return cmp.Compare(a.At, b.At) })
	var levels []Level
	now := 0
	for i, e := range edges {
		now += e.Held
		// Changes at the same time count as one, so an end makes room for a beginning.
		if i+1 < len(edges) && edges[i+1].At == e.At {
			continue
		}
		levels = append(levels, Level{e.At, now})
	}
	return levels
}

// Excess is a span in which clients believed to hold more permits than the limit allows.
type Excess struct {
	Span
	By int // at its worst
}

// Verdict says how well a limit was kept.
type Verdict struct {
	Moments []Excess
	// Worst is the largest number of permits above the limit.
	Worst int
	// Over is the total time for which the limit was exceeded.
	Over time.Duration
	// Stolen counts the permits that were granted when all were believed to be held. Each
	// of them has another holder.
	Stolen int
	// Held is the largest number of permits that were held at once.
	Held int
}

// Limit judges whether a limit was kept.
func Limit(requests []Request, limit int) Verdict {
	var v Verdict
	var open *Excess
	before := 0
	for _, l := range Levels(requests) {
		v.Held = max(v.Held, l.Held)
		excess := l.Held - limit
		v.Stolen += max(0, excess-max(0, before-limit))
		before = l.Held
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

// Held returns the largest number of permits that were held at once within a span.
func Held(requests []Request, within Span) (most int) {
	levels := Levels(requests)
	for i, l := range levels {
		if l.At < within.To && (i+1 == len(levels) || levels[i+1].At > within.From) {
			most = max(most, l.Held)
		}
	}
	return most
}
