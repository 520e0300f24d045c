package scene

import (
	"time"

	"golang.org/x/sys/unix"
)

// began is the zero of the fallback clock.
var began = time.Now()

// monotonic reads the machine's monotonic clock. It is the same for all
// processes, so what they believed can be compared.
func monotonic() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		return time.Since(began)
	}
	return time.Duration(ts.Nano())
}
