package chart

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/berth-go/berth/internal/quantile"
)

// Series holds the values of one contestant. X is nil if they are samples.
type Series struct {
	Key, Title string
	X, Y       []float64
}

// Growth returns a chart of values over the same numbers for all contestants, both axes logarithmic,
// or nil if there are fewer than two numbers. The names of the lines are in the order of their ends.
// The text that say returns for a value shows under the pointer.
func Growth(title, xName, yName string, list []Series, say func(y float64) string) *Chart {
	var xs []float64
	lo, hi := math.Inf(1), 0.0
	for _, s := range list {
		xs = append(xs, s.X...)
		for _, y := range s.Y {
			lo, hi = min(lo, y), max(hi, y)
		}
	}
	slices.Sort(xs)
	if xs = slices.Compact(xs); len(xs) < 2 {
		return nil
	}
	c := New(title, xName, yName).XLog(xs[0], xs[len(xs)-1], xs...).YLog(lo, hi)
	for _, s := range list {
		l := Line{Key: s.Key, Title: s.Title}
		for i, x := range s.X {
			c.Add(&l, x, s.Y[i], fmt.Sprintf("%s, %s %s: %s", s.Title, Tick(x), xName, say(s.Y[i])))
		}
		c.Append(l)
	}
	slices.SortStableFunc(c.Lines, func(a, b Line) int { return cmp.Compare(a.End, b.End) })
	return c
}

// Distribution returns a chart of the share of the sorted samples up to each value, as far as the
// share top, or nil if there are no samples. Values below least are drawn at least.
func Distribution(title, xName, yName string, least, top float64, list []Series) *Chart {
	lo, hi := math.Inf(1), 0.0
	for _, s := range list {
		if len(s.Y) > 0 {
			lo, hi = min(lo, s.Y[0]), max(hi, quantile.Of(s.Y, top))
		}
	}
	if hi == 0 {
		return nil
	}
	c := New(title, xName, yName).XLog(max(lo, least), hi).YShare()
	const steps = 200 // the drawing has no pixels for more points
	for _, s := range list {
		l := Line{Key: s.Key, Title: s.Title}
		for i := 0; len(s.Y) > 0 && i <= int(steps*top); i++ {
			share := float64(i) / steps
			c.Add(&l, max(least, quantile.Of(s.Y, share)), share, "")
		}
		c.Append(l)
	}
	return c
}
