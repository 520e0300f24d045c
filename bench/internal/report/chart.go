package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/berth-go/berth/bench/internal/result"
	"github.com/berth-go/berth/internal/chart"
)

// growth draws a metric against the cases of a scenario, which are numbers.
func growth(r *result.Report, scenario, metric, title, xName string) *chart.Chart {
	type point struct{ x, y float64 }
	points := map[string][]point{}
	var xs []float64
	lo, hi := math.Inf(1), 0.0
	for _, s := range r.Series {
		x, err := strconv.ParseFloat(strings.ReplaceAll(s.Case, ",", ""), 64)
		if s.Scenario != scenario || s.Metric != metric || err != nil || s.Median <= 0 {
			continue
		}
		points[s.Peer] = append(points[s.Peer], point{x, s.Median})
		lo, hi = min(lo, s.Median), max(hi, s.Median)
		if !slices.Contains(xs, x) {
			xs = append(xs, x)
		}
	}
	if len(xs) < 2 {
		return nil
	}
	slices.Sort(xs)
	c := chart.New(title, xName, metric).XLog(xs[0], xs[len(xs)-1], xs...).YLog(lo, hi)
	for _, p := range r.Peers {
		list := points[p.Key]
		slices.SortFunc(list, func(a, b point) int { return cmp.Compare(a.x, b.x) })
		l := chart.Line{Key: p.Key, Title: p.Title}
		for _, pt := range list {
			c.Add(&l, pt.x, pt.y, fmt.Sprintf("%s, %s: %s %s", p.Title, chart.Tick(pt.x), Number(pt.y), metric))
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

// distribution draws which share of the samples took at most how long.
func distribution(r *result.Report, scenario, caze, metric, title, xName string) *chart.Chart {
	var list []*result.Series
	lo, hi := math.Inf(1), 0.0
	for _, p := range r.Peers {
		if s := r.Find(scenario, caze, p.Key, metric); s != nil && len(s.Steps) > shown {
			list = append(list, s)
			lo, hi = min(lo, s.Steps[0]), max(hi, s.Steps[shown])
		}
	}
	if len(list) == 0 {
		return nil
	}
	// The names of the lines are in the order of their medians.
	slices.SortStableFunc(list, func(a, b *result.Series) int { return cmp.Compare(a.Steps[50], b.Steps[50]) })
	c := chart.New(title, xName, "share of samples").XLog(max(lo, 1), hi).YShare()
	for _, s := range list {
		l := chart.Line{Key: s.Peer, Title: r.Title(s.Peer)}
		for i, v := range s.Steps[:shown+1] {
			c.Add(&l, v, float64(i)/float64(len(s.Steps)-1), "")
		}
		c.Append(l)
	}
	return c
}

// bars draws one figure of each contestant, the least first.
func bars(r *result.Report, scenario, caze, metric, title string) *chart.Chart {
	var list []*result.Series
	lo, hi := math.Inf(1), 0.0
	for _, p := range r.Peers {
		if s := r.Find(scenario, caze, p.Key, metric); s != nil && s.Median > 0 {
			list = append(list, s)
			lo, hi = min(lo, s.Median), max(hi, s.Median)
		}
	}
	if len(list) == 0 {
		return nil
	}
	slices.SortStableFunc(list, func(a, b *result.Series) int { return cmp.Compare(a.Median, b.Median) })
	c := chart.Barred(title, metric, len(list), lo, hi)
	for _, s := range list {
		c.AddBar(s.Peer, r.Title(s.Peer), Number(s.Median), s.Median)
	}
	return c
}
