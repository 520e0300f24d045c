package clock

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestExactCountsSuspension(t *testing.T) {
	defer func() { base.Add(int64(10 * time.Second)); slept.Store(0); ahead.Store(0) }()
	start := time.Now()
	before := Exact()
	if d := Exact().Sub(before); d < 0 || d > time.Since(start)+time.Second {
		t.Fatalf("%v passed between two calls", d)
	}
	Suspend(10 * time.Second)
	if d := Exact().Sub(before); d < 9*time.Second || d > time.Since(start)+11*time.Second {
		t.Errorf("after a suspension of 10 s Exact moved by %v, of which %v are real", d, time.Since(start))
	}
	if d := Now().Sub(before); d < 9*time.Second {
		t.Errorf("Now moved by %v, although Exact had seen the suspension", d)
	}
}

// TestTimeCountsASuspensionThatNobodyHasSeen: a deadline on the wall clock is not later by it.
func TestTimeCountsASuspensionThatNobodyHasSeen(t *testing.T) {
	defer func() { base.Add(int64(10 * time.Second)); slept.Store(0); ahead.Store(0) }()
	deadline := Exact().Add(time.Minute)
	before := deadline.Time()
	Suspend(10 * time.Second)
	if earlier := before.Sub(deadline.Time()); earlier < 9*time.Second {
		t.Errorf("after a suspension of 10 s the deadline is earlier by %v", earlier)
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
