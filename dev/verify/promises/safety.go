package promises

import (
	"cmp"
	"slices"
	"time"

	"github.com/berth-go/berth/dev/verify/history"
	"github.com/berth-go/berth/internal/judge"
)

// seen returns leases as package judge sees them, believed in from start on.
func seen(leases []*Op, start func(*Op) history.Time) []judge.Request {
	requests := make([]judge.Request, len(leases))
	for i, o := range leases {
		requests[i] = judge.Request{
			Client: o.Proc, Asked: time.Duration(o.Invoked), Answered: time.Duration(o.Queued), Granted: true,
			Start: time.Duration(start(o)), End: time.Duration(o.End()), Weight: o.Weight, Slot: o.Slot, Token: o.Token,
		}
	}
	return requests
}

// tokens checks S2: tokens are distinct, exactly representable, and larger than every
// token that was known when the request was made. Where the server's clock is the
// machine's, a token is also a time between the request and its return.
//
// An idle semaphore has no keys, so its tokens may go back when the server's clock
// does. Between such steps they may not.
func (v *Verdict) tokens(name string, ops []*Op, run *Run, rules Rules) {
	for _, leases := range run.periods(grants(ops), steps) {
		for _, p := range judge.Tokens(seen(leases, returned)) {
			known, o := leases[p.First], leases[p.Second]
			v.add("S2", name, o.Invoked, []*Op{known, o}, "token %d was granted after or beside token %d", o.Token, known.Token)
		}
		for _, o := range leases {
			if o.Token < 1 || o.Token >= 1<<53 {
				v.add("S2", name, o.Returned, []*Op{o}, "token %d is out of bounds", o.Token)
			}
			if tol := rules.Clock.Tolerance; rules.Clock.Known && (o.Granted.Add(tol) < o.Invoked || o.Granted.Add(-tol) > o.Returned) {
				v.add("S2", name, o.Returned, []*Op{o}, "token %d is not of the time between request and grant (off by %v)",
					o.Token, o.Granted.Sub(o.Invoked))
			}
		}
	}
}

// limits checks S1, S3 and S7: of leases that no fault can have made the server
// forget, those believed in at the same time have weights within the limit and
// different slots. A belief begins when the holder knows of its grant (S1, S7), or,
// more strictly, when the server makes it (S3: the trust deadline of an older holder
// has passed by then).
func (v *Verdict) limits(name string, ops []*Op, run *Run, rules Rules) {
	for _, period := range run.periods(grants(ops), breaks) {
		v.kept("S1", name, period, returned)
		if rules.Clock.Known {
			v.kept("S3", name, period, func(o *Op) history.Time { return o.Granted.Add(rules.Clock.Tolerance) })
		}
	}
}

// periods groups leases by the chosen faults between which they were granted. It
// leaves out those that may have been granted within one.
func (r *Run) periods(leases []*Op, choose func(history.Event) bool) map[int][]*Op {
	periods := map[int][]*Op{}
	for _, o := range leases {
		period, sure := 0, true
		for _, f := range r.Faults {
			from, to := o.Granted, o.Granted
			if from == 0 {
				from, to = o.Invoked, o.Returned
			}
			switch {
			case !choose(f) || to < f.At:
			case from > f.Until:
				period++
			default:
				sure = false
			}
		}
		if sure {
			periods[period] = append(periods[period], o)
		}
	}
	return periods
}

// kept checks that leases which are believed in from start on keep the limit, and S7.
func (v *Verdict) kept(promise, name string, leases []*Op, start func(*Op) history.Time) {
	requests, limit := seen(leases, start), leases[0].Limit
	for i := range requests {
		requests[i].Token = 0 // that of an idle semaphore may go back
	}
	for _, m := range judge.Limit(requests, limit).Moments {
		var live []*Op
		for i, r := range requests {
			if r.Start <= m.From && m.From < r.End {
				live = append(live, leases[i])
			}
		}
		v.add(promise, name, history.Time(m.From), live, "%d permits are believed in at once, within %v, the limit is %d", limit+m.By, m.Length(), limit)
	}
	for _, p := range judge.Slots(requests) {
		l, o := leases[p.First], leases[p.Second]
		v.add("S7", name, start(o), []*Op{l, o}, "slot %d has two holders for %v", o.Slot, min(l.End(), o.End()).Sub(start(o)))
	}
}

// order checks S4: a request that was made after a waiter knew of its place in line
// is not granted before that waiter. A waiter that had to queue again is exempt.
func (v *Verdict) order(name string, ops []*Op, run *Run) {
	leases := fresh(ops)
	requests := seen(leases, returned)
	for i, w := range leases {
		if w.Queued == 0 || w.Again || run.unqueued(w) {
			continue
		}
		first := w
		for j, o := range leases {
			// A request that was made after w returned did not overtake it: its token may
			// be lower because the clock was stepped back.
			if o.Invoked < w.Returned && o.Token < first.Token && requests[j].Overtook(requests[i]) {
				first = o
			}
		}
		if first != w {
			v.add("S4", name, first.Returned, []*Op{w, first}, "granted %v before a waiter that was in line for %v when it asked",
				time.Duration(w.Token-first.Token)*time.Microsecond, first.Invoked.Sub(w.Queued))
		}
	}
}

