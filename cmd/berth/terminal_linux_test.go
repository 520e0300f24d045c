package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// terminal is a shell with job control on a pseudo-terminal: what a person has
// in front of them.
type terminal struct {
	t      *testing.T
	master *os.File
	dir    string // where the shell is

	mu   sync.Mutex
	seen strings.Builder
	from int // what expect has not looked at yet

	hangUp func()
}

// eachShell runs a test in a terminal for each of two shells: they differ in job
// control, and in what a key does to their loops and scripts.
func eachShell(t *testing.T, test func(t *testing.T, term *terminal)) {
	t.Parallel()
	for name, shell := range map[string][]string{
		"dash": {"sh", "-i"},
		"bash": {"bash", "--norc", "--noprofile", "--noediting", "-i"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, newTerminal(t, shell...))
		})
	}
}

// newTerminal starts an interactive shell with an embedded store to use.
func newTerminal(t *testing.T, args ...string) *terminal {
	t.Helper()
	url, stop, err := embedded()
	if err != nil {
		t.Fatal(err)
	}
	master, slave := openPTY(t)
	shell := exec.Command(args[0], args[1:]...)
	shell.Env = append(os.Environ(), "BERTH_REDIS_URL="+url, "PS1=ready> ", "ENV=", "TERM=xterm", "GORACE=atexit_sleep_ms=0")
	shell.Dir = t.TempDir()
	shell.Stdin, shell.Stdout, shell.Stderr = slave, slave, slave
	shell.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := shell.Start(); err != nil {
		t.Fatal(err)
	}
	slave.Close()
	term := &terminal{t: t, master: master, dir: shell.Dir}
	var reader sync.WaitGroup
	reader.Go(term.read)
	term.hangUp = sync.OnceFunc(func() {
		// The hang-up of the terminal ends what still runs on it.
		shell.Process.Kill()
		shell.Wait()
		master.Close()
		reader.Wait()
	})
	t.Cleanup(func() {
		if shell.ProcessState == nil { // its number is its own until it has been waited for
			endSession(shell.Process.Pid)
		}
		term.hangUp()
		stop()
	})
	term.expect("ready> ")
	return term
}

// endSession ends all processes of a session: of its jobs in the background a shell
// that is killed tells nobody.
func endSession(leader int) {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, name := range stats {
		text, _ := os.ReadFile(name) // it may have gone
		_, rest, _ := strings.Cut(string(text), ") ")
		if f := strings.Fields(rest); len(f) > 3 && f[3] == strconv.Itoa(leader) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(name)))
			_ = unix.Kill(pid, unix.SIGKILL)
		}
	}
}

// TestSessionEndsWithItsTest, what it has in the background included.
func TestSessionEndsWithItsTest(t *testing.T) {
	var pid int
	t.Run("test", func(t *testing.T) {
		term := newTerminal(t, "bash", "--norc", "--noprofile", "--noediting", "-i")
		term.send("sh -c 'echo $$ >job; exec sleep 100' &\n")
		pid = term.number("job")
	})
	if !eventually(func() bool { return !running(pid) }) {
		t.Errorf("process %d is still there", pid)
	}
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
	keepOutput(t, slave)
	return master, slave
}

