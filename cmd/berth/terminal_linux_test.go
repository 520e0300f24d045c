package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// terminal is a shell with job control on a pseudo-terminal: what a person has
// in front of them.
type terminal struct {
	t      *testing.T
	master *os.File

	mu   sync.Mutex
	seen strings.Builder
	from int // what expect has not looked at yet
}

// newTerminal starts an interactive shell with an embedded store to use.
func newTerminal(t *testing.T) *terminal {
	t.Helper()
	url, stop, err := embedded()
	if err != nil {
		t.Fatal(err)
	}
	master, slave := openPTY(t)
	shell := exec.Command("sh", "-i")
	shell.Env = append(os.Environ(), "BERTH_REDIS_URL="+url, "PS1=ready> ", "ENV=", "TERM=xterm", "GORACE=atexit_sleep_ms=0")
	shell.Dir = t.TempDir()
	shell.Stdin, shell.Stdout, shell.Stderr = slave, slave, slave
	shell.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := shell.Start(); err != nil {
		t.Fatal(err)
	}
	slave.Close()
	term := &terminal{t: t, master: master}
	var reader sync.WaitGroup
	reader.Go(term.read)
	t.Cleanup(func() {
		// The hang-up of the terminal ends what still runs on it.
		shell.Process.Kill()
		shell.Wait()
		master.Close()
		reader.Wait()
		stop()
	})
	term.expect("ready> ")
	return term
}

func openPTY(t *testing.T) (master, slave *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := master.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var number int
	conn.Control(func(fd uintptr) {
		if err = unix.IoctlSetPointerInt(int(fd), unix.TIOCSPTLCK, 0); err == nil {
			number, err = unix.IoctlGetInt(int(fd), unix.TIOCGPTN)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	return master, slave
}

func (term *terminal) read() {
	b := make([]byte, 4096)
	for {
		n, err := term.master.Read(b)
		term.mu.Lock()
		term.seen.Write(b[:n])
		term.mu.Unlock()
		if err != nil {
			return
		}
	}
}

func (term *terminal) send(s string) {
	term.t.Helper()
	if _, err := term.master.WriteString(s); err != nil {
		term.t.Fatal(err)
	}
}

// expect waits for text that was not expected before.
func (term *terminal) expect(text string) {
	term.t.Helper()
	var rest string
	if !eventually(func() bool {
		term.mu.Lock()
		defer term.mu.Unlock()
		rest = term.seen.String()[term.from:]
		i := strings.Index(rest, text)
		if i >= 0 {
			term.from += i + len(text)
		}
		return i >= 0
	}) {
		term.t.Fatalf("the terminal does not show %q but %q", text, rest)
	}
}

// A command that reads the terminal has it, and the shell has it back.
func TestTerminalIsTheCommands(t *testing.T) {
	t.Parallel()
	term := newTerminal(t)
	term.send("berth run s -- sh -c 'echo u\"\"p; read x; echo got-$x'\n")
	term.expect("up")
	term.send("hello\n")
	term.expect("got-hello")
	term.expect("ready> ")
	term.send("echo al\"\"ive\n")
	term.expect("alive")
}

// Standard output is a pipe: whoever is at its other end may need the
// terminal, and still the command can read it.
func TestTerminalInAPipeline(t *testing.T) {
	t.Parallel()
	term := newTerminal(t)
	term.send("berth run s -- sh -c 'echo u\"\"p; read x; echo got-$x' | cat\n")
	term.expect("up")
	term.send("hello\n")
	term.expect("got-hello")
	term.expect("ready> ")
}

func TestTerminalSuspend(t *testing.T) {
	t.Parallel()
	term := newTerminal(t)
	term.send("berth run s -- sh -c 'echo u\"\"p; read x; echo got-$x'\n")
	term.expect("up")
	term.send("\x1a") // Ctrl-Z
	term.expect("Stopped")
	term.expect("ready> ")
	term.send("echo al\"\"ive\n")
	term.expect("alive")
	term.send("fg\n")
	term.expect("berth run")
	term.send("hello\n")
	term.expect("got-hello")
	term.expect("ready> ")
}

// In the background, a command that reads stops until it is in the foreground.
func TestTerminalBackground(t *testing.T) {
	t.Parallel()
	term := newTerminal(t)
	term.send("berth run s -- sh -c 'read x; echo got-$x' &\n")
	term.expect("ready> ")
	if !eventually(func() bool {
		term.send("jobs\n")
		term.expect("berth run")
		term.mu.Lock()
		defer term.mu.Unlock()
		return strings.Contains(term.seen.String(), "Stopped")
	}) {
		t.Fatal("it was not stopped")
	}
	term.send("fg\n")
	term.expect("berth run")
	term.send("hello\n")
	term.expect("got-hello")
	term.expect("ready> ")
}

func TestTerminalInterrupt(t *testing.T) {
	t.Parallel()
	term := newTerminal(t)
	term.send("berth run s -- sh -c 'echo u\"\"p; exec sleep 100'; echo code-$?\n")
	term.expect("up")
	term.send("\x03")
	term.expect("code-130")
}

// While it waits there is one line, and it is gone when the command starts.
func TestTerminalStatusLine(t *testing.T) {
	t.Parallel()
	term := newTerminal(t)
	flag := filepath.Join(t.TempDir(), "go")
	term.send("berth run s -- sh -c 'echo u\"\"p; while ! test -e " + flag + "; do sleep 0.02; done' &\n")
	term.expect("up")
	term.send("berth run s -- echo do\"\"ne\n")
	term.expect("\rberth: s: next in line, 1 of 1 in use, waited ")
	if err := os.WriteFile(flag, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	term.expect("\r\x1b[K")
	term.expect("done")
}
