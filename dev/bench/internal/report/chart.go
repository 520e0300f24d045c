package report

import (
	"cmp"
	"slices"

	"github.com/berth-go/berth/dev/bench/internal/result"
	"github.com/berth-go/berth/dev/bench/internal/scene"
	"github.com/berth-go/berth/dev/internal/chart"
)

// growth draws a metric over the cases of a scenario, which are numbers.
func growth(r *result.Report, s *scene.Scenario, metric, title, xName string) *chart.Chart {
	var list []chart.Series
	for _, p := range r.Peers {
		line := chart.Series{Key: p.Key, Title: p.Title}
		for _, c := range s.Cases(r.Scale) {
			if y := result.Summarize(r.Values(s.Key, c.Key, p.Key, metric)).Center; y > 0 {
				line.X, line.Y = append(line.X, float64(c.N)), append(line.Y, y)
			}
		}
		list = append(list, line)
	}
	return chart.Growth(title, xName, words(metric), list, Number)
}

// shown is the share up to which distributions are drawn. The few samples beyond it would
// take up most of the chart.
const shown = 0.99

// distribution draws the share of samples that took at most each time.
func distribution(r *result.Report, scenario, caze, metric, title string) *chart.Chart {
	var list []chart.Series
	for _, p := range leastFirst(r, scenario, caze, metric) {
		list = append(list, chart.Series{Key: p.key, Title: p.title, Y: r.Samples(scenario, caze, p.key, metric)})
	}
	return chart.Distribution(title+", up to the 99th percentile", "µs, at most", "share of samples", 1, shown, list)
}

// bars draws one figure of each contestant.
func bars(r *result.Report, scenario, caze, metric, title string) *chart.Chart {
	list := leastFirst(r, scenario, caze, metric)
	if len(list) == 0 {
		return nil
	}
	c := chart.Barred(title, words(metric), len(list), list[0].figure, list[len(list)-1].figure)
	for _, p := range list {
		c.AddBar(p.key, p.title, Number(p.figure), p.figure)
	}
	return c
}

// contestant is a contestant in a chart.
type contestant struct {
	key, title string
	figure     float64
}

// leastFirst returns the contestants with a figure above 0, the least first.
func leastFirst(r *result.Report, scenario, caze, metric string) (list []contestant) {
	for _, p := range r.Peers {
		if m := result.Summarize(r.Values(scenario, caze, p.Key, metric)).Center; m > 0 {
			list = append(list, contestant{p.Key, p.Title, m})
		}
	}
	slices.SortStableFunc(list, func(a, b contestant) int { return cmp.Compare(a.figure, b.figure) })
	return list
}
