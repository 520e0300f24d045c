package top

import (
	"strings"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"

	scr "github.com/berth-go/berth/cmd/berth/internal/screen"
)

// look gives text its colours.
type look func(...string) string

// style has the colours. They never say anything that words do not.
type style struct{ plain, bold, dim, selected, good, warn, bad look }

// colours returns a style of the sixteen colours that users can choose in every terminal.
// bubbletea omits them if NO_COLOR is set, or the terminal has none.
func colours() style {
	s := lipgloss.NewStyle
	return style{
		plain: s().Render, bold: s().Bold(true).Render, dim: s().Faint(true).Render, selected: s().Reverse(true).Render,
		good: s().Foreground(lipgloss.Green).Render, warn: s().Foreground(lipgloss.Yellow).Render,
		bad: s().Foreground(lipgloss.Red).Bold(true).Render,
	}
}

// margin is what the rows of a table begin with, except the one at the cursor.
const margin = " "

// row returns a row of a table. The one at the cursor looks the same from end to end, but for its
// bar: reversed, a full one would look empty.
func (m *Model) row(here bool, before, bar, after string) string {
	if !here {
		return margin + before + bar + after
	}
	before = ">" + ansi.Strip(before)
	rest := max(m.width-scr.Columns(before)-scr.Columns(bar), 0)
	return m.style.selected(before) + bar + m.style.selected(cell(ansi.Strip(after), rest))
}

// clean makes text of other programs safe to show. It also omits variation selectors, which
// change the width of the character before them.
func clean(s string) string {
	return scr.Clean(strings.Map(func(r rune) rune {
		if r >= 0xFE00 && r <= 0xFE0F {
			return -1
		}
		return r
	}, s))
}

// short is an error without the name of the program.
func short(err error) string { return clean(strings.TrimPrefix(err.Error(), "berth: ")) }

// cell returns text in so many columns, at the right of them if width is negative.
func cell(s string, width int) string {
	s = scr.Fit(s, max(width, -width))
	blanks := strings.Repeat(" ", max(width, -width)-scr.Columns(s))
	if width < 0 {
		return blanks + s
	}
	return s + blanks
}

// cells returns texts in columns of these widths. Columns of width 0 are omitted.
func cells(widths []int, texts ...string) string {
	var b strings.Builder
	for i, w := range widths {
		if w != 0 {
			b.WriteString(cell(texts[i], w))
		}
	}
	return b.String()
}

// bar shows a part of a whole.
func bar(part, whole, width int) string {
	full := 0
	if whole > 0 {
		full = min((part*width+whole-1)/whole, width)
	} else if part > 0 {
		full = width
	}
	return strings.Repeat("█", full) + strings.Repeat("░", width-full)
}

// ticks are the heights of a sparkline.
var ticks = []rune("▁▂▃▄▅▆▇█")

var ascii = strings.NewReplacer(
	"█", "#", "░", ".", "▁", "_", "▂", ".", "▃", ":", "▄", "-", "▅", "=", "▆", "+", "▇", "*", "…", "~", "·", "|", "→", ">", "–", "-",
)

// toASCII replaces all characters that a terminal without Unicode cannot show.
func toASCII(s string) string {
	var b strings.Builder
	for _, r := range ascii.Replace(s) {
		if r < 0x7f {
			b.WriteRune(r)
		} else {
			b.WriteString(strings.Repeat("?", scr.Columns(string(r))))
		}
	}
	return b.String()
}
