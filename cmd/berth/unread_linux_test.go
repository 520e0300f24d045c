package main

import (
	"bufio"
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// fullPipe returns a pipe that nobody reads and that takes nothing more.
func fullPipe(t *testing.T) *os.File {
	t.Helper()
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fds[0]) })
	for size := 4096; size > 0; size /= 2 {
		for err := error(nil); err == nil; {
			_, err = unix.Write(fds[1], make([]byte, size))
		}
	}
	if err := unix.SetNonblock(fds[1], false); err != nil {
		t.Fatal(err)
	}
	w := os.NewFile(uintptr(fds[1]), "full pipe")
	t.Cleanup(func() { w.Close() })
	return w
}

// A command whose lease is lost is ended, TERM and KILL, although nothing can be said about it.
func TestLostLeaseEndsACommandWhenNobodyReads(t *testing.T) {
	t.Parallel()
	url, stop, err := embedded()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	cmd := exec.Command("berth", "run", "--ttl", "4s", "s", "--", "sh", "-c", `exec 2>/dev/null; trap "echo TERM" TERM; echo $$; while :; do sleep 0.02; done`)
	cmd.Env = append(os.Environ(), "BERTH_REDIS_URL="+url, "GORACE=atexit_sleep_ms=0")
	cmd.Stderr = fullPipe(t)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	lines.Scan()
	pid, err := strconv.Atoi(lines.Text())
	if err != nil {
		t.Fatal(err)
	}
	late := time.AfterFunc(timeout, func() { // the test fails then, and leaves nothing behind
		_ = unix.Kill(pid, unix.SIGKILL)
		_ = cmd.Process.Kill()
	})
	defer late.Stop()
	// Code 1: on a busy machine the lease may have run out already.
	if code, stderr := served(url, "evict", "--yes", "--label", "sh", "s"); code != 0 && code != 1 {
		t.Fatal(stderr)
	}
	if lines.Scan(); lines.Text() != "TERM" {
		t.Errorf("the command got %q, not TERM", lines.Text())
	}
	if code := exitCode(cmd.Wait()); code != 76 || running(pid) {
		t.Errorf("exit code %d, want 76; the command still runs: %v", code, running(pid))
	}
}

// On a terminal that is stopped with Ctrl-S, a wait ends when it says, and by a signal.
func TestWaitEndsOnAStoppedTerminal(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		flags  string
		signal unix.Signal
		want   int
	}{
		"in time":     {"-w 2", 0, 75},
		"by a signal": {"", unix.SIGTERM, 143},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			term := newTerminal(t, "sh", "-i")
			term.send("berth run s -- sh -c 'echo u\"\"p; exec sleep 1000' &\n")
			term.expect("up")
			term.script("wait.sh", strings.ReplaceAll("berth run FLAGS s -- true & echo $! >berth; exec 2>code.err; wait $!; echo $? >code\n", "FLAGS", test.flags))
			term.send("sh wait.sh\n")
			// On a busy machine the wait may be over before it is shown.
			for !term.showsBefore("next in line", "code") {
				if err := os.Remove(filepath.Join(term.dir, "code")); err != nil {
					t.Fatal(err)
				}
				term.send("sh wait.sh\n")
			}
			term.send("\x13") // Ctrl-S
			if test.signal != 0 {
				if err := unix.Kill(term.number("berth"), test.signal); err != nil {
					t.Fatal(err)
				}
			}
			if code := term.number("code"); code != test.want {
				t.Errorf("exit code %d, want %d", code, test.want)
			}
		})
	}
}

// showsBefore waits until the terminal shows a text or a command has written a number into a
// file, and tells whether it was the text.
func (term *terminal) showsBefore(text, name string) bool {
	term.t.Helper()
	shown, written := false, false
	if !eventually(func() bool {
		b, _ := os.ReadFile(filepath.Join(term.dir, name))
		written = bytes.HasSuffix(b, []byte("\n")) // before the look at the terminal
		shown = term.take(text)
		return shown || written
	}) {
		term.t.Fatalf("neither does the terminal show %q nor is there a number in %s", text, name)
	}
	return shown
}
