package history

import (
	"syscall"
	"time"
	"unsafe"
)

// Now returns the present time.
func Now() Time { return read(1) } // CLOCK_MONOTONIC, what Go measures with

// Wall returns the time of day and the present time, read as close together as
// it can be done.
func Wall() (wall time.Duration, at Time) {
	best := time.Duration(Never)
	for range 20 {
		before := Now()
		w := read(0) // CLOCK_REALTIME
		after := Now()
		if d := after.Sub(before); d < best {
			best, wall, at = d, time.Duration(w), before+(after-before)/2
		}
	}
	return wall, at
}

func read(id uintptr) Time {
	var ts syscall.Timespec
	if _, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, id, uintptr(unsafe.Pointer(&ts)), 0); errno != 0 {
		panic(errno)
	}
	return Time(ts.Nano())
}
