package promises

import (
	"cmp"
	"slices"
	"time"

	"github.com/berth-go/berth/dev/verify/history"
)

// afterFault is the time after a fault in which no bound is demanded: the delay before a
// retry grows to a second, and a call may take two.
const afterFault = 4 * time.Second

// span is a stretch of time.
type span struct{ from, to history.Time }

func (s span) overlaps(from, to history.Time) bool { return s.from <= to && from <= s.to }

// troubled reports whether a fault struck o's client, or all clients, between from
// and to or shortly before.
func (r *Run) troubled(o *Op, from, to history.Time) bool {
	return r.struck(from.Add(-afterFault), to, func(f history.Event) bool { return touches(f, o) && f.Text != Killed })
}

// unheard reports whether o may have had a grant of which its client did not learn. A
// request that was refused had one only if it was over by then: the server forgot it;
// it expired before the request was repeated; or a first copy of it, which came after the
// repetition was refused, was granted, and given back by the release that follows a refusal.
// Others may have had one that is missing from the history if their client was suspended
// or cut off meanwhile.
func (r *Run) unheard(o *Op) bool {
	if o.Outcome == history.Busy {
		return o.Again || o.Returned.Sub(o.Invoked) >= o.TTL || r.broken(o.Invoked, o.Returned)
	}
	return !o.Held() || o.Again || r.struck(o.Invoked, o.Returned, func(f history.Event) bool { return f.Target == o.Proc })
}

// possession is the longest time for which the server may have counted o as a
// holder, in the worst case. Its from is 0 if the server surely never did.
func (r *Run) possession(o *Op) span {
	// The last renewal may be executed a third of a TTL late.
	lapse := o.TTL * 4 / 3
	dead := r.killed(o.Proc)
	switch {
	case o.Outcome == history.Busy && r.unheard(o):
		return span{o.Invoked, o.Returned}
	case o.Outcome == history.Busy:
		return span{}
	case r.unheard(o):
		end := r.ended(o)
		if o.Held() {
			end = max(end, r.over(o.Proc, o.Invoked, o.Released.Returned), o.Until)
		}
		return span{o.Invoked, end.Add(lapse)}
	case o.Given != "":
		if next := r.adopter(o); next != nil {
			return span{o.Granted, next.Granted}
		}
		return span{o.Granted, o.Released.Returned.Add(lapse)}
	case o.Released.Outcome == history.OK || o.Released.Outcome == history.Gone:
		return span{o.Granted, o.Released.Returned}
	case o.Dropped != history.Never:
		return span{o.Granted, o.Dropped.Add(lapse)}
	default:
		return span{o.Granted, max(o.Until, min(dead, r.End)).Add(lapse)}
	}
}

// waiting is the time in which o was in line at the server, as far as is known.
func (o *Op) waiting(r *Run) span {
	if o.Queued == 0 {
		return span{}
	}
	end := min(o.Returned, r.killed(o.Proc), r.End)
	if o.Held() {
		end = o.Granted
	}
	return span{o.Queued, end}
}

// handOffs checks L1, or where requests have tenants T6: if a waiter was in line for the whole time of a release, a
// grant was made during the release. This holds however slow the machine is, because
// a token tells when the server made the grant.
func (v *Verdict) handOffs(promise string, ops []*Op, run *Run, rules Rules) {
	tol := rules.Clock.Tolerance
	handed := sorted(fresh(ops), granted)
	var hidden []span // when a grant may have been made that is missing from the history
	for _, o := range ops {
		if o.Verb != history.Adopt && run.unheard(o) {
			hidden = append(hidden, run.possession(o))
		}
	}
	for _, o := range grants(ops) {
		r := o.Released
		if o.Given != "" || slices.ContainsFunc(hidden, func(s span) bool { return s.overlaps(r.Invoked, r.Returned) }) {
			continue
		}
		if r.Outcome != history.OK || r.Returned > run.End || o.Until < r.Invoked.Add(20*time.Millisecond) || run.broken(r.Invoked, r.Returned) {
			continue
		}
		v.HandOffs++
		during := span{r.Invoked.Add(-tol), r.Returned.Add(tol)}
		if slices.ContainsFunc(handed, func(g *Op) bool { return during.overlaps(g.Granted, g.Granted) }) {
			continue
		}
		for _, w := range handed {
			s := w.waiting(run)
			if s.from != 0 && !w.Again && s.from < r.Invoked && s.to > during.to && !run.troubled(w, r.Invoked.Add(-w.TTL), r.Returned) {
				v.add(promise, o.Name, r.Returned, []*Op{o, w}, "a permit was given back, and the first in line had none until %v later", s.to.Sub(r.Returned))
				break
			}
		}
	}
}

