package stats

import (
	"testing"
	"time"
)

func TestQuantile(t *testing.T) {
	t.Parallel()
	var hundred Durations
	for i := range 100 {
		hundred = append(hundred, time.Duration(100-i)*time.Microsecond)
	}
	for q, want := range map[float64]int{0: 1, 0.5: 50, 0.99: 99, 1: 100} {
		if got := hundred.Quantile(q); got != time.Duration(want)*time.Microsecond {
			t.Errorf("the %v quantile is %v, want %dµs", q, got, want)
		}
	}
	if got := (Durations{}).Quantile(0.5); got != 0 {
		t.Errorf("the median of nothing is %v", got)
	}
}
