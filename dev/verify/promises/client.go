package promises

import (
	"time"

	"github.com/berth-go/berth/dev/verify/history"
	"github.com/berth-go/berth/internal/protocol"
)

// turns checks S4 among the users of a client: one that asks when another has waited for a while
// is not granted before it. How long that is, a busy machine decides: a request may be made a
// little later than its client says so.
func (v *Verdict) turns(ops []*Op, run *Run) {
	for i, w := range ops {
		if !w.Held() || run.displaced(w) {
			continue
		}
		for _, o := range ops[i+1:] {
			if !o.Held() || o.Invoked < w.Invoked.Add(history.Late) || o.Invoked > w.Returned {
				continue
			}
			if v.Turns++; o.Token < w.Token {
				v.add("S4", w.Name, o.Returned, []*Op{w, o}, "granted before a request of its client that came %v earlier", o.Invoked.Sub(w.Invoked))
			}
		}
	}
}

// displaced reports whether the server may have forgotten o's place, or its client may not have
// come to ask for it. If the client was not heard of for a heartbeat TTL, its place has ended, or so
// has a grant that it never heard of.
func (r *Run) displaced(o *Op) bool {
	long := o.Returned.Sub(o.Invoked) >= heartbeat(o)
	return r.struck(o.Invoked, o.Returned, func(f history.Event) bool {
		return touches(f, o) && (long || f.Breaks || f.Queues || f.Text == history.StoodStill || f.Text == Suspended)
	})
}

// How many answers a request on a slow link waits for at most, and how many more the first of its
// client does: those of its handshake.
const (
	mostAnswers  = 5
	firstAnswers = 3
)

// served checks L6: where there is room, a request whose answers are only late is granted, or
// ends in another way, within a few answers. How late an answer is, plain commands of the same
// client show: on a busy machine it is later than the link makes it.
func (v *Verdict) served(ops []*Op, run *Run, rules Rules) {
	connected := map[int]bool{}
	for _, o := range ops {
		answers := mostAnswers
		if !connected[o.Proc] {
			connected[o.Proc], answers = true, mostAnswers+firstAnswers
		}
		end := min(o.Returned, run.killed(o.Proc), run.End)
		bound := time.Duration(answers)*max(rules.Late, run.slowest(o, end)) + rules.Slack
		from := o.Invoked
		overdue := func(to history.Time) bool { return min(to, end).Sub(from) > bound }
		late := false
		for _, f := range run.Faults { // in the order of their beginnings, as events are
			if touches(f, o) && calmAfter(f) > o.Invoked {
				late = late || overdue(f.At)
				from = max(from, calmAfter(f))
			}
		}
		if late = late || overdue(end); late {
			v.add("L6", o.Name, end, []*Op{o}, "it was not served for %v, although it was only late to hear of it", end.Sub(o.Invoked).Round(time.Millisecond))
		}
		v.Served++
	}
}

// calmAfter returns when requests are judged again after a fault. A server that may have forgotten
// only one of a semaphore's two keys refuses all until what the other tells of has ended.
func calmAfter(f history.Event) history.Time {
	if f.Breaks && !f.Surely && !f.Steps {
		return f.Until.Add(protocol.Late + afterFault)
	}
	return f.Until.Add(afterFault)
}

// slowest returns how long the slowest plain command of o's process took for each of its answers,
// of those that were under way before end. Only the times in which o is judged count: not those of
// faults, nor what follows.
func (r *Run) slowest(o *Op, end history.Time) (took time.Duration) {
	var spared []span
	for _, f := range r.Faults {
		if touches(f, o) {
			spared = append(spared, span{f.At, calmAfter(f)})
		}
	}
	spared = join(spared)
	for _, p := range r.Pings {
		if p.Proc != o.Proc || p.Until <= o.Invoked || p.At >= end {
			continue
		}
		if p.Until == history.Never { // its process was killed meanwhile
			p.Until = end
		}
		by := p.Until.Sub(p.At)
		for _, s := range spared {
			by -= max(min(s.to, p.Until).Sub(max(s.from, p.At)), 0)
		}
		took = max(took, by/time.Duration(p.Answers))
	}
	return took
}
