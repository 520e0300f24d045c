package clock

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestAlarmRingsAtTheEarliest of what was asked for; after a suspension, too, in which the timer
// stood still that had been set before.
func TestAlarmRingsAtTheEarliest(t *testing.T) {
	for name, slept := range map[string]time.Duration{"awake": 0, "suspended": 2 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rang := make(chan time.Time, 1)
				a := NewAlarm(func() { rang <- time.Now() })
				defer a.Stop()
				a.Set(Never)
				a.Set(Exact().Add(time.Hour))
				<-time.After(time.Minute)
				Suspend(slept)
				began := time.Now()
				a.Set(Exact().Add(time.Second))
				a.Set(Exact().Add(2 * time.Second))
				if took := (<-rang).Sub(began); took != time.Second {
					t.Errorf("it rang after %v, want a second", took)
				}
				a.Rang()
				a.Set(Exact().Add(time.Minute))
				if took := (<-rang).Sub(began); took != time.Minute+time.Second {
					t.Errorf("it rang again after %v", took)
				}
			})
		})
	}
}
