package report

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/berth-go/berth/cmd/berth/internal/lab/scene"
)

// The measures of a chart.
const (
	chartWidth  = 560.0
	chartHeight = 260.0
	chartLeft   = 52.0
	chartRight  = 14.0
	chartTop    = 24.0
	chartBottom = 44.0
)

// line is one algorithm in a chart.
type line struct {
	Key, Title string
	Path       string
	Dots       []rect // X and Y alone, with a title
}

// chart is some lines over axes.
type chart struct {
	Title, XName, YName      string
	Width, Height            float64
	Left, Right, Top, Bottom float64
	Lines                    []line
	XTicks, YTicks           []label
	x, y                     func(float64) float64
}

func newChart(title, xName, yName string) *chart {
	return &chart{
		Title: title, XName: xName, YName: yName, Width: chartWidth, Height: chartHeight,
		Left: chartLeft, Right: chartWidth - chartRight, Top: chartTop, Bottom: chartHeight - chartBottom,
	}
}

// logScale maps lo…hi to from…to, by ratios.
func logScale(lo, hi, from, to float64) func(float64) float64 {
	span := math.Log(hi) - math.Log(lo)
	return func(v float64) float64 {
		return from + (to-from)*(math.Log(min(max(v, lo), hi))-math.Log(lo))/span
	}
}

// leastWait is where the axis of waits begins: below it nobody has waited.
const leastWait = 0.1

// waitChart is which share of the requests waited at most how long.
func waitChart(list []*scene.Result) *chart {
	longest := 1.0
	for _, r := range list {
		if r.Waits != nil {
			longest = max(longest, r.Waits.MaxMS)
		}
	}
	c := newChart("Who waited how long", "waited at most (ms)", "share of requests")
	c.x = logScale(leastWait, longest*1.05, c.Left, c.Right)
	c.y = func(v float64) float64 { return c.Bottom - v*(c.Bottom-c.Top) }
	for v := leastWait; v <= longest; v *= 10 {
		c.XTicks = append(c.XTicks, label{X: c.x(v), Y: c.Bottom + 18, Text: fmt.Sprint(v)})
	}
	for _, v := range []float64{0, 0.25, 0.5, 0.75, 1} {
		c.YTicks = append(c.YTicks, label{X: c.Left - 6, Y: c.y(v), Text: fmt.Sprintf("%.0f %%", v*100)})
	}
	for _, r := range list {
		if len(r.Sorted) > 0 {
			c.Lines = append(c.Lines, c.waits(r))
		}
	}
	return c
}

func (c *chart) waits(r *scene.Result) line {
	var b strings.Builder
	n := len(r.Sorted)
	fmt.Fprintf(&b, "M%.1f %.1f", c.x(wait(r.Sorted[0])), c.y(0))
	// More points than the drawing has pixels would be wasted.
	stride := max(1, n/300)
	for i := 0; i < n; i += stride {
		fmt.Fprintf(&b, "L%.1f %.1f", c.x(wait(r.Sorted[i])), c.y(float64(i+1)/float64(n)))
	}
	fmt.Fprintf(&b, "L%.1f %.1f", c.x(wait(r.Sorted[n-1])), c.y(1))
	return line{Key: r.Algorithm, Title: title(r.Title), Path: b.String()}
}

func wait(d time.Duration) float64 { return max(leastWait, millis(d)) }

// growthChart is what an acquire and release cost with so many holders.
func growthChart(list []*scene.Result) *chart {
	points := list[0].Growth
	lo, hi := math.Inf(1), 0.0
	for _, r := range list {
		for _, p := range r.Growth {
			lo, hi = min(lo, p.P50US), max(hi, p.P50US)
		}
	}
	c := newChart("An acquire and release, half of them faster", "other holders", "µs")
	c.x = logScale(float64(points[0].Holders), float64(points[len(points)-1].Holders), c.Left+20, c.Right)
	c.y = logScale(lo/1.3, hi*1.3, c.Bottom, c.Top)
	for _, p := range points {
		c.XTicks = append(c.XTicks, label{X: c.x(float64(p.Holders)), Y: c.Bottom + 18, Text: group(p.Holders)})
	}
	for _, v := range []float64{10, 30, 100, 300, 1000, 3000, 10_000, 30_000, 100_000} {
		if v > lo/1.3 && v < hi*1.3 {
			c.YTicks = append(c.YTicks, label{X: c.Left - 6, Y: c.y(v), Text: group(int(v))})
		}
	}
	for _, r := range list {
		c.Lines = append(c.Lines, c.growth(r))
	}
	return c
}

func (c *chart) growth(r *scene.Result) line {
	l := line{Key: r.Algorithm, Title: title(r.Title)}
	var b strings.Builder
	for i, p := range r.Growth {
		x, y := c.x(float64(p.Holders)), c.y(p.P50US)
		fmt.Fprintf(&b, "%c%.1f %.1f", "ML"[min(i, 1)], x, y)
		l.Dots = append(l.Dots, rect{X: x, Y: y, Title: fmt.Sprintf("%s holders: %s", group(p.Holders), micros(p.P50US))})
	}
	l.Path = b.String()
	return l
}
