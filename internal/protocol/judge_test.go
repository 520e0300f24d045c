package protocol

import (
	"cmp"
	"fmt"
	"math"
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
			words := strings.SplitN(rest, " ", 8)
			p := stored{id: id, queueScore: d.scores["#"+id]}
			_, _ = fmt.Sscan(words[2], &p.ticket)
			_, p.tenant, _ = strings.Cut(words[6], ";tenant=")
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
	rates  Rates
	grants []grant
	starts map[string]int64 // head starts of waiters, in µs
}

// check fails if a step broke S1, S2, S4, S7, R1, R1b, R4, T1 or T2, or granted during a pause.
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

// turns checks where waiters stand: those without a tenant by their ticket and head start, and those of
// a tenant in a line that is theirs alone, by the same. T1 and T5 follow from it.
func (j *judge) turns(t failer, c call, before, after dump) {
	t.Helper()
	was, is, starts := waitersOf(before), waitersOf(after), map[string]int64{}
	slices.SortFunc(is, func(a, b stored) int { return cmp.Compare(a.ticket, b.ticket) })
	latest, owners := map[string]float64{}, map[float64]string{}
	for _, w := range is {
		start, known := j.starts[w.id]
		if !known || !slices.Contains(was, w) {
			start = headStartOf(c.ops, w.id) * 1000
		}
		starts[w.id] = start
		stands := w.queueScore + float64(start)
		if w.tenant == "" && stands != float64(w.ticket)-front {
			t.Fatalf("T5: %s came at %d and stands at %.0f\n%v", w.id, w.ticket, stands, after)
		}
		if w.tenant != "" {
			stands = w.queueScore + float64(start)/1000
			number := math.Floor((stands + 1<<52) / (1 << 34))
			if other, ok := owners[number]; number < 0 || number >= 1<<17 || ok && other != w.tenant {
				t.Fatalf("T1: %s of %q stands in line %.0f, as does %q\n%v", w.id, w.tenant, number, other, after)
			}
			owners[number] = w.tenant
		}
		if before, ok := latest[w.tenant]; ok && stands <= before {
			t.Fatalf("T1: %s of %q came at %d and stands at %.0f, before another\n%v", w.id, w.tenant, w.ticket, stands, after)
		}
		latest[w.tenant] = stands
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

// checkOrder checks S4: nobody waits still who waited in front of a new holder in its line, or, if that
// has just come, anywhere.
func checkOrder(t failer, c call, p stored, before, after dump) {
	t.Helper()
	if moved(c.ops, p.id) {
		return
	}
	was, is := waitersOf(before), waitersOf(after)
	came := slices.IndexFunc(was, func(w stored) bool { return w.id == p.id })
	for _, w := range was {
		front := came < 0 || w.tenant == was[came].tenant && w.queueScore < was[came].queueScore
		if front && w.id != p.id && slices.Contains(is, w) {
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
