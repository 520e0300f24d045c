package job

import (
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// fatal are the signals that end a process that does not care, and that a
// wrapper therefore has to care about. PIPE is not among them: it cannot be told
// from the one that berth gets for writing to a Redis that has gone. The
// runtime's own way with it suits: berth lives on, and a command that writes
// where nobody reads gets its own.
var fatal = []os.Signal{
	unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTERM, unix.SIGUSR1, unix.SIGUSR2, unix.SIGALRM,
}

// Catch returns the signals sent to this process from now on that end a
// process. Those that were ignored when it started (nohup) stay ignored, and
// so the command ignores them too.
func Catch() (<-chan os.Signal, func()) {
	ch := make(chan os.Signal, 16)
	for _, sig := range fatal {
		if !signal.Ignored(sig) {
			signal.Notify(ch, sig)
		}
	}
	return ch, func() { signal.Stop(ch) }
}

// Control are the signals that matter once there is a command.
type Control struct {
	Child <-chan os.Signal // CHLD: call Process.Collect
	Jobs  <-chan os.Signal // TSTP and CONT
	stop  func()
}

// CatchControl catches them. It is called before the command is started, so that
// nothing is missed that happens to it.
func CatchControl() *Control {
	child, jobs := make(chan os.Signal, 1), make(chan os.Signal, 16)
	signal.Notify(child, unix.SIGCHLD)
	signal.Notify(jobs, unix.SIGTSTP, unix.SIGCONT)
	return &Control{Child: child, Jobs: jobs, stop: func() { signal.Stop(child); signal.Stop(jobs) }}
}

// Stop ends the catching.
func (c *Control) Stop() { c.stop() }

// Number returns the signal as the system knows it.
func Number(sig os.Signal) syscall.Signal {
	n, _ := sig.(syscall.Signal)
	return n
}
