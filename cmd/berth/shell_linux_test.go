package main

import (
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// openTerminal starts an interactive shell on a pseudo-terminal, in an empty
// directory that is its home, with the store of url to use.
func openTerminal(t *testing.T, url string, args ...string) (term *terminal, home string) {
	t.Helper()
	master, slave := openPTY(t)
	// Wide enough for any host's name.
	if err := unix.IoctlSetWinsize(int(slave.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 50, Col: 300}); err != nil {
		t.Fatal(err)
	}
	shell := exec.Command(args[0], args[1:]...)
	shell.Dir = t.TempDir()
	shell.Env = append(os.Environ(), "BERTH_REDIS_URL="+url, "HOME="+shell.Dir, "PS1=ready> ", "ENV=", "TERM=xterm",
		"GORACE=atexit_sleep_ms=0", "BERTH_COMPLETION_TIMEOUT=1m")
	shell.Stdin, shell.Stdout, shell.Stderr = slave, slave, slave
	shell.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := shell.Start(); err != nil {
		t.Fatalf("%v: scripts/setup installs what the tests need", err)
	}
	slave.Close()
	term = &terminal{t: t, master: master}
	var reader sync.WaitGroup
	reader.Go(term.read)
	t.Cleanup(func() {
		endSession(shell.Process.Pid)
		shell.Wait()
		master.Close()
		reader.Wait()
	})
	term.expect("ready> ")
	return term, shell.Dir
}
