package chart_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/berth-go/berth/dev/internal/chart"
	"github.com/berth-go/berth/internal/judge"
)

func TestChartHasItsLinesAndMarks(t *testing.T) {
	t.Parallel()
	c := chart.New("Throughput", "goroutines", "pairs/s").XLog(1, 256, 1, 16, 256).YLog(1000, 100_000)
	l := chart.Line{Key: "berth", Title: "berth <1>"}
	c.Add(&l, 1, 1000, "one")
	c.Add(&l, 256, 100_000, "")
	c.Append(l)
	c.Append(chart.Line{Key: "none"})
	if len(c.Lines) != 1 || len(c.Lines[0].Dots) != 1 || !strings.HasPrefix(l.Path, "M82.0 ") || strings.Count(l.Path, "L") != 1 {
		t.Errorf("lines: %+v", c.Lines)
	}
	var out strings.Builder
	if err := chart.Page(`{{template "head" "t"}}</style>{{template "chart" .}}`).Execute(&out, c); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`<g class="berth">`, "berth &lt;1&gt;", ">256<", ">10,000<", ".legend"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the page lacks %s", want)
		}
	}
}

func TestTimelineShowsItsWindow(t *testing.T) {
	t.Parallel()
	span := func(from, to int) judge.Span {
		return judge.Span{From: time.Duration(from) * time.Millisecond, To: time.Duration(to) * time.Millisecond}
	}
	tl := chart.NewTimeline("<s>", "berth", span(100, 200), 1000, 2, 14)
	tl.Count([]judge.Level{{At: span(90, 0).From, Held: 1}, {At: span(150, 0).From, Held: 3}}, []judge.Excess{{Span: span(150, 300), By: 2}}, 1)
	tl.Bar(0, span(90, 150), "held", "its label", "its %s", "title")
	tl.Bar(1, span(150, 150), "held", "", "nothing")
	tl.Bar(1, span(200, 210), "held", "", "too late")
	tl.Bar(1, span(190, 210), "wait", "", "to the end")
	if len(tl.Bars) != 2 || tl.Bars[0].X != tl.Left || tl.Bars[1].X+tl.Bars[1].W != tl.Right || len(tl.Over) != 1 {
		t.Errorf("bars %+v, over %+v", tl.Bars, tl.Over)
	}
	for _, b := range tl.Bars {
		if b.Y < tl.AxisY-2*14-4 || b.Y+b.H > tl.AxisY {
			t.Errorf("a bar is not in its row: %+v", b)
		}
	}
	if a, b := tl.Bars[0], tl.Bars[1]; b.Y-a.Y < 14 || b.H >= a.H/2 {
		t.Errorf("a wait is a thin line in the row below: %+v and %+v", a, b)
	}
	var out strings.Builder
	if err := chart.Page(`{{template "timeline" .}}`).Execute(&out, tl); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"&lt;s&gt;", ">its label<", "<title>its title</title>", `class="limit"`, ">100 ms<", `class="moment"`, ">3<"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the drawing lacks %s:\n%s", want, out.String())
		}
	}
	if strings.Contains(out.String(), "NaN") || !strings.Contains(tl.Curve, "H511.0V") {
		t.Errorf("the curve does not rise in the middle: %s", tl.Curve)
	}
}

func TestTicksAreRound(t *testing.T) {
	t.Parallel()
	if got := chart.Ticks(3, 60); !slices.Equal(got, []float64{5, 10, 20, 50}) {
		t.Errorf("3 to 60: %v", got)
	}
	if got := chart.Ticks(1, 1000); !slices.Equal(got, []float64{1, 10, 100, 1000}) {
		t.Errorf("1 to 1,000: %v", got)
	}
}

func TestTableIsTheSameInTextAndPage(t *testing.T) {
	t.Parallel()
	table := chart.Table{Heads: []string{"a", "b"}, Rows: []chart.Row{
		{Key: "k", Title: "one & two", Cells: append(chart.Cells("1"), chart.Judged("2", true))},
		{Key: "l", Title: "three", Cells: append(chart.Cells("30"), chart.Judged("4", false))},
	}}
	var text, page strings.Builder
	if err := table.Write(&text, "name"); err != nil {
		t.Fatal(err)
	}
	if want := "  name       a   b\n  one & two  1   2\n  three      30  4\n"; text.String() != want {
		t.Errorf("%q, want %q", text.String(), want)
	}
	if err := chart.Page(`{{template "table" .}}`).Execute(&page, table); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"<th>b</th>", `<tr class="k"><th>one &amp; two</th>`, `<td class="good">2</td>`, `<td class="bad">4</td>`} {
		if !strings.Contains(page.String(), want) {
			t.Errorf("the page lacks %s: %s", want, page.String())
		}
	}
}

func TestLinesNeedValues(t *testing.T) {
	t.Parallel()
	say := func(float64) string { return "" }
	one := chart.Series{Key: "k", X: []float64{1}, Y: []float64{5}}
	two := chart.Series{Key: "l", X: []float64{1, 10}, Y: []float64{9, 2}}
	if c := chart.Growth("", "", "", []chart.Series{one, {Key: "m"}}, say); c != nil {
		t.Errorf("a line over one number: %+v", c)
	}
	if c := chart.Growth("", "", "", []chart.Series{one, two}, say); c == nil || len(c.Lines) != 2 || c.Lines[0].Key != "k" {
		t.Errorf("lines %+v, want k and l, in the order of their ends", c)
	}
	if c := chart.Distribution("", "", "", 1, 1, []chart.Series{{Key: "m"}}); c != nil {
		t.Errorf("a distribution of nothing: %+v", c)
	}
	if c := chart.Distribution("", "", "", 1, 0.99, []chart.Series{{Key: "k", Y: []float64{0.1, 2, 3}}, {Key: "m"}}); c == nil || len(c.Lines) != 1 {
		t.Errorf("distribution %+v, want one line", c)
	}
}
