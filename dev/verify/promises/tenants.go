package promises

import "github.com/berth-go/berth/dev/verify/history"

// manyTurns is how many requests of one tenant, asked for since the first of another was in line, may
// be granted before that. Where lines take turns it is one or two, and more where many new tenants have
// come at once: the hundredth stands about five turns behind the first.
const manyTurns = 10

// tenants checks T1 and T3. A request that was made after a waiter knew of its place is not granted
// before it if both are for the same tenant, or for none (T1). And of no other tenant many such
// requests are, if the waiter is the first in its line (T3).
func (v *Verdict) tenants(name string, ops []*Op, run *Run, rules Rules) {
	leases := fresh(ops)
	for _, w := range leases {
		if w.Queued == 0 || w.Again || run.unqueued(w) {
			continue
		}
		passed := map[string][]*Op{}
		for _, o := range leases {
			if o.Invoked <= w.Queued || o.Invoked >= w.Returned {
				continue
			}
			v.Tenants++
			if o.Token < w.Token {
				passed[o.Tenant] = append(passed[o.Tenant], o)
			}
		}
		for tenant, by := range passed {
			switch {
			case tenant == w.Tenant:
				v.add("T1", name, by[0].Returned, []*Op{w, by[0]}, "granted before a request of tenant %q that was in line for %v when it asked", w.Tenant, by[0].Invoked.Sub(w.Queued))
			case len(by) >= manyTurns && run.leads(w, ops, rules):
				v.add("T3", name, by[len(by)-1].Returned, append([]*Op{w}, by...), "of tenant %q %d requests were granted before one of tenant %q that was in line when they asked", tenant, len(by), w.Tenant)
			}
		}
	}
}

// leads reports whether w was surely the first in the line of its tenant when it came.
func (r *Run) leads(w *Op, ops []*Op, rules Rules) bool {
	for _, o := range ops {
		if o != w && o.Tenant == w.Tenant && o.Invoked < w.Queued && r.left(o, rules) > w.Invoked {
			return false
		}
	}
	return true
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
