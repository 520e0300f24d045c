package promises

import (
	"testing"
	"time"

	"github.com/berth-go/berth/dev/verify/history"
	"github.com/berth-go/berth/internal/protocol"
)

// set changes what write writes: every request is of process 1 there, for one of one permit.
func (d *diary) set(change func(e *history.Event), write func()) {
	first := len(d.events)
	write()
	for i := range d.events[first:] {
		if e := &d.events[first+i]; e.Lease == 0 {
			change(e)
		}
	}
}

// roomy has a TTL and a limit that keep nobody waiting in these stories.
func roomy(e *history.Event) { e.Limit, e.TTL = 10, 6*time.Second }

// declares returns a change that gives requests rates, and room otherwise.
func declares(rates protocol.Rates) func(e *history.Event) {
	return func(e *history.Event) {
		roomy(e)
		e.Rates = rates
	}
}

// brief is a lease that is given back two milliseconds after it was granted.
func (d *diary) brief(name string, asked, queued, granted history.Time) {
	d.release(d.lease(name, asked, queued, granted, granted+1, granted+300, 0), name, granted+2, granted+3)
}

// waits is a request in line that comes to nothing; returned 0: its process is killed before.
func (d *diary) waits(name string, asked, queued, returned history.Time) {
	d.ops++
	e := history.Event{Op: d.ops, Verb: history.Acquire, Name: name, Limit: 1, Weight: 1, TTL: 300 * time.Millisecond, Kind: history.Invoke}
	d.write(asked, e)
	e.Kind = history.Queued
	d.write(queued, e)
	if returned > 0 {
		e.Kind, e.Outcome = history.Return, history.Unknown
		d.write(returned, e)
	}
}

// paused is a call that stops all grants for a time.
func (d *diary) paused(name string, asked, told history.Time, lasts time.Duration, outcome history.Outcome) {
	e := history.Event{Kind: history.Pause, Name: name, Lasts: lasts}
	d.write(asked, e)
	e.Until, e.Outcome = told*ms, outcome
	d.write(asked, e)
}

// one and other are requests of two processes with the same rate.
var one = declares(":1/300")

func other(e *history.Event) {
	one(e)
	e.Proc = 2
}

// TestRatesAreOnTime: whoever is in line is granted when the window has room.
func TestRatesAreOnTime(t *testing.T) {
	const name = "time-rate.0"
	// after is a request that waits for the window of a grant at 5000, with what happens meanwhile.
	after := func(granted history.Time, meanwhile func(d *diary)) func(d *diary) {
		return func(d *diary) {
			d.set(one, func() {
				d.brief(name, 4999, 0, 5000)
				d.brief(name, 5010, 5011, granted)
			})
			meanwhile(d)
		}
	}
	nothing := func(*diary) {}
	judged(t, []story{
		{"when the window has passed", after(5303, nothing), ""},
		{"not much later", after(5803, nothing), ""},
		{"half a second later", after(5805, nothing), "R2"},
		{"its process stood still", after(5805, func(d *diary) { d.fault(5300, 5600, history.Event{Proc: 1, Text: history.StoodStill}) }), ""},
		{"another process stood still", after(5805, func(d *diary) { d.fault(5300, 5600, history.Event{Proc: 2, Text: history.StoodStill}) }), "R2"},
		{"the server was silent", after(5805, func(d *diary) { d.fault(5300, 5600, history.Event{}) }), ""},
		{"one before it gives up", after(5805, func(d *diary) {
			d.set(other, func() { d.waits(name, 5005, 5006, 5400) })
		}), ""},
		{"one before it has given up long ago", after(5900, func(d *diary) {
			d.set(other, func() { d.waits(name, 4990, 4995, 5001) })
		}), "R2"},
		{"one before it is killed, and keeps its place", after(9000, func(d *diary) {
			d.set(other, func() { d.waits(name, 5005, 5006, 0) })
			d.fault(5400, 5400, history.Event{Target: 2, Text: Killed})
		}), ""},
		{"another is killed, and may have had the budget", after(6900, func(d *diary) {
			d.set(other, func() { d.waits(name, 5020, 5021, 0) })
			d.fault(5400, 5400, history.Event{Target: 2, Text: Killed})
		}), ""},
		{"it gives up when it should have been granted", func(d *diary) {
			d.set(one, func() {
				d.brief(name, 4999, 0, 5000)
				d.waits(name, 5010, 5011, 5900)
			})
		}, "R2"},
		{"it gives up before", func(d *diary) {
			d.set(one, func() {
				d.brief(name, 4999, 0, 5000)
				d.waits(name, 5010, 5011, 5250)
			})
		}, ""},
		{"it waits when the storm ends", func(d *diary) {
			d.set(one, func() {
				d.brief(name, 8999, 0, 9000)
				d.waits(name, 9010, 9011, 0)
			})
		}, "R2"},
	})
}

