package top

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/berth-go/berth"
	scr "github.com/berth-go/berth/cmd/berth/internal/screen"
)

// detailLines are one semaphore: its settings, who holds, who waits and why.
func (m *Model) detailLines(room int) []line {
	lines := []line{{}}
	s := m.view.Focus
	if err := m.view.FocusErr; err != nil && (s == nil || !errors.Is(err, berth.ErrNotFound)) {
		text := clean(short(err))
		if s != nil {
			text = "as of " + scr.Age(m.now.Sub(m.view.FocusAt)) + " ago: " + text
		}
		lines = append(lines, styled(&m.style.bad, text))
	} else if err != nil {
		return append(lines, line{{clean(m.name), &m.style.head}, {"  is idle: nobody holds and nobody waits", nil}})
	}
	if s == nil {
		return append(lines, line{{clean(m.name), &m.style.head}, {"  looking …", &m.style.dim}})
	}
	lines = append(lines, m.summaryLine(s), m.blockLine(s), line{})
	room -= len(lines)
	holders := max(min(len(s.Leases), (room-3)/2, room-3-min(len(s.Queue), (room-3)/2)), 1)
	if len(s.Queue) == 0 {
		holders = max(room-1, 1)
	} else if rest := room - 3 - len(s.Queue); rest > holders {
		holders = rest
	}
	lines = append(lines, m.holderLines(s, holders)...)
	if len(s.Queue) > 0 {
		lines = append(lines, line{})
		shown := min(len(s.Leases), holders)
		lines = append(lines, m.waiterLines(s, max(room-shown-3, 1))...)
	}
	return lines
}

func (m *Model) summaryLine(s *berth.State) line {
	limit := fmt.Sprintf("limit %d", s.Limit)
	if s.Pinned {
		limit += fmt.Sprintf(", pinned; programs declare %d", s.Declared)
	}
	if s.LimitChanges > 0 {
		limit += ", changed " + plural(s.LimitChanges, "time")
	}
	l := line{
		{clean(s.Name), &m.style.head},
		{"  " + bar(s.InUse, s.Limit, 10) + fmt.Sprintf(" %d in use by %s, %d waiting; ", s.InUse, plural(s.Holders, "holder"), s.Waiting), nil},
		{limit, nil},
	}
	if s.Paused {
		l = append(l, part{"; paused", &m.style.warn})
	}
	return l
}

// blockLine says why the first in the queue waits.
func (m *Model) blockLine(s *berth.State) line {
	if len(s.Queue) == 0 {
		return styled(&m.style.dim, "Nobody waits.")
	}
	return styled(&m.style.warn, "The first in the queue waits for "+blocker(s, 0)+".")
}

// blocker is what a waiter waits for.
func blocker(s *berth.State, place int) string {
	w := s.Queue[place]
	free := s.Limit - s.InUse
	switch {
	case s.Paused:
		return "\"berth resume\""
	case s.Limit == 0:
		return "another limit than 0"
	case place > 0:
		return fmt.Sprintf("those ahead (%d)", place)
	case free >= w.Weight:
		return "its turn, which is now"
	}
	text := plural(w.Weight-max(free, 0), "permit")
	if len(s.Leases) == 1 {
		return text + " of " + person(s.Leases[0].Label, s.Leases[0].Host, s.Leases[0].PID)
	}
	if first := nextToGo(s); first != nil {
		text += " of " + plural(len(s.Leases), "holder") + "; " + person(first.Label, first.Host, first.PID) + " has held longest"
	}
	return text
}

// nextToGo is the holder who has held longest.
func nextToGo(s *berth.State) (longest *berth.Holder) {
	for i := range s.Leases {
		if longest == nil || s.Leases[i].Held > longest.Held {
			longest = &s.Leases[i]
		}
	}
	return longest
}

func person(label, host string, pid int) string {
	text := fmt.Sprintf("%s:%d", host, pid)
	if label != "" {
		text = label + " (" + text + ")"
	}
	return clean(text)
}

// window is which of n rows are shown in so much room, with the one at the cursor.
func window(n, room, at int) (from, to int) {
	from = max(0, min(at-room/2, n-room))
	return from, min(from+room, n)
}

func (m *Model) holderLines(s *berth.State, room int) []line {
	head := cell("SLOT", 6) + m.who("HOLDER") + number("WEIGHT", 7) + number("HELD", 9) + number("EXPIRES", 9)
	if m.width >= 80 {
		head += number("ENDS", 9)
	}
	lines := []line{styled(&m.style.head, head+"  LEASE")}
	m.at[0] = max(0, min(m.at[0], len(s.Leases)-1))
	from, to := window(len(s.Leases), room, m.at[0])
	for i := from; i < to; i++ {
		h := &s.Leases[i]
		text := cell(strconv.Itoa(h.Slot), 6) + m.whose(h.Label, h.Host, h.PID) + number(strconv.Itoa(h.Weight), 7) +
			number(scr.Age(h.Held), 9) + number(left(h.ExpiresIn, h.Expired), 9)
		if m.width >= 80 {
			text += number(age(h.Until), 9)
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
	head := cell("PLACE", 6) + m.who("WAITER") + number("WEIGHT", 7) + number("WAITED", 9) + number("EXPIRES", 9)
	lines := []line{styled(&m.style.head, head+"  WAITS FOR")}
	m.at[1] = max(0, min(m.at[1], len(s.Queue)-1))
	from, to := window(len(s.Queue), room, m.at[1])
	for i := from; i < to; i++ {
		w := &s.Queue[i]
		text := cell(strconv.Itoa(w.Ahead+1), 6) + m.whose(w.Label, w.Host, w.PID) + number(strconv.Itoa(w.Weight), 7) +
			number(scr.Age(w.Waited), 9) + number(left(w.ExpiresIn, w.Expired), 9) + "  " + blocker(s, i)
		lines = append(lines, m.pick(m.queue && i == m.at[1], text, w.Expired))
	}
	return lines
}

// pick is a row of a table, at the cursor or not.
func (m *Model) pick(here bool, text string, odd bool) line {
	switch {
	case here:
		return line{{cursor, nil}, {text, nil}}
	case odd:
		return styled(&m.style.warn, text)
	}
	return plain(text)
}

func left(d time.Duration, expired bool) string {
	if expired {
		return "expired"
	}
	return age(d)
}

// labelColumn is how wide labels, and hosts with process numbers, are.
func (m *Model) labelColumn() int { return max(min((m.width-60)/2, 24), 8) }

func (m *Model) who(title string) string {
	w := m.labelColumn()
	return cell(title, w) + " " + cell("HOST:PID", w+4)
}

func (m *Model) whose(label, host string, pid int) string {
	w := m.labelColumn()
	if label == "" {
		label = "-"
	}
	return cell(clean(label), w) + " " + cell(clean(fmt.Sprintf("%s:%d", host, pid)), w+4)
}
