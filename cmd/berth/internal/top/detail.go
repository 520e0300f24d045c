package top

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/berth-go/berth/berthadmin"
	"github.com/berth-go/berth/berthwatch"
	scr "github.com/berth-go/berth/cmd/berth/internal/screen"
	"github.com/berth-go/berth/internal/words"
)

// The tables of the detail screen.
const (
	holders = iota
	queue
)

// record is a holder or a waiter.
type record struct {
	id, label, host      string
	pid, number, weight  int // number is the slot, or the place in the queue
	since, expires, ends time.Duration
	expired, evicting    bool
	unrenewed            time.Duration // since when a renewal is missing; 0: none is
}

// recordsOf returns the rows of both tables.
func recordsOf(s *berthadmin.State) (all [2][]record) {
	for i := range s.Leases {
		h := &s.Leases[i]
		all[holders] = append(all[holders],
			record{h.ID, h.Label, h.Host, h.PID, h.Slot, h.Weight, h.Held, h.ExpiresIn, h.Until, h.Expired, h.Evicting, h.Unrenewed()})
	}
	for i := range s.Queue {
		w := &s.Queue[i]
		all[queue] = append(all[queue],
			record{w.ID, w.Label, w.Host, w.PID, w.Ahead + 1, w.Weight, w.Waited, w.ExpiresIn, 0, w.Expired, false, 0})
	}
	return all
}

func (r *record) where() string { return clean(fmt.Sprintf("%s:%d", r.host, r.pid)) }

// look takes the present data of the semaphore in detail. The cursor stays on the same holder
// or waiter while others come and go.
func (m *Model) look() {
	m.detail = m.cfg.Detail(m.name)
	if m.detail.State == nil {
		m.records = [2][]record{}
		return
	}
	m.records = recordsOf(m.detail.State)
	for t, all := range m.records {
		if at := slices.IndexFunc(all, func(r record) bool { return r.id == m.id[t] }); at >= 0 {
			m.at[t] = at
		}
		m.point(t, m.at[t])
	}
	if len(m.records[queue]) == 0 {
		m.table = holders
	}
}

// point puts the cursor of a table on a row.
func (m *Model) point(table, at int) {
	all := m.records[table]
	m.at[table], m.id[table] = max(0, min(at, len(all)-1)), ""
	if len(all) > 0 {
		m.id[table] = all[m.at[table]].id
	}
}

// detailLines are one semaphore: its settings, who holds, who waits and why.
func (m *Model) detailLines(room int) []string {
	lines := []string{""}
	s := m.detail.State
	switch err := m.detail.Err; {
	case err == nil, m.view.Err != nil && s != nil: // the header says what is wrong
	case errors.Is(err, berthadmin.ErrNotFound):
		return append(lines, m.style.bold(clean(m.name))+"  is idle: nobody holds and nobody waits")
	default:
		lines = append(lines, m.style.bad(short(err)))
	}
	if s == nil {
		return append(lines, m.style.bold(clean(m.name))+m.style.dim("  looking …"))
	}
	lines = append(lines, m.summaryLine(s))
	if rates := berthwatch.Rates(&s.Summary); rates != "" {
		lines = append(lines, rates)
	}
	for _, why := range m.detail.Why {
		lines = append(lines, m.style.warn(clean(strings.ToUpper(why[:1])+why[1:])+"."))
	}
	for _, shares := range berthwatch.SharesOf(s) {
		lines = append(lines, m.style.dim(shares.Text()))
	}
	look := m.style.warn
	if len(s.Queue) == 0 {
		look = m.style.dim
	}
	lines = append(lines, look(clean(berthwatch.Blocked(s))), "")
	room -= len(lines) + 1 // a row for the titles of each table, and one between them
	if len(s.Queue) == 0 {
		return append(lines, m.tableLines(holders, room)...)
	}
	room -= 2
	most := max(min(len(s.Leases), max(room/2, room-len(s.Queue))), 1)
	lines = append(append(lines, m.tableLines(holders, most)...), "")
	return append(lines, m.tableLines(queue, max(room-most, 1))...)
}

