package promises

import (
	"cmp"
	"maps"
	"slices"

	"github.com/berth-go/berth/dev/verify/history"
)

// lined reports whether some requests are for tenants.
func lined(ops []*Op) bool {
	return slices.ContainsFunc(ops, func(o *Op) bool { return o.Tenant != "" })
}

// tenants checks T1, T3 and T6 by the requests that were made when a waiter knew of its place, and granted
// before it. None of them is of its line (T1). If the waiter is the first in its line, a few are of any
// other (T3), and not many of new ones (T6).
func (v *Verdict) tenants(name string, ops []*Op, run *Run, rules Rules) {
	leases, first := fresh(ops), map[string]history.Time{}
	for _, o := range ops {
		first[o.Tenant] = min(cmp.Or(first[o.Tenant], history.Never), o.Invoked)
	}
	for _, w := range leases {
		if w.Queued == 0 || w.Again || run.unqueued(w) {
			continue
		}
		passed, newcomers := map[string][]*Op{}, []*Op{w}
		for _, o := range leases {
			if o.Invoked <= w.Queued || o.Invoked >= w.Returned {
				continue
			}
			v.Tenants++
			if o.Token < w.Token {
				passed[o.Tenant] = append(passed[o.Tenant], o)
			}
		}
		most := 0
		for tenant, by := range passed {
			most = max(most, len(by))
			if first[tenant] > w.Queued {
				newcomers = append(newcomers, by[0])
			}
			if tenant == w.Tenant {
				v.add("T1", name, by[0].Returned, []*Op{w, by[0]}, "granted before a request of tenant %q that was in line for %v when it asked", w.Tenant, by[0].Invoked.Sub(w.Queued))
			}
		}
		if most < aheadOf || len(passed[w.Tenant]) > 0 {
			if len(newcomers) < aheadOf {
				continue
			}
		}
		v.turn(w, passed, newcomers, run.lines(w, ops, rules))
	}
}

// aheadOf is how many requests of another tenant are granted before the first of a line if they came
// later, at the least, for that to be wrong.
const aheadOf = 3

// turn checks T3 and T6 of a waiter. Where lines take turns, two requests of another one may come before
// it; where it is new, as many more as the turns that new ones spread over: the second stands half a
// turn behind the first, the next a third behind that, and so on. A new one that comes later stands
// between them, and each moves the next on by its part of a turn.
func (v *Verdict) turn(w *Op, passed map[string][]*Op, newcomers []*Op, is lines) {
	if is.leads {
		turns := 1.0
		for n := range is.before {
			turns += 1 / float64(n+1)
		}
		for tenant, by := range passed {
			if tenant != w.Tenant && len(by) >= aheadOf-1+int(turns) {
				v.add("T3", w.Name, by[len(by)-1].Returned, append([]*Op{w}, by...), "of tenant %q %d requests were granted before one of tenant %q that was in line when they asked", tenant, len(by), w.Tenant)
			}
		}
		if n := len(newcomers) - 1; float64(n) > turns*float64(is.most+1)+1 {
			v.add("T6", w.Name, newcomers[n].Returned, newcomers, "requests of %d new tenants were granted before one of tenant %q that was in line when the first of them asked", n, w.Tenant)
		}
	}
}

// lines are those that a waiter found when it came.
type lines struct {
	leads  bool // it was surely the first in its own
	before int  // others that may have stood in the queue, or left it without a grant
	most   int  // how many requests may have waited at a time until it was granted
}

func (r *Run) lines(w *Op, ops []*Op, rules Rules) lines {
	type edge struct {
		at history.Time
		by int
	}
	is, others, edges, most := lines{leads: true}, map[string]bool{}, []edge(nil), 0
	for _, o := range ops {
		left := r.left(o, rules)
		if o.Tenant == w.Tenant {
			is.leads = is.leads && (o == w || o.Invoked >= w.Queued || left <= w.Invoked)
		} else if o.Invoked < w.Queued && (left > w.Invoked || !o.Held()) {
			others[o.Tenant] = true
		}
		if o.Invoked < w.Returned && left > w.Invoked {
			edges = append(edges, edge{o.Invoked, 1}, edge{left, -1})
		}
	}
	slices.SortFunc(edges, func(a, b edge) int { return cmp.Compare(a.at, b.at) })
	for _, e := range edges {
		most += e.by
		is.most = max(is.most, most)
	}
	is.before = len(others)
	return is
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

// mostAhead is by how many requests one of two tenants that wait may be ahead of the other: by twice the
// largest of each.
const mostAhead = 4

// shares checks T2: as soon as each of two tenants that both wait has been granted something, they are
// granted as much, but for a few requests. All have the same size. A new tenant may stand further behind
// before.
func (v *Verdict) shares(ops []*Op, run *Run) {
	waits, granted := map[string][]span{}, map[string][]*Op{}
	var hidden []span
	for _, o := range ops {
		if run.unheard(o) || run.unqueued(o) {
			hidden = append(hidden, span{o.Invoked, run.ended(o).Add(heartbeat(o))})
		} else if s := o.waiting(run); o.Held() && s.from != 0 && s.to > s.from {
			waits[o.Tenant] = append(waits[o.Tenant], s)
		}
	}
	for _, o := range sorted(fresh(ops), func(o *Op) history.Time { return o.Granted }) {
		granted[o.Tenant] = append(granted[o.Tenant], o)
	}
	names := slices.Sorted(maps.Keys(waits))
	for i, a := range names {
		for _, b := range names[:i] {
			for _, x := range join(waits[a]) {
				for _, y := range join(waits[b]) {
					both := span{max(x.from, y.from), min(x.to, y.to)}
					if both.from < both.to && !slices.ContainsFunc(hidden, func(s span) bool { return s.overlaps(both.from, both.to) }) {
						v.share(within(granted[a], both), within(granted[b], both))
					}
				}
			}
		}
	}
}

// within returns the requests that were granted in a time.
func within(all []*Op, s span) []*Op {
	return slices.DeleteFunc(slices.Clone(all), func(o *Op) bool { return o.Granted <= s.from || o.Granted >= s.to })
}

// share compares what two tenants were granted since both were.
func (v *Verdict) share(a, b []*Op) {
	if len(a) == 0 || len(b) == 0 {
		return
	}
	v.Shares++
	since := max(a[0].Granted, b[0].Granted)
	after := func(o *Op) bool { return o.Granted <= since }
	a, b = slices.DeleteFunc(a, after), slices.DeleteFunc(b, after)
	if ahead := len(a) - len(b); max(ahead, -ahead) > mostAhead {
		all := slices.Concat(a, b)
		v.add("T2", all[0].Name, all[len(all)-1].Returned, all, "while two tenants waited, one was granted %d and the other %d", len(a), len(b))
	}
}
