//go:build !linux

package history

import "time"

// Now returns the present time. Here it is the time of day: the only clock that
// processes share; it must not be set during a run.
func Now() Time { return Time(time.Now().UnixNano()) }

// Wall returns the time of day and the present time.
func Wall() (wall time.Duration, at Time) {
	at = Now()
	return time.Duration(at), at
}
