package promises

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/berth-go/berth/dev/verify/history"
)

const ms = history.Time(time.Millisecond)

// diary is a history made by hand; times are milliseconds.
type diary struct {
	events []history.Event
	ops    int
}

func (d *diary) write(at history.Time, e history.Event) {
	e.At, e.Proc = at*ms, 1
	d.events = append(d.events, e)
}

// lease is a grant: asked, in line since (0: never), granted, returned, trusted.
func (d *diary) lease(name string, asked, queued, granted, returned, until history.Time, slot int) int {
	d.ops++
	e := history.Event{Op: d.ops, Verb: history.Acquire, Name: name, Limit: 1, Weight: 1, TTL: 300 * time.Millisecond, Kind: history.Invoke}
	d.write(asked, e)
	if queued > 0 {
		e.Kind = history.Queued
		d.write(queued, e)
	}
	e.Kind, e.Outcome, e.Token, e.Slot, e.Until = history.Return, history.OK, int64(granted*ms)/1000, slot, until*ms
	d.write(returned, e)
	return d.ops
}

func (d *diary) release(lease int, name string, from, to history.Time) {
	d.over(lease, name, from, to, history.Event{Verb: history.Release, Outcome: history.OK})
}

// detach gives a lease away.
func (d *diary) detach(lease int, name, handle string, from, to history.Time) {
	d.over(lease, name, from, to, history.Event{Verb: history.Detach, Outcome: history.OK, Handle: handle})
}

// over is a release, or a Detach, that returned with what e says.
func (d *diary) over(lease int, name string, from, to history.Time, e history.Event) {
	d.ops++
	d.write(from, history.Event{Op: d.ops, Lease: lease, Verb: e.Verb, Name: name, Kind: history.Invoke})
	e.Op, e.Lease, e.Name, e.Kind = d.ops, lease, name, history.Return
	d.write(to, e)
}

// adopt is a lease that was given away: asked for, moved, returned, trusted.
func (d *diary) adopt(name, handle string, asked, moved, returned, until history.Time, slot int) int {
	d.ops++
	e := history.Event{Op: d.ops, Verb: history.Adopt, Name: name, Limit: 1, Weight: 1, TTL: 300 * time.Millisecond, Handle: handle, Kind: history.Invoke}
	d.write(asked, e)
	e.Kind, e.Outcome, e.Token, e.Slot, e.Until = history.Return, history.OK, int64(moved*ms)/1000, slot, until*ms
	d.write(returned, e)
	return d.ops
}

// tooLate is an adopt that was told that somebody else was first.
func (d *diary) tooLate(name, handle string, asked, returned history.Time) {
	d.inVain(name, handle, asked, returned, history.Taken)
}

// inVain is an adopt that got no lease.
func (d *diary) inVain(name, handle string, asked, returned history.Time, why history.Outcome) {
	d.ops++
	e := history.Event{Op: d.ops, Verb: history.Adopt, Name: name, Limit: 1, Weight: 1, TTL: 300 * time.Millisecond, Handle: handle, Kind: history.Invoke}
	d.write(asked, e)
	e.Kind, e.Outcome = history.Return, why
	d.write(returned, e)
}

// lost is what a holder is told.
func (d *diary) lost(lease int, at history.Time) {
	d.write(at, history.Event{Kind: history.Lost, Lease: lease})
}

// onlyTries turns every acquire into a try, so that refusals are judged.
func (d *diary) onlyTries() {
	for i := range d.events {
		if d.events[i].Verb == history.Acquire {
			d.events[i].Verb = history.Try
		}
	}
}

// refused is a try that was told how many permits are in use.
func (d *diary) refused(name string, used int, asked, returned history.Time) {
	d.ops++
	e := history.Event{Op: d.ops, Verb: history.Try, Name: name, Limit: 1, Weight: 1, TTL: 300 * time.Millisecond, Kind: history.Invoke}
	d.write(asked, e)
	e.Kind, e.Outcome, e.Used = history.Return, history.Busy, used
	d.write(returned, e)
}

// repeated is a try that was refused when it was repeated, up to when its client had closed.
func (d *diary) repeated(name string, used int, asked, returned history.Time) {
	d.refused(name, used, asked, returned)
	d.events[len(d.events)-1].Again = true
}

