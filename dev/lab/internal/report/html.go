package report

import (
	_ "embed"
	"io"
	"strings"

	"github.com/berth-go/berth/dev/internal/chart"
	"github.com/berth-go/berth/dev/internal/scenario"
	"github.com/berth-go/berth/dev/lab/internal/stage"
)

//go:embed page.html
var pageText string

var page = chart.Page(pageText)

// HTML writes the report as a single page without scripts or external resources.
func (r *Report) HTML(w io.Writer) error { return page.Execute(w, r.view()) }

// view is the data of the page.
type view struct {
	*Report
	Conditions string
	Board      chart.Table // how each algorithm fared in each scenario, in a few words
	Algorithms []string    // the keys of its columns
	Sections   []section
}

type section struct {
	Key, Title, About string
	Words             []sentence
	Table             chart.Table
	Timelines         []*chart.Timeline
	Charts            []*chart.Chart
}

func (r *Report) view() view {
	v := view{Report: r, Conditions: r.conditions()}
	for _, sc := range r.Scenarios {
		list := r.of(sc.Key)
		if len(list) == 0 {
			continue
		}
		row := chart.Row{Key: sc.Key, Title: sc.Title}
		for i, res := range list {
			row.Cells = append(row.Cells, fared(res))
			if i == len(v.Algorithms) {
				v.Algorithms = append(v.Algorithms, res.Algorithm)
				v.Board.Heads = append(v.Board.Heads, title(res.Title))
			}
		}
		v.Board.Rows = append(v.Board.Rows, row)
		v.Sections = append(v.Sections, r.section(sc, list))
	}
	return v
}

func (r *Report) section(sc scenario.Scenario, list []*stage.Result) section {
	s := section{Key: sc.Key, Title: sc.Title, About: sc.About, Words: r.words(list), Table: table(list)}
	for i, h := range s.Table.Heads {
		s.Table.Heads[i] = strings.ToLower(h)
	}
	if list[0].Growth != nil {
		s.Charts = append(s.Charts, growthChart(list))
		return s
	}
	for _, res := range list {
		s.Timelines = append(s.Timelines, newTimeline(res))
	}
	if list[0].Waits != nil {
		s.Charts = append(s.Charts, waitChart(list))
	}
	return s
}

// fared says in a few words how an algorithm fared.
func fared(r *stage.Result) chart.Cell {
	switch {
	case r.Growth != nil:
		first, last := r.Growth[0].P50US, r.Growth[len(r.Growth)-1].P50US
		return chart.Cell{Text: micros(first) + " → " + micros(last)}
	case r.Crash != nil && r.Crash.StallMS >= r.TimeoutMS/2:
		return chart.Judged("all stuck for "+ms(r.Crash.StallMS), false)
	case r.Crash != nil:
		return chart.Judged("back after "+ms(r.Crash.BackMS[len(r.Crash.BackMS)-1]), true)
	case r.Pause != nil && r.Limits.Moments == 0:
		return chart.Judged("stopped by itself", true)
	case r.Pause != nil:
		return chart.Judged("two held it for "+ms(r.Limits.OverMS), false)
	case r.Cut != nil && r.Cut.Wrong > 0:
		return chart.Judged("back after "+ms(r.Cut.LostBackMS)+", misreported", false)
	case r.Cut != nil:
		return chart.Judged("back after "+ms(r.Cut.LostBackMS), true)
	case r.Scenario == scenario.Fairness.Key && r.Waits.Overtaken > 0:
		return chart.Judged(percent(overtakenShare(r.Waits))+" overtaken", false)
	case r.Scenario == scenario.Fairness.Key:
		return chart.Judged("in order", true)
	case r.Limits.Moments > 0:
		return chart.Judged("over it "+percent(r.Limits.OverShare)+" of the time", false)
	default:
		return chart.Judged("limit kept", true)
	}
}

// leastWait is where the axis of waits begins, in milliseconds. A shorter time is no wait.
const leastWait = 0.1

// waitChart shows which share of the requests waited at most how long.
func waitChart(list []*stage.Result) *chart.Chart {
	var all []chart.Series
	for _, r := range list {
		s := chart.Series{Key: r.Algorithm, Title: title(r.Title)}
		for _, d := range r.Sorted {
			s.Y = append(s.Y, stage.Millis(d))
		}
		all = append(all, s)
	}
	return chart.Distribution("Who waited how long", "waited at most (ms)", "share of requests", leastWait, 1, all)
}

// growthChart shows the cost of an acquire and release by the number of holders.
func growthChart(list []*stage.Result) *chart.Chart {
	var all []chart.Series
	for _, r := range list {
		s := chart.Series{Key: r.Algorithm, Title: title(r.Title)}
		for _, p := range r.Growth {
			s.X, s.Y = append(s.X, float64(p.Holders)), append(s.Y, p.P50US)
		}
		all = append(all, s)
	}
	return chart.Growth("An acquire and release, half of them faster", "other holders", "µs", all, micros)
}
