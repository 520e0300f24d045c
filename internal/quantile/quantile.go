// Package quantile has the order statistics of tests, tools and examples.
package quantile

import (
	"cmp"
	"math"
	"slices"
)

// Of returns the value that a share of q of the sorted ones do not exceed, without
// interpolation (the nearest rank); the zero value without any.
func Of[T cmp.Ordered](sorted []T, q float64) (v T) {
	if len(sorted) == 0 {
		return v
	}
	return sorted[max(0, min(len(sorted)-1, int(math.Ceil(q*float64(len(sorted))))-1))]
}

// Median returns the middle of the values, the mean of the two middle ones if
// their number is even; 0 without values.
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
