package top

import (
	"errors"
	"slices"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/berth-go/berth/berthwatch"
)

func TestActions(t *testing.T) {
	for _, c := range []struct {
		name    string
		change  func(*desk)
		keys    []string
		command string
		want    berthwatch.Action
	}{
		{"pause", nil, []string{"p"}, "berth pause api", berthwatch.Action{Verb: "pause", Name: "api"}},
		{"pause for a time", nil, []string{"p", "up", "up", "1", "0", "m", "enter", "enter"}, "berth pause --for 10m api", berthwatch.Action{Verb: "pause", Name: "api", For: 10 * time.Minute}},
		{"resume", func(d *desk) { d.sees.State.Paused = true }, []string{"p"}, "berth resume api", berthwatch.Action{Verb: "resume", Name: "api"}},
		{"pin", nil, []string{"=", "backspace", "1", "7", "enter", "enter"}, "berth pin api 17", berthwatch.Action{Verb: "pin", Name: "api", Limit: 17}},
		{"unpin", func(d *desk) { d.sees.State.Pinned = true }, []string{"u"}, "berth unpin api", berthwatch.Action{Verb: "unpin", Name: "api"}},
		{"evict a waiter", nil, []string{"tab", "down", "x"}, "berth evict api bbbbbbbb.2", berthwatch.Action{Verb: "evict", Name: "api", ID: "bbbbbbbb.2", Who: "second (web-4:14)"}},
		{"force", nil, []string{"X", "a", "p", "i", "enter", "enter"}, "berth evict --force api aaaaaaaa.1", berthwatch.Action{Verb: "evict", Name: "api", ID: "aaaaaaaa.1", Who: "red (web-1:11)", Force: true}},
		{"reason", nil, []string{"p", "up", "d", "b", " ", "'", "s", "down"}, `berth pause --reason 'db '\''s' api`, berthwatch.Action{Verb: "pause", Name: "api", Reason: "db 's"}},
		{"name for a shell", func(d *desk) { d.sees.State.Name = "it's; rm" }, []string{"p"}, `berth pause 'it'\''s; rm'`, berthwatch.Action{Verb: "pause", Name: "it's; rm"}},
		{"name like a flag", func(d *desk) { d.sees.State.Name = "-x" }, []string{"p"}, "berth pause -- -x", berthwatch.Action{Verb: "pause", Name: "-x"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			begin := func() *desk {
				d := inDetail(t)
				if c.change != nil {
					c.change(d)
				}
				d.tick()
				d.press(c.keys...)
				d.wants(c.command, "[No]")
				return d
			}
			for _, no := range []string{"enter", "esc", "n"} {
				if d := begin(); d.press(no) != nil || d.dialog != nil || len(d.done) > 0 {
					t.Errorf("%s: did %v", no, d.done)
				}
			}
			d := begin()
			d.run(d.press("y"))
			if !slices.Equal(d.done, []berthwatch.Action{c.want}) {
				t.Errorf("did %+v", d.done)
			}
			d.wants(": done")
			d = begin()
			d.fails = errors.New("berth: \x1b[31mno")
			d.run(d.press("tab", "enter"))
			d.wants("no")
			d.lacks(": done")
		})
	}
}

// TestUnpinIsOfTheLimitFirst: the dialog says what stays pinned, and the next one unpins that.
func TestUnpinIsOfTheLimitFirst(t *testing.T) {
	d := inDetail(t)
	d.sees.State.Pinned, d.sees.State.RatesPinned = true, true
	d.tick()
	d.press("u")
	d.wants("berth unpin api", "Pinned rates stay pinned.")
	d.run(d.press("y"))
	d.sees.State.Pinned = false
	d.tick()
	d.press("u")
	d.wants("berth unpin --rate api")
	d.run(d.press("y"))
	d.sees.State.RatesPinned = false
	d.tick()
	d.press("u")
	d.wants("api is not pinned")
	want := []berthwatch.Action{{Verb: "unpin", Name: "api"}, {Verb: "unpin", Name: "api", Rated: true}}
	if !slices.Equal(d.done, want) {
		t.Errorf("did %+v, want %+v", d.done, want)
	}
}

// TestForceNeedsTheName: typed as it is, or nothing happens.
func TestForceNeedsTheName(t *testing.T) {
	d := inDetail(t)
	for _, keys := range [][]string{{"X", "enter", "enter", "y"}, {"X", "a", "p", "enter", "enter", "tab", "enter"}, {"X", "y", "y"}} {
		d.press(keys...)
		if d.dialog == nil || len(d.done) > 0 {
			t.Fatalf("%q: did %v", keys, d.done)
		}
		d.press("esc")
	}
	for _, limit := range []string{"", "-1", "x", "9999999999"} {
		d.press("=", "backspace")
		d.send(tea.PasteMsg{Content: limit})
		if d.press("enter", "enter", "y") != nil || d.dialog == nil {
			t.Errorf("limit %q: %v", limit, d.done)
		}
		d.press("esc")
	}
}

// TestReadOnlyShowsTheCommandAndDoesNothing.
func TestReadOnlyShowsTheCommandAndDoesNothing(t *testing.T) {
	d := inDetail(t)
	d.cfg.ReadOnly = "--read-only"
	for key, command := range map[string]string{"p": "berth pause api", "=": "berth pin api 3", "x": "berth evict api aaaaaaaa.1", "X": "berth evict --force api aaaaaaaa.1"} {
		if d.press(key) != nil || d.dialog != nil {
			t.Errorf("%s asks", key)
		}
		d.wants(command, "read-only")
	}
	if len(d.done) > 0 {
		t.Errorf("did %v", d.done)
	}
}

func TestCopyIsTheCommandForWhatIsSelected(t *testing.T) {
	d := inDetail(t)
	if d.press("y") == nil {
		t.Error("nothing was copied")
	}
	d.wants("copied: berth evict api aaaaaaaa.1")
	d.press("esc", "y")
	d.wants("copied: berth show api")
}
