package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestSuspendedStoreLosesNoRun: while the process of the local store lives, whoever needs it
// waits for it, longer than for a Redis that does not answer, and is told so.
func TestSuspendedStoreLosesNoRun(t *testing.T) {
	t.Parallel()
	base := shortDir(t)
	dir := filepath.Join(base, "s")
	term := newTerminal(t, "bash", "--norc", "--noprofile", "--noediting", "-i")
	term.send("unset BERTH_REDIS_URL REDIS_URL; export BERTH_STORE_DIR=" + dir + " BERTH_LOCAL_IDLE=50ms; set +m\n")
	term.send("berth -q acquire -n 3 --ttl 1h s >held; cp " + dir + "/store.lock pid; echo it is the\"\"re\n")
	term.expect("it is there")
	store := term.number("pid")
	if err := unix.Kill(store, unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if running(store) {
			_ = unix.Kill(store, unix.SIGKILL)
		}
	})
	term.send("for i in 1 2 3 4 5 6 7 8 9 10 11 12; do { berth -q run s -- echo ran || echo lost; } >>ran 2>&1 & done\n")
	term.send("{ berth -q release - <held; echo released with $? >released; } &\n")
	// The library asks for 5 seconds.
	waits := regexp.MustCompile(`waiting for the local store for ([6-9]|\d\d)`)
	term.send("berth run s -- echo mi\"\"ne\n")
	if !eventually(func() bool {
		term.mu.Lock()
		defer term.mu.Unlock()
		return waits.MatchString(term.seen.String())
	}) {
		t.Error("it does not say that it waits")
	}
	if err := unix.Kill(store, unix.SIGCONT); err != nil {
		t.Fatal(err)
	}
	term.expect("mine")
	term.send("wait; echo all have en\"\"ded\n")
	term.expect("all have ended")
	for name, want := range map[string]string{"ran": strings.Repeat("ran\n", 12), "released": "released with 0\n"} {
		if text, err := os.ReadFile(filepath.Join(term.dir, name)); err != nil || string(text) != want {
			t.Errorf("%s: %q, %v", name, text, err)
		}
	}
}
