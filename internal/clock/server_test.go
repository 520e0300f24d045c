package clock

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

func at(d time.Duration) Instant { return Instant(epoch + d) }

// TestTightestBoundOfTheServersClockCounts: a reply that was under way for long
// says little, and takes nothing back of what a faster one said.
func TestTightestBoundOfTheServersClockCounts(t *testing.T) {
	t.Parallel()
	var c Server
	if latest, sharp := c.Latest(at(0)); latest != 0 || sharp {
		t.Fatalf("%d, before anything was seen", latest)
	}
	c.See(1_000_000, at(0), at(10*time.Millisecond))
	late := at(20 * time.Second)
	before, _ := c.Latest(late)
	// Executed at once, and held on its way back for 14 s.
	if step := c.See(1_001_000, at(time.Second), at(15*time.Second)); step != 0 {
		t.Errorf("a slow reply was taken for a step of %v", step)
	}
	if after, _ := c.Latest(late); after > before {
		t.Errorf("latest time %d, %d before the slow reply", after, before)
	}
	// Held on its way there: the request was sent long before it was executed.
	c.See(1_015_005, at(time.Second), at(15*time.Second+5*time.Millisecond))
	if after, _ := c.Latest(late); after > before {
		t.Errorf("latest time %d, %d before the slow request", after, before)
	}
}

// TestClockIsSharpForAsLongAsItSays: until the clocks may have run apart by Vague.
func TestClockIsSharpForAsLongAsItSays(t *testing.T) {
	t.Parallel()
	var c Server
	c.See(1_000_000, at(0), at(time.Second))
	for after, want := range map[time.Duration]bool{100*Vague + 99*time.Millisecond: true, 100*Vague + 100*time.Millisecond: false} {
		if _, sharp := c.Latest(at(after)); sharp != want {
			t.Errorf("sharp %v after the request: %v", after, sharp)
		}
	}
}

// TestStepsOfTheServersClockAreSeen, in both directions, and believed at once.
func TestStepsOfTheServersClockAreSeen(t *testing.T) {
	t.Parallel()
	for _, step := range []time.Duration{90 * time.Second, -time.Hour, 2 * time.Second} {
		var c Server
		c.See(5_000_000, at(0), at(time.Millisecond))
		now := at(time.Second)
		server := 5_001_000 + step.Milliseconds()
		if seen := c.See(server, now, now.Add(time.Millisecond)); (seen - step).Abs() > 50*time.Millisecond {
			t.Errorf("a step of %v was seen as %v", step, seen)
		}
		if latest, _ := c.Latest(now); latest < server || latest > server+10 {
			t.Errorf("after a step of %v the server shows %d at most, and it was %d", step, latest, server)
		}
	}
}

// TestLatestIsNeverTooEarly: whatever the delays, and while the clocks run apart by
// less than a hundredth, the server never shows more than Latest says.
func TestLatestIsNeverTooEarly(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var c Server
		rate := rapid.Float64Range(0.992, 1.008).Draw(t, "rate")
		serverAt := func(d time.Duration) int64 { return 1_700_000_000_000 + int64(float64(d.Microseconds())*rate/1000) }
		now := time.Duration(0)
		delay := rapid.Custom(func(t *rapid.T) time.Duration {
			return time.Duration(rapid.IntRange(0, 3000).Draw(t, "ms")) * time.Millisecond
		})
		for range rapid.IntRange(1, 20).Draw(t, "requests") {
			sent := now
			executed := sent + delay.Draw(t, "there")
			now = executed + delay.Draw(t, "back")
			if step := c.See(serverAt(executed), at(sent), at(now)); step != 0 {
				t.Fatalf("delays were taken for a step of %v", step)
			}
			now += delay.Draw(t, "pause")
			is := serverAt(now)
			if most, _ := c.Latest(at(now)); is > most {
				t.Fatalf("the server shows %d, at most %d was said", is, most)
			}
		}
	})
}
