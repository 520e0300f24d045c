package promises

import (
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
