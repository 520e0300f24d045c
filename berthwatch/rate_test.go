package berthwatch

import (
	"errors"
	"testing"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/berthadmin"
)

// TestRatesAreReadAsPeopleWriteThem, and written so that they are read as the same.
func TestRatesAreReadAsPeopleWriteThem(t *testing.T) {
	const day = 24 * time.Hour
	for text, want := range map[string]berthadmin.Rate{
		"60/1m":            {N: 60, Per: time.Minute},
		"5/s":              {N: 5, Per: time.Second},
		"10/min":           {N: 10, Per: time.Minute},
		"5000/hour":        {N: 5000, Per: time.Hour},
		"1/d":              {N: 1, Per: day},
		"9/30d":            {N: 9, Per: 30 * day},
		"1/90":             {N: 1, Per: 90 * time.Second},
		"tokens=90000/1m":  {Unit: "tokens", N: 90000, Per: time.Minute},
		"api=2/1s+40":      {Unit: "api", N: 2, Per: time.Second, Burst: 40},
		"1/s+10":           {N: 1, Per: time.Second, Burst: 10},
		"none":             {},
		"tokens=none":      {Unit: "tokens"},
		"a-1_b=3/100ms+12": {Unit: "a-1_b", N: 3, Per: 100 * time.Millisecond, Burst: 12},
	} {
		got, err := ParseRate(text)
		if err != nil || got != want {
			t.Errorf("%q: %+v, %v, want %+v", text, got, err, want)
		}
		if back, err := ParseRate(RateFlag(got)); err != nil || back != want {
			t.Errorf("%q is written %q, which is read as %+v, %v", text, RateFlag(got), back, err)
		}
	}
	for _, text := range []string{
		"", "60", "/1m", "60/", "0/1m", "-1/1m", "60/0s", "60/-1m", "x/1m", "60/soon", "=60/1m", "Tokens=60/1m", "none=60/1m", "a b=1/s",
		"1/s+", "1/s+0", "1/s+x", "1/s+-1", "tokens=", "tokens=1", "none/1m", "1.5/s", "waytoolongforaunit=1/s",
	} {
		if got, err := ParseRate(text); !errors.Is(err, berth.ErrInvalid) {
			t.Errorf("%q: %+v, %v, want ErrInvalid", text, got, err)
		}
	}
}
