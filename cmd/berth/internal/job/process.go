// Package job runs one command as env and flock do: in berth's own process group, so that
// the terminal's keys, the shell's job control and a signal to the whole group reach the
// command as if berth were not there. Signals that berth itself passes on also reach the
// command's children.
package job

import (
	"errors"
	"os"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

// Process is a started command. Only one goroutine uses it: processes are reaped only by
// Collect, so a process number that is signalled still belongs to the same process.
type Process struct {
	pid   int
	ended bool
}

// shell runs scripts that do not say what runs them.
const shell = "/bin/sh"

// Start starts the program that Lookup found, with the standard streams of this process, in
// its process group. The caller must be watching for CHLD by then, on a thread that lives as
// long as the process. If tied, the system sends TERM to the command when this process is
// killed, on Linux. As with execvp, and so with env and flock, /bin/sh runs a program that the
// system does not know how to execute: a script without "#!".
func Start(path string, args, env []string, tied bool) (*Process, error) {
	adoptOrphans()
	sys := &syscall.SysProcAttr{}
	if tied {
		endWithParent(sys)
	}
	attr := &os.ProcAttr{Env: env, Files: []*os.File{os.Stdin, os.Stdout, os.Stderr}, Sys: sys}
	p, err := os.StartProcess(path, args, attr)
	if errors.Is(err, unix.ENOEXEC) {
		p, err = os.StartProcess(shell, append([]string{shell, path}, args[1:]...), attr)
	}
	if err != nil {
		return nil, startError(args[0], path, err)
	}
	proc := &Process{pid: p.Pid}
	_ = p.Release() // os.Process cannot report a stop, so Collect waits
	return proc, nil
}

// Replace runs the program that Lookup found in place of this process, as exec in a shell does. It
// returns only if that fails.
func Replace(path string, args, env []string) error {
	err := unix.Exec(path, args, env)
	if errors.Is(err, unix.ENOEXEC) {
		err = unix.Exec(shell, append([]string{shell, path}, args[1:]...), env)
	}
	return startError(args[0], path, err)
}

// Collect reaps processes that have ended, and returns whether the command has ended or was
// stopped since the last call. It is called at each CHLD.
func (p *Process) Collect() (status unix.WaitStatus, changed bool) {
	for {
		var s unix.WaitStatus
		pid, err := unix.Wait4(-1, &s, unix.WNOHANG|unix.WUNTRACED, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil || pid == 0:
			return status, changed
		case pid == p.pid && !p.ended:
			status, changed, p.ended = s, true, !s.Stopped()
		}
	}
}

// Signal sends a signal to the command. Like SignalAll it reports no error: a process that
// has ended needs no signal, and one that has changed its user cannot get any.
func (p *Process) Signal(sig syscall.Signal) {
	if !p.ended {
		send(p.pid, sig)
	}
}

// send signals one process. Numbers below 2 are not a command's: to the system
// they mean a group, everything, or init.
func send(pid int, sig syscall.Signal) {
	if pid > 1 {
		_ = unix.Kill(pid, sig)
	}
}

// SignalAll sends a signal to the command and to all its descendants, except those that
// have left the command's session.
func (p *Process) SignalAll(sig syscall.Signal) {
	p.Signal(sig)
	for _, pid := range p.others() {
		send(pid, sig)
	}
}

// KillAll kills the same processes, and those that are started meanwhile.
func (p *Process) KillAll() {
	p.Signal(unix.SIGKILL)
	killed := map[int]bool{}
	// Killed processes start nothing more, so the last look finds all that are left. One
	// more look is needed because the children of a dying process get another parent while
	// the look goes on.
	for quiet := 0; quiet < 2; quiet++ {
		for _, pid := range p.others() {
			if !killed[pid] {
				killed[pid], quiet = true, -1
				send(pid, unix.SIGKILL)
			}
		}
	}
}

// Alone reports whether the command has no descendants left.
func (p *Process) Alone() bool { return len(p.others()) == 0 }

// Stopped reports whether the command is stopped at this moment.
func (p *Process) Stopped() bool {
	e, known := table()[p.pid]
	return !p.ended && (!known || e.state == 'T')
}

// others returns the command's living descendants. On Linux orphans become our children,
// and so are among them. A process that has begun a session has left on purpose, as daemons
// do, including berth's own store; but the command itself may have begun one.
func (p *Process) others() []int {
	all := table()
	own, _ := unix.Getsid(0)
	var found []int
	for pid, entry := range all {
		if pid == p.pid || entry.state == 'Z' || !descends(all, pid) {
			continue
		}
		if sid, err := unix.Getsid(pid); err == nil && (sid == own || sid == p.pid) {
			found = append(found, pid)
		}
	}
	slices.Sort(found)
	return found
}

// entry is a process in the system's list.
type entry struct {
	parent int
	state  byte // T is stopped, Z ended
}

// descends reports whether pid is a descendant of this process.
func descends(all map[int]entry, pid int) bool {
	self := os.Getpid()
	for range len(all) { // a list that was read while it changed may have a loop
		e, ok := all[pid]
		switch {
		case !ok:
			return false
		case e.parent == self:
			return true
		}
		pid = e.parent
	}
	return false
}
