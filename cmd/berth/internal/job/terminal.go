package job

import (
	"os"
	"os/signal"

	"golang.org/x/sys/unix"
)

// FromKeys reports whether a signal that this process got has reached the
// command too, because the terminal sends what its keys mean to every process in
// the foreground. The system does not tell who sent a signal, so one of these
// that somebody else sends to a process in the foreground is taken for a key.
func FromKeys(sig os.Signal) bool {
	return (sig == unix.SIGINT || sig == unix.SIGQUIT || sig == unix.SIGTSTP) && inForeground()
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

func openTerminal() *os.File {
	tty, err := os.OpenFile("/dev/tty", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return nil
	}
	return tty
}

func hasForeground(tty *os.File) bool {
	pgrp, err := unix.IoctlGetInt(int(tty.Fd()), unix.TIOCGPGRP)
	return err == nil && pgrp == unix.Getpgrp()
}

// StayAwake keeps this process from being stopped with the command when that
// reads or writes the terminal from the background: whoever keeps the lease
// alive stops when the command has (see StopToo). It is called when the command
// has been started, because what is ignored before would be ignored there too.
func StayAwake() { signal.Ignore(unix.SIGTTIN, unix.SIGTTOU) }

// StopToo stops this process because its command was stopped, so that the shell,
// which knows only this process, sees a stopped job and prompts. CONT tells that
// it was continued. Nothing happens where no shell would do that: without a
// terminal, or in the group of the session's leader, which has no shell above it.
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

// Continue lets a stopped command go on. One that leads a group of its own, as
// an interactive shell does, had the terminal before; it has it again if it is
// ours to give.
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
