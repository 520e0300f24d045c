package chart

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/berth-go/berth/internal/judge"
)

// The measures of a timeline, in units of its drawing.
const (
	marginLeft  = 30.0
	marginRight = 8.0
	countTop    = 14.0
	countHeight = 64.0 // the curve of the number of permits
	rowGap      = 12.0 // between the curve and the rows
	axisHeight  = 20.0
)

// Box is a bar of a timeline. Its title shows under the pointer, its label on it.
type Box struct {
	X, Y, W, H          float64
	Class, Title, Label string
}

// Middle is the height of its middle, where its label stands.
func (b Box) Middle() float64 { return b.Y + b.H/2 }

// Timeline shows spans of time as bars in rows: what began when, and how long it took. Pages share
// the classes wait, held, over, stopped and fault of bars.
type Timeline struct {
	Title, Key, Caption, Describe string // Key is the class of its colour

	Width, Height, Left, Right, AxisY float64

	Bars   []Box
	Labels []Label
	// See Count. Curve and Excess are SVG paths.
	Over          []Box
	Curve, Excess string
	LimitY        float64

	window         judge.Span
	rowY, rowH     float64
	limit, highest int
}

// NewTimeline returns a timeline without bars of what is in the window.
func NewTimeline(title, key string, window judge.Span, width float64, rows int, rowHeight float64) *Timeline {
	t := &Timeline{Title: title, Key: key, Width: width, Left: marginLeft, Right: width - marginRight, window: window, rowH: rowHeight}
	t.AxisY = t.rowH*float64(rows) + 4
	t.Height = t.AxisY + axisHeight
	tick := niceStep(window.Length())
	for at := time.Duration(0); at <= window.Length(); at += tick {
		t.Labels = append(t.Labels, Label{t.x(window.From + at), t.AxisY + 13, strconv.FormatInt(at.Milliseconds(), 10), "middle"})
	}
	last := &t.Labels[len(t.Labels)-1]
	if last.X > t.Right-12 {
		last.Class, last.X = "end", t.Right
	}
	last.Text += " ms"
	return t
}

// niceStep returns a round fraction of d, about a fifth.
func niceStep(d time.Duration) time.Duration {
	for _, n := range []int{5, 10, 20, 25, 50, 100, 200, 250, 500, 1000, 2000, 5000, 10_000} {
		if step := time.Duration(n) * time.Millisecond; d <= 6*step {
			return step
		}
	}
	return max(time.Millisecond, d/5)
}

// Shows reports whether a span is in the window, at least in part.
func (t *Timeline) Shows(s judge.Span) bool { return s.From < t.window.To && s.To > t.window.From }

func (t *Timeline) x(at time.Duration) float64 {
	at = min(max(at, t.window.From), t.window.To)
	share := float64(at-t.window.From) / float64(max(1, t.window.Length()))
	return t.Left + share*(t.Right-t.Left)
}

// Bar draws what of a span is in the window in a row. A wait is a thin line.
func (t *Timeline) Bar(row int, s judge.Span, class, label, format string, args ...any) {
	if s.Length() == 0 || !t.Shows(s) {
		return
	}
	y, h := 0.14*t.rowH, 0.72*t.rowH
	if class == "wait" {
		y, h = 0.42*t.rowH, max(0.6, 0.16*t.rowH)
	}
	b := t.box(s, t.rowY+t.rowH*float64(row)+y, h, class, fmt.Sprintf(format, args...))
	b.Label = label
	t.Bars = append(t.Bars, b)
}

// box returns a box for a span of time, wide enough to be seen however short it is.
func (t *Timeline) box(s judge.Span, y, h float64, class, title string) Box {
	x := t.x(s.From)
	return Box{X: x, Y: y, W: max(0.8, t.x(s.To)-x), H: h, Class: class, Title: title}
}

// Count draws a curve of the number of permits that are held above the rows, with the moments in
// which they are more than the limit. Bars have to be drawn after it.
func (t *Timeline) Count(levels []judge.Level, moments []judge.Excess, limit int) {
	const below = countTop + countHeight + rowGap
	t.rowY, t.AxisY, t.Height = t.rowY+below, t.AxisY+below, t.Height+below
	for i := range t.Labels {
		t.Labels[i].Y += below
	}
	t.limit, t.highest = limit, limit+1
	for _, l := range levels {
		if l.At < t.window.To {
			t.highest = max(t.highest, l.Held)
		}
	}
	t.LimitY = t.level(limit)
	for _, m := range moments {
		if t.Shows(m.Span) {
			t.Over = append(t.Over, t.box(m.Span, countTop, t.AxisY-countTop, "moment", fmt.Sprintf("%d too many", m.By)))
		}
	}
	t.curves(levels)
	t.Labels = append(t.Labels, Label{t.Left - 5, t.LimitY + 3, strconv.Itoa(limit), "end"}, Label{t.Left - 5, t.level(0) + 3, "0", "end"})
	if t.highest > limit+1 {
		t.Labels = append(t.Labels, Label{t.Left - 5, countTop + 4, strconv.Itoa(t.highest), "end"})
	}
}

// level is the height of a number of permits.
func (t *Timeline) level(n int) float64 {
	return countTop + countHeight*(1-float64(n)/float64(t.highest))
}

// curves draws the number of permits and its excess over the limit.
func (t *Timeline) curves(levels []judge.Level) {
	var curve, excess strings.Builder
	fmt.Fprintf(&curve, "M%.1f %.1f", t.Left, t.level(0))
	fmt.Fprintf(&excess, "M%.1f %.1f", t.Left, t.LimitY)
	step := func(x float64, n int) {
		fmt.Fprintf(&curve, "H%.1fV%.1f", x, t.level(n))
		fmt.Fprintf(&excess, "H%.1fV%.1f", x, t.level(max(n, t.limit)))
	}
	n := 0
	for _, l := range levels {
		if l.At <= t.window.From {
			n = l.Held
		}
	}
	step(t.Left, n)
	for _, l := range levels {
		if l.At > t.window.From && l.At < t.window.To {
			n = l.Held
			step(t.x(l.At), n)
		}
	}
	step(t.Right, n)
	fmt.Fprintf(&curve, "V%.1fZ", t.level(0))
	fmt.Fprintf(&excess, "V%.1fZ", t.LimitY)
	t.Curve, t.Excess = curve.String(), excess.String()
}
