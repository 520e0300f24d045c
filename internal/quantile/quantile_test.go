package quantile

import "testing"

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
