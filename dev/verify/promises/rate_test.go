package promises

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/berth-go/berth/dev/verify/history"
	"github.com/berth-go/berth/internal/protocol"
)

// TestCostsWithinAWindow: no window has more than the rate, whose windows begin anew where the
// server has forgotten what was spent.
func TestCostsWithinAWindow(t *testing.T) {
	type grant struct {
		at   history.Time
		cost int
	}
	for what, c := range map[string]struct {
		grants []grant
		fault  history.Event // from 50 to 60
		judged int
		ok     bool
	}{
		"all of it, twice":        {[]grant{{10, 2}, {20, 3}, {121, 5}}, history.Event{}, 3, true},
		"too much":                {[]grant{{10, 3}, {109, 3}}, history.Event{}, 2, false},
		"too much in the second":  {[]grant{{10, 5}, {111, 3}, {120, 3}}, history.Event{}, 3, false},
		"heard of out of order":   {[]grant{{109, 3}, {10, 3}}, history.Event{}, 2, false},
		"a weight is a cost":      {[]grant{{10, 0}, {20, 5}}, history.Event{}, 2, false},
		"forgotten between":       {[]grant{{10, 3}, {109, 3}}, history.Event{Breaks: true}, 2, true},
		"a clock stepped between": {[]grant{{10, 3}, {109, 3}}, history.Event{Steps: true}, 2, true},
		"a clock behind tokens":   {[]grant{{70, 3}, {119, 3}, {130, 5}}, history.Event{Steps: true, Behind: 60 * time.Millisecond}, 1, true},
		"it is behind no more":    {[]grant{{130, 3}, {140, 3}}, history.Event{Steps: true, Behind: 60 * time.Millisecond}, 2, false},
		"another fault between":   {[]grant{{10, 3}, {109, 3}}, history.Event{Text: "x"}, 2, false},
	} {
		d := &diary{}
		for _, g := range c.grants {
			d.release(d.lease("rate", g.at, 0, g.at, g.at+1, g.at+300, 0), "rate", g.at+2, g.at+3)
			d.limited(":5/100", g.cost)
		}
		if c.fault != (history.Event{}) {
			d.fault(50, 60, c.fault)
		}
		v := d.verdict(stormEnd)
		if slices.Contains(v.Promises(), "R1") == c.ok || v.Windows != c.judged {
			t.Errorf("%s: %v, %d windows", what, v.Violations, v.Windows)
		}
	}
}

// TestAdoptionCostsNothing: a lease that is moved was granted before.
func TestAdoptionCostsNothing(t *testing.T) {
	d := &diary{}
	d.detach(d.lease("rate", 10, 0, 11, 12, 300, 0), "rate", "h", 13, 14)
	d.limited(":1/100", 1)
	d.adopt("rate", "h", 15, 16, 17, 300, 0)
	if v := d.verdict(stormEnd); len(v.Violations) > 0 || v.Windows != 1 || v.Fullest != 1 {
		t.Errorf("%v, %d windows, %v", v.Violations, v.Windows, v.Fullest)
	}
}

// limited gives requests that were written since it was called last a rate and a cost; 0: none.
func (d *diary) limited(rates protocol.Rates, cost int) {
	for i := range d.events {
		if e := &d.events[i]; e.Rates == "" && e.Lease == 0 {
			e.Rates = rates
			if cost > 0 {
				e.Costs = protocol.Costs(fmt.Sprint(":", cost))
			}
		}
	}
}

// TestBudgetsHaveOneOrder: of several that had room at the same time, it is always the same one that a
// violation names.
func TestBudgetsHaveOneOrder(t *testing.T) {
	var ops []*Op
	for _, set := range []protocol.Rates{"tokens:9/100", ":5/100,tokens:7/100", "api:2/100+4", ":5/100+9,api:6/100"} {
		ops = append(ops, &Op{Event: history.Event{Rates: set}})
	}
	for range 20 {
		var got []string
		for _, b := range (&Run{}).budgets(ops, 0) {
			switch b := b.(type) {
			case *window:
				got = append(got, b.unit+" window")
			case *bucket:
				got = append(got, b.is.Unit+" bucket")
			}
		}
		if want := []string{" window", " bucket", "api window", "api bucket", "tokens window"}; !slices.Equal(got, want) {
			t.Fatalf("%q, want %q", got, want)
		}
	}
}
