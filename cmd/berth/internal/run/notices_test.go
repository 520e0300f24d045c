package run

import (
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"
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
	for i := range 2 * mostHeld {
		n.Warnf("held %d", i)
	}
	n.Printf("something else")
	n.release()
	n.Warnf("at once")
	n.Flush(time.Minute)
	w.Close()
	var want strings.Builder
	want.WriteString("berth: something else\n")
	for i := range mostHeld {
		fmt.Fprintf(&want, "berth: held %d\n", i)
	}
	want.WriteString("berth: at once\n")
	if all, err := io.ReadAll(r); err != nil || string(all) != want.String() {
		t.Errorf("%q, %v", all, err)
	}
}
