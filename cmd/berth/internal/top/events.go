package top

import (
	"fmt"

	"github.com/berth-go/berth"
)

// kinds are the events in the order in which they are counted on the screen.
var kinds = []struct {
	kind berth.EventKind
	word string
}{
	{berth.EventHandoff, "handed over"},
	{berth.EventExpired, "expired"},
	{berth.EventEvicted, "evicted"},
	{berth.EventTooHeavy, "too heavy"},
}

// eventLines are the events, the newest first.
func (m *Model) eventLines(room int) []line {
	f := &m.view.Events
	status := line{{"Events", &m.style.head}}
	for _, k := range kinds {
		status = append(status, part{fmt.Sprintf("  %d %s", f.Counts[k.kind], k.word), nil})
	}
	lines := []line{{}, status}
	switch {
	case f.Err != nil:
		lines = append(lines, styled(&m.style.bad, "not listening: "+clean(short(f.Err))))
	case !f.Listening:
		lines = append(lines, styled(&m.style.dim, "not listening yet"))
	default:
		lines = append(lines, styled(&m.style.dim, "What waiters and holders are told; grants to those who did not wait, renewals and releases are silent."))
	}
	lines = append(lines, line{}, styled(&m.style.head, cell("TIME", 10)+cell("EVENT", 13)+cell("SEMAPHORE", m.nameColumn())+" LEASE OR REQUEST"))
	room = max(room-len(lines), 1)
	m.from = max(0, min(m.from, len(f.Last)-room))
	for i := len(f.Last) - 1 - m.from; i >= 0 && room > 0; i-- {
		e := &f.Last[i]
		look := &m.style.warn
		if e.Kind == berth.EventHandoff {
			look = nil
		}
		word := string(e.Kind)
		for _, k := range kinds {
			if k.kind == e.Kind {
				word = k.word
			}
		}
		lines = append(lines, line{{cell(e.At.Format("15:04:05"), 10), nil}, {cell(word, 13), look}, {cell(clean(e.Name), m.nameColumn()) + " " + clean(e.ID), nil}})
		room--
	}
	return lines
}

func (m *Model) nameColumn() int { return max(min(m.width-52, 40), 12) }

// helpLines are the keys.
func (m *Model) helpLines(int) []line {
	lines := []line{{}}
	for _, k := range [][2]string{
		{"arrows j k Home End", "move; PgUp and PgDn by a page"},
		{"enter", "holders and queue of a semaphore; esc leads back"},
		{"/", "show names with this in them, or matching a pattern such as api/*"},
		{"s  S", "sort by another column; the other way round"},
		{"c", "contended ones only"},
		{"e", "what holders and waiters are told"},
		{"space", "stop the picture; it goes on with the next"},
		{"tab", "from the holders to the queue and back"},
		{"y", "copy the command for what is selected, by OSC 52"},
		{"", ""},
		{"p", "pause, or resume"},
		{"=  u", "pin the limit; unpin it"},
		{"x  X", "evict the selected holder or waiter; with --force"},
		{"", "Each shows the command that does the same, and asks first."},
		{"", ""},
		{"?", "this page"},
		{"q", "end"},
	} {
		lines = append(lines, line{{"  " + cell(k[0], 20), &m.style.strong}, {k[1], nil}})
	}
	return lines
}
