package run

import (
	"strings"
	"testing"
	"time"
)

// A command is asked to end a little before its lease ends, not when it starts.
func TestNoticeIsAPartOfTheLease(t *testing.T) {
	for _, tt := range []struct{ ttl, maxHold, want time.Duration }{
		{8 * time.Second, 0, 2 * time.Second},
		{time.Minute, 0, maxNotice},
		{30 * time.Second, 2 * time.Second, 500 * time.Millisecond},
		{8 * time.Second, time.Hour, 2 * time.Second},
	} {
		s := &supervisor{cfg: Config{TTL: tt.ttl, MaxHold: tt.maxHold}}
		if got := s.notice(); got != tt.want {
			t.Errorf("TTL %v, at most %v: %v, want %v", tt.ttl, tt.maxHold, got, tt.want)
		}
	}
}

// A lease that ran out while berth was suspended is not said to be about to.
func TestWhyALeaseEnds(t *testing.T) {
	now := time.Now()
	for _, tt := range []struct {
		maxHold     time.Duration
		trust, ends time.Time
		want        string
	}{
		{0, now.Add(time.Hour), now, "about to run out"},
		{0, now.Add(-time.Second), now, "has run out"},
		{time.Hour, now.Add(-time.Second), now.Add(time.Hour), "has run out"},
		{time.Hour, now.Add(-time.Second), now, "its --max-hold of 1h"},
	} {
		s := &supervisor{cfg: Config{TTL: time.Minute, MaxHold: tt.maxHold, Health: new(Health)}, trust: tt.trust, ends: tt.ends}
		if got := s.runsOut().Error(); !strings.Contains(got, tt.want) {
			t.Errorf("at most %v: %q, want %q", tt.maxHold, got, tt.want)
		}
	}
}
