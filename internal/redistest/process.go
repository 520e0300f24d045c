package redistest

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// process is a running child and the news of its end.
type process struct {
	os   *os.Process
	done chan struct{} // closed once the child has been waited for
}

// startProcess starts cmd and waits for its end in the background.
//
// The parent-death signal follows the thread that forked, not the process, so
// the child is started by a goroutine that keeps its thread until the child
// has gone. Otherwise a test that ends a locked goroutine could take the
// thread, and with it the server, away.
func startProcess(cmd *exec.Cmd) (*process, error) {
	cmd.SysProcAttr = sysProcAttr()
	p := &process{done: make(chan struct{})}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		p.os = cmd.Process
		started <- err
		if err == nil {
			_ = cmd.Wait() // how it ended is in its log
			close(p.done)
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// kill ends the child at once, stopped or not, and returns when it has gone.
func (p *process) kill() {
	_ = p.os.Kill() // the only error is that it has gone already
	<-p.done
}

// terminate asks the child to shut down and kills it if that takes too long.
func (p *process) terminate() {
	_ = p.os.Signal(sigCont)
	_ = p.os.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
	case <-time.After(startTimeout):
		p.kill()
	}
}

// stop suspends the child and returns when it stands still: a signal that is
// merely sent leaves it time for another command.
func (p *process) stop() error {
	if err := p.os.Signal(sigStop); err != nil {
		return err
	}
	return p.poll("stop", func() bool { return suspended(p.os.Pid) })
}

// poll waits, with growing pauses, until ok says yes. It fails if the child
// ends first or if it takes longer than startTimeout.
func (p *process) poll(what string, ok func() bool) error {
	deadline := time.Now().Add(startTimeout)
	for pause := time.Millisecond; !ok(); pause = min(2*pause, 50*time.Millisecond) {
		if time.Now().After(deadline) {
			return fmt.Errorf("redis-server did not %s within %v", what, startTimeout)
		}
		select {
		case <-p.done:
			return fmt.Errorf("redis-server ended when it should %s", what)
		case <-time.After(pause):
		}
	}
	return nil
}
