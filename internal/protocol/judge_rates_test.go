package protocol

import (
	"fmt"
	"strings"
)

// grant is what was granted, or what a lease was settled for beyond that, at one time. What it counts
// in a unit is its cost there as settled so far.
type grant struct {
	id     string // "": no settlement concerns it any more
	us     int64
	weight int
	costs  Costs
	only   string // a settlement for more counts in this unit alone
	more   bool
}

// in is what g counts in a unit.
func (g *grant) in(unit string) int {
	if g.more && g.only != unit {
		return 0
	}
	return g.costs.Of(unit, g.weight)
}

// spend checks R1, R1b and R4: whenever something is granted, what counts in the time that ends then is
// at most the rate. It begins anew with each change of the rates.
func (j *judge) spend(t failer, c call, before, after dump, granted []stored) {
	t.Helper()
	j.settle(c, before)
	if rates := after.state(t).Rates; rates != j.rates {
		j.rates, j.grants = rates, nil
	}
	anything := false
	for _, p := range granted {
		if !moved(c.ops, p.id) {
			weight, costs := costsOf(c, before, p.id)
			j.grants, anything = append(j.grants, grant{id: p.id, us: c.us, weight: weight, costs: costs}), true
		}
	}
	if !anything {
		return
	}
	for _, r := range j.rates.All() {
		j.within(t, c.us, r, after)
	}
}

// within checks one rate at a time (us).
func (j *judge) within(t failer, us int64, r Rate, after dump) {
	t.Helper()
	sum := 0
	for i := len(j.grants) - 1; i >= 0; i-- {
		g := &j.grants[i]
		sum += g.in(r.Unit)
		lasts := us - g.us
		most := float64(r.N)
		if r.Burst > 0 { // the clock is right to a microsecond
			most = float64(r.Burst) + float64(r.N)*float64(lasts+1)/float64(r.Per.Microseconds())
		} else if lasts >= r.Per.Microseconds() {
			return
		}
		if float64(sum) > most {
			t.Fatalf("R1: grants of %d us cost %d, and the rate is %v\n%+v\n%v", lasts, sum, r, j.grants, after)
		}
	}
}

// settle corrects costs: less never counted, more counts whole from now.
func (j *judge) settle(c call, before dump) {
	for i := range c.ops {
		op := &c.ops[i]
		record := before.fields[op.ID]
		if !strings.HasPrefix(record, "h ") && !strings.HasPrefix(record, "e ") || before.scores[op.ID] <= float64(c.now) {
			continue
		}
		switch {
		case op.Verb == Move && strings.HasPrefix(record, "h ") && before.fields[op.To] == "":
			for k := range j.grants {
				if j.grants[k].id == op.ID {
					j.grants[k].id = op.To
				}
			}
		case op.Verb == Settle, op.Verb == Release && op.Costs != "":
			for _, r := range j.rates.All() {
				j.correct(c.us, op.ID, r.Unit, op.Costs)
			}
		}
	}
}

// correct settles a lease in one unit.
func (j *judge) correct(us int64, id, unit string, costs Costs) {
	settled := costs.Of(unit, -1)
	if settled < 0 {
		return
	}
	for k := len(j.grants) - 1; k >= 0; k-- {
		g := &j.grants[k]
		if g.id != id || g.more && g.only != unit {
			continue
		}
		is := g.in(unit)
		g.set(unit, min(settled, is))
		if settled > is {
			g.set(unit, 0)
			j.grants = append(j.grants, grant{id: id, us: us, costs: Costs(fmt.Sprint(unit, ":", settled)), only: unit, more: true})
		}
		return
	}
}

func (g *grant) set(unit string, n int) {
	own, _ := JoinCosts(Cost{unit, n})
	g.costs, _ = g.costs.With(own)
}

// costsOf is what the grant of id in a step costs. A waiter whose time was up came anew.
func costsOf(c call, before dump, id string) (weight int, costs Costs) {
	if record, ok := strings.CutPrefix(before.fields[id], "w "); ok && before.scores[id] > float64(c.now) {
		var text string
		_, _ = fmt.Sscanf(record, "%d %s", &weight, &text)
		return weight, Costs(strings.Trim(text, "-"))
	}
	for i := range c.ops {
		if c.ops[i].ID == id && c.ops[i].Terms != nil {
			return c.ops[i].Terms.Weight, c.ops[i].Terms.Costs
		}
	}
	return 0, ""
}
