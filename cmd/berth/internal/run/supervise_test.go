package run

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/berthtest"
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

// TestCommandIsAskedToEndAtMaxHold, and not before; its lease lasts until it must have ended.
func TestCommandIsAskedToEndAtMaxHold(t *testing.T) {
	for _, tt := range []struct{ ttl, maxHold time.Duration }{
		{berth.DefaultTTL, 2 * time.Second},
		{berth.DefaultTTL, 5 * time.Second},
		{berth.DefaultTTL, time.Hour},
		{2 * time.Second, 90 * time.Second},
		{time.Hour, 2 * time.Hour},
		{berth.DefaultTTL, berth.MinTTL},
	} {
		synctest.Test(t, func(t *testing.T) {
			client := berthtest.New(t).Client()
			sem, err := client.Semaphore("s", 1, berth.TTL(tt.ttl), berth.MaxHold(LeaseMaxHold(tt.ttl, tt.maxHold)))
			if err != nil {
				t.Fatal(err)
			}
			lease, err := sem.Acquire(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			s := &supervisor{cfg: Config{TTL: tt.ttl, MaxHold: tt.maxHold}, lease: lease, ends: began.Add(tt.maxHold)}
			for until := s.untilNotice(); until > 0; until = s.untilNotice() {
				<-time.After(until)
			}
			if asked := time.Since(began); asked != tt.maxHold {
				t.Errorf("TTL %v: asked to end after %v, want %v", tt.ttl, asked, tt.maxHold)
			}
			if left := time.Until(lease.ValidUntil()); left < s.notice() {
				t.Errorf("TTL %v, at most %v: there are %v for it, want %v", tt.ttl, tt.maxHold, left, s.notice())
			}
		})
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
		{0, now.Add(time.Hour), now, "about to expire"},
		{0, now.Add(-time.Second), now, "has expired"},
		{time.Hour, now.Add(-time.Second), now.Add(time.Hour), "has expired"},
		{time.Hour, now.Add(-time.Second), now, "its --max-hold of 1h"},
	} {
		s := &supervisor{cfg: Config{TTL: time.Minute, MaxHold: tt.maxHold, Health: new(Health)}, trust: tt.trust, ends: tt.ends}
		if got := s.runsOut().Error(); !strings.Contains(got, tt.want) {
			t.Errorf("at most %v: %q, want %q", tt.maxHold, got, tt.want)
		}
	}
}
