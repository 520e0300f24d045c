package berthwatch

import (
	"errors"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/berthadmin"
)

// Sample is the JSON form of a View: a line of "berth top --json".
type Sample struct {
	At         time.Time            `json:"at,omitzero"`
	Cost       float64              `json:"cost_ms"`            // of the server's time, at most
	RoundTrip  float64              `json:"round_trip_ms"`      // the mean of the last minute
	LongTrip   float64              `json:"round_trip_most_ms"` // the longest
	Semaphores []berthadmin.Summary `json:"semaphores"`
	Damaged    []Damaged            `json:"damaged"`
	Error      string               `json:"error,omitempty"` // why the sample is not up to date
}

// Damaged is a semaphore that cannot be read.
type Damaged struct {
	Name  string `json:"name"`
	Newer bool   `json:"newer"` // a newer berth wrote it
	Error string `json:"error"`
}

// failure returns why v is not up to date, or lacks names.
func (v *View) failure() error {
	if v.Err == nil && !v.Whole {
		return v.SearchErr
	}
	return v.Err
}

// Sample returns the JSON form of v, without idle semaphores.
func (v *View) Sample() Sample {
	s := Sample{
		At: v.At.UTC(), Cost: millis(v.Cost), RoundTrip: millis(v.Trips.Mean), LongTrip: millis(v.Trips.Most),
		Semaphores: []berthadmin.Summary{}, Damaged: []Damaged{},
	}
	for _, r := range v.Rows {
		switch {
		case r.Err != nil:
			var corrupt *berth.CorruptError
			newer := errors.As(r.Err, &corrupt) && corrupt.Newer
			s.Damaged = append(s.Damaged, Damaged{r.Name, newer, r.Err.Error()})
		case !r.Idle:
			s.Semaphores = append(s.Semaphores, r.Summary)
		}
	}
	if err := v.failure(); err != nil {
		s.Error = err.Error()
	}
	return s
}

func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
