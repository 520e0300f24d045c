//go:build !linux

package redistest

import (
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

// sysProcAttr has nothing to offer here: a server outlives a test binary that
// is killed.
func sysProcAttr() *syscall.SysProcAttr { return nil }

// suspended tells whether SIGSTOP has taken effect.
func suspended(pid int) bool {
	state, err := exec.Command("ps", "-o", "state=", "-p", strconv.Itoa(pid)).Output()
	return err == nil && strings.HasPrefix(string(state), "T")
}
