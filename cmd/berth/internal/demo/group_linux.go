package demo

import "syscall"

// ownGroup also lets a worker end with the demo, should that be killed.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