// keepOutput has a key that sends a signal not throw away what a program has just written, as it
// does otherwise: where the reader is slow that would be what a test waits for.
func keepOutput(t *testing.T, slave *os.File) {
	t.Helper()
	mode, err := unix.IoctlGetTermios(int(slave.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	mode.Lflag |= unix.NOFLSH
	if err := unix.IoctlSetTermios(int(slave.Fd()), unix.TCSETS, mode); err != nil {
		t.Fatal(err)
	}
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
	if !eventually(func() bool { return term.take(text) }) {
		term.mu.Lock()
		defer term.mu.Unlock()
		term.t.Fatalf("the terminal does not show %q but %q", text, term.seen.String()[term.from:])
	}
}

// take tells whether the terminal shows text that was not taken before, and takes it.
func (term *terminal) take(text string) bool {
	term.mu.Lock()
	defer term.mu.Unlock()
	i := strings.Index(term.seen.String()[term.from:], text)
	if i >= 0 {
		term.from += i + len(text)
	}
	return i >= 0
}

// mute fails if the terminal has shown the text.
func (term *terminal) mute(text string) {
	term.t.Helper()
	term.mu.Lock()
	defer term.mu.Unlock()
	if all := term.seen.String(); strings.Contains(all, text) {
		term.t.Fatalf("the terminal shows %q: %q", text, all)
	}
}

// script writes a shell script into the terminal's directory.
func (term *terminal) script(name, text string) {
	term.t.Helper()
	if err := os.WriteFile(filepath.Join(term.dir, name), []byte(text), 0o700); err != nil {
		term.t.Fatal(err)
	}
}

// number reads a number that a command has written into a file.
func (term *terminal) number(name string) int {
	term.t.Helper()
	var n int
	if !eventually(func() bool {
		b, _ := os.ReadFile(filepath.Join(term.dir, name))
		var err error
		n, err = strconv.Atoi(strings.TrimSpace(string(b)))
		return err == nil && bytes.HasSuffix(b, []byte("\n"))
	}) {
		term.t.Fatalf("there is no number in %s", name)
	}
	return n
}

// A word in quotes, as in u""p, is not found in the echo of the line that has it.

func TestCommandReadsTheTerminal(t *testing.T) {
	eachShell(t, func(t *testing.T, term *terminal) {
		term.send("berth run s -- sh -c 'echo u\"\"p; read x; echo got-$x'\n")
		term.expect("up")
		term.send("hello\n")
		term.expect("got-hello")
		term.expect("ready> ")
		term.send("echo al\"\"ive\n")
		term.expect("alive")
	})
}

// Standard output is a pipe: both ends of it can use the terminal.
func TestTerminalInAPipeline(t *testing.T) {
	eachShell(t, func(t *testing.T, term *terminal) {
		term.send("berth run s -- sh -c 'echo u\"\"p; read x; echo got-$x' | sh -c 'read a; echo $a; read b; read y </dev/tty; echo $b-$y'\n")
		term.expect("up")
		term.send("hello\n")
		term.send("pager\n")
		term.expect("got-hello-pager")
		term.expect("ready> ")
	})
}

// One key ends a loop, whether it is typed or in a script, while its command
// runs as well as while it waits.
func TestInterruptEndsALoop(t *testing.T) {
	const loop = "for i in 1 2 3; do echo round-$i; berth run s -- sh -c 'echo u\"\"p-$0; exec sleep 100' $i; done"
	for name, line := range map[string]string{"typed": loop, "sh": "sh loop.sh", "bash": "bash loop.sh"} {
		t.Run(name, func(t *testing.T) {
			eachShell(t, func(t *testing.T, term *terminal) {
				term.script("loop.sh", loop)
				term.send(line + "; echo after\n")
				term.expect("up-1")
				term.send("\x03")
				term.expect("ready> ")
				term.send("echo co\"\"de-$?\n")
				term.expect("code-130")
				term.mute("round-2")
				term.mute("up-2")
			})
		})
	}
}

func TestInterruptEndsALoopThatWaits(t *testing.T) {
	eachShell(t, func(t *testing.T, term *terminal) {
		term.send("berth run s -- sh -c 'echo u\"\"p; exec sleep 100' &\n")
		term.expect("up")
		term.send("for i in 1 2 3; do echo round-$i; berth run s -- echo granted-$i; done\n")
		term.expect("next in line")
		term.send("\x03")
		term.expect("ready> ")
		term.send("until berth show s | grep '0 wait''ing'; do sleep 0.1; done\n")
		term.expect("0 waiting")
		term.mute("round-2")
		term.send("kill %1; wait\n")
	})
}

// The command gets each key once, and may do with it what it likes.
func TestKeysReachTheCommandOnce(t *testing.T) {
	eachShell(t, func(t *testing.T, term *terminal) {
		term.script("count.sh", `n=0
trap 'n=$((n+1)); echo int-$n' INT
trap 'echo quit-$n; exit 7' QUIT
echo up
while ! read x; do :; done
`)
		term.send("berth run s -- sh count.sh\n")
		term.expect("up")
		for n := 1; n <= 4; n++ {
			term.send("\x03")
			term.expect(fmt.Sprintf("int-%d", n))
		}
		term.send("\x1c") // Ctrl-\
		term.expect("quit-4")
		term.expect("ready> ")
		term.send("echo co\"\"de-$?\n")
		term.expect("code-7")
	})
}

// A signal to berth alone reaches the command and its children.
func TestKillOnATerminal(t *testing.T) {
	for _, sig := range []unix.Signal{unix.SIGTERM, unix.SIGHUP} {
		t.Run(unix.SignalName(sig), func(t *testing.T) {
			eachShell(t, func(t *testing.T, term *terminal) {
				term.send("berth run s -- sh -c 'sleep 100 & echo $! >child; echo $PPID >berth; echo u\"\"p; wait'\n")
				term.expect("up")
				child, berth := term.number("child"), term.number("berth")
				if err := unix.Kill(berth, sig); err != nil {
					t.Fatal(err)
				}
				term.expect("ready> ")
				term.send("echo co\"\"de-$?\n")
				term.expect(fmt.Sprintf("code-%d", 128+int(sig)))
				if !eventually(func() bool { return !running(child) }) {
					t.Error("the command's child is still there")
				}
			})
		})
	}
}

func TestSuspend(t *testing.T) {
	eachShell(t, func(t *testing.T, term *terminal) {
		term.send("berth run s -- sh -c 'echo u\"\"p; read x; echo got-$x'\n")
		term.expect("up")
		for range 3 {
			term.suspend()
			term.expect("ready> ")
			term.send("echo al\"\"ive\n")
			term.expect("alive")
			term.send("fg\n")
			term.expect("berth run")
		}
		term.send("hello\n")
		term.expect("got-hello")
		term.expect("ready> ")
	})
}

// suspend types Ctrl-Z until the job is stopped: before the shell has made it go
// on, and it has, the key means nothing to it.
func (term *terminal) suspend() {
	term.t.Helper()
	if !eventually(func() bool {
		term.send("\x1a")
		return term.shows("Stopped", 200*time.Millisecond)
	}) {
		term.mu.Lock()
		defer term.mu.Unlock()
		term.t.Fatalf("it was not stopped: %q", term.seen.String())
	}
}

// shows waits for text for a while, and takes it as expect does.
func (term *terminal) shows(text string, d time.Duration) bool {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for over := time.After(d); ; {
		if term.take(text) {
			return true
		}
		select {
		case <-tick.C:
		case <-over:
			return false
		}
	}
}

// A command that stops itself, as editors do after they have tidied up the
// screen, stops the whole job.
func TestCommandStopsItself(t *testing.T) {
	eachShell(t, func(t *testing.T, term *terminal) {
		term.send("berth run s -- sh -c 'trap \"\" TSTP; echo u\"\"p; kill -STOP $$; echo on; read x; echo got-$x'\n")
		term.expect("up")
		term.expect("Stopped")
		term.expect("ready> ")
		term.send("fg\n")
		term.expect("on")
		term.send("\x1a") // the command ignores it, so nothing stops
		term.send("hello\n")
		term.expect("got-hello")
		term.expect("ready> ")
	})
}

// A shell in a shell has job control of its own, and can be suspended.
func TestShellAsCommand(t *testing.T) {
	eachShell(t, func(t *testing.T, term *terminal) {
		term.send("PS1=in''ner'> ' berth run s -- bash --norc --noprofile --noediting -i\n")
		term.expect("inner> ")
		term.send("sh -c 'echo u\"\"p; read x; echo got-$x'\n")
		term.expect("up")
		term.send("\x1a")
		term.expect("Stopped")
		term.expect("inner> ")
		term.send("suspend\n")
		term.expect("Stopped")
		term.expect("ready> ")
		term.send("fg\n")
		term.expect("inner> ")
		term.send("fg\n")
		term.expect("read x")
		term.send("hello\n")
		term.expect("got-hello")
		term.expect("inner> ")
		term.send("exit 3\n")
		term.expect("ready> ")
		term.send("echo co\"\"de-$?\n")
		term.expect("code-3")
	})
}

// In the background, a command that reads stops until it is in the foreground.
func TestBackground(t *testing.T) {
	eachShell(t, func(t *testing.T, term *terminal) {
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
	})
}

// On a terminal that stops whoever writes from the background, berth's warnings
// stop neither itself nor the command.
func TestWarningFromTheBackground(t *testing.T) {
	eachShell(t, func(t *testing.T, term *terminal) {
		term.script("job.sh", "echo $BERTH_LEASE >lease; while test -e lease && ! test -e go; do sleep 0.02; done; touch done")
		term.send("stty tostop\n")
		term.expect("ready> ")
		term.send("berth run --on-lost=warn s -- sh job.sh &\n")
		term.expect("ready> ")
		term.send("while ! test -s lease; do sleep 0.02; done; while berth evict --yes --force -- s $(cat lease); test $? = 69; do :; done\n")
		term.expect("goes on without it")
		term.send("touch go; while ! test -e done; do sleep 0.02; done; echo al\"\"l-done\n")
		term.expect("all-done")
	})
}

// With the terminal go the command, whatever the shell does about it, and the permit.
func TestHangUp(t *testing.T) {
	eachShell(t, func(t *testing.T, term *terminal) {
		term.send("berth run s -- sh -c 'sleep 100 & echo $! >child; echo $PPID >berth; echo u\"\"p; wait'\n")
		term.expect("up")
		child, berth := term.number("child"), term.number("berth")
		term.hangUp()
		if !eventually(func() bool { return !running(child) && !running(berth) }) {
			t.Errorf("berth is there: %v, the command's child: %v", running(berth), running(child))
		}
	})
}

// While it waits there is one line, and it is gone when the command starts.
func TestStatusLine(t *testing.T) {
	eachShell(t, func(t *testing.T, term *terminal) {
		flag := filepath.Join(term.dir, "go")
		term.send("berth run s -- sh -c 'echo u\"\"p; while ! test -e " + flag + "; do sleep 0.02; done' &\n")
		term.expect("up")
		term.send("berth run s -- echo do\"\"ne\n")
		term.expect("\rberth: s: next in line, 1 of 1 in use, waited ")
		if err := os.WriteFile(flag, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		term.expect("\r\x1b[K")
		term.expect("done")
	})
}