// pad adds so many grants that an operation whose outcome is unknown is few enough.
func (d *diary) pad(name string) {
	for at := history.Time(1000); at < 1200; at += 10 {
		d.release(d.lease(name, at, 0, at+1, at+2, at+300, 0), name, at+3, at+4)
	}
}

// unanswered is a try that had no answer.
func (d *diary) unanswered(name string, asked, returned history.Time) {
	d.ops++
	e := history.Event{Op: d.ops, Verb: history.Try, Name: name, Limit: 1, Weight: 1, TTL: 300 * time.Millisecond, Kind: history.Invoke}
	d.write(asked, e)
	e.Kind, e.Outcome = history.Return, history.Unknown
	d.write(returned, e)
}

func (d *diary) fault(from, to history.Time, e history.Event) {
	e.At, e.Until, e.Kind = from*ms, to*ms, history.Fault
	d.events = append(d.events, e)
}

const (
	slackOfTests = 100 * time.Millisecond
	lateness     = 50 * time.Millisecond
)

// verdict judges the diary; the server's clock is the monotonic one.
func (d *diary) verdict(end history.Time) *Verdict {
	clock := NewClock([2]time.Duration{0, time.Hour}, [2]history.Time{0, history.Time(time.Hour)})
	run := Assemble(d.events, clock)
	run.End = end * ms
	return Judge(run, Rules{
		Clock: clock, Slack: slackOfTests, Queue: "queue", Linear: "linear", Line: "line.", Timed: "time-", Slow: "slow", Late: lateness, Fair: "tenants-fair",
	})
}

// TestJudge: what the judge must see, and what it must let pass.
func TestJudge(t *testing.T) {
	judged(t, []story{
		{"one after the other", func(d *diary) {
			d.release(d.lease("s", 10, 0, 11, 12, 300, 0), "s", 20, 22)
			d.lease("s", 15, 16, 21, 25, 320, 0)
		}, ""},
		{"two at once", func(d *diary) {
			d.lease("s", 10, 0, 11, 12, 300, 0)
			d.lease("s", 15, 0, 21, 25, 320, 1)
		}, "S1 S3"},
		{"granted before the older deadline, known after it", func(d *diary) {
			d.lease("s", 10, 0, 11, 12, 300, 0)
			d.lease("s", 15, 0, 290, 305, 500, 1)
		}, "S3"},
		{"same slot", func(d *diary) {
			d.lease("s", 10, 0, 11, 12, 300, 0)
			d.lease("s", 15, 0, 21, 25, 320, 0)
		}, "S1 S3 S7"},
		{"two at once, after a loss between", func(d *diary) {
			d.lease("s", 10, 0, 11, 12, 300, 0)
			d.fault(13, 14, history.Event{Breaks: true})
			d.lease("s", 15, 0, 21, 25, 320, 1)
		}, ""},
		{"trusted long after a loss", func(d *diary) {
			d.lease("s", 10, 0, 11, 12, 900, 0)
			d.fault(13, 14, history.Event{Breaks: true, Surely: true})
		}, "S6"},
		{"token goes back", func(d *diary) {
			d.release(d.lease("s", 10, 0, 15, 16, 300, 0), "s", 17, 18)
			d.lease("s", 20, 0, 14, 25, 320, 0)
		}, "S2 S3 S7"},
		{"one token twice", func(d *diary) {
			d.release(d.lease("s", 10, 0, 15, 16, 300, 0), "s", 17, 18)
			d.lease("s", 12, 0, 15, 18, 320, 0)
		}, "S2 S3 S7"},
	})
}

