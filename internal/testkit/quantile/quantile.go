// Package quantile computes quantiles for tests, tools and examples.
package quantile

import (
	"cmp"
	"math"
	"slices"
)

// Of returns the q-quantile of sorted values, without interpolation (the nearest rank), or
// the zero value if there are none.
func Of[T cmp.Ordered](sorted []T, q float64) (v T) {
	if len(sorted) == 0 {
		return v
	}
	return sorted[max(0, min(len(sorted)-1, int(math.Ceil(q*float64(len(sorted))))-1))]
}

// Median returns the median of the values: the mean of the two middle ones if their number
// is even, and 0 if there are none.
func Median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	mid := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[mid]
	}
	return (sorted[mid-1] + sorted[mid]) / 2
}
