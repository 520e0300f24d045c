package scene

import "syscall"

// ownGroup keeps Ctrl-C from the process, and lets it end with the laboratory,
// stopped or not, should that be killed.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
