package clock

import (
	"syscall"
	"time"
	"unsafe"
)

// The clocks of clock_gettime(2).
const (
	monotonic = 1 // stands still during suspend; what Go uses
	boottime  = 7 // counts it
)

// suspendedAtMost is cheaper than suspended: it may be more by how long this
// goroutine was interrupted.
func suspendedAtMost() time.Duration {
	before := read(monotonic)
	return read(boottime) - before
}

// suspended returns how long the machine has been suspended since it started,
// to within a millisecond: a pair of readings that was interrupted is repeated.
func suspended() time.Duration {
	var d time.Duration
	for range 10 {
		before := read(monotonic)
		d = read(boottime) - before
		if read(monotonic)-before < time.Millisecond {
			break
		}
	}
	return d
}

func read(id uintptr) time.Duration {
	var ts syscall.Timespec
	if _, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, id, uintptr(unsafe.Pointer(&ts)), 0); errno != 0 {
		return 0
	}
	return time.Duration(ts.Nano())
}
