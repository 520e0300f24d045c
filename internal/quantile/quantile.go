// Package quantile computes quantiles for the command, tools, examples and tests.
package quantile

import (
	"cmp"
	"math"
)

// Of returns the q-quantile of sorted values, without interpolation (the nearest rank), or
// the zero value if there are none.
func Of[T cmp.Ordered](sorted []T, q float64) (v T) {
	if len(sorted) == 0 {
		return v
	}
	return sorted[max(0, min(len(sorted)-1, int(math.Ceil(q*float64(len(sorted))))-1))]
}
