package top

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	tea "charm.land/bubbletea/v2"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/berthadmin"
	"github.com/berth-go/berth/berthwatch"
	scr "github.com/berth-go/berth/cmd/berth/internal/screen"
)

// TestEveryScreenFits its terminal, whatever the names and labels are.
func TestEveryScreenFits(t *testing.T) {
	var rows []berthwatch.Row
	state := full()
	var events []berthwatch.Event
	for i, name := range hostile {
		rows = append(rows, sem(name, i, 5, i), berthwatch.Row{Summary: berthadmin.Summary{Name: name + "!"}, Err: &berth.CorruptError{Name: name, Err: errors.New(name)}})
		state.Leases = append(state.Leases, berthadmin.Holder{ID: name, Label: name, Host: name})
		state.Queue = append(state.Queue, berthadmin.Waiter{ID: name, Label: name, Host: name, Ahead: i + 2})
		events = append(events, berthwatch.Event{Event: berthadmin.Event{Kind: berthadmin.EventExpired, Name: name, ID: name}, At: start})
	}
	for _, err := range []error{nil, errors.New("\x1b[31m" + strings.Repeat("away ", 100))} {
		for _, size := range []tea.WindowSizeMsg{{Width: 60, Height: 24}, {Width: 80, Height: 24}, {Width: 200, Height: 60}, {Width: 61, Height: 7}, {Width: 20, Height: 3}, {Width: 1, Height: 1}} {
			for what, keys := range map[string][]string{
				"list": {}, "filter": {"/"}, "detail": {"enter"}, "queue": {"enter", "tab", "end"}, "events": {"e"}, "help": {"?"},
				"pause": {"p"}, "pin": {"="}, "force": {"enter", "X"}, "none": {"/", "none"},
			} {
				for _, onlyASCII := range []bool{false, true} {
					d := sit(t, rows...)
					d.cfg.ASCII = onlyASCII
					d.shows.Err, d.shows.Events.Last, d.shows.Events.Err = err, events, err
					d.sees.State, d.sees.Err = state, err
					d.send(size)
					d.tick()
					for _, k := range keys {
						d.press(k)
						d.tick()
					}
					fits(t, fmt.Sprint(what, size, onlyASCII), d.screen(), size, onlyASCII)
				}
			}
		}
	}
}

func fits(t *testing.T, what, text string, size tea.WindowSizeMsg, onlyASCII bool) {
	t.Helper()
	lines := strings.Split(text, "\n")
	if len(lines) != size.Height {
		t.Errorf("%s: %d lines", what, len(lines))
	}
	for _, l := range lines {
		if scr.Columns(l) > size.Width {
			t.Errorf("%s: %d columns: %q", what, scr.Columns(l), l)
		}
		for _, r := range l {
			if unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || onlyASCII && r > 0x7e {
				t.Fatalf("%s: %q in %q", what, r, l)
			}
		}
	}
}

func names(d *desk) (all []string) {
	for _, r := range d.visible {
		all = append(all, r.Name)
	}
	return all
}

// TestIdleIsNotPinnedOrPaused: its limit is not known, and 0 would be offered.
func TestIdleIsNotPinnedOrPaused(t *testing.T) {
	d := sit(t, berthwatch.Row{Summary: berthadmin.Summary{Name: "idle"}, Idle: true})
	for _, key := range []string{"=", "p"} {
		d.press(key)
		d.wants("idle is not in use")
		d.press("esc")
	}
}

func TestListIsSortedAndFiltered(t *testing.T) {
	d := sit(t, sem("api/a", 1, 9, 0), sem("api/b", 2, 2, 5), sem("db", 4, 4, 7), berthwatch.Row{Summary: berthadmin.Summary{Name: "idle"}, Idle: true})
	for _, step := range []struct {
		keys []string
		want string
	}{
		{nil, "db api/b api/a idle"},
		{[]string{"S"}, "idle api/a api/b db"},
		{[]string{"s", "s"}, "db api/b api/a idle"},
		{[]string{"s", "s"}, "api/a api/b db idle"},
		{[]string{"c"}, "api/b db"},
		{[]string{"c", "/", "A", "P", "I", "enter"}, "api/a api/b"},
		{[]string{"/", "*", "b"}, "api/b"},
		{[]string{"backspace", "backspace", "esc"}, "api/a api/b db idle"},
		{[]string{"/", "[", "enter"}, ""},
		{[]string{"esc"}, "api/a api/b db idle"},
	} {
		d.press(step.keys...)
		if got := strings.Join(names(d), " "); got != step.want {
			t.Errorf("after %q: %s, want %s", step.keys, got, step.want)
		}
	}
	d.press("/", "n", "o", "n", "e", "enter")
	d.wants("None of them passes: /none")
}

