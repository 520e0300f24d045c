package main

import (
	"errors"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// What a terminal is told to show a picture in place of the text, and the text again.
const alternate, normal = "\x1b[?1049h", "\x1b[?1049l"

// top begins a command that shows queue-of-two.
func (term *terminal) top(command string) {
	term.t.Helper()
	term.send(command + "; echo co\"\"de-$?\n")
	term.expect(alternate)
	term.expect("queue-of-two")
}

// topEnds expects the end of that command, which leaves the terminal as it was.
func (term *terminal) topEnds() {
	term.t.Helper()
	term.expect(normal)
	term.expect("code-0")
	term.expect("ready> ")
	term.send("stty -a | grep -o ' echo ' | tr a-z A-Z\n") // a raw terminal echoes nothing
	term.expect(" ECHO ")
}

// berthOn returns what a command of berth prints, on a store.
func berthOn(url string, args ...string) string {
	out, _ := exec.Command("berth", append([]string{"--redis", url}, args...)...).CombinedOutput()
	return string(out)
}

// TestTopOnATerminal: it shows what is there, does what was confirmed, and leaves the
// terminal as it was, however it ends.
func TestTopOnATerminal(t *testing.T) {
	t.Parallel()
	url, stop, err := embedded()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	show := func() string { return berthOn(url, "show", "queue-of-two") }
	term, home := openTerminal(t, url, "bash", "--norc", "--noprofile", "--noediting", "-i")
	term.dir = home
	term.send("berth run -n 1 --label the-holder queue-of-two -- sleep 1000 & berth run -n 1 -w 1h queue-of-two -- sleep 1000 &\n") // no Redis any more: neither stays
	if !eventually(func() bool { return strings.Contains(show(), "1 waiting") }) {
		t.Fatal("nobody waits")
	}

	term.top("berth top")
	term.pauseInTop()
	if !eventually(func() bool { return strings.Contains(show(), "paused") }) {
		t.Fatalf("it was not paused:\n%s", show())
	}
	term.send("\x1a") // Ctrl-Z
	term.expect(normal)
	term.expect("Stopped")
	term.expect("ready> ")
	term.send("fg\n")
	term.expect(alternate)
	term.expect("queue-of-two")
	term.send("q")
	term.expect(normal)
	term.expect("ready> ")

	term.top("berth top --read-only")
	term.send("p")
	term.expect("nothing is changed")
	term.send("q")
	term.topEnds()

	term.top("sh -c 'echo $$ >pid; exec berth top'")
	if err := unix.Kill(term.number("pid"), unix.SIGTERM); err != nil {
		t.Fatal(err)
	}
	term.topEnds()
	var got string
	patiently(func() (bool, string) { got = show(); return false, got })
	if !strings.Contains(got, "paused") {
		t.Errorf("it was resumed without being told to:\n%s", got)
	}
	term.send("kill %1 %2; wait\n")
}

// pauseInTop asks for a pause twice, and answers No at first.
func (term *terminal) pauseInTop() {
	term.t.Helper()
	term.send("\r") // enter
	term.expect("the-holder")
	term.send("p")
	term.expect("berth pause queue-of-two")
	term.send("\r") // No
	term.expect("the-holder")
	term.send("p")
	term.expect("berth pause queue-of-two")
	term.send("y")
}

// TestTopShowsWhatBegins while it is open, as the README's second command, and when it ends.
func TestTopShowsWhatBegins(t *testing.T) {
	t.Parallel()
	url, stop, err := embedded()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	term, _ := openTerminal(t, url, "bash", "--norc", "--noprofile", "--noediting", "-i")
	term.send("berth top\n")
	term.expect("as of ")
	term.expect("No semaphore is in use.")
	job := exec.Command("berth", "--redis", url, "run", "-n", "2", "nap", "--", "cat")
	held, err := job.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := job.Start(); err != nil {
		t.Fatal(err)
	}
	term.expect("nap")
	term.expect("1/2")
	if err := errors.Join(held.Close(), job.Wait()); err != nil {
		t.Fatal(err)
	}
	term.expect("idle")
	term.send("q")
}
