// Package report tells what a run found: as tables, and as a page with pictures.
package report

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/berth-go/berth/bench/internal/result"
	"github.com/berth-go/berth/bench/internal/stat"
	"github.com/berth-go/berth/internal/chart"
	"github.com/berth-go/berth/internal/quantile"
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
	for _, s := range r.Scenes {
		for _, t := range tables(r, s) {
			fmt.Fprintf(&b, "\n%s\n", t.Title)
			t.write(&b)
		}
	}
	if len(r.Skipped) > 0 {
		fmt.Fprintf(&b, "\nNot measured\n")
		for _, s := range r.Skipped {
			fmt.Fprintf(&b, "  %s\n", skipped(r, s))
		}
	}
	if len(r.Verdicts) > 0 {
		fmt.Fprintf(&b, "\nTargets\n")
		verdictTable(r).write(&b)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// conditions says under which circumstances the figures were measured.
func conditions(r *result.Report) []string {
	var versions []string
	for _, name := range slices.Sorted(maps.Keys(r.Versions)) {
		versions = append(versions, name+" "+r.Versions[name])
	}
	where := "a Redis of the user's"
	if r.Machine.Own {
		where = "a redis-server of its own without persistence, TCP on loopback"
	}
	if r.Machine.Pinned != "" {
		where += ", everything on CPU " + r.Machine.Pinned
	}
	return []string{
		r.Command,
		fmt.Sprintf("%s, %s, %d rounds, %.0f s", r.At.Format("2 January 2006 15:04 MST"), where, r.Rounds, r.Took),
		fmt.Sprintf("%s, %d CPUs for clients and server together, %s", cmp.Or(r.Machine.CPU, "unknown CPU"), r.Machine.CPUs, r.Machine.OS),
		fold(versions, 116),
	}
}

// fold joins words with commas, in lines that are not longer than width.
func fold(words []string, width int) string {
	var b strings.Builder
	used := 0
	for i, w := range words {
		if i > 0 {
			b.WriteByte(',')
			if used += len(w) + 2; used > width {
				b.WriteByte('\n')
				used = 0
			} else {
				b.WriteByte(' ')
			}
		}
		if used == 0 {
			used = len(w)
		}
		b.WriteString(w)
	}
	return b.String()
}

func skipped(r *result.Report, s result.Skip) string {
	where := strings.TrimSpace(s.Scenario + " " + s.Case)
	if where != "" {
		where += ", "
	}
	return where + r.Title(s.Peer) + ": " + s.Why
}

// Table is some figures of a scenario.
type Table struct {
	Title string
	Heads []string
	Rows  []Row
}

// Row is one contestant.
type Row struct {
	Key, Title string
	Cells      []string
}

func (t Table) write(w io.Writer) {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "  \t"+strings.Join(t.Heads, "\t"))
	for _, row := range t.Rows {
		fmt.Fprintln(tw, "  "+row.Title+"\t"+strings.Join(row.Cells, "\t"))
	}
	_ = tw.Flush() // into a strings.Builder
}

// tables returns one table for a scenario with one metric of note, whose columns
// are the cases; else one for each case, whose columns are the metrics.
func tables(r *result.Report, s result.Scene) (list []Table) {
	metrics := metricsOf(r, s.Key)
	if len(metrics) == 0 {
		return nil // it was not reached
	}
	if len(metrics) == 1 && len(s.Cases) > 1 {
		return []Table{byCase(r, s, metrics[0])}
	}
	for _, c := range s.Cases {
		if t := byMetric(r, s, c, metrics); len(t.Rows) > 0 {
			list = append(list, t)
		}
	}
	return list
}

func metricsOf(r *result.Report, scenario string) (metrics []string) {
	for _, s := range r.Series {
		if s.Scenario == scenario && !slices.Contains(metrics, s.Metric) {
			metrics = append(metrics, s.Metric)
		}
	}
	return metrics
}

