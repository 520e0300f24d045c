package promises

import (
	"slices"
	"strings"
	"testing"

	"github.com/berth-go/berth/dev/verify/history"
)

// TestClockMayTakeTokensBack while a semaphore is idle. Its slots are judged all the same.
func TestClockMayTakeTokensBack(t *testing.T) {
	for asked, want := range map[history.Time]string{36: "", 34: "S1 S7"} {
		d := &diary{}
		d.release(d.lease("s", 30, 0, 31, 31, 300, 0), "s", 35, 35)
		d.fault(32, 33, history.Event{Steps: true})
		d.lease("s", asked, 0, 20, asked, 320, 0)
		run := Assemble(d.events, Clock{})
		if got := strings.Join(Judge(run, Rules{}).Promises(), " "); got != want {
			t.Errorf("asked at %d: %q, want %q", asked, got, want)
		}
	}
}

// TestExcessNamesAllHolders: the picture of a violation shows those who believed at once.
func TestExcessNamesAllHolders(t *testing.T) {
	d := &diary{}
	d.release(d.lease("s", 5, 0, 6, 7, 300, 0), "s", 8, 9)
	d.lease("s", 10, 0, 11, 12, 300, 0)
	d.lease("s", 15, 0, 21, 25, 320, 1)
	for _, x := range d.verdict(stormEnd).Violations {
		if len(x.Ops) != 2 || x.Ops[0].Op != 3 || x.Ops[1].Op != 4 {
			t.Errorf("%v is about %d operations, want the second and the third lease", x, len(x.Ops))
		}
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
		if v := d.verdict(stormEnd); slices.Contains(v.Promises(), "S4") != c.overtook {
			t.Errorf("asked at %d: %v", c.asked, v.Violations)
		}
	}
}

// TestPlaceMayBeForgottenBeforeItIsTold: the answer that tells of it may be late.
func TestPlaceMayBeForgottenBeforeItIsTold(t *testing.T) {
	for _, c := range []struct {
		forgotten history.Time
		overtaken bool
	}{{5, true}, {20, false}, {35, false}, {70, true}} {
		d := &diary{}
		d.fault(c.forgotten, c.forgotten+1, history.Event{Breaks: true})
		d.release(d.lease("s", 32, 0, 40, 41, 300, 0), "s", 45, 46)
		d.lease("s", 10, 30, 60, 61, 300, 0)
		if v := d.verdict(stormEnd); slices.Contains(v.Promises(), "S4") != c.overtaken {
			t.Errorf("forgotten at %d: %v", c.forgotten, v.Violations)
		}
	}
}