// TestAgeIsAlwaysShown: of the list or of the semaphore in detail, and of the names where the
// search for them is seldom.
func TestAgeIsAlwaysShown(t *testing.T) {
	d := sit(t, sem("a", 1, 1, 3))
	d.shows.Found, d.shows.Pace = true, time.Second
	for _, c := range []struct {
		list, detail, names time.Duration
		keys                []string
		want, not           string
	}{
		{400 * time.Millisecond, 0, time.Second, nil, "as of 0.4s ago", "names"},
		{30 * time.Second, 0, 90 * time.Second, nil, "as of 30s ago", ""},
		{time.Second, 0, 90 * time.Second, nil, "names as of 1m30s ago", ""},
		{30 * time.Second, 2 * time.Second, 0, []string{"enter"}, "as of 2.0s ago", "30s"},
	} {
		d.shows.At, d.shows.NamesAt, d.sees.State, d.sees.At = d.now.Add(-c.list), d.now.Add(-c.names), full(), d.now.Add(-c.detail)
		d.press(c.keys...)
		d.refresh()
		d.wants(c.want)
		if head := strings.Split(d.screen(), "\n")[1]; c.not != "" && strings.Contains(head, c.not) {
			t.Errorf("%q has %q", head, c.not)
		}
	}
	d.shows.Err = berth.ErrUnreachable
	d.refresh()
	d.wants("as of 2.0s ago: redis is unreachable")
}

// TestMissedRenewalIsMarked, and holders are counted by what tells them apart.
func TestMissedRenewalIsMarked(t *testing.T) {
	d := sit(t, sem("a", 2, 2, 0))
	d.sees.State = &berthadmin.State{Summary: berthadmin.Summary{Name: "a", Limit: 2, Declared: 2, InUse: 2, Holders: 2}, Leases: []berthadmin.Holder{
		{ID: "x.1", Label: "old", Host: "h", Weight: 1, TTL: time.Hour, ExpiresIn: 10 * time.Minute},
		{ID: "y.1", Label: "new", Host: "h", Weight: 1, TTL: time.Minute, ExpiresIn: 41 * time.Second},
	}}
	d.press("enter")
	d.tick()
	d.wants("not renewed for 50m00s, x.1", "by label: new 1 held · old 1 held")
	if n := strings.Count(d.screen(), "not renewed"); n != 1 {
		t.Errorf("%d are marked", n)
	}
}

// TestSlowRedisIsShown, on all screens of a usual width, and without a terminal.
func TestSlowRedisIsShown(t *testing.T) {
	d := sit(t, sem("a", 1, 1, 3))
	d.shows.At, d.shows.Trips = d.now, berthwatch.RoundTrips{Mean: 300 * time.Microsecond, Most: time.Millisecond}
	d.tick()
	d.wants("; Redis answers in 0.3 ms; ")
	d.shows.Trips = berthwatch.RoundTrips{Mean: 310 * time.Millisecond, Most: 790 * time.Millisecond}
	for _, keys := range [][]string{nil, {"enter"}} {
		d.press(keys...)
		d.send(tea.WindowSizeMsg{Width: 80, Height: 24})
		d.tick()
		d.wants("; Redis answers in 310 ms, at most 790 ms; ")
	}
	if text := Plain(d.shows, 100, false); !strings.Contains(text, "Redis answers in 310 ms, at most 790 ms\n") {
		t.Errorf("%s", text)
	}
}

// TestCursorStaysWithItsName while the order changes around it.
func TestCursorStaysWithItsName(t *testing.T) {
	d := sit(t, sem("a", 1, 1, 3), sem("b", 1, 1, 2), sem("c", 1, 1, 1))
	d.press("down")
	d.shows.Rows = []berthwatch.Row{sem("a", 1, 1, 0), sem("b", 1, 1, 0), sem("c", 1, 1, 9)}
	d.tick()
	if d.selected != "b" || d.index() != 2 {
		t.Errorf("at %q, row %d", d.selected, d.index())
	}
	d.shows.Rows = d.shows.Rows[:1]
	d.tick()
	d.wants(">a")
}

