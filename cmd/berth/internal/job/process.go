package job

import (
	"errors"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// Spec is what to start.
type Spec struct {
	Path string   // as Lookup returned it
	Args []string // with the command's name as the first
	Env  []string
	// Terminal, unless nil, becomes the command's: its group is put into the
	// foreground before the program starts.
	Terminal *Terminal
	// EndWithParent has the system send TERM to the command when this process
	// dies of something it cannot handle. Linux only.
	EndWithParent bool
}

// Process is a started command and the leader of its own process group.
type Process struct {
	pid    int
	events chan unix.WaitStatus

	mu   sync.Mutex
	done bool // reaped: the number may be somebody else's now
}

// Start starts the command with the standard streams of this process. When it
// returns, the group exists and can be signalled.
func Start(spec Spec) (*Process, error) {
	sys := &syscall.SysProcAttr{Setpgid: true}
	if spec.Terminal != nil {
		sys.Foreground = true
		sys.Ctty = spec.Terminal.fd()
	}
	if spec.EndWithParent {
		endWithParent(sys)
	}
	p, err := os.StartProcess(spec.Path, spec.Args, &os.ProcAttr{
		Env:   spec.Env,
		Files: []*os.File{os.Stdin, os.Stdout, os.Stderr},
		Sys:   sys,
	})
	if err != nil {
		return nil, startError(spec.Args[0], spec.Path, err)
	}
	proc := &Process{pid: p.Pid, events: make(chan unix.WaitStatus, 1)}
	// os.Process cannot report a stop, so waiting is ours.
	_ = p.Release()
	go proc.wait()
	return proc, nil
}

// PID is the command's process and group number.
func (p *Process) PID() int { return p.pid }

// Events delivers each stop of the command, then its end, and is closed.
func (p *Process) Events() <-chan unix.WaitStatus { return p.events }

// Signal sends sig to the whole group. It does nothing when the command has ended.
func (p *Process) Signal(sig syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.done {
		// The error does not matter: a group that is gone needs no signal, and
		// one that changed its user cannot be told.
		_ = unix.Kill(-p.pid, sig)
	}
}

func (p *Process) wait() {
	defer close(p.events)
	for {
		var status unix.WaitStatus
		_, err := unix.Wait4(p.pid, &status, unix.WUNTRACED, nil)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || !status.Stopped() {
			p.mu.Lock()
			p.done = true
			p.mu.Unlock()
		}
		if err != nil {
			return
		}
		p.events <- status
		if !status.Stopped() {
			return
		}
	}
}
