package session

import (
	"testing"
	"time"

	"github.com/berth-go/berth/internal/clock"
)

// at is an instant so many milliseconds after some hour.
func at(ms int64) clock.Instant { return clock.Instant(time.Hour + time.Duration(ms)*time.Millisecond) }

// TestLatestIsNeverTooEarly: a request that is executed in time must not be
// refused, however long the reply that told the server's time was under way.
func TestLatestIsNeverTooEarly(t *testing.T) {
	t.Parallel()
	// The server's clock shows 5000 at instant 0.
	for sent := int64(0); sent < 50; sent += 7 {
		for executed := sent; executed < sent+50; executed += 7 {
			c := new(serverClock)
			c.see(5000+executed, at(sent), at(executed+50))
			if got := c.latest(at(1000)); got < 6000 || got > 6000+executed-sent+1 {
				t.Errorf("sent at %d, executed at %d: at 1000 the server shows at most %d", sent, executed, got)
			}
		}
	}
}

func TestStepOfTheServersClock(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		server    int64 // of the second reply
		sent, got int64
		want      time.Duration
	}{
		"none":                      {6000, 1000, 1001, 0},
		"slow request":              {6500, 1000, 1501, 0},
		"slow reply":                {6000, 1000, 1500, 0},
		"forward":                   {96_003, 1000, 1001, 90 * time.Second},
		"backward":                  {6000 - 3_600_000 - 3, 1000, 1001, -time.Hour},
		"within what delays can do": {6011, 1000, 1010, 0},
	} {
		c := new(serverClock)
		if step := c.see(5000, at(0), at(1)); step != 0 {
			t.Errorf("%s: the first reply stepped by %v", name, step)
		}
		if got := c.see(tt.server, at(tt.sent), at(tt.got)); (got-tt.want).Abs() > 3*time.Millisecond || (got == 0) != (tt.want == 0) {
			t.Errorf("%s: step %v, want %v", name, got, tt.want)
		}
		if got := c.latest(at(tt.sent)); got != tt.server+1 {
			t.Errorf("%s: the new time is not taken: %d", name, got)
		}
	}
}

func TestClockIsUnknownAtFirst(t *testing.T) {
	t.Parallel()
	c := new(serverClock)
	if c.known() {
		t.Error("known before a reply was seen")
	}
	if c.see(1, at(0), at(0)); !c.known() {
		t.Error("unknown after a reply was seen")
	}
}