// TestJudgeOfWaiting: who waits is not passed, and is told in time.
func TestJudgeOfWaiting(t *testing.T) {
	judged(t, []story{
		{"a waiter is passed by one who asked before its place was known", func(d *diary) {
			d.release(d.lease("s", 1, 0, 2, 3, 300, 0), "s", 20, 22)
			d.release(d.lease("s", 12, 13, 21, 24, 320, 0), "s", 30, 32)
			d.lease("s", 5, 14, 31, 35, 330, 0)
		}, ""},
		{"a waiter is passed", func(d *diary) {
			a := d.lease("s", 1, 0, 2, 3, 300, 0)
			d.release(a, "s", 20, 22)
			d.release(d.lease("s", 12, 13, 21, 24, 320, 0), "s", 30, 32)
			d.lease("s", 5, 6, 31, 35, 330, 0)
		}, "S4"},
		{"a release wakes nobody", func(d *diary) {
			d.release(d.lease("queue", 5000, 0, 5001, 5002, 5300, 0), "queue", 5020, 5022)
			d.lease("queue", 5005, 5006, 5040, 5041, 5330, 0)
		}, "L1"},
		{"a permit lies idle", func(d *diary) {
			d.release(d.lease("queue", 5000, 0, 5001, 5002, 5900, 0), "queue", 5003, 5004)
			d.lease("queue", 5005, 5006, 5600, 5601, 5900, 0)
		}, "L2"},
		{"a waiter hears of its grant too late", func(d *diary) {
			d.lease("queue", 5005, 5006, 5040, 5240, 5330, 0)
		}, "L4"},
		{"a waiter stands still while its grant is under way", func(d *diary) {
			d.lease("queue", 5005, 5006, 5040, 5240, 5330, 0)
			d.fault(5050, 5230, history.Event{Proc: 1, Text: "client stood still"})
		}, ""},
		{"a waiter hears too late, while another stands still", func(d *diary) {
			d.lease("queue", 5005, 5006, 5040, 5240, 5330, 0)
			d.fault(5050, 5230, history.Event{Proc: 2, Text: "client stood still"})
		}, "L4"},
	})
}

func TestRefusals(t *testing.T) {
	judged(t, []story{
		{"refused beside a free permit", func(d *diary) {
			d.refused("tries", 1, 10, 290)
			d.refused("tries", 1, 100, 101)
		}, "L2"},
		{"refused for a request without an answer", func(d *diary) {
			d.unanswered("tries", 10, 500)
			d.refused("tries", 1, 600, 601)
		}, ""},
		{"refused long after a request without an answer", func(d *diary) {
			d.unanswered("tries", 10, 500)
			d.refused("tries", 1, 1000, 1001)
		}, "L2"},
		{"refused for a request without an answer, after the storm's end", func(d *diary) {
			d.unanswered("tries", stormEnd-100, stormEnd+500)
			d.refused("tries", 1, stormEnd+600, stormEnd+601)
		}, ""},
		{"refused for a grant that ran out before its request was repeated", func(d *diary) {
			d.refused("tries", 1, 10, 500)
			d.refused("tries", 1, 100, 101)
		}, ""},
		{"refused for a late copy of a request that was refused", func(d *diary) {
			d.repeated("tries", 1, 10, 60)
			d.refused("tries", 1, 50, 51)
		}, ""},
		{"refused when the late copy has been given back", func(d *diary) {
			d.repeated("tries", 1, 10, 60)
			d.refused("tries", 1, 70, 71)
		}, "L2"},
	})
}

// given is a lease that is given away.
func given(d *diary) {
	d.detach(d.lease("s", 10, 0, 11, 12, 300, 0), "s", "h", 20, 22)
}

// TestHandles: a lease that is given away has one holder at a time, and one adopter.
func TestHandles(t *testing.T) {
	judged(t, []story{
		{"adopted once", func(d *diary) {
			given(d)
			d.release(d.adopt("s", "h", 23, 24, 25, 320, 0), "s", 30, 31)
			d.tooLate("s", "h", 24, 40)
		}, ""},
		{"adopted twice, one after the other", func(d *diary) {
			given(d)
			d.release(d.adopt("s", "h", 23, 24, 25, 320, 0), "s", 30, 31)
			d.adopt("s", "h", 32, 33, 34, 330, 0)
		}, "S5"},
		{"adopted twice at once", func(d *diary) {
			given(d)
			d.adopt("s", "h", 23, 24, 25, 320, 0)
			d.adopt("s", "h", 23, 25, 26, 330, 0)
		}, "S1 S3 S5 S7"},
		{"adopted twice, after a loss between", func(d *diary) {
			given(d)
			d.adopt("s", "h", 23, 24, 25, 320, 0)
			d.fault(26, 27, history.Event{Breaks: true})
			d.adopt("s", "h", 32, 33, 34, 330, 0)
		}, ""},
		{"told of an adopter who is not there", func(d *diary) {
			given(d)
			d.tooLate("s", "h", 23, 40)
		}, "S5"},
		{"told of an adopter who heard of it when the lease had run out", func(d *diary) {
			given(d)
			d.inVain("s", "h", 22, 500, history.Gone)
			d.tooLate("s", "h", 23, 40)
		}, ""},
		{"token of an adoption below that of the grant", func(d *diary) {
			d.detach(d.lease("s", 10, 0, 30, 31, 300, 0), "s", "h", 32, 33)
			d.adopt("s", "h", 34, 20, 36, 320, 0)
		}, "S2 S3 S7"},
		{"an adopter passes nobody", func(d *diary) {
			given(d)
			d.release(d.adopt("s", "h", 23, 24, 25, 320, 0), "s", 50, 52)
			d.lease("s", 15, 16, 51, 53, 350, 0)
		}, ""},
	})
}

