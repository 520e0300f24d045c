package result

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"golang.org/x/perf/benchfmt"

	"github.com/berth-go/berth/dev/bench/internal/trial"
)

func measured() *Report {
	r := &Report{Command: "go run ./dev/bench", Berth: "0123abc", Missing: []string{"other: not installed"}}
	r.Configure("goos", "linux")
	r.Configure("nothing", "")
	for round, v := range []float64{10, 30, 20} {
		r.Add("s", "1", "berth", []trial.Figure{{Metric: "m", Value: v}})
		r.Add("s", "1", "other", []trial.Figure{{Metric: "m", Value: []float64{5, 10, 40}[round]}})
		r.Add("s", "2", "berth", []trial.Figure{{Metric: "m", Value: 4 * v}})
	}
	return r
}

func TestJudgeTakesTheMedianOfTheRoundsRatios(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		bound Bound
		value float64
		want  string
	}{
		{"a figure", Bound{AtMost: new(20.0)}, 20, Met},
		{"a figure above", Bound{AtMost: new(19.0)}, 20, Missed},
		{"a ratio", Bound{Against: "other", AtLeast: new(2.0)}, 2, Met}, // of 2, 3 and 0.5
		{"a ratio below", Bound{Against: "other", AtLeast: new(2.1)}, 2, Missed},
		{"times faster", Bound{Against: "other", Invert: true, AtLeast: new(0.4)}, 0.5, Met},
		{"another case", Bound{Case: "2", Against: "berth", Base: "1", AtMost: new(4.0)}, 4, Met},
		{"between", Bound{AtLeast: new(1.0), AtMost: new(2.0)}, 20, Missed},
		{"nobody", Bound{Against: "nobody", AtMost: new(1e9)}, 0, Unmeasured},
		{"nowhere", Bound{Case: "3", AtMost: new(1e9)}, 0, Unmeasured},
	} {
		b := tt.bound
		b.Scenario, b.Metric = "s", "m"
		if b.Case == "" {
			b.Case = "1"
		}
		if v := measured().Judge(b); v.Center != tt.value || v.Result != tt.want {
			t.Errorf("%s: %v %s, want %v %s", tt.name, v.Center, v.Result, tt.value, tt.want)
		}
	}
}

func TestFiguresHaveMedianAndInterval(t *testing.T) {
	t.Parallel()
	r := measured()
	if s := Summarize(r.Values("s", "1", "berth", "m")); s.Center != 20 || s.Lo != 10 || s.Hi != 30 || !s.Bounded() {
		t.Errorf("%+v", s)
	}
	if s := Summarize([]float64{7}); s.Center != 7 || s.Bounded() {
		t.Errorf("one value: %+v", s)
	}
	if s := Summarize(nil); s.Center != 0 || s.Bounded() {
		t.Errorf("no value: %+v", s)
	}
	r.Add("s", "1", "berth", []trial.Figure{{Metric: "n", Value: 2}})
	if got := r.Metrics("s"); !slices.Equal(got, []string{"m", "n"}) {
		t.Errorf("metrics %v", got)
	}
	r.Drop("s")
	if len(r.Results) != 0 {
		t.Error("a dropped scenario still has figures")
	}
}

// What tells two builds apart is in comments: benchstat compares only what has the same configuration.
func TestFileIsInTheGoBenchmarkFormat(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	if err := measured().Write(&b); err != nil {
		t.Fatal(err)
	}
	var got []string
	in := benchfmt.NewReader(strings.NewReader(b.String()), "file")
	for in.Scan() {
		res, ok := in.Result().(*benchfmt.Result)
		if !ok {
			t.Fatalf("%v in\n%s", in.Result(), b.String())
		}
		if len(res.Config) != 1 || res.GetConfig("goos") != "linux" {
			t.Errorf("configuration %v", res.Config)
		}
		got = append(got, fmt.Sprint(res.Name, res.Values[0].Value, res.Values[0].Unit))
	}
	want := []string{"S/1/berth 10m", "S/1/other 5m", "S/2/berth 40m"}
	if err := in.Err(); err != nil || len(got) != 9 || !slices.Equal(got[:3], want) {
		t.Errorf("%q (%v)", got, err)
	}
	for _, comment := range []string{"# go run ./dev/bench\n", "# berth 0123abc\n", "# other: not installed\n"} {
		if !strings.Contains(b.String(), comment) {
			t.Errorf("%q is missing in\n%s", comment, b.String())
		}
	}
}

func TestRatiosKeepToTheRound(t *testing.T) {
	t.Parallel()
	if got := Ratios([]float64{2, 9, 5, 7}, []float64{1, 3, 0}); !slices.Equal(got, []float64{2, 3}) {
		t.Errorf("Ratios = %v, want [2 3]", got)
	}
}

func TestTargetsCanFail(t *testing.T) {
	t.Parallel()
	for _, b := range Targets() {
		if b.AtLeast == nil && b.AtMost == nil {
			t.Errorf("%+v always holds", b)
		}
		if b.Limit() == "" || len(b.Names()) == 0 || strings.Contains(b.Limit(), "%!") {
			t.Errorf("%+v: limit %q", b, b.Limit())
		}
	}
}
