//go:build !linux

package peer

// exactPause is not available on this system; see pause_linux.go.
var exactPause = goPause