// besideFree checks L2 and L3, or where requests have tenants T6: no request waits while a permit is free. What a
// crashed holder or waiter may have counts as taken for as long as it may have it: a
// holder's TTL, a waiter's heartbeat TTL.
func (v *Verdict) besideFree(promise string, ops []*Op, run *Run, rules Rules) {
	var waits []span
	for _, w := range ops {
		if s := w.waiting(run); s.from != 0 && s.to > s.from && !run.troubled(w, s.from.Add(-w.TTL), s.to) {
			waits = append(waits, s)
		}
	}
	waits = join(waits)
	for _, f := range run.free(ops) {
		var sum time.Duration
		for _, w := range waits {
			sum += max(min(w.to, f.to, run.End).Sub(max(w.from, f.from)), 0)
		}
		v.Free += f.to.Sub(f.from)
		v.measure("somebody stood beside a free permit", sum)
		if sum > rules.Slack {
			v.add(promise, ops[0].Name, f.to, nil, "within %v in which a permit was free, somebody was in line for %v", f.to.Sub(f.from), sum)
		}
	}
}

// free returns the times in which a permit was surely free.
func (r *Run) free(ops []*Op) []span {
	type edge struct {
		at history.Time
		by int
	}
	edges := []edge{{r.End, 0}}
	for _, o := range ops {
		if s := r.possession(o); s.from != 0 {
			edges = append(edges, edge{s.from, 1}, edge{max(s.from, s.to), -1})
		}
	}
	slices.SortFunc(edges, func(a, b edge) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.by, b.by)) })
	var free []span
	taken, limit, since := 0, ops[0].Limit, ops[0].Invoked
	for _, e := range edges {
		if taken < limit && e.at > since {
			free = append(free, span{since, e.at})
		}
		taken, since = taken+e.by, e.at
	}
	return join(free)
}

// join merges spans that touch.
func join(spans []span) []span {
	slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	var all []span
	for _, s := range spans {
		if n := len(all); n > 0 && all[n-1].to >= s.from {
			all[n-1].to = max(all[n-1].to, s.to)
		} else {
			all = append(all, s)
		}
	}
	return all
}

// refusals checks L2 on a semaphore without waiters, where nothing but permits is scarce: a request is not refused if,
// even in the worst case, there was room for it during all of the request.
func (v *Verdict) refusals(ops []*Op, run *Run) {
	held := map[*Op]span{}
	for _, o := range ops {
		if o.Verb == history.Acquire {
			return
		}
		if s := run.possession(o); s.from != 0 {
			held[o] = s
		}
	}
	for _, o := range ops {
		// A tombstone may be forgotten, too. Then a late copy of a request is granted,
		// and its permits are out for a TTL although no client has them.
		// After the end clients leave, and do not tell what their requests, which may yet be
		// granted, have come to.
		if o.Outcome != history.Busy || o.Returned > run.End || run.broken(o.Invoked.Add(-2*o.TTL), o.Returned) {
			continue
		}
		sum := 0
		for h, s := range held {
			if s.overlaps(o.Invoked, o.Returned) {
				sum += h.Weight
			}
		}
		if sum+o.Weight <= o.Limit {
			v.add("L2", o.Name, o.Returned, []*Op{o}, "refused (%d permits in use) when at most %d of %d could be", o.Used, sum, o.Limit)
		}
	}
}

// crashes measures for how long the slot of a killed holder was missing: until its
// next grant.
func (v *Verdict) crashes(ops []*Op, run *Run) {
	leases := grants(ops)
	for _, o := range leases {
		dead := run.killed(o.Proc)
		if dead == history.Never || o.Released.Invoked != history.Never || o.Granted > dead || o.Until < dead {
			continue
		}
		next := history.Never
		for _, g := range leases {
			if g.Slot == o.Slot && g.Granted > o.Granted {
				next = min(next, g.Granted)
			}
		}
		anybody := &Op{Event: history.Event{Proc: -1, Name: o.Name}}
		if next != history.Never && !run.troubled(anybody, dead, next) {
			v.measure("a killed holder's slot was missing", next.Sub(dead))
		}
	}
}

// heard checks L4: a waiter learns of its grant at once, or within a heartbeat
// interval if the message was lost.
func (v *Verdict) heard(what string, ops []*Op, run *Run, rules Rules) {
	for _, o := range grants(ops) {
		if o.Queued == 0 || o.Returned > run.End || run.broken(o.Invoked, o.Returned) || run.troubled(o, o.Granted.Add(-o.TTL), o.Returned) {
			continue
		}
		took := o.Returned.Sub(o.Granted)
		v.measure(what, took)
		if took > min(o.TTL, 10*time.Second)/3+rules.Slack/2 {
			v.add("L4", o.Name, o.Returned, []*Op{o}, "it heard of its grant after %v", took)
		}
	}
}
