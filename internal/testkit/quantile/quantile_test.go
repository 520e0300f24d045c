package quantile

import (
	"slices"
	"testing"
)

func TestMedianIsTheMiddle(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		values []float64
		want   float64
	}{
		{nil, 0},
		{[]float64{3}, 3},
		{[]float64{9, 1}, 5},
		{[]float64{9, 1, 2}, 2},
	} {
		before := slices.Clone(tt.values)
		if got := Median(tt.values); got != tt.want || !slices.Equal(before, tt.values) {
			t.Errorf("Median(%v) = %v, want %v", before, got, tt.want)
		}
	}
}

func TestQuantilesDoNotInterpolate(t *testing.T) {
	t.Parallel()
	hundred := make([]int, 100)
	for i := range hundred {
		hundred[i] = i + 1
	}
	for q, want := range map[float64]int{0: 1, 0.5: 50, 0.99: 99, 1: 100} {
		if got := Of(hundred, q); got != want {
			t.Errorf("Of(1…100, %v) = %d, want %d", q, got, want)
		}
	}
	if got := Of[int](nil, 0.5); got != 0 {
		t.Errorf("the quantile of nothing is %d", got)
	}
}
