package top

import (
	"cmp"
	"strings"

	tea "charm.land/bubbletea/v2"

	"github.com/berth-go/berth/berthadmin"
	"github.com/berth-go/berth/berthwatch"
)

// mostTyped bounds the length of a typed line.
const mostTyped = 300

// key handles a key.
func (m *Model) key(k tea.KeyPressMsg) tea.Cmd {
	key := k.String()
	switch {
	case m.dialog != nil:
		return m.dialogKey(k)
	case m.typing:
		m.filterKey(key, k.Text)
		return nil
	}
	switch key {
	case "q", "ctrl+c":
		return tea.Quit
	case "ctrl+z":
		return tea.Suspend
	case "space":
		m.frozen = !m.frozen
	case "?":
		m.open(helpScreen)
	case "e":
		m.open(eventsScreen)
	case "esc", "backspace":
		m.leave()
	case "y":
		command := m.copyable()
		m.say(m.style.good, "copied: "+command)
		return tea.SetClipboard(command)
	default:
		if by := m.steps(key); by != 0 {
			m.scroll(by)
		} else {
			m.verb(key)
		}
	}
	return nil
}

// open shows a screen from which esc leads back.
func (m *Model) open(s screen) {
	if m.screen == s {
		m.leave()
		return
	}
	if m.screen == listScreen || m.screen == detailScreen {
		m.back = m.screen
	}
	m.screen, m.from = s, 0
}

// leave goes back by one screen; on the list it drops the filter.
func (m *Model) leave() {
	if m.screen == listScreen {
		m.filter, m.only = "", false
		m.arrange()
	}
	m.screen, m.back = m.back, listScreen
}

// steps is how far a key moves, or 0 if it does not.
func (m *Model) steps(key string) int {
	const all = 1 << 30
	page := max(m.height-6, 1)
	return map[string]int{
		"up": -1, "k": -1, "down": 1, "j": 1, "pgup": -page, "ctrl+b": -page, "pgdown": page, "ctrl+f": page,
		"home": -all, "g": -all, "end": all, "G": all,
	}[key]
}

func (m *Model) scroll(by int) {
	switch m.screen {
	case listScreen:
		if n := len(m.visible); n > 0 {
			m.selected = m.visible[max(0, min(m.index()+by, n-1))].Name
		}
	case detailScreen:
		m.point(m.table, m.at[m.table]+by)
	case eventsScreen:
		m.from = max(0, min(m.from+by, len(m.view.Events.Last)-1))
	}
}

// verb handles the keys that have a meaning on one screen only, and those that change the
// semaphore there.
func (m *Model) verb(key string) {
	switch m.screen {
	case listScreen:
		m.listKey(key)
	case detailScreen:
		if key == "tab" && len(m.records[queue]) > 0 {
			m.table = queue - m.table
		}
	}
	if s := m.subject(); s != nil {
		m.operate(key, s)
	}
}

func (m *Model) listKey(key string) {
	switch key {
	case "/":
		m.typing = true
	case "s":
		m.sort, m.reverse = (m.sort+1)%len(berthwatch.Orders), false
	case "S":
		m.reverse = !m.reverse
	case "c":
		m.only = !m.only
	case "enter":
		if m.index() >= 0 {
			m.name, m.screen, m.table, m.at, m.id = m.selected, detailScreen, holders, [2]int{}, [2]string{}
			m.look()
		}
	}
	m.arrange()
}

// subject returns the semaphore that an action would change, or nil.
func (m *Model) subject() *berthadmin.Summary {
	switch {
	case m.screen == detailScreen && m.detail.State != nil:
		return &m.detail.State.Summary
	case m.screen == listScreen && m.index() >= 0:
		return &m.visible[m.index()].Summary
	}
	return nil
}

// idle reports whether nobody uses the semaphore that is selected in the list.
func (m *Model) idle() bool { return m.screen == listScreen && m.visible[m.index()].Idle }

func (m *Model) operate(key string, s *berthadmin.Summary) {
	if (key == "p" || key == "=" || key == "r") && m.idle() {
		m.say(m.style.bad, s.Name+" is not in use")
		return
	}
	switch key {
	case "p":
		verb := "pause"
		if s.Paused {
			verb = "resume"
		}
		m.ask(berthwatch.Action{Verb: verb, Name: s.Name})
	case "=":
		m.ask(berthwatch.Action{Verb: "pin", Name: s.Name, Limit: berthwatch.ToPin(s)})
	case "r":
		m.ask(berthwatch.Action{Verb: "resize", Name: s.Name, Rates: cmp.Or(berthwatch.RateFlags(s.Rates), "60/1m")})
	case "u":
		switch {
		case s.Pinned:
			m.ask(berthwatch.Action{Verb: "unpin", Name: s.Name})
		case s.RatesPinned:
			m.ask(berthwatch.Action{Verb: "unpin", Name: s.Name, Rated: true})
		default:
			m.say(m.style.bad, s.Name+" is not pinned")
		}
	case "x", "X":
		if a, ok := m.evictee(); ok {
			a.Force = key == "X"
			m.ask(a)
		} else {
			m.say(m.style.bad, "enter shows the holders and waiters, of which one can be evicted")
		}
	}
}

// evictee returns the eviction of the holder or waiter at the cursor.
func (m *Model) evictee() (a berthwatch.Action, ok bool) {
	if m.screen != detailScreen || len(m.records[m.table]) == 0 {
		return a, false
	}
	r := &m.records[m.table][m.at[m.table]]
	return berthwatch.Action{Verb: "evict", Name: m.detail.State.Name, ID: r.id, Who: berthwatch.Person(r.label, r.host, r.pid)}, true
}

// copyable returns the command for the selection.
func (m *Model) copyable() string {
	if a, ok := m.evictee(); ok {
		return m.command(a)
	}
	if s := m.subject(); s != nil {
		return m.command(berthwatch.Action{Verb: "show", Name: s.Name})
	}
	return m.cfg.Command + " ls"
}

// filterKey handles a key while the filter is typed.
func (m *Model) filterKey(key, text string) {
	switch key {
	case "enter":
		m.typing = false
	case "esc", "ctrl+c":
		m.typing, m.filter = false, ""
	default:
		m.edit(key, text)
	}
	m.arrange()
}

// edit changes what is being typed, if anything: it adds text, or removes the last character.
func (m *Model) edit(key, text string) {
	to := &m.filter
	switch d := m.dialog; {
	case d != nil && d.typing():
		to = &d.fields[d.at].text
	case d != nil || !m.typing:
		return
	}
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return -1
		}
		return r
	}, text)
	if r := []rune(*to); key == "backspace" {
		*to = string(r[:max(len(r)-1, 0)])
	} else if len(*to)+len(text) <= mostTyped {
		*to += text
	}
	m.arrange()
}
