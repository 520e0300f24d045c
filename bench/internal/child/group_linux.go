// Package child has what the processes that a run starts have in common.
package child

import "syscall"

// Group keeps Ctrl-C from a child process, and ends it with the run, should
// that be killed.
func Group() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
