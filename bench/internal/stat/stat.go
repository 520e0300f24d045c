// Package stat has the arithmetic of the benchmarks. All its functions are pure.
package stat

import (
	"cmp"
	"math"
	"slices"
)

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

// Quantile returns the value that a share of q of the sorted ones do not
// exceed; the zero value without any.
func Quantile[T cmp.Ordered](sorted []T, q float64) (v T) {
	if len(sorted) == 0 {
		return v
	}
	return sorted[max(0, min(len(sorted)-1, int(math.Ceil(q*float64(len(sorted))))-1))]
}

// Steps returns n+1 values of the sorted ones, at equal distances from the
// least to the largest; nil without values.
func Steps(sorted []float64, n int) []float64 {
	if len(sorted) == 0 {
		return nil
	}
	steps := make([]float64, n+1)
	for i := range steps {
		steps[i] = Quantile(sorted, float64(i)/float64(n))
	}
	return steps
}

// Ratios divides each value by the one that was measured in the same round. It
// is as long as the shorter of the two; rounds with a divisor of 0 are left out.
func Ratios(values, by []float64) []float64 {
	var ratios []float64
	for i := range min(len(values), len(by)) {
		if by[i] != 0 {
			ratios = append(ratios, values[i]/by[i])
		}
	}
	return ratios
}

// Jain returns Jain's index of fairness, from 1/n (one has everything) to 1
// (all have the same); 1 if nobody has anything.
func Jain(shares []int) float64 {
	var sum, squares float64
	for _, s := range shares {
		sum += float64(s)
		squares += float64(s) * float64(s)
	}
	if squares == 0 {
		return 1
	}
	return sum * sum / (float64(len(shares)) * squares)
}
