package run

import (
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
