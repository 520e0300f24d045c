package postgres

import "syscall"

// dieWithParent has the kernel shut the server down when this process dies,
// even by a signal that leaves no time for a cleanup. Ctrl-C, which goes to a
// whole process group, is ours to handle: Close shuts the server down.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGQUIT, Setpgid: true}
}
