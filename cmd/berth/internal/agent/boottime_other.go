//go:build !linux

package agent

import (
	"time"

	"golang.org/x/sys/unix"
)

// boottime is the time since this machine was started, by a clock that every program can read.
// On macOS it counts suspension.
func boottime() time.Duration { return clock(unix.CLOCK_MONOTONIC) }
