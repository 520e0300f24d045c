package history

import (
	"time"

	"golang.org/x/sys/unix"
)

// Now returns the present time.
func Now() Time { return read(unix.CLOCK_MONOTONIC) }

// Wall returns the time of day and the present time, read as close together as
// possible.
func Wall() (wall time.Duration, at Time) {
	best := time.Duration(Never)
	for range 20 {
		before := Now()
		w := read(unix.CLOCK_REALTIME)
		after := Now()
		if d := after.Sub(before); d < best {
			best, wall, at = d, time.Duration(w), before+(after-before)/2
		}
	}
	return wall, at
}

func read(clock int32) Time {
	var ts unix.Timespec
	if err := unix.ClockGettime(clock, &ts); err != nil {
		panic(err)
	}
	return Time(ts.Nano())
}
