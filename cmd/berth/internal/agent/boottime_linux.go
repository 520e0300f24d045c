package agent

import (
	"time"

	"golang.org/x/sys/unix"
)

// boottime is the time since this machine was started. It counts suspension.
func boottime() time.Duration { return clock(unix.CLOCK_BOOTTIME) }
