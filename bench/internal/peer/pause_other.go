//go:build !linux

package peer

import "time"

// exactPause is not available on this system; see pause_linux.go.
func exactPause() (pause func(time.Duration) error, stop func() error, err error) {
	pause, stop = goPause()
	return pause, stop, nil
}
