// Package report presents the results of a run: as tables.
package report

import (
	"fmt"
	"io"
	"strings"

	"github.com/berth-go/berth/dev/bench/internal/result"
	"github.com/berth-go/berth/dev/bench/internal/trial"
	"github.com/berth-go/berth/dev/internal/chart"
)

// Text writes the report for a terminal of 120 columns.
func Text(w io.Writer, r *result.Report) error {
	var b strings.Builder
	for _, line := range conditions(r) {
		fmt.Fprintln(&b, line)
	}
	if r.Partial != "" {
		fmt.Fprintf(&b, "PARTIAL: %s. What follows was measured until then.\n", r.Partial)
	}
	for _, s := range r.Scenarios {
		for _, t := range tables(r, s) {
			fmt.Fprintf(&b, "\n%s\n", t.Title)
			_ = t.Write(&b, "") // into a strings.Builder
		}
	}
	if len(r.Missing) > 0 {
		fmt.Fprintf(&b, "\nNot measured\n  %s\n", strings.Join(r.Missing, "\n  "))
	}
	if len(r.Verdicts) > 0 {
		fmt.Fprintf(&b, "\nTargets\n")
		_ = Verdicts(r).Write(&b, "")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// conditions says under which conditions the figures were measured.
func conditions(r *result.Report) []string {
	lines := []string{r.Command, r.Started()}
	if r.Berth != "" {
		lines = append(lines, "berth: "+r.Berth)
	}
	for _, c := range r.Config {
		lines = append(lines, c.Key+": "+string(c.Value))
	}
	return lines
}

// words returns the name of a metric or a case with spaces, which the Go benchmark format
// does not allow.
func words(name string) string { return strings.ReplaceAll(name, "-", " ") }

// tables returns one table whose columns are the cases if a scenario has one main metric;
// otherwise one for each case, whose columns are the metrics.
func tables(r *result.Report, s *trial.Trial) (list []chart.Table) {
	metrics, cases := r.Metrics(s.Key), s.Cases(r.Scale)
	if len(metrics) == 1 && len(cases) > 1 {
		t := chart.Table{Title: s.Title + ": " + words(metrics[0]) + ", medians (± half of their interval)"}
		var columns []column
		for _, c := range cases {
			t.Heads = append(t.Heads, words(c.Key))
			columns = append(columns, column{c.Key, metrics[0]})
		}
		t.Rows = rows(r, s, columns, halfRange)
		return []chart.Table{t}
	}
	for _, c := range cases {
		if t := byMetric(r, s, c.Key, metrics); len(t.Rows) > 0 {
			list = append(list, t)
		}
	}
	return list
}

func byMetric(r *result.Report, s *trial.Trial, caze string, metrics []string) (t chart.Table) {
	var columns []column
	for _, m := range metrics {
		t.Heads = append(t.Heads, words(m))
		columns = append(columns, column{caze, m})
	}
	title, format := ": medians", middle
	if len(metrics) <= 3 {
		title, format = ": medians (interval)", spread
	}
	t.Rows = rows(r, s, columns, format)
	if len(t.Rows) == 0 {
		return t // the run ended before it
	}
	t.Title = s.Title + ", " + words(caze) + title + "; berth / it: " + words(metrics[0])
	t.Heads = append(t.Heads, "berth / it")
	berth := r.Values(s.Key, caze, "berth", metrics[0])
	for i, row := range t.Rows {
		ratio := ""
		if ratios := result.Ratios(berth, r.Values(s.Key, caze, row.Key, metrics[0])); len(ratios) > 0 && row.Key != "berth" {
			ratio = middle(ratios)
		}
		t.Rows[i].Cells = append(t.Rows[i].Cells, chart.Cell{Text: ratio})
	}
	return t
}

// column is a figure that each contestant may have.
type column struct{ caze, metric string }

// rows returns the rows of the contestants that have one of the figures.
func rows(r *result.Report, s *trial.Trial, columns []column, format func([]float64) string) (list []chart.Row) {
	for _, p := range r.Peers {
		row, found := chart.Row{Key: p.Key, Title: p.Title}, false
		for _, c := range columns {
			values := r.Values(s.Key, c.caze, p.Key, c.metric)
			row.Cells = append(row.Cells, chart.Cell{Text: format(values)})
			found = found || len(values) > 0
		}
		if found {
			list = append(list, row)
		}
	}
	return list
}

func middle(values []float64) string {
	if len(values) == 0 {
		return "–"
	}
	return Number(result.Summarize(values).Center)
}

func spread(values []float64) string {
	if in := interval(result.Summarize(values)); in != "" {
		return middle(values) + " (" + in + ")"
	}
	return middle(values)
}

func interval(s result.Summary) string {
	if lo, hi := Number(s.Lo), Number(s.Hi); s.Bounded() && lo != hi {
		return lo + "–" + hi
	}
	return ""
}

// halfRange formats a spread where there is no room for two numbers.
func halfRange(values []float64) string {
	s := result.Summarize(values)
	if !s.Bounded() || s.Center == 0 {
		return middle(values)
	}
	return fmt.Sprintf("%s ±%.0f %%", Number(s.Center), 50*(s.Hi-s.Lo)/s.Center)
}

// Verdicts returns a table of the verdicts.
func Verdicts(r *result.Report) chart.Table {
	t := chart.Table{Heads: []string{"target", "measured", "interval", ""}}
	for _, v := range r.Verdicts {
		cells := chart.Cells(v.Limit(), "", interval(v.Summary), v.Result)
		if v.Result != result.Unmeasured {
			cells[1].Text, cells[3] = Number(v.Center), chart.Judged(v.Result, v.Result == result.Met)
		}
		t.Rows = append(t.Rows, chart.Row{Title: sentence(r, v), Cells: cells})
	}
	return t
}

// sentence returns a description of what a verdict is about.
func sentence(r *result.Report, v result.Verdict) string {
	s := fmt.Sprintf("%s %s: %s", v.Scenario, words(v.Case), words(v.Metric))
	switch {
	case v.Invert:
		s += ", times faster than " + r.Title(v.Against)
	case v.Base != "":
		s += " / with " + words(v.Base)
	case v.Against != "":
		s += " / " + r.Title(v.Against)
	}
	return s
}

// Number formats a figure with about three digits and grouped thousands.
func Number(v float64) string {
	switch a := max(v, -v); {
	case a == 0:
		return "0"
	case a >= 999.5:
		return chart.Group(v)
	case a >= 99.95:
		return fmt.Sprintf("%.0f", v)
	case a >= 9.995:
		return fmt.Sprintf("%.1f", v)
	default:
		return fmt.Sprintf("%.2f", v)
	}
}
