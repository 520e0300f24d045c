package top

import (
	"fmt"
	"strings"

	"github.com/berth-go/berth/berthadmin"
)

// kinds are the events in the order in which they are counted on the screen.
var kinds = []berthadmin.EventKind{berthadmin.EventHandoff, berthadmin.EventExpired, berthadmin.EventEvicted, berthadmin.EventTooHeavy}

func word(kind berthadmin.EventKind) string {
	if kind == berthadmin.EventHandoff {
		return "handed over"
	}
	return strings.ReplaceAll(string(kind), "_", " ")
}

// eventLines are the events, the newest first.
func (m *Model) eventLines(room int) []string {
	f := &m.view.Events
	status := []string{m.style.bold("Events")}
	for _, k := range kinds {
		status = append(status, fmt.Sprintf("%d %s", f.Counts[k], word(k)))
	}
	listening := m.style.dim("Messages to waiters and holders; immediate grants, renewals and releases send none.")
	switch {
	case f.Err != nil:
		listening = m.style.bad("not listening: " + short(f.Err))
	case !f.Listening:
		listening = m.style.dim("not listening yet")
	}
	widths := []int{10, 13, max(min(m.width-52, 40), 12)}
	lines := []string{"", strings.Join(status, "  "), listening, "", m.style.bold(cells(widths, "TIME", "EVENT", "SEMAPHORE") + " LEASE OR REQUEST")}
	room = max(room-len(lines), 1)
	m.from = max(0, min(m.from, len(f.Last)-room))
	for i := len(f.Last) - 1 - m.from; i >= 0 && room > 0; i-- {
		e := &f.Last[i]
		what := word(e.Kind)
		if e.Kind != berthadmin.EventHandoff {
			what = m.style.warn(what)
		}
		lines = append(lines, cells(widths, e.At.Format("15:04:05"), what, clean(e.Name))+" "+clean(e.ID))
		room--
	}
	return lines
}

// helpLines are the keys.
func (m *Model) helpLines() []string {
	lines := []string{""}
	for _, k := range [][2]string{
		{"arrows j k Home End", "move; PgUp and PgDn by a page"},
		{"enter", "holders and queue of a semaphore; esc goes back"},
		{"/", "show names with this in them, or matching a pattern such as api/*"},
		{"s  S", "sort by another column; the other way round"},
		{"c", "contended ones only"},
		{"e", "messages to holders and waiters"},
		{"space", "pause the display, and resume it"},
		{"tab", "from the holders to the queue and back"},
		{"y", "copy the command for what is selected, by OSC 52"},
		{"", ""},
		{"p", "pause, optionally for a time; resume"},
		{"=  u", "pin the limit; unpin it, or the rates where it is not pinned"},
		{"r", "declare rates"},
		{"x  X", "evict the selected holder or waiter; with --force"},
		{"", "Each shows the command that does the same, and asks first."},
		{"", ""},
		{"?", "this page"},
		{"q", "quit"},
	} {
		lines = append(lines, m.style.bold("  "+cell(k[0], 20))+k[1])
	}
	return lines
}
