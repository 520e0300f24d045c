package promises

import (
	"slices"
	"time"

	"github.com/berth-go/berth/dev/verify/history"
)

// tenants checks T1 and T2. A request that was made after a waiter knew of its place is not granted
// before it if both are for the same tenant, or for none (T1); nor, whosever they are, if it came
// after the waiter's turn (T2). The server's clock tells turns, so T2 needs it to be this machine's.
func (v *Verdict) tenants(name string, ops []*Op, run *Run, rules Rules) {
	leases, begins := fresh(ops), queues(ops, run, rules)
	for _, w := range leases {
		if w.Queued == 0 || w.Again || run.unqueued(w) {
			continue
		}
		turn := latestTurn(w, ops, begins)
		for _, o := range leases {
			if o.Invoked <= w.Queued || o.Invoked >= w.Returned {
				continue
			}
			same, late := o.Tenant == w.Tenant, rules.Clock.Known && o.Invoked > turn
			if same || late {
				v.Tenants++
			}
			switch {
			case o.Token >= w.Token:
			case same:
				v.add("T1", name, o.Returned, []*Op{w, o}, "granted before a request of tenant %q that was in line for %v when it asked", w.Tenant, o.Invoked.Sub(w.Queued))
			case late:
				v.add("T2", name, o.Returned, []*Op{w, o}, "granted before a request of tenant %q whose turn had come %v before it asked", w.Tenant, o.Invoked.Sub(turn))
			}
		}
	}
}

// latestTurn is when the turn of w came at the latest: as many paces behind its arrival as there
// were requests of its tenant before it since the queue was empty.
func latestTurn(w *Op, ops []*Op, begins []history.Time) history.Time {
	if w.Tenant == "" {
		return w.Queued
	}
	at, _ := slices.BinarySearch(begins, w.Invoked+1)
	since := begins[max(at-1, 0)]
	steps := 0
	for _, o := range ops {
		if o != w && o.Tenant == w.Tenant && o.Invoked >= since && o.Invoked < w.Queued {
			if steps++; o.Again || !o.Held() { // it may have had two places
				steps++
			}
		}
	}
	return w.Queued.Add(time.Duration(steps)*w.Pace + time.Duration(steps)*w.Pace/100) // clocks differ
}

// queues returns when requests came to a queue that was surely empty, in order.
func queues(ops []*Op, run *Run, rules Rules) (begins []history.Time) {
	var end history.Time
	for _, o := range sorted(ops, func(o *Op) history.Time { return o.Invoked }) {
		if len(begins) == 0 || o.Invoked > end {
			begins = append(begins, o.Invoked)
		}
		end = max(end, run.left(o, rules))
	}
	return begins
}

// left returns when o was out of the queue at the latest. A waiter that is not heard of any more
// keeps its place for a TTL.
func (r *Run) left(o *Op, rules Rules) history.Time {
	left := min(o.Returned, r.killed(o.Proc))
	if left == history.Never || o.Held() && !o.Again {
		return left
	}
	return left.Add(o.TTL + rules.Slack)
}
