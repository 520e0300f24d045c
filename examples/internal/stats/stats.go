// Package stats measures the calls of the examples' clients.
package stats

import (
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/berth-go/berth/internal/quantile"
)

// Durations are measured times.
type Durations []time.Duration

// Measure has so many clients call f at once, each of them so many times, one call after
// the other, and returns how long the calls took. A client stops at its first error.
func Measure(clients, calls int, f func(client int) error) (Durations, error) {
	took := make([]Durations, clients)
	var all errgroup.Group
	for client := range clients {
		all.Go(func() error {
			for range calls {
				start := time.Now()
				if err := f(client); err != nil {
					return err
				}
				took[client] = append(took[client], time.Since(start))
			}
			return nil
		})
	}
	err := all.Wait()
	return slices.Concat(took...), err
}

// Quantile returns the smallest of the times that at least the share q of all
// do not exceed; 0 if there are none.
func (d Durations) Quantile(q float64) time.Duration {
	return Round(quantile.Of(slices.Sorted(slices.Values(d)), q))
}

// Round rounds a time to three digits, for people to read, but no finer than to a µs.
func Round(d time.Duration) time.Duration {
	unit := time.Microsecond
	for d >= 1000*unit {
		unit *= 10
	}
	return d.Round(unit)
}
