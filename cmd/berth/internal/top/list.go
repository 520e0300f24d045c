package top

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"charm.land/lipgloss/v2"

	"github.com/berth-go/berth/berthwatch"
	scr "github.com/berth-go/berth/cmd/berth/internal/screen"
	"github.com/berth-go/berth/internal/words"
)

// Plain returns all semaphores as text without colours, at most width columns wide.
func Plain(v berthwatch.View, width int, ascii bool) string {
	none := lipgloss.NewStyle().Render
	m := &Model{style: style{none, none, none, none, none, none, none}, width: width, now: v.At, view: v}
	m.arrange()
	m.selected = "" // nobody is at the cursor
	var b strings.Builder
	head := m.header()[:1]
	if v.Trips.Mean > 0 {
		head[0] += " · " + v.Trips.Text()
	}
	for _, l := range append(head, m.listLines(len(m.visible)+2)...) {
		b.WriteString(strings.TrimRight(scr.Fit(l, width), " ") + "\n")
	}
	if ascii {
		return toASCII(b.String())
	}
	return b.String()
}

// arrange chooses and sorts the rows, and keeps the selection on its name.
func (m *Model) arrange() {
	m.visible = slices.DeleteFunc(slices.Clone(m.view.Rows), func(r berthwatch.Row) bool {
		return m.only && r.Waiting == 0 && r.Err == nil || !berthwatch.Match(r.Name, m.filter)
	})
	berthwatch.Sort(m.visible, berthwatch.Orders[m.sort], m.reverse)
	if n := len(m.visible); n > 0 && m.index() < 0 {
		m.selected = m.visible[min(m.top, n-1)].Name
	}
}

// index returns the position of the selected row, or -1 if it is not shown.
func (m *Model) index() int {
	return slices.IndexFunc(m.visible, func(r berthwatch.Row) bool { return r.Name == m.selected })
}

// header returns the first rows of every screen: the server and totals, and how fresh they
// are.
func (m *Model) header() []string {
	v := &m.view
	waiting, used := 0, 0
	for _, r := range v.Rows {
		waiting, used = waiting+r.Waiting, used+r.InUse
	}
	var facts []string
	if m.cfg.Where != "" {
		facts = append(facts, m.cfg.Where)
	}
	if m.server != "" {
		facts = append(facts, clean(m.server))
	}
	facts = append(facts, words.Plural(len(v.Rows), "semaphore"), fmt.Sprintf("%d in use", used), fmt.Sprintf("%d waiting", waiting))
	if v.Dropped > 0 {
		facts = append(facts, fmt.Sprintf("%d more not looked at", v.Dropped))
	}
	if m.cfg.ReadOnly != "" {
		facts = append(facts, "read-only")
	}
	first := m.style.bold("berth top") + "  " + strings.Join(facts, " · ")
	if m.frozen {
		first += m.style.warn("  paused: space resumes")
	}
	return []string{first, m.freshness()}
}

// knownNames is up to which age the search for names is taken for granted.
const knownNames = 3 * time.Second

// freshness returns how old what is shown is, and what sampling costs.
func (m *Model) freshness() string {
	v, at := &m.view, m.view.At
	if m.screen == detailScreen && m.detail.State != nil {
		at = m.detail.At
	}
	old := max(m.now.Sub(at), 0)
	switch {
	case v.Err != nil && at.IsZero():
		return m.style.bad(short(v.Err))
	case v.Err != nil:
		return m.style.bad("as of " + scr.Age(old) + " ago: " + short(v.Err))
	case at.IsZero():
		return m.style.dim("looking …")
	}
	cost := max(v.Cost, 100*time.Microsecond)
	text := "as of " + scr.Age(old) + " ago"
	if v.Trips.Mean > 0 {
		text += "; " + v.Trips.Text()
	}
	text += fmt.Sprintf("; sampling every %s takes it %s", scr.Age(v.Pace), words.Millis(cost))
	switch names := m.now.Sub(v.NamesAt); {
	case v.SearchErr != nil:
		text += "; names cannot be searched for: " + short(v.SearchErr)
	case !v.Found:
		text += "; still searching"
	case !v.NamesAt.IsZero() && names > knownNames:
		text += "; names as of " + scr.Age(names) + " ago"
	}
	if m.filter != "" || m.only {
		text += fmt.Sprintf("; %d of them shown", len(m.visible))
	}
	if old > 3*v.Pace+knownNames || v.Trips.Slow() {
		return m.style.warn(text)
	}
	return m.style.dim(text)
}

