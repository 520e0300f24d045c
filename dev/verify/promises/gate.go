package promises

import (
	"cmp"
	"slices"
	"time"

	"github.com/berth-go/berth/dev/verify/history"
)

// gate is what may have kept the requests of a semaphore from being granted, and when.
type gate struct {
	run    *Run
	ops    []*Op
	limit  int
	lined  bool   // requests have tenants
	held   []load // permits
	rates  []budget
	pauses []load
}

// load is so much of something for some time. That of a request does not keep itself out.
type load struct {
	span
	of *Op
	by int
	// promise is the one that then there is room for others, or if by is below 0, that there is at its
	// beginning; "": that of all others.
	promise string
}

func (r *Run) newGate(name string, ops []*Op, tolerance time.Duration) *gate {
	g := &gate{run: r, ops: ops, limit: ops[0].Limit, lined: lined(ops), rates: r.budgets(ops, tolerance)}
	for _, o := range ops {
		if s := r.mayHold(o); s.from != 0 {
			g.held = append(g.held, load{span: s, of: o, by: o.Weight})
		}
	}
	for _, p := range r.Pauses {
		if p.Name == name {
			end := r.over(p.Proc, p.At, p.Until).Add(p.Lasts + time.Millisecond) // the server counts whole ones
			g.pauses = append(g.pauses, load{span: span{p.At, end}, by: 1})
		}
	}
	return g
}

// due returns when the last thing was over that may have kept w, which asked or was in line for the
// time s, from being granted, which promise it is that w is granted then, and what it was.
func (g *gate) due(w *Op, s span) (due history.Time, promise, what string) {
	due, promise, what = s.from, "L2", "it came"
	over := func(at history.Time, of, is string) {
		if at = min(at, s.to); at > due {
			due, promise, what = at, of, is
		}
	}
	at, _ := last(g.held, w, g.limit-w.Weight, s.to)
	over(at, "L2", "its permits were free")
	for _, b := range g.rates {
		at, of := b.full(w, s.to)
		over(at, cmp.Or(of, "R2"), "the rate had room for it")
	}
	at, _ = last(g.pauses, w, 0, s.to)
	over(at, "L7", "the pause")
	for _, o := range g.ops {
		after := cmp.Or(w.Queued, w.Returned)
		if g.lined { // who comes later may be before it
			after = s.to
		}
		behind := o.Invoked >= after || w.Held() && o.Held() && o.Token > w.Token // the order is judged by S4, T1 and T3
		switch {
		case o == w || o.Verb != history.Acquire || behind:
		case o.Held() || g.run.gaveUp(o):
			over(g.run.inLine(o), promise, "the one before it")
		default: // the one behind it, who watches it, may have given up: then the next does with its heartbeat
			over(g.run.inLine(o).Add(heartbeat(o)/3), "L3", "one before it that is dead")
		}
	}
	return due, promise, what
}

// last returns until when, or until its end if that is earlier, there was last more than most, and the
// promise of what was over then; 0: never.
func last(loads []load, w *Op, most int, end history.Time) (at history.Time, promise string) {
	type edge struct {
		at      history.Time
		by      int
		promise string
	}
	var edges []edge
	for _, l := range loads {
		if l.of == nil || l.of != w {
			edges = append(edges, edge{l.from, l.by, l.promise}, edge{max(l.from, l.to), -l.by, l.promise})
		}
	}
	slices.SortFunc(edges, func(a, b edge) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.by, b.by)) })
	sum := 0
	for _, e := range edges {
		if e.at >= end {
			break
		}
		if sum > most && sum+e.by <= most {
			at, promise = e.at, e.promise
		}
		sum += e.by
	}
	if sum > most {
		return end, ""
	}
	return at, promise
}

// mayHold is possession, where clients have a network that works: who gives up a request has just not
// heard of its grant, and gives it back at once. A MaxHold ends by itself.
func (r *Run) mayHold(o *Op) span {
	s := r.possession(o)
	switch {
	case s.from != 0 && r.gaveUp(o):
		s = span{o.Returned.Add(-history.Late), o.Returned}
	case o.MaxHold > 0 && o.Held() && !o.Again:
		s.to = min(s.to, o.Granted.Add(o.MaxHold+time.Millisecond))
	}
	return s
}

// inLine returns until when o may have been in line. Who is not heard of any more keeps its place for
// a heartbeat TTL.
func (r *Run) inLine(o *Op) history.Time {
	switch {
	case o.Held() && !o.Again:
		return o.Granted
	case r.gaveUp(o):
		return r.ended(o)
	default:
		return r.ended(o).Add(heartbeat(o))
	}
}

// heartbeat is for how long a request keeps its place without a sign of life.
func heartbeat(o *Op) time.Duration { return min(o.TTL, 10*time.Second) }

// gaveUp reports whether o's client gave it up and surely told the server so at once: nothing struck
// it until the message was away.
func (r *Run) gaveUp(o *Op) bool {
	return o.Outcome == history.Unknown && o.Returned < r.killed(o.Proc).Add(-history.Late) &&
		!r.struck(o.Invoked, o.Returned.Add(history.Late), func(f history.Event) bool { return touches(f, o) && f.Text != Killed })
}
