package report

import (
	"github.com/berth-go/berth/internal/chart"
	"github.com/berth-go/berth/lab/internal/scene"
)

// leastWait is where the axis of waits begins, in milliseconds. A shorter time is no wait.
const leastWait = 0.1

// waitChart shows which share of the requests waited at most how long.
func waitChart(list []*scene.Result) *chart.Chart {
	var all []chart.Series
	for _, r := range list {
		s := chart.Series{Key: r.Algorithm, Title: title(r.Title)}
		for _, d := range r.Sorted {
			s.Y = append(s.Y, scene.Millis(d))
		}
		all = append(all, s)
	}
	return chart.Distribution("Who waited how long", "waited at most (ms)", "share of requests", leastWait, 1, all)
}

// growthChart shows the cost of an acquire and release by the number of holders.
func growthChart(list []*scene.Result) *chart.Chart {
	var all []chart.Series
	for _, r := range list {
		s := chart.Series{Key: r.Algorithm, Title: title(r.Title)}
		for _, p := range r.Growth {
			s.X, s.Y = append(s.X, float64(p.Holders)), append(s.Y, p.P50US)
		}
		all = append(all, s)
	}
	return chart.Growth("An acquire and release, half of them faster", "other holders", "µs", all, micros)
}
