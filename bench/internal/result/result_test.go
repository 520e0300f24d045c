package result

import (
	"strings"
	"testing"
)

func measured() *Report {
	r := &Report{}
	for round, v := range []float64{10, 30, 20} {
		r.Add("s", "1", "berth", "m", v, nil)
		r.Add("s", "1", "other", "m", []float64{5, 10, 40}[round], nil)
		r.Add("s", "2", "berth", "m", 4*v, nil)
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
		if v := measured().Judge(b); v.Value != tt.value || v.Result != tt.want {
			t.Errorf("%s: %v %s, want %v %s", tt.name, v.Value, v.Result, tt.value, tt.want)
		}
	}
}

func TestSeriesHasMedianSpreadAndSamples(t *testing.T) {
	t.Parallel()
	r := measured()
	s := r.Find("s", "1", "berth", "m")
	if s.Median != 20 || s.Min != 10 || s.Max != 30 || s.Steps != nil {
		t.Errorf("%+v", s)
	}
	r.Add("s", "1", "berth", "n", 2, []float64{3, 1})
	r.Add("s", "1", "berth", "n", 2, []float64{2})
	if n := r.Find("s", "1", "berth", "n"); len(n.Steps) != 101 || n.Steps[0] != 1 || n.Steps[50] != 2 || n.Steps[100] != 3 {
		t.Errorf("percentiles %v", n.Steps)
	}
	r.Drop("s")
	if len(r.Series) != 0 {
		t.Error("a dropped scenario still has figures")
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