// columns returns the widths of the list's columns: name, bar, in use, waiting, oldest,
// expiry and history. For the states, which come last, it leaves room.
func (m *Model) columns() []int {
	bar, expiry, spark, states := 7, 0, 0, 14
	if m.width >= 80 {
		expiry = 8
	}
	if m.width >= 90 {
		bar = 11
	}
	if m.width >= 100 {
		spark = 22
	}
	if m.width >= 120 {
		spark, states = 32, 24
	}
	name := max(m.width-len(margin)-bar-9-8-8-expiry-spark-2-states-1, 12)
	if m.cfg.History == nil && spark > 0 {
		name, spark = name+spark-2, 0
	}
	return []int{name, bar, -9, -8, -8, -expiry, spark}
}

// listLines are the rows of the list.
func (m *Model) listLines(room int) []string {
	widths := m.columns()
	titles := cells(widths, "NAME", "", "IN USE", "WAITING", "OLDEST", "EXPIRY", "  LAST 60 S")
	lines := []string{"", m.style.bold(margin + titles + "  STATE")}
	room = max(room-len(lines), 1)
	at := max(m.index(), 0)
	m.top = max(min(m.top, at, len(m.visible)-room), 0)
	m.top = max(m.top, at-room+1)
	for i := m.top; i < min(m.top+room, len(m.visible)); i++ {
		r := &m.visible[i]
		name, bar, rest := m.semaphore(r, widths)
		lines = append(lines, m.row(r.Name == m.selected, name, bar, rest))
	}
	switch {
	case len(m.visible) > 0 || m.view.At.IsZero():
	case len(m.view.Rows) > 0:
		lines = append(lines, m.style.dim("None of them passes: "+m.choice()))
	default:
		lines = append(lines, m.style.dim("No semaphore is in use."))
	}
	return lines
}

// choice tells which semaphores are shown.
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

// semaphore returns a row of the list: what stands before the bar, the bar, and the rest.
func (m *Model) semaphore(r *berthwatch.Row, widths []int) (before, gauge, after string) {
	states := strings.Join(r.States(), ", ")
	if r.Err != nil || r.Idle {
		look := m.style.dim
		if r.Err != nil {
			look = m.style.bad
		}
		return cell(clean(r.Name), widths[0]), "", m.style.dim(cells(widths[1:], "", "-", "-", "-", "-", "")+"  ") + look(states)
	}
	use := m.style.good
	switch {
	case r.InUse > r.Limit:
		use = m.style.bad
	case r.InUse == r.Limit:
		use = m.style.warn
	}
	wait := m.style.plain
	if r.Waiting > 0 {
		wait = m.style.bold
	}
	after = cells(widths[2:], fmt.Sprintf("%d/%s", r.InUse, berthwatch.Limit(&r.Summary)),
		wait(strconv.Itoa(r.Waiting)), wait(scr.AgeOrDash(r.OldestWait)), scr.AgeOrDash(r.NextExpiry),
		"  "+m.style.dim(m.spark(r, widths[6]-2))) + "  " + m.style.warn(states)
	return cell(clean(r.Name), widths[0]) + " ", use(bar(r.InUse, r.Limit, widths[1]-1)), after
}

// spark draws the permits in use in the last minute, with the waiters above the limit.
func (m *Model) spark(r *berthwatch.Row, width int) string {
	if width <= 0 {
		return ""
	}
	const span = time.Minute
	heights := slices.Repeat([]int{-1}, width) // of demand, -1: not known
	most := 1
	for _, p := range m.cfg.History(r.Name, m.now.Add(-span)) {
		demand := int(p.InUse + p.Waiting)
		most = max(most, int(p.Drawn()))
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
		text[i] = ' '
		if h >= 0 {
			text[i] = ticks[max(min(h, 1), h*(len(ticks)-1)/most)]
		}
	}
	return string(text)
}
