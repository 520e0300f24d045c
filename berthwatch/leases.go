package berthwatch

import (
	"context"
	"errors"
	"time"

	"github.com/berth-go/berth"
)

const (
	// seldom is in one of how many samples the leases are read, too.
	seldom = 10
	// mostLeases is how many a semaphore may have to be among those.
	mostLeases = 500
)

// ages is what is known of a semaphore's leases.
type ages struct{ oldest, ceiling time.Time }

// leases reads, in one sample of about ten, the leases of those semaphores that do not have too
// many, puts what was last read into the rows, and returns what it cost.
func (s *Sampler) leases(ctx context.Context, rows []Row) (cost time.Duration, err error) {
	s.mu.Lock()
	known := s.ages
	due := time.Since(s.agesAt) >= seldom*max(s.cfg.Every, s.view.Pace)
	s.mu.Unlock()
	if due {
		if known, cost, err = s.readLeases(ctx, rows); err != nil {
			return cost, err
		}
		s.mu.Lock()
		s.ages, s.agesAt = known, time.Now()
		s.mu.Unlock()
	}
	for i, r := range rows {
		if r.Holders > 0 && r.Holders <= mostLeases {
			rows[i].Oldest, rows[i].Ceiling = known[r.Name].oldest, known[r.Name].ceiling
		}
	}
	return cost, nil
}

func (s *Sampler) readLeases(ctx context.Context, rows []Row) (read map[string]ages, cost time.Duration, err error) {
	var names []string
	for _, r := range rows {
		if r.Holders > 0 && r.Holders <= mostLeases {
			names = append(names, r.Name)
		}
	}
	read = map[string]ages{}
	if len(names) == 0 {
		return read, 0, nil
	}
	cost, err = s.cost(ctx, (len(names)+9)/10, func() error {
		for st, err := range s.in.Sample(ctx, names, berth.SampleOptions{Records: true}) {
			switch {
			case err == nil:
				read[st.Name] = agesOf(st.Leases)
			case !errors.Is(err, berth.ErrNotFound) && !errors.Is(err, berth.ErrCorrupt):
				return err
			}
		}
		return nil
	})
	return read, cost, err
}

// agesOf leaves out what has run out: nobody holds that.
func agesOf(leases []berth.Holder) (a ages) {
	now := time.Now()
	for _, l := range leases {
		if l.Expired {
			continue
		}
		if t := now.Add(-l.Held); a.oldest.IsZero() || t.Before(a.oldest) {
			a.oldest = t
		}
		if t := now.Add(l.Until); l.Until > 0 && (a.ceiling.IsZero() || t.Before(a.ceiling)) {
			a.ceiling = t
		}
	}
	return a
}
