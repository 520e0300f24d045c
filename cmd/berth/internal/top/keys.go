package top

import (
	"strings"

	tea "charm.land/bubbletea/v2"

	"github.com/berth-go/berth"
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
		m.say("copied: "+clean(command), false)
		return tea.SetClipboard(command)
	default:
		if by, moves := m.steps(key); moves {
			m.scroll(by)
			return nil
		}
		return m.verb(key)
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
	switch m.screen {
	case listScreen:
		m.filter, m.only = "", false
		m.arrange()
	case detailScreen:
		m.screen = listScreen
	default:
		m.screen, m.back = m.back, listScreen
	}
}

// steps is how far a key moves.
func (m *Model) steps(key string) (by int, moves bool) {
	const all = 1 << 30
	page := max(m.height-6, 1)
	by, moves = map[string]int{
		"up": -1, "k": -1, "down": 1, "j": 1, "pgup": -page, "ctrl+b": -page, "pgdown": page, "ctrl+f": page,
		"home": -all, "g": -all, "end": all, "G": all,
	}[key]
	return by, moves
}

func (m *Model) scroll(by int) {
	switch m.screen {
	case listScreen:
		m.move(by)
	case detailScreen:
		table := 0
		if m.queue {
			table = 1
		}
		m.at[table] = max(0, min(m.at[table]+by, m.records()-1))
		m.id[table] = ""
		m.follow()
	case eventsScreen:
		m.from = max(0, min(m.from+by, len(m.view.Events.Last)-1))
	}
}

// records is how many rows the table with the cursor has.
func (m *Model) records() int {
	switch s := m.detail.State; {
	case s == nil:
		return 0
	case m.queue:
		return len(s.Queue)
	default:
		return len(s.Leases)
	}
}

// verb handles the keys that have a meaning on one screen only.
func (m *Model) verb(key string) tea.Cmd {
	if m.screen == listScreen {
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
				m.name, m.screen, m.queue, m.at, m.id = m.selected, detailScreen, false, [2]int{}, [2]string{}
				m.detail = m.cfg.Detail(m.name)
			}
		}
		m.arrange()
	}
	if m.screen == detailScreen && key == "tab" {
		m.queue = !m.queue && m.detail.State != nil && len(m.detail.State.Queue) > 0
	}
	if s := m.subject(); s != nil {
		return m.operate(key, s)
	}
	return nil
}

// subject returns the semaphore that an action would change, or nil.
func (m *Model) subject() *berth.Summary {
	switch {
	case m.screen == detailScreen && m.detail.State != nil:
		return &m.detail.State.Summary
	case m.screen == listScreen && m.index() >= 0:
		return &m.visible[m.index()].Summary
	}
	return nil
}

func (m *Model) operate(key string, s *berth.Summary) tea.Cmd {
	switch key {
	case "p":
		verb := "pause"
		if s.Paused {
			verb = "resume"
		}
		return m.ask(berthwatch.Action{Verb: verb, Name: s.Name})
	case "=":
		return m.ask(berthwatch.Action{Verb: "pin", Name: s.Name, Limit: s.Limit})
	case "u":
		if !s.Pinned {
			m.say(clean(s.Name)+" is not pinned", true)
			return nil
		}
		return m.ask(berthwatch.Action{Verb: "unpin", Name: s.Name})
	case "x", "X":
		a, ok := m.evictee()
		if !ok {
			m.say("enter shows the holders and waiters, of which one can be evicted", true)
			return nil
		}
		a.Force = key == "X"
		return m.ask(a)
	}
	return nil
}

// evictee returns the eviction of the holder or waiter at the cursor.
func (m *Model) evictee() (berthwatch.Action, bool) {
	s := m.detail.State
	if m.screen != detailScreen || s == nil {
		return berthwatch.Action{}, false
	}
	if m.queue && m.at[1] < len(s.Queue) {
		w := &s.Queue[m.at[1]]
		return berthwatch.Action{Verb: "evict", Name: s.Name, ID: w.ID, Who: berthwatch.Person(w.Label, w.Host, w.PID)}, true
	}
	if m.at[0] < len(s.Leases) && !m.queue {
		h := &s.Leases[m.at[0]]
		return berthwatch.Action{Verb: "evict", Name: s.Name, ID: h.ID, Who: berthwatch.Person(h.Label, h.Host, h.PID)}, true
	}
	return berthwatch.Action{}, false
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
	case "backspace":
		if r := []rune(m.filter); len(r) > 0 {
			m.filter = string(r[:len(r)-1])
		}
	default:
		m.insert(text)
	}
	m.arrange()
}

// insert adds text to what is being typed.
func (m *Model) insert(text string) {
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return -1
		}
		return r
	}, text)
	to := &m.filter
	if m.dialog != nil {
		if m.dialog.at >= len(m.dialog.fields) {
			return
		}
		to = &m.dialog.fields[m.dialog.at].text
	}
	if len(*to)+len(text) <= mostTyped {
		*to += text
	}
	m.arrange()
}
