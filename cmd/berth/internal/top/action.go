package top

import (
	"context"
	"slices"
	"strconv"
	"strings"

	tea "charm.land/bubbletea/v2"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/berthwatch"
	scr "github.com/berth-go/berth/cmd/berth/internal/screen"
)

// dialog asks before an action. The default answer is No.
type dialog struct {
	action berthwatch.Action
	fields []*field
	at     int // of the fields, of which the last is the reason, then No, then Yes
}

// field is a text that the user types.
type field struct {
	label, text string
	put         func(a *berthwatch.Action, text string) bool // into the action; false: it cannot be
}

// ok reports whether the text is as it must be.
func (f *field) ok() bool { return f.put(&berthwatch.Action{}, f.text) }

// wrong returns the first field whose text is not as it must be, or -1.
func (d *dialog) wrong() int {
	return slices.IndexFunc(d.fields, func(f *field) bool { return !f.ok() })
}

func (d *dialog) no() int  { return len(d.fields) }
func (d *dialog) yes() int { return len(d.fields) + 1 }

// ask opens the dialog for an action, unless nothing may be changed.
func (m *Model) ask(a berthwatch.Action) {
	if m.cfg.ReadOnly != "" {
		m.say(m.style.bad, "nothing is changed: "+m.cfg.ReadOnly+". The command is: "+m.command(a))
		return
	}
	d := &dialog{action: a, fields: fieldsOf(a)}
	if a.Verb != "pin" && a.Verb != "resize" && !a.WantsName() {
		d.at = d.no() // nothing must be typed
	}
	m.dialog = d
}

// fieldsOf are the fields of the dialog for an action.
func fieldsOf(a berthwatch.Action) (all []*field) {
	if a.Verb == "pin" {
		all = append(all, &field{"limit", strconv.Itoa(a.Limit), func(a *berthwatch.Action, text string) bool {
			n, err := strconv.Atoi(text)
			if err != nil || n < 0 || n > berth.MaxLimit {
				return false
			}
			a.Limit = n
			return true
		}})
	}
	if a.Verb == "resize" {
		all = append(all, &field{"rates, such as 60/1m tokens=none", a.Rates, func(a *berthwatch.Action, text string) bool {
			if berthwatch.CheckRates(text) != nil {
				return false
			}
			a.Rates = text
			return true
		}})
	}
	if a.Verb == "pause" {
		all = append(all, &field{"for, such as 10m (empty: until resumed)", "", func(a *berthwatch.Action, text string) (ok bool) {
			d, err := berthwatch.ParseFor(text)
			if err == nil {
				a.For = d
			}
			return err == nil
		}})
	}
	if a.WantsName() {
		all = append(all, &field{"type the name to go on", "", func(_ *berthwatch.Action, text string) bool { return text == a.Name }})
	}
	return append(all, &field{"reason (optional)", "", func(a *berthwatch.Action, text string) bool {
		a.Reason = strings.TrimSpace(text)
		return true
	}})
}

func (m *Model) command(a berthwatch.Action) string {
	return m.cfg.Command + " " + berthwatch.Quote(a.Args())
}

// chosen returns the action with the typed texts.
func (d *dialog) chosen() berthwatch.Action {
	a := d.action
	for _, f := range d.fields {
		f.put(&a, f.text)
	}
	return a
}

// typing reports whether a field has the cursor, and not an answer.
func (d *dialog) typing() bool { return d.at < len(d.fields) }

// dialogKey handles a key while the dialog is open.
func (m *Model) dialogKey(k tea.KeyPressMsg) tea.Cmd {
	d := m.dialog
	typing := d.typing()
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
	default:
		m.edit(key, k.Text)
	}
	return nil
}

// act executes the action in the background.
func (m *Model) act() tea.Cmd {
	if at := m.dialog.wrong(); at >= 0 {
		m.dialog.at = at
		return nil
	}
	a := m.dialog.chosen()
	m.dialog = nil
	m.say(m.style.good, a.Verb+" "+a.Name+" …")
	return func() tea.Msg {
		ctx, cancel := context.WithTimeout(context.Background(), actionTimeout)
		defer cancel()
		return doneMsg{a, m.cfg.Do(ctx, a)}
	}
}

// dialogLines are the dialog.
func (m *Model) dialogLines() []string {
	d := m.dialog
	a := d.chosen()
	lines := []string{"", m.style.bold(strings.ToUpper(a.Verb[:1]) + a.Verb[1:] + " " + clean(a.Name) + "?"), ""}
	for _, part := range scr.Wrap(clean(m.command(a)), m.width-4, 0) {
		lines = append(lines, m.style.bold("  "+part))
	}
	lines = append(lines, "")
	for _, text := range a.Effect() {
		for _, part := range scr.Wrap(clean(text), m.width-4, 0) {
			lines = append(lines, "  "+part)
		}
	}
	lines = append(lines, "")
	for i, f := range d.fields {
		mark, text := "  ", clean(f.text)
		if i == d.at {
			mark, text = "> ", text+"_"
		}
		look := m.style.good
		if !f.ok() {
			look = m.style.warn
		}
		lines = append(lines, mark+f.label+": "+look(text), "")
	}
	no, yes := " No ", " Yes "
	if d.wrong() >= 0 {
		yes = m.style.dim(yes)
	}
	switch d.at {
	case d.no():
		no = m.style.selected("[No]")
	case d.yes():
		yes = m.style.selected("[Yes]")
	}
	return append(lines, "  "+no+"   "+yes)
}

// footer returns the last row: the result of an action, or the keys.
func (m *Model) footer() string {
	switch {
	case m.dialog != nil && m.dialog.typing():
		return m.style.dim("enter continues · up and down move · esc back")
	case m.dialog != nil:
		return m.style.dim("y yes · n no · up to the reason · enter chooses · esc back")
	case m.typing:
		return m.style.bold("/"+clean(m.filter)+"_") + m.style.dim("   enter keeps it, esc drops it")
	case m.note != "" && m.now.Before(m.until):
		return m.note
	case m.screen == detailScreen:
		return m.style.dim("esc back · tab holders/queue · x evict · p pause · = pin · r rates · y copy · e events · ? keys · q quit")
	case m.screen == listScreen:
		text := "by " + berthwatch.Orders[m.sort]
		if m.reverse {
			text += ", reversed"
		}
		if c := m.choice(); c != "" {
			text += ", " + c
		}
		return m.style.bold(text) + m.style.dim(" · enter detail · / filter · s sort · c contended · e events · p pause · ? keys · q quit")
	}
	return m.style.dim("esc back · up down move · q quit")
}
