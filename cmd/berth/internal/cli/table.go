package cli

import (
	"cmp"
	"slices"
	"strings"

	"github.com/berth-go/berth/cmd/berth/internal/screen"
)

// gap separates two columns.
const gap = 2

// table is rows of cells under a header. Cells are cleaned: names and labels
// come from other people's programs.
type table struct{ rows [][]string }

func newTable(header ...string) *table { return &table{rows: [][]string{header}} }

// row adds a row with as many cells as the header.
func (t *table) row(cells ...string) {
	for i, cell := range cells {
		cells[i] = screen.Clean(cell)
	}
	t.rows = append(t.rows, cells)
}

const (
	tenantColumn = "TENANT"
	costColumn   = "COST"
)

// optional leaves out each of these columns if nobody has a value there, and else writes "-" for those
// without.
func (t *table) optional(titles ...string) *table {
	for _, title := range titles {
		at := slices.Index(t.rows[0], title)
		empty := !slices.ContainsFunc(t.rows[1:], func(row []string) bool { return row[at] != "" })
		for i, row := range t.rows {
			if empty {
				t.rows[i] = slices.Delete(row, at, at+1)
			} else {
				row[at] = cmp.Or(row[at], "-")
			}
		}
	}
	return t
}

// text lays the table out for a terminal with so many columns, 0 for any number: as a
// table if that fits, else with the last column on lines of its own, else with what is too
// long in another column, too, as a few names may be, else with a line for each value.
func (t *table) text(columns int) string {
	all := len(t.rows[0])
	for _, text := range []string{t.grid(all, columns), t.grid(all-1, columns)} {
		if fits(text, columns) {
			return text
		}
	}
	if text, ok := t.aside(all-1, columns); ok && all > 2 {
		return text
	}
	return t.list(columns)
}

// leastName is how wide the column at least stays from which long values are put aside.
const leastName = 12

// aside is a grid with n columns in which the values that are too long for the widest of them have
// lines of their own, before their rows; false: it does not fit all the same.
func (t *table) aside(n, columns int) (string, bool) {
	widths := t.widths(n)
	widest := slices.Index(widths, slices.Max(widths))
	room := columns - gap*(n-1)
	for i, width := range widths {
		if i != widest {
			room -= width
		}
	}
	if room < leastName {
		return "", false
	}
	narrow := &table{}
	for _, row := range t.rows {
		if screen.Columns(row[widest]) > room {
			row = slices.Clone(row)
			row[widest] = ""
		}
		narrow.rows = append(narrow.rows, row)
	}
	var b strings.Builder
	for i, text := range narrow.lines(n, columns) {
		if long := t.rows[i][widest]; narrow.rows[i][widest] != long {
			b.WriteString(long + "\n")
		}
		b.WriteString(text)
	}
	return b.String(), true
}

func fits(text string, columns int) bool {
	tooWide := func(line string) bool { return screen.Columns(line) > columns }
	return columns == 0 || !slices.ContainsFunc(strings.Split(text, "\n"), tooWide)
}

// grid lines up the first n columns. The others follow each row on lines of
// their own, unless they are empty, and break between words.
func (t *table) grid(n, columns int) string { return strings.Join(t.lines(n, columns), "") }

// lines are the rows of a grid.
func (t *table) lines(n, columns int) (all []string) {
	widths := t.widths(n)
	for _, row := range t.rows {
		var line strings.Builder
		for i, cell := range row[:n] {
			line.WriteString(pad(cell, widths[i]+gap))
		}
		lines := []string{strings.TrimRight(line.String(), " ")}
		for _, cell := range row[n:] {
			if cell != "" {
				lines = append(lines, strings.Split(fill(cell, max(columns-gap, 0)), "\n")...)
			}
		}
		all = append(all, strings.Join(lines, "\n"+strings.Repeat(" ", gap))+"\n")
	}
	return all
}

// widths are those of the first n columns.
func (t *table) widths(n int) []int {
	widths := make([]int, n)
	for _, row := range t.rows {
		for i, cell := range row[:n] {
			widths[i] = max(widths[i], screen.Columns(cell))
		}
	}
	return widths
}

// list has a line for each value that is not empty, or several if the value has words and is
// too long, and a blank one between rows.
func (t *table) list(columns int) string {
	width := 0
	for _, name := range t.rows[0] {
		width = max(width, screen.Columns(name))
	}
	var rows []string
	for _, row := range t.rows[1:] {
		var text strings.Builder
		for i, cell := range row {
			if cell != "" {
				lines := []string{cell}
				if !fits(cell, columns-width-gap) {
					lines = screen.Wrap(cell, columns-width-gap, 0)
				}
				head := pad(t.rows[0][i], width+gap)
				for _, line := range lines {
					text.WriteString(head + line + "\n")
					head = pad("", width+gap)
				}
			}
		}
		rows = append(rows, text.String())
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
