package promises

import (
	"testing"

	"github.com/berth-go/berth/dev/verify/history"
	"github.com/berth-go/berth/internal/protocol"
)

// settle says what a lease has cost, with what came of it.
func (d *diary) settle(lease int, at history.Time, costs protocol.Costs, outcome history.Outcome) {
	d.ops++
	e := history.Event{Op: d.ops, Lease: lease, Verb: history.Settle, Kind: history.Invoke, Costs: costs}
	d.write(at, e)
	if e.Kind, e.Outcome = history.Return, outcome; outcome != "" { // else it was killed before
		d.write(at, e)
	}
}

// costly is a lease under some rates, in a slot of its own, and its release if there is one.
func (d *diary) costly(name string, rates protocol.Rates, costs protocol.Costs, granted, released history.Time, says ...says) {
	d.set(func(e *history.Event) { roomy(e); e.Rates, e.Costs = rates, costs }, func() {
		lease := d.lease(name, granted-1, 0, granted, granted+1, granted+5000, d.ops+1)
		for _, s := range says {
			d.settle(lease, s.at, protocol.Costs("t:"+string(rune('0'+s.n))), history.OK)
		}
		if released > 0 {
			d.release(lease, name, released, released+1)
		}
	})
}

// TestSettledCosts: what was said last counts, from when it was said, and nothing is granted while that
// is too much.
func TestSettledCosts(t *testing.T) {
	const rates = "t:5/100"
	// after is one of 3 that is settled, and a second one of so much.
	after := func(settled []says, released history.Time, costs protocol.Costs, granted history.Time) func(d *diary) {
		return func(d *diary) {
			d.costly("s", rates, "t:3", 10, released, settled...)
			d.costly("s", rates, costs, granted, granted+3)
		}
	}
	judged(t, []story{
		{"less makes room", after([]says{{12, 1}}, 13, "t:4", 20), ""},
		{"not for more than that", after([]says{{12, 1}}, 13, "t:5", 20), "R4"},
		{"not before it is said", after([]says{{30, 1}}, 31, "t:4", 20), "R4"},
		{"but at once", after([]says{{20, 1}}, 31, "t:4", 20), ""},
		{"a crash leaves the estimate", after(nil, 0, "t:4", 20), "R1"},
		{"what was said last counts", after([]says{{12, 0}, {13, 3}}, 14, "t:3", 20), "R4"},
		{"what was said before does not", after([]says{{12, 3}, {13, 0}}, 14, "t:5", 20), ""},
		{"unless that has not arrived", after([]says{{12, 0}, {13, 3}}, 30, "t:3", 20), ""},
		{"more counts, too", after([]says{{12, 5}}, 13, "t:1", 20), "R4"},
		{"from when it is said", after([]says{{60, 5}}, 61, "t:1", 120), "R4"},
		{"until it has left the window", after([]says{{60, 5}}, 61, "t:1", 163), ""},
		{"whenever it arrived", after([]says{{60, 5}}, 70, "t:1", 163), ""},
		{"more may not have arrived", after([]says{{60, 5}}, 0, "t:1", 120), ""},
		{"more than allowed, and nothing granted", after([]says{{12, 9}}, 13, "t:1", 163), ""},
	})
}

// TestSettlementAfterTheEnd: it is refused.
func TestSettlementAfterTheEnd(t *testing.T) {
	after := func(outcome history.Outcome) func(d *diary) {
		return func(d *diary) {
			d.costly("s", "t:5/100", "t:3", 10, 13)
			d.settle(1, 20, "t:1", outcome)
			d.costly("s", "t:5/100", "t:2", 30, 33)
		}
	}
	judged(t, []story{{"refused", after(history.Gone), ""}, {"killed before it was told", after(""), ""}, {"accepted", after(history.OK), "R4"}})
}

// TestRefusedSettlement: it changes nothing.
func TestRefusedSettlement(t *testing.T) {
	judged(t, []story{{"", func(d *diary) {
		d.costly("s", "t:5/100", "t:3", 10, 0)
		d.settle(1, 12, "t:0", history.Refused)
		d.costly("s", "t:5/100", "t:3", 30, 33)
	}, "R1"}})
}

// TestRatesOfSeveralUnits: each is kept, by the costs in its unit.
func TestRatesOfSeveralUnits(t *testing.T) {
	const rates, others = ":9/100,t:5/100", ":9/100,t:4/100"
	both := func(first, second protocol.Rates, costs protocol.Costs) func(d *diary) {
		return func(d *diary) {
			d.costly("s", first, ":4,t:3", 10, 13)
			d.costly("s", second, costs, 20, 23)
		}
	}
	judged(t, []story{
		{"both are kept", both(rates, rates, ":5,t:2"), ""},
		{"that of calls is not", both(rates, rates, ":6,t:2"), "R1"},
		{"that of the other unit is not", both(rates, rates, ":5,t:3"), "R1"},
		{"the larger of two that are declared in turn is", both(others, rates, ":5,t:2"), ""},
		{"it is not", both(others, rates, ":5,t:3"), "R1"},
		{"what both declare is not", both(others, rates, ":6,t:1"), "R1"},
	})
}