// TestFiveThousand: only what is on the screen is drawn, from end to end.
func TestFiveThousand(t *testing.T) {
	var rows []berthwatch.Row
	for i := range 5000 {
		rows = append(rows, sem(fmt.Sprintf("n%04d", i), 1, 5, 0))
	}
	drawn := map[string]bool{}
	d := sit(t, rows...)
	d.cfg.History = func(name string, _ time.Time) []berthwatch.Point { drawn[name] = true; return nil }
	d.wants("5000 semaphores", ">n0000")
	if len(drawn) > d.height {
		t.Errorf("%d rows were drawn", len(drawn))
	}
	d.press("end")
	d.wants(">n4999")
	d.press("home", "pgdown")
	d.wants(fmt.Sprintf(">n%04d", d.height-6))
}

func TestDetailTellsWhoBlocksWhom(t *testing.T) {
	d := inDetail(t)
	if d.focus != "api" {
		t.Errorf("focus on %q", d.focus)
	}
	d.wants("3 in use by 2 holders, 2 waiting; limit 3", "red", "web-1:11", "aaaaaaaa.1", "expired", "The first in the queue waits for 2 permits of 2 holders; red (web-1:11) has held longest")
	for what, c := range map[string]struct {
		change func(*berthadmin.State)
		want   string
	}{
		"paused": {func(s *berthadmin.State) { s.Paused = true }, `waits for "berth resume"`},
		"cooling": {func(s *berthadmin.State) {
			s.Paused, s.PausedFor, s.PausedBy = true, 12*time.Second, "sync\x1b (web-3:7)"
		}, "paused for 12s by sync\ufffd (web-3:7)"},
		"cooled": {func(s *berthadmin.State) { s.Paused, s.PausedFor = true, 12*time.Second }, "waits for the end of a pause in 12s"},
		"frozen": {func(s *berthadmin.State) { s.Pinned, s.Limit = true, 0 }, "waits for another limit than 0"},
		"one":    {func(s *berthadmin.State) { s.Leases = s.Leases[:1] }, "waits for 2 permits of red (web-1:11)"},
		"partly": {func(s *berthadmin.State) { s.InUse = 2 }, "waits for 1 permit of 2 holders"},
		"next":   {func(s *berthadmin.State) { s.InUse = 1 }, "waits for its turn, which is now"},
		"costly": {func(s *berthadmin.State) {
			rate := berthadmin.Rate{Unit: "tokens", N: 60, Per: time.Minute, Spent: 52}
			s.InUse, s.Rates, s.RetryAfter = 1, []berthadmin.Rate{rate}, 3*time.Second
			s.Queue[0].Costs, s.Queue[0].KeptBy = map[string]int{"tokens": 9}, &rate
		}, "waits for the rate: 52 of 60 tokens spent in 1m0s, room for 9 in 3.0s"},
		"rated": {func(s *berthadmin.State) {
			s.Rates = []berthadmin.Rate{{N: 60, Per: time.Minute, Spent: 12}, {Unit: "api", N: 2, Per: time.Second, Burst: 40}}
		}, "12 of 60 spent in 1m0s, 0 of a burst of 40 api spent, 2 come back in 1s"},
		"nobody":    {func(s *berthadmin.State) { s.Queue = nil }, "Nobody waits."},
		"evicted":   {func(s *berthadmin.State) { s.Leases[0].Evicting = true }, "aaaaaaaa.1, told to stop"},
		"unlabeled": {func(s *berthadmin.State) { s.Leases[0].Label = "" }, "holders; web-1:11 has held longest"},
	} {
		t.Run(what, func(t *testing.T) {
			d := inDetail(t)
			c.change(d.sees.State)
			d.tick()
			d.wants(c.want)
		})
	}
	d.sees.Why = []string{"paused by ann\x1b 14:02: migration"}
	d.tick()
	d.wants("Paused by ann\ufffd 14:02: migration.")
	d.sees.Err = fmt.Errorf("%w: gone", berthadmin.ErrNotFound)
	d.tick()
	d.wants("api  is idle")
	d.press("esc")
	d.focus = ""
	if d.tick(); d.Model.screen != listScreen || d.focus != "" {
		t.Errorf("screen %v, focus %q", d.Model.screen, d.focus)
	}
}

