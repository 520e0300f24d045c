package run

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/berth-go/berth/cmd/berth/internal/screen"
)

// Who tells something does not wait until it is read. What is kept is in order and whole, and
// later notices follow when somebody reads again.
func TestNoticesDoNotWaitForTheirReader(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	n := NewNotices(w)
	const sentences = 4000 // more than a pipe and the notices keep
	text := strings.Repeat("x", 100)
	for i := range sentences {
		n.Printf("%d %s", i, text)
	}
	n.Flush(time.Millisecond) // ends

	read := make(chan string)
	go func() {
		all, _ := io.ReadAll(r)
		read <- string(all)
	}()
	n.Flush(time.Minute)
	n.Printf("the last")
	n.Flush(time.Minute)
	w.Close()
	lines := strings.SplitAfter(<-read, "\n")
	kept := len(lines) - 2 // the last one, and nothing after it
	if kept == 0 || kept == sentences || lines[kept] != "berth: the last\n" {
		t.Errorf("%d of %d sentences were kept, and then %q", kept, sentences, lines[kept])
	}
	last := -1
	for _, line := range lines[:kept] {
		var number int
		_, _ = fmt.Sscanf(line, "berth: %d", &number)
		if number <= last || line != fmt.Sprintf("berth: %d %s\n", number, text) {
			t.Fatalf("after number %d: %q", last, line)
		}
		last = number
	}
}

// What Redis refuses beside a request is told once Redis serves the request, and then at once.
func TestWarningsWaitForAPlace(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	n := NewNotices(w)
	n.hold()
	n.SlowWaitf("a wait is slow, and there is none")
	n.hold()
	n.release(false)
	n.SlowWaitf("a wait is slow, and there is none")
	n.hold()
	n.SlowWaitf("a wait is slow")
	n.release(true)
	n.hold()
	for i := range 2 * mostHeld {
		n.Warnf("held %d", i)
	}
	n.Printf("something else")
	n.release(false)
	n.hold()
	n.release(false) // there is nothing more to tell
	n.Warnf("at once")
	n.Flush(time.Minute)
	w.Close()
	var want strings.Builder
	want.WriteString("berth: a wait is slow\nberth: something else\n")
	for i := range mostHeld {
		fmt.Fprintf(&want, "berth: held %d\n", i)
	}
	want.WriteString("berth: at once\n")
	if all, err := io.ReadAll(r); err != nil || string(all) != want.String() {
		t.Errorf("%q, %v", all, err)
	}
}

// said returns what write says, on a terminal or not, where every berth is a boat.
func said(t *testing.T, terminal bool, write func(*Notices)) string {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	n := NewNotices(w)
	n.terminal = terminal
	n.Rename(func(text string) string { return strings.ReplaceAll(text, "berth", "boat") })
	write(n)
	n.Flush(time.Minute)
	w.Close()
	all, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(all)
}

// A sentence takes the place of the status line, once, and both speak of what the user knows.
func TestSentencesReplaceTheStatusLine(t *testing.T) {
	write := func(n *Notices) {
		n.Status("a", "berth is next in line")
		n.Println("the berth is here")
		n.Printf("and gone")
	}
	for terminal, want := range map[bool]string{
		true:  "\rberth: a: boat is next in line\x1b[K\r\x1b[Kthe boat is here\nboat: and gone\n",
		false: "the boat is here\nboat: and gone\n",
	} {
		if got := said(t, terminal, write); got != want {
			t.Errorf("on a terminal %v: %q, want %q", terminal, got, want)
		}
	}
}

// The status line leaves the last column free: in a full one some terminals wrap.
func TestStatusLineLeavesTheLastColumn(t *testing.T) {
	line := said(t, true, func(n *Notices) { n.Status("a", strings.Repeat("x", 500)) })
	line = strings.TrimSuffix(strings.TrimPrefix(line, "\r"), "\x1b[K")
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	if got, want := screen.Columns(line), screen.Width(w)-1; got != want {
		t.Errorf("%d columns, want %d", got, want)
	}
}

// With --quiet neither a status nor an outage is told.
func TestQuietTellsNothing(t *testing.T) {
	health := new(Health)
	health.begin()(errors.New("connection refused"), false)
	health.failing = time.Now().Add(-2 * tellAfter)
	for _, terminal := range []bool{true, false} {
		for _, quiet := range []bool{true, false} {
			var told bool
			text := said(t, terminal, func(n *Notices) {
				l := &line{cfg: Config{Name: "a", Weight: 1, Health: health, Notices: n, Quiet: quiet}}
				told = l.ticks() != nil
				l.draw()
			})
			if told == quiet || (text == "") != quiet {
				t.Errorf("on a terminal %v, quiet %v: %q", terminal, quiet, text)
			}
		}
	}
}
