package storm

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/berth-go/berth/dev/verify/history"
	"github.com/berth-go/berth/dev/verify/promises"
)

// TestPage: the page names the violation, draws the operations that it is about
// and the fault beside them, and links what porcupine drew.
func TestPage(t *testing.T) {
	at := func(n int) history.Time { return history.Time(n) * history.Time(time.Millisecond) }
	op := func(n, from, to int) *promises.Op {
		return &promises.Op{
			Event:   history.Event{Proc: 1, Op: n, Verb: history.Try, Name: "<s>", Weight: 1, Outcome: history.OK, Until: at(to + 100)},
			Invoked: at(from), Returned: at(to), Released: promises.Call{Invoked: history.Never},
		}
	}
	run := &promises.Run{
		Ops:    []*promises.Op{op(1, 10, 12), op(2, 20, 25), op(3, 5000, 5001)},
		Faults: []history.Event{{At: at(15), Until: at(40), Text: "FLUSHALL"}},
	}
	v := &promises.Verdict{
		Violations: []promises.Violation{{Promise: "S1", Name: "<s>", Text: "two at once", At: at(25), Ops: run.Ops[:2]}},
		Pictures:   []string{"drawn"},
	}
	dir := t.TempDir()
	path, err := writePage(dir, "keep, seed 1", run, v)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	html := string(raw)
	for _, want := range []string{"keep, seed 1", "S1 at 15ms: &lt;s&gt;: two at once", "p1.1 try", "p1.2 try", "FLUSHALL", "porcupine-1.html"} {
		if !strings.Contains(html, want) {
			t.Errorf("no %q on the page", want)
		}
	}
	if strings.Contains(html, "p1.3") || strings.Contains(html, "<s>") {
		t.Error("what is far away is shown, or names are not escaped")
	}
	if text, err := os.ReadFile(filepath.Join(dir, "porcupine-1.html")); err != nil || string(text) != "drawn" {
		t.Errorf("porcupine's picture: %q, %v", text, err)
	}
}
