// Package stat has the arithmetic of the benchmarks. All its functions are pure.
package stat

import "github.com/berth-go/berth/internal/quantile"

// Steps returns n+1 values of the sorted ones, at equal distances from the
// least to the largest; nil without values.
func Steps(sorted []float64, n int) []float64 {
	if len(sorted) == 0 {
		return nil
	}
	steps := make([]float64, n+1)
	for i := range steps {
		steps[i] = quantile.Of(sorted, float64(i)/float64(n))
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
