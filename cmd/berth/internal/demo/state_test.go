package demo

import (
	"slices"
	"testing"
	"time"

	"github.com/berth-go/berth/internal/judge"
)

const unit = time.Millisecond

// story is what four workers report, and a demo that begins at 0 and has a limit of 3,
// after holds of {worker, slot, token, asked, start, end}; a negative end is a kill.
func story(holds ...[6]int) *State {
	s := newState(Config{Workers: 4, Limit: 3})
	s.begin = 0
	for _, h := range holds {
		s.add(event{
			Kind: started, worker: h[0], Slot: h[1], Token: int64(h[2]),
			Asked: time.Duration(h[3]) * unit, At: time.Duration(h[4]) * unit,
		})
		kind, end := ended, h[5]
		if end < 0 {
			kind, end = killed, -end
		}
		if end != 0 {
			s.add(event{Kind: kind, worker: h[0], At: time.Duration(end) * unit})
		}
	}
	return s
}

func TestMostHeld(t *testing.T) {
	tests := []struct {
		name string
		s    *State
		want int
	}{
		{"none", story(), 0},
		{"one after the other", story([6]int{0, 0, 1, 0, 1, 2}, [6]int{1, 0, 2, 0, 2, 3}), 1},
		{"overlapping", story([6]int{0, 0, 1, 0, 1, 5}, [6]int{1, 0, 2, 0, 2, 3}), 2},
		{"still held", story([6]int{0, 0, 1, 0, 1, 0}, [6]int{1, 0, 2, 0, 9, 10}), 2},
		{"ended by a kill", story([6]int{0, 0, 1, 0, 1, -4}, [6]int{1, 0, 2, 0, 9, 10}), 1},
	}
	for _, tt := range tests {
		if got := judge.Limit(tt.s.requests(20*unit), 1).Held; got != tt.want {
			t.Errorf("%s: %d, want %d", tt.name, got, tt.want)
		}
	}
}

func TestHandOffsCountOnlyThoseWhoWaited(t *testing.T) {
	s := story(
		[6]int{0, 0, 1, 0, 1, 10},
		[6]int{1, 0, 2, 5, 12, -20}, // waited: 2
		[6]int{2, 0, 3, 15, 30, 40}, // after a crash: no hand-off
		[6]int{3, 0, 4, 45, 46, 50}, // came when it was free: no hand-off
		[6]int{4, 1, 5, 0, 11, 12},  // another slot
	)
	got := s.handOffs()
	if len(got) != 1 || got[0] != 2*unit {
		t.Errorf("got %v, want [2ms]", got)
	}
	c := s.crash()
	if c == nil || c.Worker != 1 || !c.CameBack || c.BackTo != 2 || c.BackAfterMS != 10 {
		t.Errorf("crash %+v", c)
	}
}

func TestOrder(t *testing.T) {
	for _, tt := range []struct {
		tokens    [3]int64 // of the workers 1, 2 and 3
		overtaken int
	}{{[3]int64{2, 3, 4}, 0}, {[3]int64{3, 2, 4}, 1}} {
		s := story([6]int{0, 0, 1, 0, 1, 0})
		// 1 is in line from 3; 2 asks at 5 and 3 at 6.
		s.add(event{Kind: queued, worker: 1, At: 3 * unit})
		if got := s.queue(); !slices.Equal(got, []int{1}) {
			t.Errorf("%v are in line, want 1", got)
		}
		for i, asked := range []int{2, 5, 6} {
			s.add(event{
				Kind: started, worker: i + 1, Token: tt.tokens[i], Asked: time.Duration(asked) * unit, At: time.Duration(10*(i+1)) * unit,
			})
		}
		if got := s.queue(); len(got) != 0 {
			t.Errorf("%v are in line, want nobody", got)
		}
		if sum := s.summary(50 * unit); sum.Waited != 1 || sum.Overtaken != tt.overtaken {
			t.Errorf("tokens %v: %d waited, %d overtaken; want 1 and %d", tt.tokens, sum.Waited, sum.Overtaken, tt.overtaken)
		}
	}
}

func TestSummaryJudges(t *testing.T) {
	s := story([6]int{0, 0, 1, 0, 1, 5}, [6]int{1, 0, 2, 0, 2, 3})
	s.cfg.Limit = 1
	if sum := s.summary(10 * unit); sum.LimitKept || sum.OK() {
		t.Errorf("two at once are within a limit of one: %+v", sum)
	}
	s.cfg.Limit = 2
	if sum := s.summary(10 * unit); !sum.OK() {
		t.Errorf("two at once are above a limit of two: %+v", sum)
	}
	lost := story([6]int{0, 0, 1, 0, 1, -5})
	if sum := lost.summary(10 * unit); sum.OK() {
		t.Errorf("a permit that did not come back is fine: %+v", sum)
	}
}
