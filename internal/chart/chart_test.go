package chart_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/berth-go/berth/internal/chart"
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

func TestBarsAreAsLongAsTheirRatios(t *testing.T) {
	t.Parallel()
	c := chart.Barred("Commands", "commands", 3, 1, 16)
	for _, v := range []float64{1, 4, 16} {
		c.AddBar("k", "t", "x", v)
	}
	if a, b := c.Bars[1].W-c.Bars[0].W, c.Bars[2].W-c.Bars[1].W; a < 1 || a-b > 1e-9 || b-a > 1e-9 || c.Bars[1].Y <= c.Bars[0].Y {
		t.Errorf("bars: %+v", c.Bars)
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
