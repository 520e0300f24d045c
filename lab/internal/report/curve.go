package report

import (
	"fmt"
	"math"
	"time"

	"github.com/berth-go/berth/internal/chart"
	"github.com/berth-go/berth/lab/internal/scene"
)

// leastWait is where the axis of waits begins: below it nobody has waited.
const leastWait = 0.1

// waitChart is which share of the requests waited at most how long.
func waitChart(list []*scene.Result) *chart.Chart {
	longest := 1.0
	for _, r := range list {
		if r.Waits != nil {
			longest = max(longest, r.Waits.MaxMS)
		}
	}
	c := chart.New("Who waited how long", "waited at most (ms)", "share of requests").XLog(leastWait, longest*1.05).YShare()
	for _, r := range list {
		l := chart.Line{Key: r.Algorithm, Title: title(r.Title)}
		// More points than the drawing has pixels would be wasted.
		n := len(r.Sorted)
		for i := 0; i < n; i += max(1, n/300) {
			c.Add(&l, wait(r.Sorted[i]), float64(i)/float64(n), "")
		}
		if n > 0 {
			c.Add(&l, wait(r.Sorted[n-1]), 1, "")
		}
		c.Append(l)
	}
	return c
}

func wait(d time.Duration) float64 { return max(leastWait, millis(d)) }

// growthChart is what an acquire and release cost with so many holders.
func growthChart(list []*scene.Result) *chart.Chart {
	var holders []float64
	for _, p := range list[0].Growth {
		holders = append(holders, float64(p.Holders))
	}
	lo, hi := math.Inf(1), 0.0
	for _, r := range list {
		for _, p := range r.Growth {
			lo, hi = min(lo, p.P50US), max(hi, p.P50US)
		}
	}
	c := chart.New("An acquire and release, half of them faster", "other holders", "µs").
		XLog(holders[0], holders[len(holders)-1], holders...).YLog(lo, hi)
	for _, r := range list {
		l := chart.Line{Key: r.Algorithm, Title: title(r.Title)}
		for _, p := range r.Growth {
			c.Add(&l, float64(p.Holders), p.P50US, fmt.Sprintf("%s holders: %s", chart.Group(p.Holders), micros(p.P50US)))
		}
		c.Append(l)
	}
	return c
}
