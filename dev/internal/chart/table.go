package chart

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// Table is a table of figures, with a row for each contestant.
type Table struct {
	Title string
	Heads []string
	Rows  []Row
}

// Row is the row of one contestant. Key is the class of its colour.
type Row struct {
	Key, Title string
	Cells      []Cell
}

// Cell is one figure. Its class is good, bad, or empty.
type Cell struct{ Text, Class string }

// Cells returns cells without a class.
func Cells(texts ...string) (cells []Cell) {
	for _, t := range texts {
		cells = append(cells, Cell{Text: t})
	}
	return cells
}

// Judged returns a cell whose class is good or bad.
func Judged(text string, good bool) Cell {
	if good {
		return Cell{text, "good"}
	}
	return Cell{text, "bad"}
}

// Write writes the table, without its title, for a terminal. The first column has the heading
// name.
func (t Table) Write(w io.Writer, name string) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, strings.Join(append([]string{"  " + name}, t.Heads...), "\t"))
	for _, row := range t.Rows {
		fmt.Fprint(tw, "  ", row.Title)
		for _, c := range row.Cells {
			fmt.Fprint(tw, "\t", c.Text)
		}
		fmt.Fprintln(tw)
	}
	return tw.Flush()
}