// unqueued reports whether the server may have forgotten o's place in line, so that o
// had to queue again. It may have done so before the answer came that tells of the place.
func (r *Run) unqueued(o *Op) bool {
	return r.struck(o.Invoked, o.Returned, func(f history.Event) bool { return (f.Breaks || f.Queues) && touches(f, o) })
}

// told checks S6 where the server surely forgot leases. No renewal brings one back,
// so it is not trusted for longer than a TTL from then, and its holder learns of the
// loss by the next renewal, within a third of a TTL. A holder that was told does not
// trust the lease again.
func (v *Verdict) told(name string, ops []*Op, run *Run, rules Rules) {
	for _, o := range grants(ops) {
		if o.Lost != history.Never && o.Until > o.Lost.Add(o.TTL) && !run.lengthened(o) {
			v.add("S6", name, o.Lost, []*Op{o}, "a lost lease was trusted again")
		}
		for _, f := range run.Faults {
			if !f.Surely || o.Granted == 0 || o.Granted > f.At {
				continue
			}
			if over := o.End().Sub(f.Until.Add(o.TTL)); over > 0 {
				v.add("S6", name, f.At, []*Op{o}, "trusted for %v longer than a TTL after it was forgotten (%s)", over, f.Text)
			}
			v.toldSoon(name, o, f, run, rules)
		}
	}
}

// lengthened reports whether the server's clock was stepped back during o's request.
// A grant that is read again after that lasts longer than its TTL, on the server too.
func (r *Run) lengthened(o *Op) bool {
	return r.struck(o.Invoked, o.Returned, func(f history.Event) bool { return f.Steps && !f.Breaks })
}

func (v *Verdict) toldSoon(name string, o *Op, f history.Event, run *Run, rules Rules) {
	end := min(o.End(), o.Lost, o.Dropped, run.killed(o.Proc))
	if end <= f.Until || o.Returned > f.Until || o.Dropped != history.Never {
		return // a Drop is of a lease that nobody renews
	}
	late := end.Sub(f.Until)
	v.measure("a forgotten lease was believed in", late)
	disturbed := run.struck(f.At.Add(-afterFault), end, func(x history.Event) bool { return x != f && (x.Target == 0 || x.Target == o.Proc) })
	// If the server was away for longer, holders can be told only after its return.
	if !disturbed && f.Until.Sub(f.At) < afterFault/40 && late > o.TTL/3+rules.Slack/4 {
		v.add("S6", name, f.At, []*Op{o}, "its holder was told only %v after it was forgotten (%s)", late, f.Text)
	}
}

// ended checks S6 the other way round: a holder is not told of a loss that did not
// happen. In these runs only its holder ends a lease, so a report of a loss before
// the trust deadline is wrong, unless the server may have forgotten the lease or the
// outcome of a Detach is unknown.
func (v *Verdict) ended(name string, ops []*Op, run *Run) {
	for _, o := range grants(ops) {
		if d := o.Released; d.Verb == history.Detach && d.Invoked < o.Lost && d.Outcome == history.Unknown {
			continue
		}
		if early := o.Until.Sub(o.Lost); o.Lost != history.Never && early > time.Millisecond && !run.broken(o.Invoked, o.Lost) {
			v.add("S6", name, o.Lost, []*Op{o}, "its holder was told of a loss %v before its trust deadline", early)
		}
	}
}

// handles checks S5 for leases that were given away. A handle may be delivered
// twice, but only one client adopts its lease; and a client that is told that
// another one was first had such a rival.
func (v *Verdict) handles(name string, ops []*Op, run *Run) {
	for _, o := range ops {
		all := run.Adopted[o.Handle]
		switch {
		case o.Verb != history.Adopt:
		case o.Held():
			v.Adopted++
			// The server may have forgotten an earlier adoption.
			before := func(a *Op) bool {
				return a.Held() && cmp.Or(cmp.Compare(a.Token, o.Token), cmp.Compare(a.Invoked, o.Invoked)) < 0 && !run.broken(a.Invoked, o.Returned)
			}
			if i := slices.IndexFunc(all, before); i >= 0 {
				v.add("S5", name, o.Returned, []*Op{all[i], o}, "a lease was adopted twice, %v apart", o.Returned.Sub(all[i].Returned))
			}
		case o.Outcome == history.Taken:
			v.TooLate++
			// A client that was told of a loss may have adopted the lease with a request
			// whose answer came only after the lease had expired.
			rival := func(a *Op) bool {
				return a != o && a.Invoked < o.Returned && (a.Held() || a.Outcome == history.Unknown || a.Outcome == history.Gone)
			}
			if !slices.ContainsFunc(all, rival) {
				v.add("S5", name, o.Returned, []*Op{o}, "told that somebody else has adopted a lease, but nobody has")
			}
		}
	}
}