func byCase(r *result.Report, s result.Scene, metric string) Table {
	t := Table{Title: s.Title + ": " + metric + ", medians (± half of what lies between least and most)", Heads: s.Cases}
	for _, p := range r.Peers {
		row := Row{Key: p.Key, Title: p.Title}
		found := false
		for _, c := range s.Cases {
			series := r.Find(s.Key, c, p.Key, metric)
			found = found || series != nil
			row.Cells = append(row.Cells, halfRange(series))
		}
		if found {
			t.Rows = append(t.Rows, row)
		}
	}
	return t
}

func byMetric(r *result.Report, s result.Scene, c string, metrics []string) Table {
	t := Table{Title: s.Title + ", " + c + ": medians", Heads: slices.Clone(metrics)}
	few := len(metrics) <= 3
	if few {
		t.Title += " (min–max)"
	}
	t.Title += "; berth / it: " + metrics[0]
	t.Heads = append(t.Heads, "berth / it")
	for _, p := range r.Peers {
		row := Row{Key: p.Key, Title: p.Title}
		found := false
		for _, m := range metrics {
			series := r.Find(s.Key, c, p.Key, m)
			found = found || series != nil
			if few {
				row.Cells = append(row.Cells, spread(series))
			} else {
				row.Cells = append(row.Cells, middle(series))
			}
		}
		if found {
			t.Rows = append(t.Rows, withRatio(r, s.Key, c, metrics[0], row))
		}
	}
	return t
}

// withRatio adds berth's figure divided by this one's.
func withRatio(r *result.Report, scenario, c, metric string, row Row) Row {
	berth, own := r.Find(scenario, c, "berth", metric), r.Find(scenario, c, row.Key, metric)
	cell := ""
	if row.Key != "berth" && berth != nil && own != nil {
		cell = Number(quantile.Median(stat.Ratios(berth.Values, own.Values)))
	}
	row.Cells = append(row.Cells, cell)
	return row
}

func middle(s *result.Series) string {
	if s == nil {
		return "–"
	}
	return Number(s.Median)
}

func spread(s *result.Series) string {
	if s == nil {
		return "–"
	}
	if len(s.Values) < 2 {
		return Number(s.Median)
	}
	return fmt.Sprintf("%s (%s–%s)", Number(s.Median), Number(s.Min), Number(s.Max))
}

// halfRange is spread where there is no room for two more numbers.
func halfRange(s *result.Series) string {
	if s == nil || len(s.Values) < 2 || s.Median == 0 {
		return middle(s)
	}
	return fmt.Sprintf("%s ±%.0f %%", Number(s.Median), 50*(s.Max-s.Min)/s.Median)
}

func verdictTable(r *result.Report) Table {
	t := Table{Heads: []string{"target", "measured", "min–max", ""}}
	for _, v := range r.Verdicts {
		row := Row{Key: v.Result, Title: sentence(r, v)}
		if v.Result == result.Unmeasured {
			row.Cells = []string{v.Limit(), "", "", v.Result}
		} else {
			row.Cells = []string{v.Limit(), Number(v.Value), Number(v.Min) + "–" + Number(v.Max), v.Result}
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// sentence says what a verdict is about.
func sentence(r *result.Report, v result.Verdict) string {
	s := fmt.Sprintf("%s %s: %s", v.Scenario, v.Case, v.Metric)
	switch {
	case v.Invert:
		s += ", times faster than " + r.Title(v.Against)
	case v.Base != "":
		s += " / with " + v.Base
	case v.Against != "":
		s += " / " + r.Title(v.Against)
	}
	return s
}

// Number writes a figure with about three digits, and thousands apart.
func Number(v float64) string {
	switch a := max(v, -v); {
	case a == 0:
		return "0"
	case a >= 999.5:
		return chart.Group(fmt.Sprintf("%.0f", v))
	case a >= 99.95:
		return fmt.Sprintf("%.0f", v)
	case a >= 9.995:
		return fmt.Sprintf("%.1f", v)
	default:
		return fmt.Sprintf("%.2f", v)
	}
}