// TestPermitsOnTheirWay: a lease that was given away and not adopted has its permit.
func TestPermitsOnTheirWay(t *testing.T) {
	judged(t, []story{
		{"a permit is taken while a lease is on its way", func(d *diary) {
			given(d)
			d.lease("s", 22, 0, 30, 31, 250, 0)
			d.adopt("s", "h", 23, 24, 25, 320, 0)
		}, "S1 S3 S7"},
		{"refused while a lease is on its way", func(d *diary) {
			given(d)
			d.refused("s", 1, 100, 101)
			d.onlyTries()
		}, ""},
		{"refused when a lease that nobody adopted has run out", func(d *diary) {
			given(d)
			d.refused("s", 1, 500, 501)
			d.onlyTries()
		}, "L2"},
	})
}

// TestLosses: who is told of a loss before the trust deadline was told a lie.
func TestLosses(t *testing.T) {
	judged(t, []story{
		{"told at the deadline", func(d *diary) { d.lost(d.lease("s", 10, 0, 11, 12, 300, 0), 300) }, ""},
		{"told before it", func(d *diary) { d.lost(d.lease("s", 10, 0, 11, 12, 300, 0), 200) }, "S6"},
		{"told before it, when the server had forgotten", func(d *diary) {
			id := d.lease("s", 10, 0, 11, 12, 300, 0)
			d.fault(13, 14, history.Event{Breaks: true})
			d.lost(id, 200)
		}, ""},
		{"told before it, in a Detach of unknown outcome", toldIn(history.Detach, history.Unknown), ""},
		{"told before it, in a Detach that was refused", toldIn(history.Detach, history.Refused), "S6"},
		{"told before it, in a release of unknown outcome", toldIn(history.Release, history.Unknown), "S6"},
	})
}

// toldIn is a loss that a holder is told of before its trust deadline, within a release or a Detach.
func toldIn(verb history.Verb, outcome history.Outcome) func(d *diary) {
	return func(d *diary) {
		id := d.lease("s", 10, 0, 11, 12, 300, 0)
		d.over(id, "s", 150, 201, history.Event{Verb: verb, Outcome: outcome})
		d.lost(id, 200)
	}
}

// TestTrustBeyondALoss: a lease is not trusted for more than a TTL after it was lost, unless it was
// granted before the server's clock was stepped back, and read again after that.
func TestTrustBeyondALoss(t *testing.T) {
	for want, steps := range map[string][]history.Time{"": {20}, "S6": {5, 60}} {
		for _, back := range steps {
			judged(t, []story{{fmt.Sprint("stepped back at ", back), func(d *diary) {
				id := d.lease("s", 10, 0, 11, 40, 900, 0)
				d.fault(back, back+1, history.Event{Steps: true})
				d.fault(450, 451, history.Event{Steps: true, Breaks: true})
				d.lost(id, 500)
			}, want}})
		}
	}
}

// TestForgottenPlaces: a waiter whose place was forgotten has no claim to it.
func TestForgottenPlaces(t *testing.T) {
	for what, fault := range map[string]history.Event{"S4": {}, "": {Queues: true}} {
		judged(t, []story{{"fault " + what, func(d *diary) {
			a := d.lease("s", 1, 0, 2, 3, 300, 0)
			d.fault(14, 15, fault)
			d.release(a, "s", 20, 22)
			d.release(d.lease("s", 16, 17, 21, 24, 320, 0), "s", 30, 32)
			d.lease("s", 5, 6, 31, 35, 330, 0)
		}, what}})
	}
}

// story is a history and the promises that it breaks.
type story struct {
	name string
	make func(d *diary)
	want string
}

// stormEnd is when the storm of a story ends.
const stormEnd = 10000

