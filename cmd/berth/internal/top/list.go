package top

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/berth-go/berth/berthwatch"
	scr "github.com/berth-go/berth/cmd/berth/internal/screen"
	"github.com/berth-go/berth/internal/words"
)

// arrange chooses and sorts the rows, and keeps the selection on its name.
func (m *Model) arrange() {
	rows := make([]berthwatch.Row, 0, len(m.view.Rows))
	for _, r := range m.view.Rows {
		if (!m.only || r.Waiting > 0 || r.Err != nil) && berthwatch.Match(r.Name, m.filter) {
			rows = append(rows, r)
		}
	}
	berthwatch.Sort(rows, berthwatch.Orders[m.sort], m.reverse)
	m.visible = rows
	if len(rows) > 0 && m.index() < 0 {
		m.selected = rows[min(m.top, len(rows)-1)].Name
	}
}

// index returns the position of the selected row, or -1 if it is not shown.
func (m *Model) index() int {
	return slices.IndexFunc(m.visible, func(r berthwatch.Row) bool { return r.Name == m.selected })
}

// move moves the selection.
func (m *Model) move(by int) {
	if len(m.visible) == 0 {
		return
	}
	m.selected = m.visible[max(0, min(m.index()+by, len(m.visible)-1))].Name
}

// header returns the first rows of every screen: the server and totals, and how fresh they
// are.
func (m *Model) header() []line {
	v := &m.view
	waiting, used := 0, 0
	for _, r := range v.Rows {
		waiting, used = waiting+r.Waiting, used+r.InUse
	}
	facts := []string{words.Plural(len(v.Rows), "semaphore"), fmt.Sprintf("%d in use", used), fmt.Sprintf("%d waiting", waiting)}
	if m.server != "" {
		facts = append([]string{clean(m.server)}, facts...)
	}
	if v.Dropped > 0 {
		facts = append(facts, fmt.Sprintf("%d more not looked at", v.Dropped))
	}
	if m.cfg.ReadOnly != "" {
		facts = append(facts, "read-only")
	}
	first := line{{"berth top", &m.style.head}, {"  " + strings.Join(facts, " · "), nil}}
	if m.frozen {
		first = append(first, part{"  paused: space goes on", &m.style.warn})
	}
	return []line{first, m.freshness()}
}

// freshness tells how old the data is, and what sampling costs.
func (m *Model) freshness() line {
	v := &m.view
	switch {
	case v.Err != nil && v.At.IsZero():
		return styled(&m.style.bad, clean(short(v.Err)))
	case v.Err != nil:
		return styled(&m.style.bad, "as of "+scr.Age(m.now.Sub(v.At))+" ago: "+clean(short(v.Err)))
	case v.At.IsZero():
		return styled(&m.style.dim, "looking …")
	}
	text := fmt.Sprintf("every %s, which costs the server at most %s", scr.Age(v.Pace), cost(v.Cost))
	if old := m.now.Sub(v.At); old > 2*v.Pace {
		text = scr.Age(old) + " ago, " + text
	}
	switch {
	case v.SearchErr != nil:
		text += "; names cannot be searched for: " + clean(short(v.SearchErr))
	case !v.Found:
		text += "; still searching"
	}
	if m.filter != "" || m.only {
		text += fmt.Sprintf("; %d of them shown", len(m.visible))
	}
	return styled(&m.style.dim, text)
}

func cost(d time.Duration) string {
	if d < 100*time.Microsecond {
		return "0.1 ms"
	}
	return strconv.FormatFloat(float64(d)/float64(time.Millisecond), 'f', 1, 64) + " ms"
}

// short is an error without the name of the program.
func short(err error) string { return strings.TrimPrefix(err.Error(), "berth: ") }

// columns has the widths of the columns for which there is room.
type columns struct{ name, bar, spark, state int }

const (
	useColumn  = 9
	waitColumn = 8
	ageColumn  = 8
)

func columnsFor(width int) columns {
	c := columns{bar: 6, state: 14}
	if width >= 90 {
		c.bar = 10
	}
	if width >= 100 {
		c.spark = 20
	}
	if width >= 120 {
		c.state, c.spark = 24, 30
	}
	fixed := c.bar + 1 + useColumn + waitColumn + ageColumn + 2 + c.state
	if width >= 80 {
		fixed += ageColumn
	}
	if c.spark > 0 {
		fixed += c.spark + 2
	}
	c.name = max(width-fixed-2, 12)
	return c
}