func (m *Model) summaryLine(s *berthadmin.State) string {
	text := fmt.Sprintf("%s  %s %d in use by %s, %d waiting; limit %s", m.style.bold(clean(s.Name)), bar(s.InUse, s.Limit, 10), s.InUse,
		words.Plural(s.Holders, "holder"), s.Waiting, berthwatch.Limit(&s.Summary))
	if s.Pinned {
		text += ", pinned; programs declare " + scr.Declared(s.Declared)
	}
	if s.RatesPinned {
		text += "; rates pinned"
	}
	if s.LimitChanges > 0 {
		text += ", changed " + words.Plural(s.LimitChanges, "time")
	}
	if s.Paused {
		text += m.style.warn("; " + cmp.Or(berthwatch.Paused(&s.Summary), "paused"))
	}
	if heard := m.heard(s.Name); heard != "" {
		text += "; " + heard
	}
	return text
}

// heard tells what was heard of a semaphore; "" if nothing can be.
func (m *Model) heard(name string) string {
	if !m.view.Events.Listening {
		return ""
	}
	text := words.Figure(m.cfg.Flow(name, m.now.Add(-5*time.Minute)).PerSecond()) + " handed over a second"
	if n := m.cfg.Flow(name, m.now.Add(-time.Hour)).Expired; n > 0 {
		text += m.style.warn(fmt.Sprintf(", %d expired in an hour", n))
	}
	return text
}

// tableLines are the titles of a table and as many of its rows as there is room for, with the
// one at the cursor among them.
func (m *Model) tableLines(table, room int) []string {
	all := m.records[table]
	titles, rest := []string{"SLOT", "HOLDER", " HOST:PID", "WEIGHT", "HELD", "EXPIRES", "ENDS"}, "LEASE"
	if table == queue {
		titles, rest = []string{"PLACE", "WAITER", " HOST:PID", "WEIGHT", "WAITED", "EXPIRES", ""}, "REQUEST"
	}
	widths := m.detailColumns(table)
	from := max(0, min(m.at[table]-room/2, len(all)-room))
	to := min(from+room, len(all))
	if to-from < len(all) {
		rest += fmt.Sprintf(" (%d to %d of %d)", from+1, to, len(all))
	}
	lines := []string{m.style.bold(margin + cells(widths, titles...) + "  " + rest)}
	for i := from; i < to; i++ {
		r := &all[i]
		text := cells(widths, strconv.Itoa(r.number), cmp.Or(clean(r.label), "-"), " "+r.where(), strconv.Itoa(r.weight),
			scr.Age(r.since), scr.Expiry(r.expires, r.expired), scr.AgeOrDash(r.ends)) + "  "
		if r.unrenewed > 0 {
			text += "not renewed for " + scr.Age(r.unrenewed) + ", "
		}
		text += clean(r.id)
		if r.evicting {
			text += ", told to stop"
		}
		if r.expired || r.evicting || r.unrenewed > 0 {
			text = m.style.warn(text)
		}
		lines = append(lines, m.row(table == m.table && i == m.at[table], text, "", ""))
	}
	return lines
}

// detailColumns returns the widths of a table's columns: number, label, host and PID, weight, since,
// expires and ends. Labels and hosts stand below each other in both tables.
func (m *Model) detailColumns(table int) []int {
	label, where, ends := 6, 8, 0
	for _, all := range m.records {
		for i := range all {
			label = max(label, scr.Columns(clean(all[i].label)))
			where = max(where, scr.Columns(all[i].where()))
		}
	}
	if table == holders && m.width >= 80 {
		ends = -9
	}
	return []int{6, min(label, 24), min(where, 28) + 1, -7, -9, -9, ends}
}
