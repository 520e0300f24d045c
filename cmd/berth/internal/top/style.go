package top

import (
	"strings"

	"charm.land/lipgloss/v2"

	scr "github.com/berth-go/berth/cmd/berth/internal/screen"
)

// style has the colours. They never say anything that words do not.
type style struct {
	head, dim, selected, good, warn, bad, strong lipgloss.Style
}

// colours returns a style of the sixteen colours that users can choose in every terminal.
// bubbletea omits them if NO_COLOR is set, or the terminal has none.
func colours() style {
	s := lipgloss.NewStyle
	return style{
		head: s().Bold(true), dim: s().Faint(true), selected: s().Reverse(true), strong: s().Bold(true),
		good: s().Foreground(lipgloss.Green), warn: s().Foreground(lipgloss.Yellow), bad: s().Foreground(lipgloss.Red).Bold(true),
	}
}

// line is text that was cut to its width and then styled, in parts.
type line []part

type part struct {
	text string
	look *lipgloss.Style // nil: as it is
}

func plain(text string) line { return line{{text, nil}} }

func styled(look *lipgloss.Style, text string) line { return line{{text, look}} }

// render cuts a line to a width, and fills it up if fill.
func (l line) render(width int, look *lipgloss.Style) string {
	var b strings.Builder
	left := width
	for _, p := range l {
		text := scr.Fit(p.text, left)
		left -= scr.Columns(text)
		switch {
		case look != nil: // the whole line has one look
			b.WriteString(text)
		case p.look != nil && text != "":
			b.WriteString(p.look.Render(text))
		default:
			b.WriteString(text)
		}
		if text != p.text {
			break
		}
	}
	if look == nil {
		return b.String()
	}
	return look.Render(b.String() + strings.Repeat(" ", max(left, 0)))
}

// page puts lines on a screen, the footer in its last row.
func (s style) page(lines []line, width, height int, footer line, ascii bool) string {
	rows := make([]string, 0, height)
	for _, l := range lines[:min(len(lines), max(height-1, 0))] {
		rows = append(rows, row(l, width, &s.selected))
	}
	for len(rows) < height-1 {
		rows = append(rows, "")
	}
	rows = append(rows, footer.render(width, nil))
	text := strings.Join(rows, "\n")
	if ascii {
		text = toASCII(text)
	}
	return text
}

// row renders a line. The one at the cursor looks the same from end to end.
func row(l line, width int, selected *lipgloss.Style) string {
	if len(l) > 0 && l[0].text == cursor {
		return l.render(width, selected)
	}
	return l.render(width, nil)
}

// What the rows of a table begin with: the one at the cursor, and the others.
const (
	cursor = ">"
	margin = " "
)

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

// cell returns text in so many columns.
func cell(s string, width int) string {
	s = scr.Fit(s, width)
	return s + strings.Repeat(" ", max(width-scr.Columns(s), 0))
}

// number returns a right-aligned cell.
func number(s string, width int) string {
	s = scr.Fit(s, width)
	return strings.Repeat(" ", max(width-scr.Columns(s), 0)) + s
}

// bar shows a part of a whole.
func bar(part, whole, width int) string {
	full := 0
	if whole > 0 {
		full = min((part*width+whole-1)/whole, width)
	}
	if part > 0 && whole == 0 {
		full = width
	}
	return strings.Repeat("█", full) + strings.Repeat("░", width-full)
}

// ticks are the heights of a sparkline.
var ticks = []rune("▁▂▃▄▅▆▇█")

// toASCII replaces all characters that a terminal without Unicode cannot show.
func toASCII(s string) string {
	var b strings.Builder
	for _, r := range s {
		switch {
		case r < 0x7f:
			b.WriteRune(r)
		case ascii[r] != 0:
			b.WriteByte(ascii[r])
		default:
			b.WriteString(strings.Repeat("?", scr.Columns(string(r))))
		}
	}
	return b.String()
}

var ascii = map[rune]byte{
	'█': '#', '░': '.', '▁': '_', '▂': '.', '▃': ':', '▄': '-', '▅': '=', '▆': '+', '▇': '*', '…': '~', '·': '|', '→': '>', '–': '-',
}
