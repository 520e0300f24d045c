package top

import (
	"context"
	"regexp"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/berth-go/berth/berthadmin"
	"github.com/berth-go/berth/berthwatch"
)

var start = time.Unix(1_790_000_000, 0)

// desk is a model with what it looks at.
type desk struct {
	*testing.T
	*Model
	shows berthwatch.View // what Look returns
	sees  berthwatch.Detail
	looks int
	focus string
	done  []berthwatch.Action
	fails error
}

func sit(t *testing.T, rows ...berthwatch.Row) *desk {
	t.Helper()
	d := &desk{T: t, shows: berthwatch.View{Rows: rows, At: start, Found: true, Pace: time.Second}}
	d.Model = New(Config{
		Look:    func() berthwatch.View { d.looks++; return d.shows },
		Detail:  func(name string) berthwatch.Detail { d.focus = name; return d.sees },
		Refresh: func(name string) { d.focus = name },
		History: func(string, time.Time) []berthwatch.Point { return nil },
		Flow: func(string, time.Time) berthwatch.Flow {
			return berthwatch.Flow{Handoffs: 13, Expired: 2, Over: 10 * time.Second}
		},
		Do:      func(_ context.Context, a berthwatch.Action) error { d.done = append(d.done, a); return d.fails },
		Server:  func(context.Context) string { return "redis 7" },
		Command: "berth",
	})
	d.send(tea.WindowSizeMsg{Width: 120, Height: 30})
	d.tick()
	return d
}

// send has the model take a message, and runs what it starts if that is an action.
func (d *desk) send(msg tea.Msg) tea.Cmd {
	_, cmd := d.Update(msg)
	return cmd
}

func (d *desk) tick() { d.send(tickMsg(start.Add(time.Duration(d.looks) * frame))) }

var special = map[string]rune{
	"enter": tea.KeyEnter, "esc": tea.KeyEscape, "tab": tea.KeyTab, "up": tea.KeyUp, "down": tea.KeyDown,
	"pgdown": tea.KeyPgDown, "end": tea.KeyEnd, "home": tea.KeyHome, "backspace": tea.KeyBackspace,
}

// press presses keys, and returns what the last one started.
func (d *desk) press(keys ...string) (cmd tea.Cmd) {
	for _, k := range keys {
		msg := tea.KeyPressMsg{Text: k, Code: []rune(k)[0]}
		if code, ok := special[k]; ok {
			msg = tea.KeyPressMsg{Code: code}
		}
		cmd = d.send(msg)
	}
	return cmd
}

// run carries out what a key has started.
func (d *desk) run(cmd tea.Cmd) {
	d.Helper()
	if cmd == nil {
		d.Fatal("nothing was started")
	}
	d.send(cmd())
}

var sgr = regexp.MustCompile("\x1b\\[[0-9;]*m")

// screen is the picture without colours.
func (d *desk) screen() string { return sgr.ReplaceAllString(d.View().Content, "") }

func (d *desk) wants(parts ...string) {
	d.Helper()
	text := d.screen()
	for _, p := range parts {
		if !strings.Contains(text, p) {
			d.Errorf("%q is not on the screen:\n%s", p, text)
		}
	}
}

func (d *desk) lacks(parts ...string) {
	d.Helper()
	text := d.screen()
	for _, p := range parts {
		if strings.Contains(text, p) {
			d.Errorf("%q is on the screen:\n%s", p, text)
		}
	}
}

func sem(name string, used, limit, waiting int) berthwatch.Row {
	return berthwatch.Row{Summary: berthadmin.Summary{
		Name: name, InUse: used, Limit: limit, Declared: limit, Holders: used, Waiting: waiting,
		OldestWait: time.Duration(waiting) * time.Minute, NextExpiry: 20 * time.Second,
	}}
}

// full is a semaphore with two holders of weight 1 and 2, and two waiters.
func full() *berthadmin.State {
	return &berthadmin.State{
		Summary: berthadmin.Summary{Name: "api", InUse: 3, Limit: 3, Declared: 3, Holders: 2, Waiting: 2},
		Leases: []berthadmin.Holder{
			{ID: "aaaaaaaa.1", Label: "red", Host: "web-1", PID: 11, Weight: 1, Held: time.Hour, ExpiresIn: 20 * time.Second, Until: time.Minute},
			{ID: "aaaaaaaa.2", Label: "blue", Host: "web-2", PID: 12, Weight: 2, Held: time.Minute, Expired: true},
		},
		Queue: []berthadmin.Waiter{
			{ID: "bbbbbbbb.1", Label: "first", Host: "web-3", PID: 13, Weight: 2, Waited: 42 * time.Second, ExpiresIn: 9 * time.Second},
			{ID: "bbbbbbbb.2", Label: "second", Host: "web-4", PID: 14, Weight: 1, Ahead: 1, Waited: time.Second, ExpiresIn: 9 * time.Second},
		},
	}
}

// inDetail is a desk with full in detail.
func inDetail(t *testing.T) *desk {
	t.Helper()
	d := sit(t, sem("api", 3, 3, 2))
	d.press("enter")
	d.sees.State, d.sees.At = full(), start
	d.tick()
	return d
}

// hostile are texts of other people's programs.
var hostile = []string{
	"\x1b[2J\x1b[31mred", "a\nb", "tab\there", "\u202ereversed", strings.Repeat("日本語", 60), "é́́", "👩\u200d👩\u200d👧", "❤\ufe0f", "\xff\xfe", strings.Repeat("long ", 60), "$(reboot)", "\u009b31m",
}