// TestCostsAreOnTime: a request waits until its cost fits.
func TestCostsAreOnTime(t *testing.T) {
	const name = "time-rate.0"
	judged(t, []story{
		{"its cost fits only when two have left", func(d *diary) {
			d.set(declares(":3/300"), func() {
				d.brief(name, 4999, 0, 5000)
				d.brief(name, 5200, 0, 5201)
				d.set(func(e *history.Event) { e.Costs = ":3" }, func() { d.brief(name, 5210, 5211, 5950) })
			})
		}, ""},
	})
}

// TestTriesUnderARateAreOnTime: they are not refused for a window that has passed.
func TestTriesUnderARateAreOnTime(t *testing.T) {
	const name = "time-rate.0"
	refusedAt := func(asked history.Time) func(d *diary) {
		return func(d *diary) {
			d.set(one, func() {
				d.brief(name, 4999, 0, 5000)
				d.refused(name, 0, asked, asked+1)
			})
		}
	}
	judged(t, []story{
		{"a try is refused while the window is full, or just was", refusedAt(5803), ""},
		{"a try is refused half a second after that", refusedAt(5805), "R2"},
		{"a try is refused while somebody waits", func(d *diary) {
			refusedAt(5805)(d)
			d.set(other, func() { d.waits(name, 5300, 5301, 5400) })
		}, ""},
	})
}

// TestChangedRatesAreOnTime: what was granted before counts for at most the new window.
func TestChangedRatesAreOnTime(t *testing.T) {
	const name = "time-rates.0"
	long, short := declares(":1/3000"), declares(":1/300")
	changed := func(granted history.Time) func(d *diary) {
		return func(d *diary) {
			d.set(long, func() { d.brief(name, 4999, 0, 5000) })
			d.set(short, func() { d.brief(name, 5100, 5101, granted) })
		}
	}
	// back is changed, and a try that declares the old window again.
	back := func(asked, granted history.Time) func(d *diary) {
		return func(d *diary) {
			changed(granted)(d)
			d.set(func(e *history.Event) { long(e); e.Proc = 2 }, func() { d.refused(name, 0, asked, asked+1) })
		}
	}
	judged(t, []story{
		{"one new window after the change", changed(5405), ""},
		{"half a second later", changed(5910), "R5"},
		{"the old window is in force again before the new one is over", back(5110, 5910), ""},
		{"half a second after the old window", back(5110, 8535), "R2"},
		{"the old window is in force again when the new one is over", back(5403, 5910), "R5"},
		{"both were declared at once", func(d *diary) {
			changed(5910)(d)
			d.set(long, func() { d.waits(name, 5095, 5102, 9000) })
		}, ""},
		{"it waits for the old window, which is in force", func(d *diary) {
			d.set(short, func() { d.brief(name, 1000, 0, 1001) })
			d.set(long, func() {
				d.brief(name, 4999, 0, 5000)
				d.brief(name, 5100, 5101, 8030)
			})
		}, ""},
		{"the smaller rate may be in force", func(d *diary) {
			d.set(declares(":2/3000"), func() { d.brief(name, 4990, 0, 4991) })
			d.set(declares(":1/3000"), func() { d.waits(name, 4992, 4993, 7900) })
			d.set(declares(":2/3000"), func() { d.brief(name, 4992, 4994, 7995) })
		}, ""},
	})
}

// TestChangedRates: a rate holds in the windows that begin after it was declared.
func TestChangedRates(t *testing.T) {
	const name = "rate"
	changed := func(grants ...history.Time) func(d *diary) {
		return func(d *diary) {
			d.set(declares(":2/300"), func() {
				d.brief(name, 4999, 0, 5000)
				d.brief(name, 5009, 0, 5010)
			})
			d.set(declares(":1/300"), func() { d.waits(name, 5020, 5021, 5022) })
			for _, at := range grants {
				d.set(declares(":1/300"), func() { d.brief(name, at-1, 0, at) })
			}
		}
	}
	judged(t, []story{
		{"less than before", changed(5350, 5651), ""},
		{"as much as before", changed(5350, 5400), "R1"},
		{"more than either in a window that began before the change", changed(5030), "R1"},
		{"one that waits may have declared its rate again", func(d *diary) {
			d.set(declares(":2/300"), func() { d.waits(name, 4990, 4991, 6000) })
			changed(5350, 5400)(d)
			d.fault(5100, 5101, history.Event{Queues: true})
		}, ""},
		{"one that came after the end may have declared the other one", func(d *diary) {
			const end = stormEnd
			d.set(declares(":1/300"), func() {
				d.waits(name, end-1200, end-90, end+3) // so slow that a copy of it may come later
				d.brief(name, end-200, end-199, end+100)
				d.brief(name, end-200, end-198, end+110)
				d.brief(name, end+999, 0, end+1000)
			})
			d.fault(end-1100, end-1000, history.Event{Text: "slow link", Proc: 1})
			d.set(declares(":2/300"), func() { d.unanswered(name, end+1, end+50) })
		}, ""},
		{"more than before", func(d *diary) {
			d.set(declares(":1/300"), func() { d.brief(name, 4999, 0, 5000) })
			d.set(declares(":2/300"), func() { d.brief(name, 5009, 0, 5010) })
		}, ""},
		{"more than either", func(d *diary) {
			d.set(declares(":1/300"), func() { d.brief(name, 4999, 0, 5000) })
			d.set(declares(":2/300"), func() {
				for at := history.Time(5400); at < 5440; at += 10 {
					d.brief(name, at-1, 0, at)
				}
			})
		}, "R1"},
	})
}

