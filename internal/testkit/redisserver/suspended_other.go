//go:build !linux

package redisserver

import (
	"os/exec"
	"strconv"
	"strings"
)

// suspended tells whether SIGSTOP has taken effect.
func suspended(pid int) bool {
	state, err := exec.Command("ps", "-o", "state=", "-p", strconv.Itoa(pid)).Output()
	return err == nil && strings.HasPrefix(string(state), "T")
}
