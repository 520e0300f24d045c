package cli

import (
	"strings"

	"github.com/berth-go/berth/cmd/berth/internal/screen"
)

// gap separates two columns.
const gap = 2

// table is rows of cells under a header. Cells are cleaned: names and labels
// come from other people's programs.
type table struct{ rows [][]string }

func newTable(header ...string) *table {
	t := &table{}
	t.row(header...)
	return t
}

// row adds a row with as many cells as the header.
func (t *table) row(cells ...string) {
	for i, cell := range cells {
		cells[i] = screen.Clean(cell)
	}
	t.rows = append(t.rows, cells)
}

// text lays the table out for a terminal with so many columns, 0 for any number: as a
// table if that fits, else with the last column on lines of its own, else with a line for
// each value.
func (t *table) text(columns int) string {
	last := len(t.rows[0]) - 1
	text := t.grid(last + 1)
	if !fits(text, columns) {
		text = t.grid(last)
	}
	if !fits(text, columns) {
		text = t.list()
	}
	return text
}

func fits(text string, columns int) bool {
	if columns == 0 {
		return true
	}
	for line := range strings.Lines(text) {
		if screen.Columns(strings.TrimSuffix(line, "\n")) > columns {
			return false
		}
	}
	return true
}

// grid lines up the first n columns. The others follow each row on lines of
// their own, unless they are empty.
func (t *table) grid(n int) string {
	widths := t.widths(n)
	var b strings.Builder
	for _, row := range t.rows {
		var line strings.Builder
		for i, cell := range row[:n] {
			line.WriteString(pad(cell, widths[i]+gap))
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
		for _, cell := range row[n:] {
			if cell != "" {
				b.WriteString(strings.Repeat(" ", gap) + cell + "\n")
			}
		}
	}
	return b.String()
}

// widths returns how wide each of the first n columns is.
func (t *table) widths(n int) []int {
	widths := make([]int, n)
	for _, row := range t.rows {
		for i, cell := range row[:n] {
			widths[i] = max(widths[i], screen.Columns(cell))
		}
	}
	return widths
}

// list has a line for each value that is not empty, and a blank one between rows.
func (t *table) list() string {
	names := &table{}
	for _, name := range t.rows[0] {
		names.row(name)
	}
	width := names.widths(1)[0] + gap
	var rows []string
	for _, row := range t.rows[1:] {
		var b strings.Builder
		for i, cell := range row {
			if cell != "" {
				b.WriteString(pad(t.rows[0][i], width) + cell + "\n")
			}
		}
		rows = append(rows, b.String())
	}
	return strings.Join(rows, "\n")
}

func pad(s string, columns int) string {
	return s + strings.Repeat(" ", max(columns-screen.Columns(s), 0))
}

// fill breaks a sentence between its words if it is wider than the terminal.
func fill(text string, columns int) string {
	if fits(text, columns) {
		return text
	}
	return strings.Join(screen.Wrap(text, columns, gap), "\n")
}
