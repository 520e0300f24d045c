package judge

import (
	"cmp"
	"slices"
	"time"

	"github.com/berth-go/berth/verify/history"
)

// tokens checks S2: tokens are distinct, exactly representable, and larger than every
// token that was known when the request was made. Where the server's clock is the
// machine's, a token is also a time between the request and its return.
//
// An idle semaphore has no keys, so its tokens may go back when the server's clock
// does. Between such steps they may not.
func (v *Verdict) tokens(name string, ops []*Op, run *Run, rules Rules) {
	for _, granted := range run.periods(grants(ops), func(w Window) bool { return w.Steps }) {
		v.increase(name, granted, rules)
	}
}

func (v *Verdict) increase(name string, granted []*Op, rules Rules) {
	slices.SortFunc(granted, func(a, b *Op) int { return cmp.Compare(a.Invoked, b.Invoked) })
	byReturn := slices.Clone(granted)
	slices.SortFunc(byReturn, func(a, b *Op) int { return cmp.Compare(a.Returned, b.Returned) })
	seen := map[int64]*Op{}
	var highest *Op
	next := 0
	for _, o := range granted {
		for ; next < len(byReturn) && byReturn[next].Returned < o.Invoked; next++ {
			if highest == nil || byReturn[next].Token > highest.Token {
				highest = byReturn[next]
			}
		}
		if highest != nil && o.Token <= highest.Token {
			v.add("S2", name, o.Invoked, []*Op{highest, o}, "token %d was granted after token %d was known", o.Token, highest.Token)
		}
		if twin := seen[o.Token]; twin != nil {
			v.add("S2", name, o.Returned, []*Op{twin, o}, "token %d was granted twice", o.Token)
		}
		seen[o.Token] = o
		if o.Token < 1 || o.Token >= 1<<53 {
			v.add("S2", name, o.Returned, []*Op{o}, "token %d is out of bounds", o.Token)
		}
		if tol := rules.Clock.Tolerance; rules.Clock.Known && (o.Granted.Add(tol) < o.Invoked || o.Granted.Add(-tol) > o.Returned) {
			v.add("S2", name, o.Returned, []*Op{o}, "token %d is not of the time between request and grant (off by %v)",
				o.Token, o.Granted.Sub(o.Invoked))
		}
	}
}

func grants(ops []*Op) []*Op {
	var all []*Op
	for _, o := range ops {
		if o.Held() {
			all = append(all, o)
		}
	}
	return all
}

// limits checks S1, S3 and S7: of leases that no fault can have made the server
// forget, those believed in at the same time have weights within the limit and
// different slots. A belief begins when the holder knows of its grant (S1, S7), or,
// more strictly, when the server makes it (S3: the trust deadline of an older holder
// has passed by then).
func (v *Verdict) limits(name string, ops []*Op, run *Run, rules Rules) {
	for _, period := range run.periods(grants(ops), func(w Window) bool { return w.Breaks }) {
		v.sweep("S1", name, period, func(o *Op) history.Time { return o.Returned })
		if rules.Clock.Known {
			v.sweep("S3", name, period, func(o *Op) history.Time { return o.Granted.Add(rules.Clock.Tolerance) })
		}
	}
}

// periods groups leases by the chosen windows between which they were granted. It
// leaves out those that may have been granted within one.
func (r *Run) periods(leases []*Op, splits func(Window) bool) [][]*Op {
	periods := map[int][]*Op{}
	for _, o := range leases {
		period, sure := 0, true
		for _, w := range r.Windows {
			from, to := o.Granted, o.Granted
			if from == 0 {
				from, to = o.Invoked, o.Returned
			}
			switch {
			case !splits(w) || to < w.From:
			case from > w.To:
				period++
			default:
				sure = false
			}
		}
		if sure {
			periods[period] = append(periods[period], o)
		}
	}
	var all [][]*Op
	for _, p := range periods {
		all = append(all, p)
	}
	return all
}

