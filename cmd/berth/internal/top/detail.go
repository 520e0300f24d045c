package top

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/berthwatch"
	scr "github.com/berth-go/berth/cmd/berth/internal/screen"
	"github.com/berth-go/berth/internal/words"
)

// detailLines are one semaphore: its settings, who holds, who waits and why.
func (m *Model) detailLines(room int) []line {
	lines := []line{{}}
	s := m.detail.State
	switch err := m.detail.Err; {
	case err == nil, m.view.Err != nil && s != nil: // the header says what is wrong
	case errors.Is(err, berth.ErrNotFound):
		return append(lines, line{{clean(m.name), &m.style.head}, {"  is idle: nobody holds and nobody waits", nil}})
	default:
		lines = append(lines, styled(&m.style.bad, clean(short(err))))
	}
	if s == nil {
		return append(lines, line{{clean(m.name), &m.style.head}, {"  looking …", &m.style.dim}})
	}
	lines = append(lines, m.summaryLine(s))
	for _, why := range m.detail.Why {
		lines = append(lines, styled(&m.style.warn, clean(strings.ToUpper(why[:1])+why[1:])+"."))
	}
	lines = append(lines, m.blockLine(s), line{})
	room -= len(lines) + 1 // a row for the titles of each table, and one between them
	holders := room
	if len(s.Queue) > 0 {
		room -= 2
		holders = max(min(len(s.Leases), max(room/2, room-len(s.Queue))), 1)
	}
	lines = append(lines, m.holderLines(s, holders)...)
	if len(s.Queue) > 0 {
		lines = append(lines, line{})
		lines = append(lines, m.waiterLines(s, max(room-holders, 1))...)
	}
	return lines
}

func (m *Model) summaryLine(s *berth.State) line {
	limit := fmt.Sprintf("limit %d", s.Limit)
	if s.Pinned {
		limit += ", pinned; programs declare " + scr.Declared(s.Declared)
	}
	if s.LimitChanges > 0 {
		limit += ", changed " + words.Plural(s.LimitChanges, "time")
	}
	l := line{
		{clean(s.Name), &m.style.head},
		{"  " + bar(s.InUse, s.Limit, 10) + fmt.Sprintf(" %d in use by %s, %d waiting; ", s.InUse, words.Plural(s.Holders, "holder"), s.Waiting), nil},
		{limit, nil},
	}
	if s.Paused {
		l = append(l, part{"; paused", &m.style.warn})
	}
	return l
}

// blockLine tells why the first in the queue waits.
func (m *Model) blockLine(s *berth.State) line {
	look := &m.style.warn
	if len(s.Queue) == 0 {
		look = &m.style.dim
	}
	return styled(look, clean(berthwatch.Blocked(s)))
}

// shown tells for which rows of a table there is no room.
func shown(from, to, n int) string {
	if to-from == n {
		return ""
	}
	return fmt.Sprintf(" (%d to %d of %d)", from+1, to, n)
}

// window returns which of n rows are shown in so much room, including the one at the cursor.
func window(n, room, at int) (from, to int) {
	from = max(0, min(at-room/2, n-room))
	return from, min(from+room, n)
}

func (m *Model) holderLines(s *berth.State, room int) []line {
	p := peopleOf(s)
	head := margin + cell("SLOT", 6) + p.cells("HOLDER", "HOST:PID") + number("WEIGHT", 7) + number("HELD", 9) + number("EXPIRES", 9)
	if m.width >= 80 {
		head += number("ENDS", 9)
	}
	from, to := window(len(s.Leases), room, m.at[0])
	lines := []line{styled(&m.style.head, head+"  LEASE"+shown(from, to, len(s.Leases)))}
	for i := from; i < to; i++ {
		h := &s.Leases[i]
		text := cell(strconv.Itoa(h.Slot), 6) + p.cells(h.Label, where(h.Host, h.PID)) + number(strconv.Itoa(h.Weight), 7) +
			number(scr.Age(h.Held), 9) + number(scr.Expiry(h.ExpiresIn, h.Expired), 9)
		if m.width >= 80 {
			text += number(scr.AgeOrDash(h.Until), 9)
		}
		text += "  " + clean(h.ID)
		if h.Evicting {
			text += ", told to stop"
		}
		lines = append(lines, m.pick(!m.queue && i == m.at[0], text, h.Expired || h.Evicting))
	}
	return lines
}

func (m *Model) waiterLines(s *berth.State, room int) []line {
	p := peopleOf(s)
	head := margin + cell("PLACE", 6) + p.cells("WAITER", "HOST:PID") + number("WEIGHT", 7) + number("WAITED", 9) + number("EXPIRES", 9)
	from, to := window(len(s.Queue), room, m.at[1])
	lines := []line{styled(&m.style.head, head+"  WAITS FOR"+shown(from, to, len(s.Queue)))}
	for i := from; i < to; i++ {
		w := &s.Queue[i]
		text := cell(strconv.Itoa(w.Ahead+1), 6) + p.cells(w.Label, where(w.Host, w.PID)) + number(strconv.Itoa(w.Weight), 7) +
			number(scr.Age(w.Waited), 9) + number(scr.Expiry(w.ExpiresIn, w.Expired), 9) + "  " + clean(berthwatch.WaitsFor(s, i))
		lines = append(lines, m.pick(m.queue && i == m.at[1], text, w.Expired))
	}
	return lines
}

// pick is a row of a table, at the cursor or not.
func (m *Model) pick(here bool, text string, odd bool) line {
	l := append(m.mark(here), part{text, nil})
	if odd {
		l[1].look = &m.style.warn
	}
	return l
}

// people has the widths of the columns that identify a holder or waiter.
type people struct{ label, where int }

// peopleOf returns columns for the holders and waiters of s.
func peopleOf(s *berth.State) people {
	p := people{6, 8}
	note := func(label, host string, pid int) {
		p.label = min(max(p.label, scr.Columns(clean(label))), 24)
		p.where = min(max(p.where, scr.Columns(where(host, pid))), 28)
	}
	for i := range s.Leases {
		note(s.Leases[i].Label, s.Leases[i].Host, s.Leases[i].PID)
	}
	for i := range s.Queue {
		note(s.Queue[i].Label, s.Queue[i].Host, s.Queue[i].PID)
	}
	return p
}

func where(host string, pid int) string { return clean(fmt.Sprintf("%s:%d", host, pid)) }

func (p people) cells(label, where string) string {
	if label == "" {
		label = "-"
	}
	return cell(clean(label), p.label) + " " + cell(where, p.where)
}
