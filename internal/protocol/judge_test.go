package protocol

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// A judge knows the promises and nothing of the model: it looks only at what is
// stored before and after a step.

// stored is a lease or a waiter as a dump shows it.
type stored struct {
	id                   string
	weight, slot         int
	token, ceiling       int64
	deadline, queueScore float64
	ticket               int64
	tenant               string
}

func holdersOf(d dump) (out []stored) {
	for id, record := range d.fields {
		p := stored{id: id, deadline: d.scores[id]}
		if kind, rest, _ := strings.Cut(record, " "); kind == "h" || kind == "e" {
			_, _ = fmt.Sscanf(rest, "%d %d %d %d", &p.weight, &p.slot, &p.token, &p.ceiling)
			out = append(out, p)
		}
	}
	slices.SortFunc(out, func(a, b stored) int { return cmp.Compare(a.token, b.token) })
	return out
}

func waitersOf(d dump) (out []stored) {
	for id, record := range d.fields {
		if rest, ok := strings.CutPrefix(record, "w "); ok {
			words := strings.SplitN(rest, " ", 7)
			p := stored{id: id, queueScore: d.scores["#"+id]}
			_, _ = fmt.Sscan(words[2], &p.ticket)
			_, p.tenant, _ = strings.Cut(words[5], ";tenant=")
			out = append(out, p)
		}
	}
	slices.SortFunc(out, func(a, b stored) int {
		return cmp.Or(cmp.Compare(a.queueScore, b.queueScore), cmp.Compare(a.id, b.id))
	})
	return out
}

// highestLimit is the highest limit that can have been in force during a step.
func highestLimit(t failer, before, after dump, ops []Op) int {
	t.Helper()
	was, is := before.state(t), after.state(t)
	limit := max(was.Limit(), is.Limit(), was.Declared, 1) // that was declared may come into force by an unpinning
	for i := range ops {
		switch op := &ops[i]; {
		case op.Terms != nil:
			limit = max(limit, op.Terms.Limit)
		default:
			limit = max(limit, op.N)
		}
	}
	return limit
}

// judge remembers the highest token seen, and what was granted under the rate in force.
type judge struct {
	last   int64
	rate   Rate
	grants []grant
	starts map[string]int64 // head starts of waiters, in µs
}

// grant is what was granted in one step.
type grant struct {
	us   int64
	cost int
}

// check fails if a step broke S1, S2, S4, S7, R1, T1 or T2, or granted during a pause.
func (j *judge) check(t failer, c call, before, after dump) {
	t.Helper()
	var granted []stored
	live, slots := 0, map[int]string{}
	for _, p := range holdersOf(after) {
		live += p.weight
		if other, ok := slots[p.slot]; ok {
			t.Fatalf("S7: %s and %s both have slot %d\n%v", p.id, other, p.slot, after)
		}
		slots[p.slot] = p.id
		if p.token <= j.last {
			continue
		}
		granted = append(granted, p)
		if most := highestLimit(t, before, after, c.ops); live > most && !moved(c.ops, p.id) {
			t.Fatalf("S1: weights of %d under a limit of %d\n%v", live, most, after)
		}
	}
	j.tokens(t, before, after, granted)
	j.spend(t, c, before, after, granted)
	checkPause(t, c, before, after, granted)
	j.turns(t, c, before, after)
	for _, p := range granted {
		checkOrder(t, c, p, before, after)
	}
}

// spend checks R1: in no window that begins after a change of the rate the grants cost more.
func (j *judge) spend(t failer, c call, before, after dump, granted []stored) {
	t.Helper()
	if rate := after.state(t).Rate; rate != j.rate {
		j.rate, j.grants = rate, nil
	}
	if j.rate.N == 0 {
		return
	}
	for _, p := range granted {
		if !moved(c.ops, p.id) {
			j.grants = append(j.grants, grant{c.us, costOf(c, before, p.id)})
		}
	}
	sum := 0
	for _, g := range j.grants {
		if g.us > c.us-j.rate.Per.Microseconds() {
			sum += g.cost
		}
	}
	if sum > j.rate.N {
		t.Fatalf("R1: grants of one window cost %d, and the rate is %v\n%v", sum, j.rate, after)
	}
}

