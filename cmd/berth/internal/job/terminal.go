package job

import (
	"os"
	"os/signal"

	"golang.org/x/sys/unix"
)

// FromKeys reports whether a signal that this process got has also reached the command,
// because the terminal sends the signals of its keys to every process in the foreground.
// The system does not tell who sent a signal, so these signals count as keys whenever this
// process is in the foreground.
func FromKeys(sig os.Signal) bool {
	return (sig == unix.SIGINT || sig == unix.SIGQUIT || sig == unix.SIGTSTP || sig == unix.SIGWINCH) && inForeground()
}

// inForeground reports whether this process's group has the controlling
// terminal. Services and cron jobs have no such terminal.
func inForeground() bool {
	tty := openTerminal()
	if tty == nil {
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
