package redistest

import (
	"bytes"
	"fmt"
	"os"
	"syscall"
)

// sysProcAttr has the kernel kill the server when the test binary dies, even
// by a signal that leaves no time for a cleanup.
func sysProcAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

// suspended tells whether SIGSTOP has taken effect: the field after the name
// in /proc/PID/stat is the state.
func suspended(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	i := bytes.LastIndex(stat, []byte(") "))
	return err == nil && i >= 0 && i+2 < len(stat) && stat[i+2] == 'T'
}