// TestDetailTellsWhatWasHeard, where anything can be.
func TestDetailTellsWhatWasHeard(t *testing.T) {
	d := inDetail(t)
	d.lacks("handed over")
	d.shows.Events.Listening = true
	d.tick()
	d.wants("limit 3; 1.3 handed over a second, 2 expired in an hour")
}

// TestCursorFollowsWhomItIsAt: holders come and go between a look and a key.
func TestCursorFollowsWhomItIsAt(t *testing.T) {
	d := inDetail(t)
	d.press("down")
	s := full()
	s.Leases = append([]berthadmin.Holder{{ID: "cccccccc.1"}}, s.Leases[1], s.Leases[0])
	d.sees.State = s
	d.tick()
	d.press("x")
	d.wants("berth evict api aaaaaaaa.2", "blue (web-2:12)")
}

// TestFooterNamesTheKeysThatWork: while a text has the cursor, y and n are letters of it.
func TestFooterNamesTheKeysThatWork(t *testing.T) {
	d := inDetail(t)
	d.press("p")
	d.wants("y yes")
	d.press("up")
	d.wants("enter continues")
	d.lacks("y yes")
}

// TestRedisAway: what was last known stays, with its age and the reason.
func TestRedisAway(t *testing.T) {
	d := sit(t, sem("api", 3, 3, 2))
	d.shows.Err = errors.New("berth: redis is unreachable: gone fishing")
	d.send(tickMsg(start.Add(12 * time.Second)))
	d.wants("as of 12s ago: redis is unreachable: gone fishing", ">api")
	d.shows.Err, d.shows.At = nil, start.Add(13*time.Second)
	d.send(tickMsg(start.Add(13 * time.Second)))
	d.lacks("gone fishing")
	empty := sit(t)
	empty.shows = berthwatch.View{Err: errors.New("berth: nobody there")}
	empty.tick()
	empty.wants("nobody there")
	empty.lacks("No semaphore")
}

// TestStates has a word for each state that is not usual.
func TestStates(t *testing.T) {
	paused, pinned, frozen, expired := sem("paused1", 0, 2, 0), sem("pinned1", 0, 2, 0), sem("frozen1", 0, 0, 0), sem("expired1", 3, 2, 0)
	paused.Paused, pinned.Pinned, frozen.Pinned, expired.Expired = true, true, true, 2
	rated := sem("spent1", 1, berth.NoLimit, 0)
	rated.Rates, rated.RetryAfter = []berthadmin.Rate{{N: 60, Per: time.Minute, Spent: 60}}, 3*time.Second
	d := sit(t, paused, pinned, frozen, expired, rated,
		berthwatch.Row{Summary: berthadmin.Summary{Name: "damaged1"}, Err: &berth.CorruptError{Err: errors.New("x")}},
		berthwatch.Row{Summary: berthadmin.Summary{Name: "newer1"}, Err: &berth.CorruptError{Newer: true, Err: errors.New("x")}},
		berthwatch.Row{Summary: berthadmin.Summary{Name: "half1"}, Err: &berth.CorruptError{Heals: time.Minute, Err: errors.New("x")}},
		berthwatch.Row{Summary: berthadmin.Summary{Name: "idle1"}, Idle: true})
	for _, l := range strings.Split(d.screen(), "\n")[4:13] {
		name := strings.Fields(strings.TrimPrefix(l, ">"))[0]
		if word := strings.TrimSuffix(name, "1"); strings.Count(l, word) < 2 && name != "newer1" && name != "half1" {
			t.Errorf("%q does not say %q", l, word)
		}
	}
	d.wants("newer layout", "half lost, heals in 1m00s", "over limit, 2 expired", "1/any", "rate spent")
}

func TestEvents(t *testing.T) {
	d := sit(t, sem("api", 3, 3, 2))
	d.press("e")
	d.shows.Events = berthwatch.Feed{Listening: true, Counts: map[berthadmin.EventKind]int{berthadmin.EventExpired: 2}}
	for i := range 40 {
		d.shows.Events.Last = append(d.shows.Events.Last, berthwatch.Event{Event: berthadmin.Event{Kind: berthadmin.EventExpired, Name: fmt.Sprint("n", i), ID: "x"}, At: start})
	}
	d.tick()
	d.wants("2 expired", "n39")
	d.press("end")
	d.wants("n0 ")
	d.shows.Events.Listening, d.shows.Events.Err = false, berthadmin.ErrFlood
	d.tick()
	d.wants("not listening: too many messages")
	d.press("esc")
	d.wants(">api")
}

