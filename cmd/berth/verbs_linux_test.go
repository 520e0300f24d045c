package main

import (
	"testing"

	"golang.org/x/sys/unix"
)

// What cannot be undone is shown and asked for; what is not a yes is a no.
func TestVerbsAskOnATerminal(t *testing.T) {
	t.Parallel()
	term := verbTerminal(t)
	term.send("berth pin --create a b 3\n")
	term.expect("b: not in use → limit 3, pinned")

	term.send("berth purge a; echo co\"\"de $?\n")
	term.expect("a: limit 3, pinned, declared none, 0 in use, 0 waiting")
	term.expect("Delete 1 semaphore, with leases and queues? [y/N] ")
	term.send("\n")
	term.expect("berth: nothing was changed")
	term.expect("code 1")

	term.send("berth pause '*'; echo co\"\"de $?\n")
	term.expect("Pause 2 semaphores? [y/N] ")
	term.send("\x04") // the end of the input
	term.expect("berth: nothing was changed")
	term.expect("code 1")
	term.send("berth pause '*'; echo co\"\"de $?\n")
	term.expect("Pause 2 semaphores? [y/N] ")
	term.send("Yes\n")
	term.expect("b: limit 3, pinned, declared none, now paused")
	term.expect("code 0")

	term.send("berth purge a; echo co\"\"de $?\n")
	term.expect("[y/N] ")
	term.send("y\n")
	term.expect("a: limit 3, pinned, declared none, paused, 0 in use, 0 waiting → deleted")
	term.expect("code 0")

	// Where the question could not be read, nobody is asked.
	term.send("berth purge b 2>err; echo co\"\"de $?; cat err\n")
	term.expect("code 64")
	term.expect("add --yes")
}

func TestEvictShowsWhomItMeans(t *testing.T) {
	t.Parallel()
	term := verbTerminal(t)
	term.send("berth acquire -n 2 --label red s >/dev/null; berth acquire -n 2 --label blue s >/dev/null\n")
	term.send("berth evict --force --label blue '*'; echo co\"\"de $?\n")
	term.expect("NAME  ROLE    LABEL  HOST")
	term.expect("s     holder  blue ")
	term.expect("Evict 1 holder, whose permits are free even while they still work? [y/N] ")
	term.send("n\n")
	term.expect("berth: nothing was changed")
	term.expect("code 1")
	term.send("berth evict --force --label blue '*'; echo co\"\"de $?\n")
	term.expect("[y/N] ")
	term.send("y\n")
	term.expect("its permits are free")
	term.expect("s: limit 2, 2 → 1 in use, 0 waiting")
	term.expect("code 0")
}

// A password is not shown, even where the prompt is not: standard error may be a file.
func TestPasswordIsNotShown(t *testing.T) {
	t.Parallel()
	term := verbTerminal(t)
	for _, where := range []string{"", " 2>err"} {
		term.send("berth serve hash-password ann" + where + "\n")
		if !eventually(func() bool { return !term.echoes() }) {
			t.Fatalf("%q: what is typed is shown", where)
		}
		term.send("hunter2\n")
		term.expect("ann:pbkdf2-sha256$")
		term.expect(":view")
		if !term.echoes() {
			t.Errorf("%q: what is typed is not shown afterwards", where)
		}
	}
	term.mute("hunter2")
}

// echoes reports whether the terminal shows what is typed.
func (term *terminal) echoes() (on bool) {
	term.t.Helper()
	conn, err := term.master.SyscallConn()
	if err != nil {
		term.t.Fatal(err)
	}
	_ = conn.Control(func(fd uintptr) {
		var state *unix.Termios
		if state, err = unix.IoctlGetTermios(int(fd), unix.TCGETS); err == nil {
			on = state.Lflag&unix.ECHO != 0
		}
	})
	if err != nil {
		term.t.Fatal(err)
	}
	return on
}

func verbTerminal(t *testing.T) *terminal {
	t.Helper()
	url, stop, err := embedded()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	term, _ := openTerminal(t, url, "sh", "-i")
	// A Redis that has no time in time is asked again. "command" runs the program.
	term.send("berth() { while command berth \"$@\"; code=$?; [ $code = 69 ]; do :; done; return $code; }\n")
	term.expect("ready> ")
	return term
}
