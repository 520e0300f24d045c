package job

import (
	"os"
	"os/signal"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// Terminal is the controlling terminal of this process.
type Terminal struct{ file *os.File }

// OpenTerminal returns the controlling terminal, or nil if there is none, as
// for services and cron jobs. No job control is needed then.
func OpenTerminal() *Terminal {
	f, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		return nil
	}
	return &Terminal{f}
}

// Close closes it.
func (t *Terminal) Close() { t.file.Close() }

func (t *Terminal) fd() int { return int(t.file.Fd()) }

// foreground returns the process group that the terminal belongs to now.
func (t *Terminal) foreground() int {
	pgrp, err := unix.IoctlGetInt(t.fd(), unix.TIOCGPGRP)
	if err != nil {
		return -1
	}
	return pgrp
}

// Ours tells whether this process's group is in the foreground.
func (t *Terminal) Ours() bool { return t.foreground() == unix.Getpgrp() }

// Wanted tells whether a command should get the terminal from the start: it
// reads it, and nobody else does. With a pipe as standard output there may be
// a pager at its other end, in our group, that needs the terminal; the command
// gets it when it asks for it (see Stopped).
func (t *Terminal) Wanted() bool {
	return t.Ours() && term.IsTerminal(int(os.Stdin.Fd())) && !isPipe(os.Stdout)
}

func isPipe(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeNamedPipe != 0
}

// give puts a group into the foreground. While the command has the terminal we
// are in the background: taking it back from there raises TTOU, and so does a
// warning if the user has set tostop. Neither may stop whoever keeps the lease
// alive. It is ignored only now, when the command has been started, because
// what is ignored before would be ignored in the command too.
func (t *Terminal) give(pgrp int) {
	signal.Ignore(unix.SIGTTOU)
	_ = unix.IoctlSetPointerInt(t.fd(), unix.TIOCSPGRP, pgrp)
}

// takeBack returns the terminal to our group, if that group has it. If a shell
// has taken it meanwhile, it stays there.
func (t *Terminal) takeBack(from int) (had bool) {
	if t.foreground() != from {
		return false
	}
	t.give(unix.Getpgrp())
	return true
}

// underJobControl tells whether somebody would continue us if we stopped. The
// group of a session's leader has no shell above it.
func underJobControl() bool {
	sid, err := unix.Getsid(0)
	return err == nil && sid != unix.Getpgrp()
}

// Return gives the terminal back after the command has ended.
func (t *Terminal) Return(p *Process) {
	if t != nil {
		t.takeBack(p.pid)
	}
}

// Stopped deals with a stop of the command: it gives it the terminal if that
// is what it stopped for, and else stops this process with it, so that the
// user's shell sees one job and prompts. It returns when the command may go
// on; the caller checks that it still should and calls Continue.
func (t *Terminal) Stopped(p *Process, by unix.Signal) (handed bool) {
	if t == nil {
		return false // nobody to report to; whoever stopped it will continue it
	}
	wants := by == unix.SIGTTIN || by == unix.SIGTTOU
	if wants && t.Ours() {
		t.give(p.pid)
		return true
	}
	if !underJobControl() {
		return by != unix.SIGSTOP
	}
	had := t.takeBack(p.pid)
	_ = unix.Kill(0, unix.SIGSTOP) // the whole pipeline, until the shell continues it
	if (had || wants) && t.Ours() {
		t.give(p.pid)
	}
	return true
}
