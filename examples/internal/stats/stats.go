// Package stats has the arithmetic of the examples' reports.
package stats

import (
	"slices"
	"sync"
	"time"

	"github.com/berth-go/berth/internal/quantile"
)

// Durations are measured times.
type Durations []time.Duration

// Quantile returns the smallest of the times that at least the share q of all
// do not exceed; 0 if there are none.
func (d Durations) Quantile(q float64) time.Duration {
	return Round(quantile.Of(slices.Sorted(slices.Values(d)), q))
}

// Round rounds a time for people to read.
func Round(d time.Duration) time.Duration {
	switch {
	case d > 10*time.Second:
		return d.Round(100 * time.Millisecond)
	case d > 100*time.Millisecond:
		return d.Round(time.Millisecond)
	case d > time.Millisecond:
		return d.Round(100 * time.Microsecond)
	}
	return d.Round(time.Microsecond)
}

// Log collects times from several goroutines.
type Log struct {
	mu    sync.Mutex
	times Durations // guarded by mu
}

// Since adds the time since start.
func (l *Log) Since(start time.Time) {
	took := time.Since(start)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.times = append(l.times, took)
}

// Times returns the times. Since must not be called after it.
func (l *Log) Times() Durations { return l.times }
