// Package chart draws what reports show: charts of lines, timelines and tables, as SVG and HTML
// in pages without scripts or external resources, tables also as text.
package chart

import (
	_ "embed"
	"fmt"
	"html/template"
	"math"
	"strconv"
)

// The measures of a chart, in units of its drawing.
const (
	width  = 560.0
	left   = 66.0
	right  = 14.0
	top    = 24.0
	bottom = 44.0
)

//go:embed chart.html
var text string

// Page returns the template of a page. It may use the templates "head" of a title, which ends
// inside the style element that all reports share, "chart" of a Chart, "timeline" of a Timeline
// and "table" of a Table.
func Page(page string) *template.Template {
	return template.Must(template.Must(template.New("page").Parse(text)).Parse(page))
}

// Label is some text in a drawing. Its class is end or middle, for what is at X, or empty.
type Label struct {
	X, Y        float64
	Text, Class string
}

// Dot is one point of a line; its title shows under the pointer.
type Dot struct {
	X, Y  float64
	Title string
}

// Line is the line of one contestant. Key is the class of its colour.
type Line struct {
	Key, Title, Path string
	Dots             []Dot
	End              float64 // the height at which it ends
}

// Chart is a chart of lines.
type Chart struct {
	Title, XName, YName      string
	Width, Height            float64
	Left, Right, Top, Bottom float64
	Lines                    []Line
	XTicks, YTicks           []Label
	x, y                     func(float64) float64
}

// New returns a chart without axes.
func New(title, xName, yName string) *Chart {
	const height = 300.0
	return &Chart{Title: title, XName: xName, YName: yName, Width: width, Height: height, Left: left, Right: width - right, Top: top, Bottom: height - bottom}
}

// XLog gives the chart a logarithmic axis from lo to hi, with marks at the given values, or
// at round ones if there are none.
func (c *Chart) XLog(lo, hi float64, marks ...float64) *Chart {
	inset := 6.0
	if len(marks) > 0 {
		inset = 16
	} else {
		marks = Ticks(lo, hi)
	}
	c.x = logScale(lo, max(hi, 2*lo), c.Left+inset, c.Right-inset)
	for _, v := range marks {
		c.XTicks = append(c.XTicks, Label{c.x(v), c.Bottom + 18, Tick(v), "middle"})
	}
	return c
}

// YLog is XLog for the vertical axis, with some room at both ends.
func (c *Chart) YLog(lo, hi float64) *Chart {
	lo, hi = lo/1.25, hi*1.25
	c.y = logScale(lo, hi, c.Bottom, c.Top)
	for _, v := range Ticks(lo, hi) {
		c.YTicks = append(c.YTicks, Label{c.Left - 8, c.y(v), Tick(v), "end"})
	}
	return c
}

// YShare gives the chart an axis from 0 to 100 %.
func (c *Chart) YShare() *Chart {
	c.y = func(v float64) float64 { return c.Bottom - v*(c.Bottom-c.Top) }
	for _, v := range []float64{0, 0.25, 0.5, 0.75, 1} {
		c.YTicks = append(c.YTicks, Label{c.Left - 8, c.y(v), fmt.Sprintf("%.0f %%", v*100), "end"})
	}
	return c
}

// Add continues a line of the chart to a point, which has a dot if it has a title.
func (c *Chart) Add(l *Line, x, y float64, title string) {
	px, py := c.x(x), c.y(y)
	l.Path += fmt.Sprintf("%c%.1f %.1f", "ML"[min(len(l.Path), 1)], px, py)
	if l.End = py; title != "" {
		l.Dots = append(l.Dots, Dot{px, py, title})
	}
}

// Append adds a line to the chart, unless it has no points.
func (c *Chart) Append(l Line) {
	if l.Path != "" {
		c.Lines = append(c.Lines, l)
	}
}

// logScale returns a function that maps lo…hi to from…to logarithmically.
func logScale(lo, hi, from, to float64) func(float64) float64 {
	span := math.Log(hi) - math.Log(lo)
	return func(v float64) float64 {
		if span <= 0 {
			return from
		}
		return from + (to-from)*(math.Log(min(max(v, lo), hi))-math.Log(lo))/span
	}
}

// Ticks returns 1, 2 and 5 times the powers of ten between lo and hi, or only the powers
// if those are too many.
func Ticks(lo, hi float64) (values []float64) {
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

// Tick formats a number on an axis.
func Tick(v float64) string {
	if v >= 1000 {
		return Group(v)
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}

// Group formats a number without decimals and with grouped thousands: 10,000.
func Group[N int | float64](n N) string {
	digits := strconv.FormatFloat(float64(n), 'f', 0, 64)
	for i := len(digits) - 3; i > 0 && digits[i-1] != '-'; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}
