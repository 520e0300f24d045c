package job

import (
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// fatal are the signals that by default end a process, and that a wrapper must therefore
// handle. PIPE is not among them, because berth also gets it for writing to a closed
// connection to Redis. The Go runtime's handling suits: berth goes on, and a command that
// writes to a closed pipe gets its own PIPE.
var fatal = []os.Signal{
	unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTERM, unix.SIGUSR1, unix.SIGUSR2, unix.SIGALRM,
}

// Catch returns the fatal signals that this process gets from now on. HUP and INT that were
// ignored when it started (nohup) stay ignored, for the command, too; of other signals the
// Go runtime does not tell.
func Catch() (<-chan os.Signal, func()) {
	ch := make(chan os.Signal, 16)
	for _, sig := range fatal {
		if !signal.Ignored(sig) {
			signal.Notify(ch, sig)
		}
	}
	return ch, func() { signal.Stop(ch) }
}

// CatchControl returns the signals that matter once there is a command: CHLD, at which
// Process.Collect is to be called, and TSTP, CONT and others that are for the command. It must
// be called before the command is started, so that no change of the command is missed.
func CatchControl() (child, jobs chan os.Signal) {
	child, jobs = make(chan os.Signal, 1), make(chan os.Signal, 16)
	signal.Notify(child, unix.SIGCHLD)
	signal.Notify(jobs, unix.SIGTSTP, unix.SIGCONT)
	signal.Notify(jobs, unix.SIGWINCH, unix.SIGIO, unix.SIGXCPU, unix.SIGVTALRM) // the Go runtime would ignore them
	return child, jobs
}

// Number returns the system's number of a signal.
func Number(sig os.Signal) syscall.Signal {
	n, _ := sig.(syscall.Signal)
	return n
}
