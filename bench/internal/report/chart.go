package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/berth-go/berth/bench/internal/result"
)

// The measures of a chart, in units of its drawing.
const (
	chartWidth  = 560.0
	chartHeight = 300.0
	chartLeft   = 66.0
	chartRight  = 14.0
	chartTop    = 24.0
	chartBottom = 44.0
)

// label is some text in a chart.
type label struct {
	X, Y float64
	Text string
}

// dot is one point of a line; its title shows under the pointer.
type dot struct {
	X, Y  float64
	Title string
}

// line is one contestant in a chart.
type line struct {
	Key, Title, Path string
	Dots             []dot
	end              float64 // the height at which it ends
}

// bar is one contestant in a chart of bars.
type bar struct {
	Key, Title, Text string
	Y, W             float64
}

// chart is lines over axes, or bars.
type chart struct {
	Title, XName, YName      string
	Width, Height            float64
	Left, Right, Top, Bottom float64
	Lines                    []line
	Bars                     []bar
	XTicks, YTicks           []label
	x, y                     func(float64) float64
}

func newChart(title, xName, yName string, height float64) *chart {
	return &chart{
		Title: title, XName: xName, YName: yName, Width: chartWidth, Height: height,
		Left: chartLeft, Right: chartWidth - chartRight, Top: chartTop, Bottom: height - chartBottom,
	}
}

// logScale maps lo…hi to from…to, by ratios.
func logScale(lo, hi, from, to float64) func(float64) float64 {
	span := math.Log(hi) - math.Log(lo)
	return func(v float64) float64 {
		if span <= 0 {
			return from
		}
		return from + (to-from)*(math.Log(min(max(v, lo), hi))-math.Log(lo))/span
	}
}

// ticks returns 1, 2 and 5 times powers of ten between lo and hi, or the powers
// alone if those were too many.
func ticks(lo, hi float64) (values []float64) {
	steps := []float64{1, 2, 5}
	if hi/lo > 300 {
		steps = steps[:1]
	}
	for p := math.Floor(math.Log10(lo)); p <= math.Log10(hi); p++ {
		for _, s := range steps {
			if v := s * math.Pow(10, p); v >= lo && v <= hi {
				values = append(values, v)
			}
		}
	}
	return values
}

// tick writes a number on an axis.
func tick(v float64) string {
	if v >= 1000 {
		return group(strconv.FormatFloat(v, 'f', 0, 64))
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}

// growth draws a metric against the cases of a scenario, which are numbers.
func growth(r *result.Report, scenario, metric, title, xName string) *chart {
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
	c := newChart(title, xName, metric, chartHeight)
	c.x = logScale(xs[0], xs[len(xs)-1], c.Left+16, c.Right-16)
	c.vertical(lo, hi)
	for _, x := range xs {
		c.XTicks = append(c.XTicks, label{X: c.x(x), Y: c.Bottom + 18, Text: tick(x)})
	}
	for _, p := range r.Peers {
		list := points[p.Key]
		slices.SortFunc(list, func(a, b point) int { return cmp.Compare(a.x, b.x) })
		l := line{Key: p.Key, Title: p.Title}
		for _, pt := range list {
			x := c.x(pt.x)
			l.add(x, c.y(pt.y))
			l.Dots = append(l.Dots, dot{x, l.end, fmt.Sprintf("%s, %s: %s %s", p.Title, tick(pt.x), Number(pt.y), metric)})
		}
		c.append(l)
	}
	// The names of the lines are in the order of their ends.
	slices.SortStableFunc(c.Lines, func(a, b line) int { return cmp.Compare(a.end, b.end) })
	return c
}

// vertical gives the chart an axis of ratios.
func (c *chart) vertical(lo, hi float64) {
	lo, hi = lo/1.25, hi*1.25
	c.y = logScale(lo, hi, c.Bottom, c.Top)
	for _, v := range ticks(lo, hi) {
		c.YTicks = append(c.YTicks, label{X: c.Left - 8, Y: c.y(v), Text: tick(v)})
	}
}

func (l *line) add(x, y float64) {
	l.Path += fmt.Sprintf("%c%.1f %.1f", "ML"[min(len(l.Path), 1)], x, y)
	l.end = y
}

func (c *chart) append(l line) {
	if l.Path != "" {
		c.Lines = append(c.Lines, l)
	}
}

// shown is the percentile up to which distributions are drawn: the few samples
// beyond it would take most of the room.
const shown = 99

// distribution draws which share of the samples took at most how long.
func distribution(r *result.Report, scenario, caze, metric, title, xName string) *chart {
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
	lo = max(lo, 1)
	// The names of the lines are in the order of their medians.
	slices.SortStableFunc(list, func(a, b *result.Series) int { return cmp.Compare(a.Steps[50], b.Steps[50]) })
	c := newChart(title, xName, "share of samples", chartHeight)
	c.x = logScale(lo, max(hi, 2*lo), c.Left, c.Right-6)
	c.y = func(v float64) float64 { return c.Bottom - v*(c.Bottom-c.Top) }
	for _, v := range ticks(lo, hi) {
		c.XTicks = append(c.XTicks, label{X: c.x(v), Y: c.Bottom + 18, Text: tick(v)})
	}
	for _, v := range []float64{0, 0.25, 0.5, 0.75, 1} {
		c.YTicks = append(c.YTicks, label{X: c.Left - 8, Y: c.y(v), Text: fmt.Sprintf("%.0f %%", v*100)})
	}
	for _, s := range list {
		l := line{Key: s.Peer, Title: r.Title(s.Peer)}
		for i, v := range s.Steps[:shown+1] {
			l.add(c.x(v), c.y(float64(i)/float64(len(s.Steps)-1)))
		}
		c.append(l)
	}
	return c
}

// bars draws one figure of each contestant, the least first.
func bars(r *result.Report, scenario, caze, metric, title string) *chart {
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
	const step = 22.0
	c := newChart(title, metric+", by ratios", "", chartTop+step*float64(len(list))+chartBottom)
	c.Left, c.Right = 275, c.Right-46 // room for names, and for the figures
	lo /= 2
	c.x = logScale(lo, hi, 0, c.Right-c.Left)
	for _, v := range ticks(lo, hi) {
		c.XTicks = append(c.XTicks, label{X: c.Left + c.x(v), Y: c.Bottom + 18, Text: tick(v)})
	}
	for i, s := range list {
		c.Bars = append(c.Bars, bar{
			Key: s.Peer, Title: r.Title(s.Peer), Text: Number(s.Median), Y: c.Top + step*float64(i), W: max(2, c.x(s.Median)),
		})
	}
	return c
}