// turns checks where newcomers stand, by ticket and head start, which T1 and T2 follow from: with
// those of their tenant before them, and without a tenant, or as the first in the queue, by their
// ticket.
func (j *judge) turns(t failer, c call, before, after dump) {
	t.Helper()
	was, is, starts := waitersOf(before), waitersOf(after), map[string]int64{}
	slices.SortFunc(is, func(a, b stored) int { return cmp.Compare(a.ticket, b.ticket) })
	latest := map[string]float64{} // turns, without head starts
	for i, w := range is {
		start, known := j.starts[w.id]
		if !known || !slices.Contains(was, w) {
			start = headStartOf(c.ops, w.id) * 1000
		}
		starts[w.id] = start
		turn := w.queueScore + front + float64(start)
		if turn < float64(w.ticket) || turn > float64(w.ticket)+24*3600e6 || (w.tenant == "" || i == 0 && len(was) == 0) && turn != float64(w.ticket) {
			t.Fatalf("T2: %s of %q came at %d and stands at %.0f\n%v", w.id, w.tenant, w.ticket, turn, after)
		}
		if turn <= latest[w.tenant] {
			t.Fatalf("T1: %s of %q came at %d and stands at %.0f, before another\n%v", w.id, w.tenant, w.ticket, turn, after)
		}
		latest[w.tenant] = turn
	}
	j.starts = starts
}

// checkPause checks that nothing is granted while it is paused, unless somebody resumes, or the
// pause has come to its end.
func checkPause(t failer, c call, before, after dump, granted []stored) {
	t.Helper()
	ends := before.scores["!p"]
	if !before.state(t).Paused || ends > 0 && ends <= float64(c.now) || slices.ContainsFunc(c.ops, func(op Op) bool { return op.Verb == Pause && !op.Flag }) {
		return
	}
	for _, p := range granted {
		if !moved(c.ops, p.id) {
			t.Fatalf("%s was granted during a pause\n%v", p.id, after)
		}
	}
}

// costOf is what the grant of id in a step cost. A waiter whose time was up came anew.
func costOf(c call, before dump, id string) int {
	if record, ok := strings.CutPrefix(before.fields[id], "w "); ok && before.scores[id] > float64(c.now) {
		var weight, cost int
		_, _ = fmt.Sscanf(record, "%d %d", &weight, &cost)
		return cmp.Or(cost, weight)
	}
	for i := range c.ops {
		if c.ops[i].ID == id && c.ops[i].Terms != nil {
			return c.ops[i].Terms.Costs()
		}
	}
	return 0
}

// tokens checks S2. A lease that is new carries a token above all before it.
func (j *judge) tokens(t failer, before, after dump, granted []stored) {
	t.Helper()
	old := map[string]int64{}
	for _, p := range holdersOf(before) {
		old[p.id] = p.token
	}
	for _, p := range holdersOf(after) {
		if p.token <= j.last && p.token != old[p.id] {
			t.Fatalf("S2: %s was granted with token %d after %d\n%v", p.id, p.token, j.last, after)
		}
	}
	for _, p := range granted {
		if p.token >= front {
			t.Fatalf("S2: token %d is not exact", p.token)
		}
		j.last = max(j.last, p.token)
	}
}

// checkOrder checks S4: nobody who waited in front of a new holder waits still.
func checkOrder(t failer, c call, p stored, before, after dump) {
	t.Helper()
	if moved(c.ops, p.id) {
		return
	}
	was, is := waitersOf(before), waitersOf(after)
	score := float64(max(before.state(t).Last+1, c.us) - headStartOf(c.ops, p.id)*1000 - front)
	if i := slices.IndexFunc(was, func(w stored) bool { return w.id == p.id }); i >= 0 {
		score = min(score, was[i].queueScore) // else it left, and came again in this call
	}
	for _, w := range was {
		if w.queueScore < score && w.id != p.id && slices.Contains(is, w) {
			t.Fatalf("S4: %s was granted, and %s, in front of it, waits\n%v", p.id, w.id, after)
		}
	}
}

// moved reports whether ops moved a lease to id, which so was granted before.
func moved(ops []Op, id string) bool {
	return slices.ContainsFunc(ops, func(op Op) bool { return op.Verb == Move && op.To == id })
}

// headStartOf is the longest head start that ops ask for an id, in milliseconds.
func headStartOf(ops []Op, id string) (start int64) {
	for i := range ops {
		if ops[i].ID == id && ops[i].Terms != nil {
			start = max(start, ops[i].Terms.HeadStart.Milliseconds())
		}
	}
	return start
}
