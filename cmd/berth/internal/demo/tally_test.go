package demo

import (
	"testing"
	"time"

	"github.com/berth-go/berth"
)

const unit = time.Millisecond

// story feeds a tally with holds of {worker, slot, token, asked, start, end};
// a negative end is a kill.
func story(holds ...[6]int) *tally {
	t := newTally()
	for _, h := range holds {
		t.add(event{
			Kind: started, worker: h[0], Slot: h[1], Token: int64(h[2]), Lease: string(rune('a' + h[2])),
			Asked: time.Duration(h[3]) * unit, At: time.Duration(h[4]) * unit,
		})
		kind, end := ended, h[5]
		if end < 0 {
			kind, end = killed, -end
		}
		if end != 0 {
			t.add(event{Kind: kind, worker: h[0], At: time.Duration(end) * unit})
		}
	}
	return t
}

func TestMostHeld(t *testing.T) {
	tests := []struct {
		name string
		t    *tally
		want int
	}{
		{"none", story(), 0},
		{"one after the other", story([6]int{0, 0, 1, 0, 1, 2}, [6]int{1, 0, 2, 0, 2, 3}), 1},
		{"overlapping", story([6]int{0, 0, 1, 0, 1, 5}, [6]int{1, 0, 2, 0, 2, 3}), 2},
		{"still held", story([6]int{0, 0, 1, 0, 1, 0}, [6]int{1, 0, 2, 0, 9, 10}), 2},
		{"ended by a kill", story([6]int{0, 0, 1, 0, 1, -4}, [6]int{1, 0, 2, 0, 9, 10}), 1},
	}
	for _, tt := range tests {
		if got := tt.t.mostHeld(); got != tt.want {
			t.Errorf("%s: %d, want %d", tt.name, got, tt.want)
		}
	}
}

func TestHandOffsCountOnlyThoseWhoWaited(t *testing.T) {
	tally := story(
		[6]int{0, 0, 1, 0, 1, 10},
		[6]int{1, 0, 2, 5, 12, -20}, // waited: 2
		[6]int{2, 0, 3, 15, 30, 40}, // after a crash: no hand-off
		[6]int{3, 0, 4, 45, 46, 50}, // came when it was free: no hand-off
		[6]int{4, 1, 5, 0, 11, 12},  // another slot
	)
	got := tally.handOffs()
	if len(got) != 1 || got[0] != 2*unit {
		t.Errorf("got %v, want [2ms]", got)
	}
	c := tally.crash(0)
	if c == nil || c.Worker != 1 || !c.CameBack || c.BackTo != 2 || c.BackAfterMS != 10 {
		t.Errorf("crash %+v", c)
	}
}

func TestOrder(t *testing.T) {
	tally := story([6]int{0, 0, 1, 0, 1, 2}, [6]int{1, 0, 2, 0, 2, 3}, [6]int{2, 0, 3, 0, 3, 4})
	o := newOrder()
	o.see([]berth.Waiter{{ID: "b"}, {ID: "c"}, {ID: "never granted"}})
	o.see([]berth.Waiter{{ID: "c"}, {ID: "d"}})
	if pairs, overtaken := o.compare(tally.holds); pairs != 2 || overtaken != 0 {
		t.Errorf("%d pairs, %d overtaken; want 2 and 0", pairs, overtaken)
	}
	o.see([]berth.Waiter{{ID: "d"}, {ID: "b"}})
	if pairs, overtaken := o.compare(tally.holds); pairs != 3 || overtaken != 1 {
		t.Errorf("%d pairs, %d overtaken; want 3 and 1", pairs, overtaken)
	}
}

func TestSummaryJudges(t *testing.T) {
	tally := story([6]int{0, 0, 1, 0, 1, 5}, [6]int{1, 0, 2, 0, 2, 3})
	if s := tally.summary(0, 10*unit, 1, 2, newOrder()); s.LimitKept || s.OK() {
		t.Errorf("two at once are within a limit of one: %+v", s)
	}
	if s := tally.summary(0, 10*unit, 2, 2, newOrder()); !s.OK() {
		t.Errorf("two at once are above a limit of two: %+v", s)
	}
	lost := story([6]int{0, 0, 1, 0, 1, -5})
	if s := lost.summary(0, 10*unit, 2, 2, newOrder()); s.OK() {
		t.Errorf("a permit that did not come back is fine: %+v", s)
	}
}
