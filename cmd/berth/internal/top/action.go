package top

import (
	"context"
	"slices"
	"strconv"
	"strings"

	tea "charm.land/bubbletea/v2"

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
	ok          func(text string) bool
}

func (d *dialog) no() int  { return len(d.fields) }
func (d *dialog) yes() int { return len(d.fields) + 1 }

// ready reports whether everything was typed as it must be.
func (d *dialog) ready() bool {
	return !slices.ContainsFunc(d.fields, func(f *field) bool { return !f.ok(f.text) })
}

// ask opens the dialog for an action, unless nothing may be changed.
func (m *Model) ask(a berthwatch.Action) {
	if m.cfg.ReadOnly != "" {
		m.say(m.style.bad, "nothing is changed: "+m.cfg.ReadOnly+". The command is: "+m.command(a))
		return
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
	d.fields = append(d.fields, &field{"reason (optional)", "", func(string) bool { return true }})
	if len(d.fields) == 1 {
		d.at = d.no()
	}
	m.dialog = d
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
	if !m.dialog.ready() {
		m.dialog.at = 0
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
		if !f.ok(f.text) {
			look = m.style.warn
		}
		lines = append(lines, mark+f.label+": "+look(text), "")
	}
	no, yes := " No ", " Yes "
	if !d.ready() {
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
		return m.style.dim("enter goes on · up and down move · esc back")
	case m.dialog != nil:
		return m.style.dim("y yes · n no · up to the reason · enter chooses · esc back")
	case m.typing:
		return m.style.bold("/"+clean(m.filter)+"_") + m.style.dim("   enter keeps it, esc drops it")
	case m.note != "" && m.now.Before(m.until):
		return m.note
	case m.screen == detailScreen:
		return m.style.dim("esc back · tab holders/queue · x evict · p pause · = pin · y copy · e events · ? keys · q quit")
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
