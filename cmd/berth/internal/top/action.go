package top

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	tea "charm.land/bubbletea/v2"

	"github.com/berth-go/berth/berthwatch"
	scr "github.com/berth-go/berth/cmd/berth/internal/screen"
)

// outcome describes the result of an action.
func outcome(a berthwatch.Action, err error) string {
	what := a.Verb + " " + clean(a.Name)
	if err != nil {
		return what + ": " + clean(short(err))
	}
	return what + ": done"
}

// dialog asks before an action. The default answer is No.
type dialog struct {
	action berthwatch.Action
	fields []*field
	at     int // of the fields, of which the last is the reason, then No, then Yes
}

// field is a text that the user types.
type field struct {
	label, text string
	ok          func(text string) bool
}

func (d *dialog) no() int  { return len(d.fields) }
func (d *dialog) yes() int { return len(d.fields) + 1 }

// ready reports whether everything was typed as it must be.
func (d *dialog) ready() bool {
	for _, f := range d.fields {
		if !f.ok(f.text) {
			return false
		}
	}
	return true
}

// ask opens the dialog for an action, unless nothing may be changed.
func (m *Model) ask(a berthwatch.Action) tea.Cmd {
	if m.cfg.ReadOnly != "" {
		m.say("nothing is changed: "+m.cfg.ReadOnly+". The command is: "+m.command(a), true)
		return nil
	}
	d := &dialog{action: a}
	if a.Verb == "pin" {
		d.fields = append(d.fields, &field{"limit", strconv.Itoa(a.Limit), func(s string) bool {
			n, err := strconv.Atoi(s)
			return err == nil && n >= 0 && n <= 1_000_000
		}})
	}
	if a.WantsName() {
		d.fields = append(d.fields, &field{"type the name to go on", "", func(s string) bool { return s == a.Name }})
	}
	d.fields = append(d.fields, &field{"reason, if you like", "", func(string) bool { return true }})
	d.at = d.no()
	if len(d.fields) > 1 {
		d.at = 0
	}
	m.dialog = d
	return nil
}

func (m *Model) command(a berthwatch.Action) string {
	return m.cfg.Command + " " + berthwatch.Quote(a.Args())
}

// chosen returns the action with the typed texts.
func (d *dialog) chosen() berthwatch.Action {
	a := d.action
	a.Reason = strings.TrimSpace(d.fields[len(d.fields)-1].text)
	if a.Verb == "pin" {
		a.Limit, _ = strconv.Atoi(d.fields[0].text)
	}
	return a
}

// dialogKey handles a key while the dialog is open.
func (m *Model) dialogKey(k tea.KeyPressMsg) tea.Cmd {
	d := m.dialog
	typing := d.at < len(d.fields)
	switch key := k.String(); {
	case key == "esc", key == "ctrl+c", !typing && (key == "n" || key == "N" || key == "q"):
		m.dialog = nil
	case key == "tab", key == "down", !typing && (key == "right" || key == "left"):
		d.at = (d.at + 1) % (d.yes() + 1)
	case key == "shift+tab", key == "up":
		d.at = (d.at + d.yes()) % (d.yes() + 1)
	case key == "enter" && typing:
		d.at++
	case key == "enter" && d.at == d.no():
		m.dialog = nil
	case key == "enter", !typing && (key == "y" || key == "Y"):
		return m.act()
	case typing && key == "backspace":
		f := d.fields[d.at]
		if r := []rune(f.text); len(r) > 0 {
			f.text = string(r[:len(r)-1])
		}
	case typing:
		m.insert(k.Text)
	}
	return nil
}

// act executes the action in the background.
func (m *Model) act() tea.Cmd {
	if !m.dialog.ready() {
		m.dialog.at = 0
		return nil
	}
	a := m.dialog.chosen()
	m.dialog = nil
	m.say(a.Verb+" "+clean(a.Name)+" …", false)
	return func() tea.Msg {
		ctx, cancel := context.WithTimeout(context.Background(), actionTimeout)
		defer cancel()
		return doneMsg{a, m.cfg.Do(ctx, a)}
	}
}

// dialogLines are the dialog.
func (m *Model) dialogLines() []line {
	d := m.dialog
	a := d.chosen()
	lines := []line{{}, {{strings.ToUpper(a.Verb[:1]) + a.Verb[1:] + " " + clean(a.Name) + "?", &m.style.head}}, {}}
	for _, part := range scr.Wrap(clean(m.command(a)), m.width-4, 0) {
		lines = append(lines, styled(&m.style.strong, "  "+part))
	}
	lines = append(lines, line{})
	for _, text := range a.Effect() {
		for _, part := range scr.Wrap(clean(text), m.width-4, 0) {
			lines = append(lines, plain("  "+part))
		}
	}
	lines = append(lines, line{})
	for i, f := range d.fields {
		mark, end := "  ", ""
		if i == d.at {
			mark, end = "> ", "_"
		}
		look := &m.style.good
		if !f.ok(f.text) {
			look = &m.style.warn
		}
		lines = append(lines, line{{mark + f.label + ": ", nil}, {clean(f.text) + end, look}}, line{})
	}
	button := func(text string, at int) part {
		if d.at == at {
			return part{"[" + text + "]", &m.style.selected}
		}
		return part{" " + text + " ", nil}
	}
	yes := button("Yes", d.yes())
	if !d.ready() {
		yes.look = &m.style.dim
	}
	return append(lines, line{{"  ", nil}, button("No", d.no()), {"   ", nil}, yes})
}

// footer returns the last row: the result of an action, or the keys.
func (m *Model) footer() line {
	switch {
	case m.dialog != nil:
		return styled(&m.style.dim, "y yes · n no · up to the reason · enter chooses · esc back")
	case m.typing:
		return line{{"/" + clean(m.filter) + "_", &m.style.strong}, {"   enter keeps it, esc drops it", &m.style.dim}}
	case m.note != "" && m.now.Before(m.until):
		if m.bad {
			return styled(&m.style.bad, m.note)
		}
		return styled(&m.style.good, m.note)
	case m.screen == detailScreen:
		return styled(&m.style.dim, "esc back · tab holders/queue · x evict · p pause · = pin · y copy · e events · ? keys · q end")
	case m.screen == listScreen:
		order := berthwatch.Orders[m.sort]
		if m.reverse {
			order += ", reversed"
		}
		text := "by " + order
		if c := m.choice(); c != "" {
			text += ", " + c
		}
		return line{{text, &m.style.strong}, {" · enter detail · / filter · s sort · c contended · e events · p pause · ? keys · q end", &m.style.dim}}
	}
	return styled(&m.style.dim, fmt.Sprintf("esc back · %s · q end", "up down move"))
}
