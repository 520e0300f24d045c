package reach

import (
	"errors"
	"testing"
	"time"
)

// TestSilenceCountsOnlyIfHeard: a process that is late itself learns nothing.
func TestSilenceCountsOnlyIfHeard(t *testing.T) {
	for name, c := range map[string]struct {
		gaps   []time.Duration // between ticks, over and over
		behind int             // of so many ticks, only at one all that was ready has had its turn
		away   bool
		took   time.Duration
	}{
		"prompt":          {[]time.Duration{pace}, 1, true, mostSilence},
		"a bit late":      {[]time.Duration{pace, 3 * pace / 2}, 1, true, mostSilence * 5 / 4},
		"late":            {[]time.Duration{3 * pace}, 1, false, 10200 * time.Millisecond},
		"late at once":    {[]time.Duration{time.Minute}, 1, false, time.Minute},
		"half late":       {[]time.Duration{pace, 2 * pace}, 1, true, 8800 * time.Millisecond},
		"others wait":     {[]time.Duration{pace}, 1000, false, most},
		"others wait now": {[]time.Duration{pace}, 2, true, 2 * mostSilence},
	} {
		began := time.Now()
		v, now := vigil{began: began, last: began}, began
		var err error
		for i := 0; err == nil; i++ {
			now = now.Add(c.gaps[i%len(c.gaps)])
			err = v.tick(now, (i+1)%c.behind == 0)
		}
		if took := now.Sub(began); errors.Is(err, ErrAway) != c.away || took != c.took {
			t.Errorf("%s: %v after %v", name, err, took)
		}
	}
}