// TestLinesAreOnTime: who comes later may be granted before, if requests have tenants.
func TestLinesAreOnTime(t *testing.T) {
	const name = "time-lines.0"
	passed := func(tenant string, granted history.Time) func(d *diary) {
		return func(d *diary) {
			d.set(one, func() { d.brief(name, 4999, 0, 5000) })
			d.set(func(e *history.Event) { one(e); e.Tenant = tenant }, func() { d.brief(name, 5010, 5011, granted) })
			d.set(other, func() { d.brief(name, 5020, 5021, 5302) })
		}
	}
	behindTheDead := func(tenant string) func(d *diary) {
		return func(d *diary) {
			nine := declares(":9/300")
			d.set(func(e *history.Event) { nine(e); e.Tenant = tenant }, func() { d.brief(name, 5010, 5011, 6900) })
			d.set(func(e *history.Event) { nine(e); e.Proc = 2 }, func() { d.waits(name, 5020, 5021, 0) })
			d.fault(5400, 5400, history.Event{Target: 2, Text: Killed})
		}
	}
	judged(t, []story{
		{"a later one that has died may stand before it", behindTheDead("a"), ""},
		{"not in one line", behindTheDead(""), "L2"},
		{"a later one was before it", passed("a", 6100), ""},
		{"long ago", passed("a", 6110), "R2"},
		{"one line", passed("", 6100), "S4"},
	})
}

// TestPauses: nothing is granted within one, and who waits is granted when it ends.
func TestPauses(t *testing.T) {
	const name, lasts = "time-pause.0", 300 * time.Millisecond
	at := func(granted history.Time, outcome history.Outcome) func(d *diary) {
		return func(d *diary) {
			d.set(roomy, func() { d.brief(name, 4990, 4991, granted) })
			d.paused(name, 5000, 5010, lasts, outcome)
		}
	}
	behindTheDead := func(granted history.Time) func(d *diary) {
		brief := func(e *history.Event) { e.Limit, e.TTL = 10, 2*time.Second }
		return func(d *diary) {
			d.set(brief, func() { d.brief(name, 4990, 4991, granted) })
			d.set(func(e *history.Event) { brief(e); e.Proc = 2 }, func() { d.waits(name, 4980, 4981, 0) })
			d.paused(name, 5000, 5010, lasts, history.OK)
			d.fault(5200, 5200, history.Event{Target: 2, Text: Killed})
		}
	}
	judged(t, []story{
		{"granted before it", at(4999, history.OK), ""},
		{"granted while it is being begun", at(5009, history.OK), ""},
		{"granted within it", at(5012, history.OK), "L7"},
		{"granted shortly before its end", at(5298, history.OK), "L7"},
		{"granted within one that may not have begun", at(5100, history.Unknown), ""},
		{"granted at its end", at(5310, history.OK), ""},
		{"granted half a second after its end", at(5815, history.OK), "L7"},
		{"granted half a second after the end of one that may have begun", at(5815, history.Unknown), "L7"},
		{"another semaphore is paused", func(d *diary) {
			d.set(roomy, func() { d.brief("s", 4990, 4991, 5100) })
			d.paused(name, 5000, 5010, lasts, history.OK)
		}, ""},
		{"who has paused it was killed", func(d *diary) {
			d.set(roomy, func() { d.brief(name, 4990, 4991, 5400) })
			d.set(func(e *history.Event) { e.Proc = 2 }, func() { d.write(5000, history.Event{Kind: history.Pause, Name: name, Lasts: lasts}) })
			d.fault(5100, 5100, history.Event{Target: 2, Text: Killed})
		}, ""},
		{"who stood before it in the pause has died", behindTheDead(8350), ""},
		{"it waits for longer than that one has its place, and a heartbeat", behindTheDead(8400), "L3"},
	})
}

// TestHoldsAreOnTime: who waits is granted when a holder has given its permit back, or its MaxHold
// is over.
func TestHoldsAreOnTime(t *testing.T) {
	const name = "time-hold.0"
	hangs := func(most time.Duration, granted history.Time) func(d *diary) {
		return func(d *diary) {
			d.set(func(e *history.Event) { e.TTL, e.MaxHold = 6*time.Second, most }, func() {
				d.lease(name, 4999, 0, 5000, 5001, 5295, 0)
				d.brief(name, 5010, 5011, granted)
			})
		}
	}
	judged(t, []story{
		{"when it is over", hangs(300*time.Millisecond, 5301), ""},
		{"half a second later", hangs(300*time.Millisecond, 5803), "L2"},
		{"half a second later, where there is none", hangs(0, 5803), ""},
		{"who held gave it back", func(d *diary) {
			d.set(func(e *history.Event) { e.TTL = 6 * time.Second }, func() {
				d.brief(name, 4999, 0, 5000)
				d.brief(name, 5001, 5002, 5510)
			})
		}, "L2"},
	})
}
