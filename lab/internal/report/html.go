package report

import (
	_ "embed"
	"io"
	"strings"

	"github.com/berth-go/berth/internal/chart"
	"github.com/berth-go/berth/lab/internal/scene"
)

//go:embed page.html
var pageText string

var page = chart.Page(pageText)

// HTML writes the report as one page that needs nothing else, no scripts and no
// network.
func (r *Report) HTML(w io.Writer) error { return page.Execute(w, r.view()) }

// view is what the page shows.
type view struct {
	*Report
	Conditions string
	Algorithms []algorithm
	Board      []boardRow
	Sections   []section
}

type algorithm struct{ Key, Title string }

// boardRow is a scenario in the overview.
type boardRow struct {
	Key, Title string
	Cells      []verdict
}

// verdict is one algorithm in one scenario, in a few words.
type verdict struct {
	Class string // good, bad or plain
	Text  string
	Name  string // of the algorithm, where a narrow screen has no columns
}

type section struct {
	Key, Title, About string
	Words             []sentence
	Table             sectionTable
	Timelines         []*timeline
	Charts            []*chart.Chart
}

// sentence is what happened to one algorithm; Key is empty for remarks.
type sentence struct{ Key, Name, Text string }

type sectionTable struct {
	Heads []string
	Rows  []tableRow
}

type tableRow struct {
	Key, Title string
	Cells      []verdict
}

func (r *Report) view() view {
	v := view{Report: r, Conditions: r.conditions()}
	for _, sc := range r.Scenarios {
		list := r.of(sc.Key)
		if len(list) == 0 {
			continue
		}
		row := boardRow{Key: sc.Key, Title: sc.Title}
		for _, res := range list {
			cell := judged(res)
			cell.Name = title(res.Title)
			row.Cells = append(row.Cells, cell)
		}
		if len(list) > len(v.Algorithms) {
			v.Algorithms = nil
			for _, res := range list {
				v.Algorithms = append(v.Algorithms, algorithm{res.Algorithm, title(res.Title)})
			}
		}
		v.Board = append(v.Board, row)
		v.Sections = append(v.Sections, r.section(sc, list))
	}
	return v
}

func (r *Report) section(sc scene.Scenario, list []*scene.Result) section {
	s := section{Key: sc.Key, Title: sc.Title, About: sc.About, Table: tableOf(list)}
	for i, text := range r.words(sc.Key, list) {
		w := sentence{Text: text}
		if i < len(list) {
			w.Key, w.Name = list[i].Algorithm, title(list[i].Title)
			w.Text = strings.TrimPrefix(text, w.Name)
		}
		s.Words = append(s.Words, w)
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

func tableOf(list []*scene.Result) (t sectionTable) {
	cols := columns(list)
	for _, c := range cols {
		t.Heads = append(t.Heads, strings.ToLower(c.head))
	}
	for _, r := range list {
		row := tableRow{Key: r.Algorithm, Title: title(r.Title)}
		for _, c := range cols {
			v := verdict{Text: c.cell(r)}
			if c.good != nil && v.Text != "" {
				v.Class = goodOrBad(c.good(r))
			}
			row.Cells = append(row.Cells, v)
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

func goodOrBad(good bool) string {
	if good {
		return "good"
	}
	return "bad"
}

// judged says in a few words how an algorithm fared.
func judged(r *scene.Result) verdict {
	switch {
	case r.Growth != nil:
		first, last := r.Growth[0].P50US, r.Growth[len(r.Growth)-1].P50US
		return verdict{Class: "plain", Text: micros(first) + " → " + micros(last)}
	case r.Crash != nil:
		stalled := r.Crash.StallMS >= r.TimeoutMS/2
		if stalled {
			return verdict{Class: "bad", Text: "all stuck for " + ms(r.Crash.StallMS)}
		}
		return verdict{Class: "good", Text: "back after " + ms(r.Crash.BackMS[len(r.Crash.BackMS)-1])}
	case r.Pause != nil && r.Limits.Moments == 0:
		return verdict{Class: "good", Text: "stopped by itself"}
	case r.Pause != nil:
		return verdict{Class: "bad", Text: "two held it for " + ms(r.Limits.OverMS)}
	case r.Cut != nil:
		text := "back after " + ms(r.Cut.LostBackMS)
		if r.Cut.Wrong > 0 {
			text += ", misreported"
		}
		return verdict{Class: goodOrBad(r.Cut.Wrong == 0), Text: text}
	case r.Scenario == "fairness" && r.Waits.Overtaken > 0:
		return verdict{Class: "bad", Text: percent(float64(r.Waits.Overtaken)/float64(r.Waits.Requests)) + " overtaken"}
	case r.Scenario == "fairness":
		return verdict{Class: "good", Text: "in order"}
	case r.Limits.Moments > 0:
		return verdict{Class: "bad", Text: "over it " + percent(r.Limits.OverShare) + " of the time"}
	default:
		return verdict{Class: "good", Text: "limit kept"}
	}
}
