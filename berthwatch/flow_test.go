package berthwatch

import (
	"slices"
	"testing"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/berthadmin"
	"github.com/berth-go/berth/internal/testkit/testenv"
)

// TestFlowIsWhatWasHeard: hand-offs and expiries of each semaphore and of all together, over the
// time in which somebody looked.
func TestFlowIsWhatWasHeard(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		t := e.T
		s, _ := start(e, 1, nil)
		begun := time.Now()
		lookFor(e, s, 2*time.Second)
		p := e.Peer()
		e.Hold(p.Named("crashes", 1, berth.TTL(time.Second), berth.WithoutRenewal()))
		e.Queue(p.Named("crashes", 1))
		held := e.Hold(p.Sem(1))
		e.Queue(p.Sem(1))
		e.Release(held)
		lookFor(e, s, 8*time.Second)
		for name, want := range map[string]Flow{"crashes": {Handoffs: 1, Expired: 1}, testenv.Name: {Handoffs: 1}, "": {Handoffs: 2, Expired: 1}, "nosuch": {}} {
			got := s.Flow(name, begun)
			if got.Handoffs != want.Handoffs || got.Expired != want.Expired {
				t.Errorf("%q: %+v, want %+v", name, got, want)
			}
		}
		all := s.Flow("", begun)
		if all.Over < 8*time.Second || all.Over > 10*time.Second || all.PerSecond() != 2/all.Over.Seconds() {
			t.Errorf("all: %+v, %v a second", all, all.PerSecond())
		}
		e.Pass(10 * time.Minute) // nobody looks
		lookFor(e, s, 3*time.Second)
		if got := s.Flow("", begun); got.Over > all.Over+time.Minute+5*time.Second || got.Handoffs != 2 {
			t.Errorf("after a sleep: %+v", got)
		}
		if got := s.Flow("", time.Now().Add(-5*time.Minute)); got.Handoffs != 0 || got.Expired != 0 {
			t.Errorf("in the last minutes: %+v", got)
		}
	})
}

// TestWaited is a wait that somebody has had.
func TestWaited(t *testing.T) {
	queue := make([]berthadmin.Waiter, 100)
	for i := range queue { // with head starts, the first in the queue need not have waited longest
		queue[i].Waited = time.Duration(1+(i*37)%100) * time.Second
	}
	const s = time.Second
	for n, want := range map[int][]time.Duration{0: {0, 0, 0}, 1: {s, s, s}, 100: {50 * s, 95 * s, 99 * s}} {
		if got := Waited(queue[:n], 50, 95, 99); !slices.Equal(got, want) {
			t.Errorf("of %d: %v, want %v", n, got, want)
		}
	}
}
