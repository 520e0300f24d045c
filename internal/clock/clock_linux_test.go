package clock

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestExactCountsSuspension: the test cannot suspend the machine, so it has the
// package believe that it started before a suspension of ten seconds.
func TestExactCountsSuspension(t *testing.T) {
	defer func() { base += 10 * time.Second; slept.Store(0); ahead.Store(0) }()
	before := Exact()
	if d := Exact().Sub(before); d < 0 || d > 5*time.Second {
		t.Fatalf("%v passed between two calls", d)
	}
	base -= 10 * time.Second
	ahead.Add(int64(10 * time.Second)) // the wall clock went on, against the monotonic one
	if d := Exact().Sub(before); d < 9*time.Second || d > 15*time.Second {
		t.Errorf("after a suspension of 10 s Exact moved by %v", d)
	}
	if d := Now().Sub(before); d < 9*time.Second {
		t.Errorf("Now moved by %v, although Exact had seen the suspension", d)
	}
}

func TestExactFollowsABubble(t *testing.T) {
	synctest.Test(t, func(*testing.T) {
		before := Exact()
		<-time.After(time.Hour)
		if d := Exact().Sub(before); d != time.Hour {
			t.Errorf("an hour took %v", d)
		}
	})
}

func BenchmarkExact(b *testing.B) {
	for b.Loop() {
		Exact()
	}
}
