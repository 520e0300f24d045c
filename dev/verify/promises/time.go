package promises

import (
	"cmp"
	"slices"
	"time"

	"github.com/berth-go/berth/dev/verify/history"
)

// wakeUp is how much later than time allows a request may be granted, besides what R2 says: the one
// that is to look does so with its own call, as does one that gives up its place. Its process may be
// late for it, and so may the server be for the call; what is later than Late is recorded as a fault
// of the one or the other.
const wakeUp = 2*history.Late + time.Millisecond

// pauses checks the first half of L7: a pause that somebody was told of grants nothing until it
// ends.
func (v *Verdict) pauses(name string, ops []*Op, run *Run, rules Rules) {
	for _, p := range run.Pauses {
		tol := rules.Clock.Tolerance
		surely := span{p.Until.Add(tol), p.At.Add(p.Lasts - tol)} // it began at the earliest when it was asked for
		if p.Name != name || p.Outcome != history.OK || surely.from >= surely.to || run.broken(p.At, surely.to) {
			continue
		}
		v.Pauses++
		for _, o := range fresh(ops) {
			if surely.overlaps(o.Granted, o.Granted) {
				v.add("L7", name, o.Returned, []*Op{o}, "granted within a pause, %v after it was begun", o.Granted.Sub(p.Until))
			}
		}
	}
}

// onTime checks R2, the second half of L7, and L1 to L3 where time lets requests in: who is in line
// is granted when the last of what may keep it from that is over, whichever processes wait, hold,
// pause or declare a rate; and who does not wait is not refused then. What may be so counts as being
// so.
func (v *Verdict) onTime(name string, ops []*Op, run *Run, rules Rules) {
	g := run.newGate(name, ops, rules.Clock.Tolerance)
	for _, w := range ops {
		if w.Outcome == history.Busy && !run.troubled(w, w.Invoked, w.Returned) {
			v.Timed++
			due, promise, what := g.due(w, span{0, w.Returned})
			if early := w.Invoked.Sub(due); early > wakeUp {
				v.add(promise, name, w.Returned, []*Op{w}, "it was refused %v after %s", early, what)
			}
			continue
		}
		s := w.waiting(run)
		if s.from == 0 || s.to <= s.from || w.Again {
			continue
		}
		due, promise, what := g.due(w, s)
		if run.troubled(w, due, s.to) {
			continue
		}
		late := s.to.Sub(due)
		v.Timed++
		v.measure("what time let in was not granted", late)
		if late > wakeUp {
			v.add(promise, name, s.to, []*Op{w}, "it was in line for %v after %s", late, what)
		}
	}
}

// gate is what may have kept the requests of a semaphore from being granted, and when.
type gate struct {
	run     *Run
	ops     []*Op
	limit   int
	held    []load // permits
	rate    int    // the largest that was declared
	spent   []load // of that rate
	pauses  []load
	largest time.Duration
	reigns  []reign
}

// load is so much of something for some time. That of a request does not keep itself out.
type load struct {
	span
	of *Op
	by int
}

func (r *Run) newGate(name string, ops []*Op, tolerance time.Duration) *gate {
	g := &gate{run: r, ops: ops, limit: ops[0].Limit, reigns: r.reigns(ops, tolerance)}
	least := history.Never
	for _, is := range declared(ops) {
		g.rate, g.largest, least = max(g.rate, is.n), max(g.largest, is.per), min(least, history.Time(is.n))
	}
	for _, o := range ops {
		if s := r.mayHold(o); s.from != 0 {
			g.held = append(g.held, load{s, o, o.Weight})
		}
		if g.rate > 0 {
			g.spend(o)
		}
	}
	if g.rate > 0 { // where another rate may be in force, there is less of it
		from := history.Time(0)
		for _, x := range append(g.reigns, reign{span: span{history.Never, history.Never}}) {
			g.spent = append(g.spent, load{span{from, x.from}, nil, g.rate - int(least)}, load{x.span, nil, g.rate - x.n})
			from = x.to
		}
	}
	for _, p := range r.Pauses {
		if p.Name == name {
			end := r.over(p.Proc, p.At, p.Until).Add(p.Lasts + time.Millisecond) // the server counts whole ones
			g.pauses = append(g.pauses, load{span{p.At, end}, nil, 1})
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
	over(g.last(g.held, w, g.limit-w.Weight, s.to), "L2", "its permits were free")
	if g.rate > 0 {
		over(g.last(g.spent, w, g.rate-w.costs(), s.to), "R2", "the rate had room for it")
	}
	over(g.last(g.pauses, w, 0, s.to), "L7", "the pause")
	for _, o := range g.ops {
		behind := o.Invoked >= cmp.Or(w.Queued, w.Returned) || w.Held() && o.Held() && o.Token > w.Token // the order is judged by S4
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

// last returns until when, or until its end if that is earlier, there was last more than most; 0:
// never.
func (g *gate) last(loads []load, w *Op, most int, end history.Time) (at history.Time) {
	type edge struct {
		at history.Time
		by int
	}
	var edges []edge
	for _, l := range loads {
		if l.of == nil || l.of != w {
			edges = append(edges, edge{l.from, l.by}, edge{max(l.from, l.to), -l.by})
		}
	}
	slices.SortFunc(edges, func(a, b edge) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.by, b.by)) })
	sum := 0
	for _, e := range edges {
		if e.at >= end {
			break
		}
		if sum > most && sum+e.by <= most {
			at = e.at
		}
		sum += e.by
	}
	if sum > most {
		return end
	}
	return at
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

// spend adds what o may have spent of a rate. Its grants, if nobody heard of them, may have been made
// at any time while it had a place in line.
func (g *gate) spend(o *Op) {
	hidden := g.run.unheard(o)
	if o.Held() {
		g.spent = append(g.spent, load{span{o.Granted, g.leaves(o.Granted)}, o, o.costs()})
	}
	switch {
	case o.Verb == history.Adopt || !hidden:
	case o.Held():
		g.spent = append(g.spent, load{span{o.Invoked, g.leaves(o.Granted)}, o, o.costs()})
	case g.run.gaveUp(o):
		g.spent = append(g.spent, load{span{o.Returned.Add(-history.Late), g.leaves(o.Returned)}, o, o.costs()})
	default:
		end := g.run.ended(o).Add(heartbeat(o))
		g.spent = append(g.spent, load{span{o.Invoked, g.leaves(end)}, o, o.costs()})
	}
}

// leaves returns until when, at the latest, a grant counts that was made at the time at. For a
// hundredth of the window others may be counted with it, which is R2's; then, at any time, it counts
// for one more window of the rate in force.
func (g *gate) leaves(at history.Time) history.Time {
	counted := at.Add(g.largest / 100)
	end := counted.Add(g.largest)
	for _, x := range g.reigns {
		if from := max(x.from, counted); from <= x.to {
			end = min(end, from.Add(x.per))
		}
	}
	return end
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
