package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/berth-go/berth/bench/internal/result"
	"github.com/berth-go/berth/bench/internal/scene"
	"github.com/berth-go/berth/internal/chart"
	"github.com/berth-go/berth/internal/quantile"
)

// growth draws a metric against the cases of a scenario, which are numbers.
func growth(r *result.Report, s *scene.Scenario, metric, title, xName string) *chart.Chart {
	type point struct{ x, y float64 }
	points := map[string][]point{}
	var xs []float64
	lo, hi := math.Inf(1), 0.0
	for _, c := range s.Cases(r.Scale) {
		x := float64(c.N)
		for _, p := range r.Peers {
			y := result.Summarize(r.Values(s.Key, c.Key, p.Key, metric)).Center
			if y <= 0 {
				continue
			}
			points[p.Key] = append(points[p.Key], point{x, y})
			lo, hi = min(lo, y), max(hi, y)
			if !slices.Contains(xs, x) {
				xs = append(xs, x)
			}
		}
	}
	if len(xs) < 2 {
		return nil
	}
	c := chart.New(title, xName, words(metric)).XLog(xs[0], xs[len(xs)-1], xs...).YLog(lo, hi)
	for _, p := range r.Peers {
		l := chart.Line{Key: p.Key, Title: p.Title}
		for _, pt := range points[p.Key] {
			c.Add(&l, pt.x, pt.y, fmt.Sprintf("%s, %s: %s %s", p.Title, chart.Tick(pt.x), Number(pt.y), words(metric)))
		}
		c.Append(l)
	}
	// The names of the lines are in the order of their ends.
	slices.SortStableFunc(c.Lines, func(a, b chart.Line) int { return cmp.Compare(a.End, b.End) })
	return c
}

// shown is the percentile up to which distributions are drawn: the few samples
// beyond it would take most of the room.
const shown = 99

// contestant is one in a chart: a figure and what it is made of.
type contestant struct {
	key, title string
	figure     float64
	samples    []float64
}

// contestants returns those that have a figure above 0, the least first.
func contestants(r *result.Report, scenario, caze, metric string) (list []contestant) {
	for _, p := range r.Peers {
		c := contestant{p.Key, p.Title, result.Summarize(r.Values(scenario, caze, p.Key, metric)).Center, r.Samples(scenario, caze, p.Key, metric)}
		if c.figure > 0 {
			list = append(list, c)
		}
	}
	slices.SortStableFunc(list, func(a, b contestant) int { return cmp.Compare(a.figure, b.figure) })
	return list
}

// distribution draws which share of the samples took at most how long.
func distribution(r *result.Report, scenario, caze, metric, title string) *chart.Chart {
	list := contestants(r, scenario, caze, metric)
	lo, hi := math.Inf(1), 0.0
	for _, p := range list {
		lo, hi = min(lo, quantile.Of(p.samples, 0)), max(hi, quantile.Of(p.samples, shown/100.0))
	}
	if len(list) == 0 {
		return nil
	}
	c := chart.New(title+", up to the 99th percentile", "µs, at most", "share of samples").XLog(max(lo, 1), hi).YShare()
	for _, p := range list {
		l := chart.Line{Key: p.key, Title: p.title}
		for i := range shown + 1 {
			c.Add(&l, quantile.Of(p.samples, float64(i)/100), float64(i)/100, "")
		}
		c.Append(l)
	}
	return c
}

// bars draws one figure of each contestant.
func bars(r *result.Report, scenario, caze, metric, title string) *chart.Chart {
	list := contestants(r, scenario, caze, metric)
	if len(list) == 0 {
		return nil
	}
	c := chart.Barred(title, words(metric), len(list), list[0].figure, list[len(list)-1].figure)
	for _, p := range list {
		c.AddBar(p.key, p.title, Number(p.figure), p.figure)
	}
	return c
}