// TestPausedDisplayLooksAtNothing, and goes on with the same key.
func TestPausedDisplayLooksAtNothing(t *testing.T) {
	d := sit(t, sem("api", 3, 3, 2))
	d.send(tea.KeyPressMsg{Code: tea.KeySpace, Text: " "})
	before := d.looks
	for range 10 {
		d.tick()
	}
	if d.looks != before {
		t.Errorf("it looked %d times", d.looks-before)
	}
	d.wants("space resumes")
	d.send(tea.KeyPressMsg{Code: tea.KeySpace, Text: " "})
	d.tick()
	if d.looks == before {
		t.Error("it does not go on")
	}
}

func TestQuit(t *testing.T) {
	for _, k := range []tea.KeyPressMsg{{Code: 'q', Text: "q"}, {Code: 'c', Mod: tea.ModCtrl}} {
		d := sit(t)
		if cmd := d.send(k); cmd == nil || cmd() != (tea.QuitMsg{}) {
			t.Errorf("%v does not end it", k)
		}
	}
}

// TestSparkline: demand in the last minute, high where somebody waits.
func TestSparkline(t *testing.T) {
	d := sit(t, sem("api", 3, 3, 2))
	d.now = start.Add(time.Minute)
	d.cfg.History = func(string, time.Time) (all []berthwatch.Point) {
		for i := range int32(60) {
			all = append(all, berthwatch.Point{At: start.Add(time.Duration(i) * time.Second).UnixMilli(), InUse: min(i/10, 3), Limit: 3, Waiting: max(i/10-3, 0)})
		}
		return all
	}
	row := d.visible[0]
	if got := d.spark(&row, 12); got != "▁▂▂▃▃▅▅▆▆███" {
		t.Errorf("drew %q", got)
	}
	d.cfg.History = func(string, time.Time) []berthwatch.Point {
		return []berthwatch.Point{{At: start.Add(time.Minute).UnixMilli(), InUse: 3, Limit: berth.NoLimit}}
	}
	if got := d.spark(&row, 3); got != "  █" {
		t.Errorf("without a limit it drew %q", got)
	}
}

func TestPlainAndJSON(t *testing.T) {
	v := berthwatch.View{At: start, Rows: []berthwatch.Row{
		sem("api", 3, 3, 2),
		{Summary: berthadmin.Summary{Name: "bad"}, Err: &berth.CorruptError{Newer: true, Err: errors.New("x")}},
		{Summary: berthadmin.Summary{Name: "idle"}, Idle: true},
	}}
	text := Plain(v, 80, true)
	if strings.ContainsAny(text, "\x1b>") || !strings.Contains(text, " api ") || !strings.Contains(text, "newer layout") || strings.Count(text, "\n") != 6 {
		t.Errorf("plain:\n%s", text)
	}
	s := v.Sample()
	if len(s.Semaphores) != 1 || len(s.Damaged) != 1 || !s.Damaged[0].Newer || !s.At.Equal(start) {
		t.Errorf("sample %+v", s)
	}
	none := berthwatch.View{Err: errors.New("away")}
	if text, err := json.Marshal(none.Sample()); err != nil || strings.Contains(string(text), `"at"`) {
		t.Errorf("before the first sample: %s, %v", text, err)
	}
}

// TestBarAtTheCursorLooksLikeTheOthers: reversed, a full one would look empty.
func TestBarAtTheCursorLooksLikeTheOthers(t *testing.T) {
	d := sit(t, sem("a", 3, 3, 0), sem("b", 3, 3, 0))
	lines := strings.Split(d.View().Content, "\n")
	want := d.style.warn(bar(3, 3, 10))
	for _, name := range []string{">a", " b"} {
		at := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(sgr.ReplaceAllString(l, ""), name) })
		if at < 0 || !strings.Contains(lines[at], want) {
			t.Errorf("row %d of %q has no %q:\n%q", at, name, want, lines)
		}
	}
}
