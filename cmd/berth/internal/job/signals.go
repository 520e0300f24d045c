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

// FromKeys reports whether a signal that this process got has also reached the command,
// because the terminal sends the signals of its keys to every process in the foreground.
// The system does not tell who sent a signal, so these signals count as keys whenever this
// process is in the foreground.
func FromKeys(sig os.Signal) bool {
	if sig != unix.SIGINT && sig != unix.SIGQUIT && sig != unix.SIGTSTP && sig != unix.SIGWINCH {
		return false
	}
	tty := openTerminal()
	if tty == nil { // in a service or a cron job
		return false
	}
	defer tty.Close()
	return hasForeground(tty)
}

// openTerminal returns the controlling terminal, or nil if there is none.
func openTerminal() *os.File {
	tty, _ := os.OpenFile("/dev/tty", os.O_RDWR|unix.O_NOCTTY, 0)
	return tty
}

// hasForeground reports whether this process's group has the terminal.
func hasForeground(tty *os.File) bool {
	pgrp, err := unix.IoctlGetInt(int(tty.Fd()), unix.TIOCGPGRP)
	return err == nil && pgrp == unix.Getpgrp()
}

// StayAwake keeps this process from being stopped together with the command when that reads
// or writes the terminal from the background: this process renews the lease, and stops only
// after the command has (see StopToo). It must be called after the command was started,
// which would otherwise inherit the ignored signals.
func StayAwake() { signal.Ignore(unix.SIGTTIN, unix.SIGTTOU) }

// StopToo stops this process because its command was stopped, so that the shell, which
// knows only this process, sees a stopped job and prompts. It returns when this process gets
// CONT. It does nothing if there is no such shell: without a terminal, or in the process
// group of the session's leader.
func StopToo() {
	tty := openTerminal()
	if tty == nil {
		return
	}
	tty.Close()
	if sid, err := unix.Getsid(0); err == nil && sid != unix.Getpgrp() {
		_ = unix.Kill(os.Getpid(), unix.SIGSTOP)
	}
}

// Continue continues a stopped command. A command that leads a group of its own, as an
// interactive shell does, had the terminal before; it gets the terminal back if this process
// has it.
func (p *Process) Continue() {
	if pgid, err := unix.Getpgid(p.pid); err == nil && pgid == p.pid && !p.ended {
		if tty := openTerminal(); tty != nil {
			if hasForeground(tty) {
				_ = unix.IoctlSetPointerInt(int(tty.Fd()), unix.TIOCSPGRP, pgid)
			}
			tty.Close()
		}
	}
	p.Signal(unix.SIGCONT)
}