// sweep checks the weights and slots in force at each time that a belief begins.
func (v *Verdict) sweep(promise, name string, leases []*Op, start func(*Op) history.Time) {
	leases = slices.Clone(leases)
	slices.SortFunc(leases, func(a, b *Op) int { return cmp.Compare(start(a), start(b)) })
	var live []*Op
	for _, o := range leases {
		at := start(o)
		if o.End() <= at {
			continue
		}
		live = slices.DeleteFunc(live, func(l *Op) bool { return l.End() <= at })
		sum := o.Weight
		for _, l := range live {
			sum += l.Weight
			if l.Slot == o.Slot {
				v.add("S7", name, at, []*Op{l, o}, "slot %d has two holders for %v", o.Slot, min(l.End(), o.End()).Sub(at))
			}
		}
		live = append(live, o)
		if sum > o.Limit {
			v.add(promise, name, at, slices.Clone(live), "%d permits are believed in at once, the limit is %d", sum, o.Limit)
		}
	}
}

// order checks S4: a request that was made after a waiter knew of its place in line
// is not granted before that waiter. A waiter that had to queue again is exempt.
func (v *Verdict) order(name string, ops []*Op, run *Run) {
	granted := slices.DeleteFunc(grants(ops), func(o *Op) bool { return o.Verb == history.Adopt })
	slices.SortFunc(granted, func(a, b *Op) int { return cmp.Compare(a.Invoked, b.Invoked) })
	for _, w := range granted {
		if w.Queued == 0 || w.Again || run.unqueued(w) {
			continue
		}
		i, _ := slices.BinarySearchFunc(granted, w.Queued+1, func(o *Op, t history.Time) int { return cmp.Compare(o.Invoked, t) })
		first := w
		for _, o := range granted[i:] {
			// A request that was made after w returned did not overtake it: its token may
			// be lower because the clock was stepped back.
			if o.Invoked >= w.Returned {
				break
			}
			if o.Token < first.Token {
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
// had to queue again.
func (r *Run) unqueued(o *Op) bool {
	return slices.ContainsFunc(r.Windows, func(w Window) bool {
		return (w.Breaks || w.Queues) && w.touches(o) && span{w.From, w.To}.overlaps(o.Queued, o.Returned)
	})
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
		for _, w := range run.Windows {
			if !w.Surely || o.Granted == 0 || o.Granted > w.From {
				continue
			}
			if over := o.End().Sub(w.To.Add(o.TTL)); over > 0 {
				v.add("S6", name, w.From, []*Op{o}, "trusted for %v longer than a TTL after it was forgotten (%s)", over, w.What)
			}
			v.toldSoon(name, o, w, run, rules)
		}
	}
}

// lengthened reports whether the server's clock was stepped back during o's request.
// A grant that is read again after that lasts longer than its TTL, on the server too.
func (r *Run) lengthened(o *Op) bool {
	return slices.ContainsFunc(r.Windows, func(w Window) bool {
		return w.Steps && !w.Breaks && span{w.From, w.To}.overlaps(o.Invoked, o.Returned)
	})
}

func (v *Verdict) toldSoon(name string, o *Op, w Window, run *Run, rules Rules) {
	end := min(o.End(), o.Lost, o.Dropped, run.killed(o.Proc))
	if end <= w.To || o.Returned > w.To || o.Dropped != history.Never {
		return // a Drop is of a lease that nobody renews
	}
	v.measure("a forgotten lease was believed in", end.Sub(w.To))
	quiet := !slices.ContainsFunc(run.Windows, func(x Window) bool {
		return x != w && (x.Proc == 0 || x.Proc == o.Proc) && span{x.From, x.To.Add(settle)}.overlaps(w.From, end)
	})
	// If the server was away for longer, holders can be told only after its return.
	if quiet && w.To.Sub(w.From) < settle/40 && end.Sub(w.To) > o.TTL/3+rules.Slack/4 {
		v.add("S6", name, w.From, []*Op{o}, "its holder was told only %v after it was forgotten (%s)", end.Sub(w.To), w.What)
	}
}