func judged(t *testing.T, stories []story) {
	t.Helper()
	for _, c := range stories {
		t.Run(c.name, func(t *testing.T) {
			d := &diary{}
			c.make(d)
			v := d.verdict(stormEnd)
			if got := strings.Join(v.Promises(), " "); got != c.want {
				t.Errorf("saw %q, want %q: %v", got, c.want, v.Violations)
			}
		})
	}
}

// TestLinear: a permit that nobody has is still in use.
func TestLinear(t *testing.T) {
	for _, used := range []int{1, 2} {
		d := &diary{}
		id := d.lease("linear.0", 10, 0, 11, 12, 300, 0)
		d.refused("linear.0", used, 13, 14)
		d.release(id, "linear.0", 15, 16)
		v := d.verdict(stormEnd)
		if got := slices.Contains(v.Promises(), "linearizability"); got != (used == 2) || v.Histories != 1 {
			t.Errorf("%d in use: %v, %d histories", used, v.Violations, v.Histories)
		}
		if used == 2 && len(v.Pictures) == 0 {
			t.Error("no picture")
		}
	}
}

// TestLinearLateCopy: a copy of a request that was refused may find room, until its client
// has closed.
func TestLinearLateCopy(t *testing.T) {
	for asked, ok := range map[history.Time]bool{50: true, 70: false} {
		d := &diary{}
		d.repeated("linear.0", 1, 10, 60)
		d.refused("linear.0", 1, asked, asked+1)
		d.pad("linear.0")
		if v := d.verdict(stormEnd); slices.Contains(v.Promises(), "linearizability") == ok || v.Histories != 1 {
			t.Errorf("refused at %d: %v, %d histories", asked, v.Violations, v.Histories)
		}
	}
}

// TestLinearMoves: a lease that moves takes no permit and frees none.
func TestLinearMoves(t *testing.T) {
	for name, c := range map[string]struct {
		make func(d *diary)
		ok   bool
	}{
		"moved": {func(d *diary) {
			d.refused("linear.0", 1, 21, 23)
			id := d.adopt("linear.0", "h", 24, 25, 26, 320, 0)
			d.refused("linear.0", 1, 27, 28)
			d.tooLate("linear.0", "h", 28, 29)
			d.release(id, "linear.0", 30, 31)
		}, true},
		"a second permit": {func(d *diary) {
			id := d.adopt("linear.0", "h", 24, 25, 26, 320, 0)
			d.refused("linear.0", 2, 27, 28)
			d.release(id, "linear.0", 30, 31)
		}, false},
		"a second adoption": {func(d *diary) {
			one, two := d.adopt("linear.0", "h", 24, 25, 26, 320, 0), d.adopt("linear.0", "h", 27, 28, 29, 320, 0)
			d.release(one, "linear.0", 30, 31)
			d.release(two, "linear.0", 30, 31)
		}, false},
		"nothing to adopt": {func(d *diary) { d.tooLate("linear.0", "h", 24, 25) }, false},
		"gone too soon":    {func(d *diary) { d.inVain("linear.0", "h", 24, 25, history.Gone) }, false},
		"adopted, and told when it had run out": {func(d *diary) {
			d.inVain("linear.0", "h", 24, 400, history.Gone)
			d.tooLate("linear.0", "h", 30, 40)
			d.pad("linear.0")
		}, true},
	} {
		d := &diary{}
		d.detach(d.lease("linear.0", 10, 0, 11, 12, 300, 0), "linear.0", "h", 20, 22)
		c.make(d)
		v := d.verdict(stormEnd)
		if ok := !slices.Contains(v.Promises(), "linearizability"); ok != c.ok || v.Histories != 1 {
			t.Errorf("%s: %v, %d histories", name, v.Violations, v.Histories)
		}
	}
}

// TestHalfALine: the last line of a process that was killed may be cut off, no other.
func TestHalfALine(t *testing.T) {
	file := t.TempDir() + "/1.jsonl"
	whole := `{"at":5,"proc":1,"op":1,"kind":"invoke"}` + "\n"
	for text, fails := range map[string]bool{whole + `{"at":6,`: false, `{"at":` + "\n" + whole: true} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		events, err := history.Read(file)
		if (err != nil) != fails || !fails && len(events) != 1 {
			t.Errorf("%q: %v, %v", text, events, err)
		}
	}
}
