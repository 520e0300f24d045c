package report

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/berth-go/berth/dev/lab/internal/scene"
	"github.com/berth-go/berth/internal/judge"
)

// The measures of a timeline, in units of its drawing.
const (
	timelineWidth = 560.0
	marginLeft    = 30.0
	marginRight   = 8.0
	countHeight   = 64.0 // the curve of the number of holders
	countTop      = 14.0
	laneGap       = 12.0 // between the curve and the lanes
	lanesHeight   = 170.0
	axisHeight    = 20.0
)

// rect is a box of a drawing.
type rect struct {
	X, Y, W, H float64
	Class      string
	Title      string // shown under the pointer
}

// label is a text of a drawing.
type label struct {
	X, Y  float64
	Text  string
	Class string
}

// timeline shows one algorithm's leases in one scenario: a curve of their number, and
// under it a lane for each client.
type timeline struct {
	Title, Key     string
	Caption        string
	Width, Height  float64
	Bars           []rect
	Over           []rect // moments over the limit
	Curve, Excess  string // SVG paths
	LimitY, Left   float64
	Right, AxisY   float64
	Labels         []label
	Describe       string
	window         judge.Span
	laneY, laneH   float64
	lanes          []int // the clients, from top to bottom
	limit, highest int
}

func newTimeline(r *scene.Result) *timeline {
	t := &timeline{
		Title: title(r.Title), Key: r.Algorithm, Width: timelineWidth, window: r.Window,
		Left: marginLeft, Right: timelineWidth - marginRight, limit: r.Limit,
	}
	t.assign(r.Requests)
	t.highest = r.Limit + 1
	for _, l := range judge.Levels(r.Requests) {
		if l.At < r.Window.To {
			t.highest = max(t.highest, l.Held)
		}
	}
	t.laneY = countTop + countHeight + laneGap
	t.laneH = min(14, lanesHeight/float64(max(1, len(t.lanes))))
	t.AxisY = t.laneY + t.laneH*float64(len(t.lanes)) + 4
	t.Height = t.AxisY + axisHeight
	t.LimitY = t.level(r.Limit)
	t.draw(r)
	t.curves(judge.Levels(r.Requests))
	t.axis()
	t.caption(r)
	return t
}

// assign gives each client that appears in the window a lane.
func (t *timeline) assign(requests []judge.Request) {
	for _, r := range requests {
		if t.shows(judge.Span{From: r.Asked, To: r.End}) && !slices.Contains(t.lanes, r.Client) {
			t.lanes = append(t.lanes, r.Client)
		}
	}
	slices.Sort(t.lanes)
}

// shows reports whether a span is in the window, at least in part.
func (t *timeline) shows(s judge.Span) bool { return s.From < t.window.To && s.To > t.window.From }

func (t *timeline) x(at time.Duration) float64 {
	at = min(max(at, t.window.From), t.window.To)
	share := float64(at-t.window.From) / float64(max(1, t.window.Length()))
	return t.Left + share*(t.Right-t.Left)
}

// level returns the height of the curve for a number of holders.
func (t *timeline) level(holders int) float64 {
	return countTop + countHeight*(1-float64(min(holders, t.highest))/float64(t.highest))
}

func (t *timeline) draw(r *scene.Result) {
	requests := slices.SortedStableFunc(slices.Values(r.Requests), func(a, b judge.Request) int { return cmp.Compare(a.Asked, b.Asked) })
	for _, q := range requests {
		if !t.shows(judge.Span{From: q.Asked, To: q.End}) {
			continue
		}
		lane := slices.Index(t.lanes, q.Client)
		t.bar(lane, judge.Span{From: q.Asked, To: q.Asked + q.Waited()}, "wait", "client %d waits %s", q.Client, took(q.Waited()))
		if q.Granted {
			t.bar(lane, q.Stopped, "stopped", "stopped")
		}
		for _, s := range q.Beliefs() {
			t.bar(lane, s, "held", "client %d holds for %s", q.Client, took(s.Length()))
			for _, m := range r.Moments {
				both := judge.Span{From: max(s.From, m.From), To: min(s.To, m.To)}
				t.bar(lane, both, "over", "client %d holds, %d too many do", q.Client, m.By)
			}
		}
	}
	for _, m := range r.Moments {
		if t.shows(m.Span) {
			t.Over = append(t.Over, t.box(m.Span, countTop, t.AxisY-countTop, "moment", fmt.Sprintf("%d too many", m.By)))
		}
	}
}

// bar draws a span of time in a lane.
func (t *timeline) bar(lane int, s judge.Span, class, format string, args ...any) {
	if s.Length() == 0 || !t.shows(s) {
		return
	}
	y, h := 0.14*t.laneH, 0.72*t.laneH
	if class == "wait" {
		y, h = 0.42*t.laneH, max(0.6, 0.16*t.laneH)
	}
	t.Bars = append(t.Bars, t.box(s, t.laneY+t.laneH*float64(lane)+y, h, class, fmt.Sprintf(format, args...)))
}

// box returns a box for a span of time, wide enough to be seen however short it is.
func (t *timeline) box(s judge.Span, y, h float64, class, title string) rect {
	x := t.x(s.From)
	return rect{X: x, Y: y, W: max(0.8, t.x(s.To)-x), H: h, Class: class, Title: title}
}

// curves draws the number of holders and its excess over the limit.
func (t *timeline) curves(levels []judge.Level) {
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

func (t *timeline) axis() {
	t.Labels = append(t.Labels,
		label{t.Left - 5, t.LimitY + 3, strconv.Itoa(t.limit), "end"},
		label{t.Left - 5, t.level(0) + 3, "0", "end"},
	)
	if t.highest > t.limit+1 {
		t.Labels = append(t.Labels, label{t.Left - 5, countTop + 4, strconv.Itoa(t.highest), "end"})
	}
	tick := niceStep(t.window.Length())
	for at := time.Duration(0); at <= t.window.Length(); at += tick {
		t.Labels = append(t.Labels, label{t.x(t.window.From + at), t.AxisY + 13, strconv.FormatInt(at.Milliseconds(), 10), "middle"})
	}
	last := &t.Labels[len(t.Labels)-1]
	if last.X > t.Right-12 {
		last.Class, last.X = "end", t.Right
	}
	last.Text += " ms"
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

func (t *timeline) caption(r *scene.Result) {
	switch run := time.Duration(r.Seconds * float64(time.Second)); {
	case t.window.Length() >= run-time.Millisecond:
		t.Caption = "the whole run"
	case r.Waits != nil && r.Scenario == "fairness":
		t.Caption = "the first round"
	case len(r.Moments) > 0:
		t.Caption = fmt.Sprintf("%d ms of the run, where it was worst", t.window.Length().Milliseconds())
	default:
		t.Caption = fmt.Sprintf("%d ms from the middle of the run", t.window.Length().Milliseconds())
	}
	t.Describe = fmt.Sprintf("Timeline of %s: %d moments over the limit in the run.", t.Title, len(r.Moments))
}

func took(d time.Duration) string { return ms(scene.Millis(d)) }
