package berthwatch

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/internal/words"
)

// TripBounds are the bounds of RoundTrips.Within.
var TripBounds = []time.Duration{
	time.Millisecond, 5 * time.Millisecond, 25 * time.Millisecond, 100 * time.Millisecond, 250 * time.Millisecond, time.Second, 2500 * time.Millisecond,
}

const (
	// slowTrip is the mean from which Redis is slow: far above what one network of servers takes.
	slowTrip = 25 * time.Millisecond
	// recent is the time of which RoundTrips has the mean.
	recent = time.Minute
)

// RoundTrips are those of a PING about each second, as this process sees them: if the server, the
// network or this process stands still, they are long. One that is given up counts for as long as it
// was waited for, and one that fails at once, because there is no connection, not at all.
type RoundTrips struct {
	Mean, Most time.Duration // in the last minute; 0: there was none

	Count  uint64        // since the sampler was made
	Sum    time.Duration // of all
	Within []uint64      // how many took at most as long as each of the TripBounds
}

// Slow reports whether Redis, or the way to it, is slower than it should be, or stands still again
// and again.
func (r *RoundTrips) Slow() bool { return r.Mean >= slowTrip }

// Text says the mean, as in "Redis answers in 0.3 ms", and the longest if Redis is slow; "" if
// there was none.
func (r *RoundTrips) Text() string {
	switch {
	case r.Mean == 0:
		return ""
	case r.Slow():
		return "Redis answers in " + words.Millis(r.Mean) + ", at most " + words.Millis(r.Most)
	}
	return "Redis answers in " + words.Millis(r.Mean)
}

// trips measures round trips.
type trips struct {
	all  RoundTrips
	last []trip // of the last minute
}

type trip struct {
	at   time.Time
	took time.Duration
}

func (t *trips) add(at time.Time, took time.Duration) {
	took = max(took, 1)
	t.last = append(t.last, trip{at, took})
	t.all.Count++
	t.all.Sum += took
	if t.all.Within == nil {
		t.all.Within = make([]uint64, len(TripBounds))
	}
	for i, bound := range TripBounds {
		if took <= bound {
			t.all.Within[i]++
		}
	}
}

// as returns what is known at a moment.
func (t *trips) as(now time.Time) RoundTrips {
	t.last = slices.DeleteFunc(t.last, func(one trip) bool { return now.Sub(one.at) > recent })
	r := t.all
	r.Within = slices.Clone(r.Within)
	for _, one := range t.last {
		r.Mean, r.Most = r.Mean+one.took, max(r.Most, one.took)
	}
	r.Mean /= time.Duration(max(len(t.last), 1))
	return r
}

// ping makes a round trip, and notes how long it took.
func (s *Sampler) ping(ctx context.Context) error {
	sent := time.Now()
	err := s.ask(ctx, s.gauge.plain.Ping)
	if took := time.Since(sent); answered(err) || took >= quiet && ctx.Err() == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.trips.add(time.Now(), took)
	}
	return err
}

// feel asks Redis whether it is there, and how long it takes to answer, until ctx ends. It asks at
// random moments, and does not wait for earlier answers: else those moments would mostly be the ones
// in which a Redis runs that stands still again and again.
func (s *Sampler) feel(ctx context.Context) {
	var pings sync.WaitGroup
	defer pings.Wait()
	ask := time.Now()
	for next := ask; rest(ctx, time.Until(next)); {
		s.mu.Lock()
		now := time.Now()
		due := !now.Before(ask)
		if due {
			ask = now.Add(beat - rand.N(beat*2/5))
		}
		next = ask
		if until, waiting := s.pulse.patience(); waiting && s.pulse.err == nil {
			if now.Before(until) {
				next = earlier(next, until)
			} else {
				s.away(berth.ErrUnreachable, true)
			}
		}
		s.mu.Unlock()
		if due {
			pings.Go(func() { _ = s.ping(ctx) })
		}
	}
}
