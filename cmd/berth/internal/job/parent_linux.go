package job

import "syscall"

// endWithParent asks for a TERM at the death of the thread that starts the
// command. The caller must be on a thread that lives as long as the process.
func endWithParent(sys *syscall.SysProcAttr) { sys.Pdeathsig = syscall.SIGTERM }
