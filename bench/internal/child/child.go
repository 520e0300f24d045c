package child

import (
	"os/exec"
	"runtime"
)

// Process is a child process and the news of its end.
type Process struct {
	Cmd  *exec.Cmd
	Done chan struct{} // closed once the process has been waited for
}

// Start starts cmd in a group of its own, from a thread that lives as long as
// it does: the kernel's signal at the parent's death follows the thread.
func Start(cmd *exec.Cmd) (*Process, error) {
	cmd.SysProcAttr = Group()
	p := &Process{Cmd: cmd, Done: make(chan struct{})}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_, _ = cmd.Process.Wait() // how it ended does not matter
			close(p.Done)
		}
	}()
	return p, <-started
}

// Kill ends the process at once and returns when it has gone.
func (p *Process) Kill() {
	_ = p.Cmd.Process.Kill() // the only error is that it has gone already
	<-p.Done
}
