package demo

import (
	"time"

	"golang.org/x/sys/unix"
)

// The kinds of an Event.
const (
	queued  = "queued"  // it has to wait
	started = "started" // it has a permit and starts to work
	ended   = "ended"   // it has worked and is about to give the permit back
	killed  = "killed"  // the demo has killed it; from the demo
)

// event is what a worker reports, one line of JSON each.
type event struct {
	Kind string        `json:"kind"`
	At   time.Duration `json:"at"` // by the clock that all processes share
	// With started:
	Token int64         `json:"token,omitempty"`
	Slot  int           `json:"slot,omitempty"`
	Asked time.Duration `json:"asked,omitempty"` // when it asked for this permit
	Work  time.Duration `json:"work,omitempty"`  // how long it means to work

	worker int // whose event it is
}

// clock reads the monotonic clock, which is the same for all processes of a
// machine: reports of different workers can be compared.
func clock() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		return time.Duration(time.Now().UnixNano())
	}
	return time.Duration(ts.Nano())
}
