package agent

import (
	"time"

	"golang.org/x/sys/unix"
)

// clock reads a clock of the system.
func clock(id int32) time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(id, &ts); err != nil {
		return 0
	}
	return time.Duration(ts.Nano())
}
