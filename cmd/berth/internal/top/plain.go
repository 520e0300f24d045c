package top

import (
	"strings"

	"charm.land/lipgloss/v2"

	"github.com/berth-go/berth/berthwatch"
)

// Plain returns all semaphores as text without colours, at most width columns wide.
func Plain(v berthwatch.View, width int, ascii bool) string {
	m := New(Config{})
	m.plain = true
	none := lipgloss.NewStyle()
	m.style = style{none, none, none, none, none, none, none}
	m.width, m.now, m.view = width, v.At, v
	m.arrange()
	m.selected = "" // nobody is at the cursor
	var b strings.Builder
	for i, l := range append(m.header()[:1], m.listLines(len(m.visible)+2)...) {
		text := row(l, width, &none)
		if i > 0 && len(l) == 0 {
			text = ""
		}
		b.WriteString(strings.TrimRight(text, " ") + "\n")
	}
	if ascii {
		return toASCII(b.String())
	}
	return b.String()
}