// TestBucket: it never gives what it does not have.
func TestBucket(t *testing.T) {
	const rates = "t:10/100+5"
	type taken struct {
		at    history.Time
		costs protocol.Costs
	}
	takes := func(all ...taken) func(d *diary) {
		return func(d *diary) {
			for _, one := range all {
				d.costly("s", rates, one.costs, one.at, one.at+2)
			}
		}
	}
	after := func(first protocol.Costs, settled []says, released history.Time, then ...taken) func(d *diary) {
		return func(d *diary) {
			d.costly("s", rates, first, 10, released, settled...)
			takes(then...)(d)
		}
	}
	judged(t, []story{
		{"all at once, and what has come back", takes(taken{10, "t:5"}, taken{20, "t:1"}), ""},
		{"more than has come back", takes(taken{10, "t:5"}, taken{20, "t:2"}), "R1b"},
		{"it holds no more after a long time", takes(taken{10, "t:5"}, taken{900, "t:3"}, taken{901, "t:3"}), "R1b"},
		{"it was forgotten between", func(d *diary) {
			takes(taken{10, "t:5"}, taken{20, "t:2"})(d)
			d.fault(15, 16, history.Event{Breaks: true})
		}, ""},
		{"less comes back", after("t:5", []says{{12, 2}}, 13, taken{14, "t:3"}), ""},
		{"not before it is said", after("t:5", []says{{15, 2}}, 16, taken{14, "t:3"}), "R1b"},
		{"not twice", after("t:5", []says{{12, 2}}, 13, taken{14, "t:5"}), "R1b"},
		{"nor what is back already", after("t:5", []says{{59, 0}}, 60, taken{62, "t:5"}, taken{63, "t:1"}), "R1b"},
		{"more is taken, too", after("t:2", []says{{11, 5}}, 12, taken{14, "t:2"}), "R1b"},
		{"more may not have arrived", after("t:2", []says{{11, 5}}, 0, taken{14, "t:2"}), ""},
	})
}

// TestSettledCostsAreOnTime: whoever waits is granted when the one who holds has said that it cost less.
func TestSettledCostsAreOnTime(t *testing.T) {
	const name, rates = "time-settle.0", "t:3/1500"
	after := func(first protocol.Costs, said says, released, granted history.Time) func(d *diary) {
		return func(d *diary) {
			d.costly(name, rates, first, 5000, released, said)
			d.set(func(e *history.Event) { roomy(e); e.Proc, e.Rates, e.Costs = 2, rates, "t:2" }, func() { d.brief(name, 5010, 5011, granted) })
		}
	}
	judged(t, []story{
		{"at once", after("t:3", says{5100, 0}, 6400, 5101), ""},
		{"not much later", after("t:3", says{5100, 0}, 6400, 5850), ""},
		{"much later", after("t:3", says{5100, 0}, 6400, 5853), "R4"},
		{"with the release", after("t:3", says{5100, 0}, 5101, 5605), "R4"},
		{"it says so with a release that nobody hears", after("t:3", says{5100, 0}, 0, 5853), "R4"},
		{"who holds stands still", func(d *diary) {
			after("t:3", says{5100, 0}, 6400, 5900)(d)
			d.fault(5050, 5400, history.Event{Proc: 1, Text: history.StoodStill})
		}, ""},
		{"it is too little less", after("t:3", says{5100, 2}, 6400, 6900), ""},
		{"more counts from when it is said", after("t:1", says{5600, 3}, 5601, 7600), ""},
		{"for a window, and no longer", after("t:1", says{5600, 3}, 5601, 7630), "R2"},
	})
}

// TestBucketsAreOnTime: whoever waits is granted when as much as it needs has come back.
func TestBucketsAreOnTime(t *testing.T) {
	const name, rates = "time-bucket.0", "t:10/1000+5"
	after := func(granted history.Time, meanwhile func(d *diary)) func(d *diary) {
		return func(d *diary) {
			d.costly(name, rates, "t:4", 5000, 5001)
			d.set(func(e *history.Event) { roomy(e); e.Rates, e.Costs = rates, "t:5" }, func() { d.brief(name, 5010, 5011, granted) })
			meanwhile(d)
		}
	}
	judged(t, []story{
		{"when it has come back", after(5401, func(*diary) {}), ""},
		{"half a second later", after(5905, func(*diary) {}), "R2"},
		{"another may have taken of it", after(5905, func(d *diary) {
			d.set(func(e *history.Event) { other(e); e.Rates, e.Costs = rates, "t:3" }, func() { d.waits(name, 5012, 5013, 0) })
			d.fault(5100, 5100, history.Event{Target: 2, Text: Killed})
		}), ""},
		{"another bucket is declared", after(5905, func(d *diary) {
			d.costly(name, "t:10/1000+6", "t:1", 1000, 1001)
		}), ""},
		{"what was taken before has come back", after(5905, func(d *diary) {
			d.costly(name, rates, "t:2", 4800, 4801)
		}), "R2"},
	})
}