// listLines are the rows of the list.
func (m *Model) listLines(room int) []line {
	c := columnsFor(m.width)
	if m.plain {
		c.name, c.spark = c.name+c.spark, 0
	}
	lines := []line{{}, styled(&m.style.head, titles(c, m.width))}
	room = max(room-len(lines), 1)
	at := max(m.index(), 0)
	m.top = max(min(m.top, at, len(m.visible)-room), 0)
	m.top = max(m.top, at-room+1)
	for i := m.top; i < min(m.top+room, len(m.visible)); i++ {
		r := &m.visible[i]
		lines = append(lines, append(m.mark(r.Name == m.selected), m.rowLine(r, c)...))
	}
	if len(m.visible) == 0 && !m.view.At.IsZero() {
		lines = append(lines, styled(&m.style.dim, m.nothing()))
	}
	return lines
}

// mark begins a row of a table.
func (m *Model) mark(here bool) line {
	if here {
		return plain(cursor)
	}
	return plain(margin)
}

func (m *Model) nothing() string {
	if len(m.view.Rows) > 0 {
		return "None of them passes: " + m.choice()
	}
	return "No semaphore is in use."
}

// choice tells which semaphores are shown, and in which order.
func (m *Model) choice() string {
	var words []string
	if m.filter != "" || m.typing {
		words = append(words, "/"+clean(m.filter))
	}
	if m.only {
		words = append(words, "contended only")
	}
	return strings.Join(words, ", ")
}

func titles(c columns, width int) string {
	t := margin + cell("NAME", c.name) + " " + cell("", c.bar) + number("IN USE", useColumn) + number("WAITING", waitColumn) + number("OLDEST", ageColumn)
	if width >= 80 {
		t += number("EXPIRY", ageColumn)
	}
	if c.spark > 0 {
		t += "  " + cell("LAST 60 S", c.spark)
	}
	return t + "  STATE"
}

func (m *Model) rowLine(r *berthwatch.Row, c columns) line {
	name := cell(clean(r.Name), c.name) + " "
	if r.Err != nil || r.Idle {
		rest := cell("", c.bar) + number("-", useColumn) + number("-", waitColumn) + number("-", ageColumn)
		if m.width >= 80 {
			rest += number("-", ageColumn)
		}
		if c.spark > 0 {
			rest += "  " + cell("", c.spark)
		}
		look := &m.style.dim
		if r.Err != nil {
			look = &m.style.bad
		}
		return line{{name, nil}, {rest + "  ", &m.style.dim}, {states(r), look}}
	}
	use := &m.style.good
	if r.InUse >= r.Limit {
		use = &m.style.warn
	}
	if r.InUse > r.Limit {
		use = &m.style.bad
	}
	waiting := part{number(strconv.Itoa(r.Waiting), waitColumn) + number(scr.AgeOrDash(r.OldestWait), ageColumn), nil}
	if r.Waiting > 0 {
		waiting.look = &m.style.strong
	}
	l := line{{name, nil}, {bar(r.InUse, r.Limit, c.bar), use}, {number(fmt.Sprintf("%d/%d", r.InUse, r.Limit), useColumn), nil}, waiting}
	if m.width >= 80 {
		l = append(l, part{number(scr.AgeOrDash(r.NextExpiry), ageColumn), nil})
	}
	if c.spark > 0 {
		l = append(l, part{"  " + m.spark(r, c.spark), &m.style.dim})
	}
	return append(l, part{"  " + states(r), &m.style.warn})
}

// states tells what is unusual.
func states(r *berthwatch.Row) string { return strings.Join(r.States(), ", ") }

// spark draws the permits in use in the last minute, with the waiters above the limit.
func (m *Model) spark(r *berthwatch.Row, width int) string {
	const span = time.Minute
	points := m.cfg.History(r.Name, m.now.Add(-span))
	heights := make([]int, width) // of demand, -1: not known
	for i := range heights {
		heights[i] = -1
	}
	most := max(r.Limit, 1)
	for _, p := range points {
		demand := int(p.InUse + p.Waiting)
		at := width - 1 - int(m.now.Sub(time.UnixMilli(p.At))*time.Duration(width)/span)
		at = max(0, min(at, width-1))
		heights[at] = max(heights[at], demand)
		most = max(most, demand)
	}
	text, last := make([]rune, width), -1
	for i, h := range heights {
		if h < 0 {
			h = last // between two samples
		}
		last = h
		switch {
		case h < 0:
			text[i] = ' '
		case h == 0:
			text[i] = ticks[0]
		default:
			text[i] = ticks[max(1, min(h*(len(ticks)-1)/most, len(ticks)-1))]
		}
	}
	return string(text)
}
