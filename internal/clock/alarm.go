package clock

import "time"

// Alarm is a timer for the earliest of the instants that were asked for. Calls must not
// overlap: its owner holds a lock.
type Alarm struct {
	ring  func()
	timer *time.Timer
	at    Instant // when it rings, by Go's own clock; 0: it is not set
}

// NewAlarm returns an alarm that is not set. It calls ring in a goroutine of its own.
func NewAlarm(ring func()) Alarm { return Alarm{ring: ring} }

// Set makes sure that the alarm rings at the given instant or earlier.
func (a *Alarm) Set(at Instant) {
	if at == Never {
		return
	}
	// A timer stands still while the machine is suspended. By the clock that does not, a timer
	// that was set before would seem to ring before anything that is asked for since.
	at -= Instant(slept.Load())
	if a.at != 0 && a.at <= at {
		return
	}
	a.at = at
	d := max(at.Sub(awake()), 0)
	if a.timer == nil {
		a.timer = time.AfterFunc(d, a.ring)
	} else {
		a.timer.Reset(d)
	}
}

// Rang notes that the alarm has rung, and is not set.
func (a *Alarm) Rang() { a.at = 0 }

// Stop ends the alarm. It may be ringing.
func (a *Alarm) Stop() {
	if a.timer != nil {
		a.timer.Stop()
	}
}
