package judge

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/berth-go/berth/verify/history"
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
	e := history.Event{Op: d.ops, Verb: history.Acquire, Name: name, Limit: 1, Weight: 1, TTL: 300, Kind: history.Invoke}
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
	d.ops++
	e := history.Event{Op: d.ops, Lease: lease, Verb: history.Release, Name: name, Kind: history.Invoke}
	d.write(from, e)
	e.Kind, e.Outcome = history.Return, history.OK
	d.write(to, e)
}

// refused is a try that was told how many permits are in use.
func (d *diary) refused(name string, used int, asked, returned history.Time) {
	d.ops++
	e := history.Event{Op: d.ops, Verb: history.Try, Name: name, Limit: 1, Weight: 1, TTL: 300, Kind: history.Invoke}
	d.write(asked, e)
	e.Kind, e.Outcome, e.Used = history.Return, history.Busy, used
	d.write(returned, e)
}

func (d *diary) fault(from, to history.Time, e history.Event) {
	e.At, e.Until, e.Kind = from*ms, to*ms, history.Fault
	d.events = append(d.events, e)
}

// verdict judges the diary; the server's clock is the monotonic one.
func (d *diary) verdict(end history.Time) *Verdict {
	clock := NewClock([2]time.Duration{0, time.Hour}, [2]history.Time{0, history.Time(time.Hour)})
	run := Assemble(d.events, clock)
	run.End = end * ms
	return Judge(run, Rules{Clock: clock, Slack: 100 * time.Millisecond, Queue: "queue", Linear: "linear"})
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
	})
}

func TestRefusals(t *testing.T) {
	judged(t, []story{
		{"refused beside a free permit", func(d *diary) {
			d.refused("tries", 1, 10, 290)
			d.refused("tries", 1, 100, 101)
		}, "L2"},
		{"refused for a grant that ran out before its request was repeated", func(d *diary) {
			d.refused("tries", 1, 10, 500)
			d.refused("tries", 1, 100, 101)
		}, ""},
	})
}

// story is a history and the promises that it breaks.
type story struct {
	name string
	make func(d *diary)
	want string
}

func judged(t *testing.T, stories []story) {
	t.Helper()
	for _, c := range stories {
		t.Run(c.name, func(t *testing.T) {
			d := &diary{}
			c.make(d)
			v := d.verdict(10000)
			if got := strings.Join(v.Promises(), " "); got != c.want {
				t.Errorf("saw %q, want %q: %v", got, c.want, v.Violations)
			}
		})
	}
}

// TestWhoAskedLaterDidNotOvertake: tokens may be lower again after the clock was set
// back. Who had its answer before the other asked was overtaken by nobody.
func TestWhoAskedLaterDidNotOvertake(t *testing.T) {
	for _, c := range []struct {
		asked    []history.Time // by one that gets token 30, by one that gets 20
		overtook bool
	}{{[]history.Time{60, 30}, true}, {[]history.Time{60, 60}, false}, {[]history.Time{30, 60}, true}} {
		d := &diary{}
		d.release(d.lease("s", 5, 6, 40, 41, 300, 0), "s", 45, 46)
		d.lease("s", c.asked[0], 0, 30, 62, 300, 0)
		d.lease("s", c.asked[1], 0, 20, 62, 300, 0)
		if v := d.verdict(10000); slices.Contains(v.Promises(), "S4") != c.overtook {
			t.Errorf("asked at %d: %v", c.asked, v.Violations)
		}
	}
}

// TestLinear: a permit that nobody has is still in use.
func TestLinear(t *testing.T) {
	for _, used := range []int{1, 2} {
		d := &diary{}
		id := d.lease("linear.0", 10, 0, 11, 12, 300, 0)
		d.refused("linear.0", used, 13, 14)
		d.release(id, "linear.0", 15, 16)
		v := d.verdict(10000)
		if got := slices.Contains(v.Promises(), "linearizability"); got != (used == 2) || v.Histories != 1 {
			t.Errorf("%d in use: %v, %d histories", used, v.Violations, v.Histories)
		}
		if used == 2 && len(v.Pictures) == 0 {
			t.Error("no picture")
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
