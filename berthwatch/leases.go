package berthwatch

import (
	"context"
	"errors"
	"time"

	"github.com/berth-go/berth"
)

const (
	// seldom is how many samples there are for one in which leases are read, too.
	seldom = 10
	// mostLeases is how many leases a semaphore may have for them to be read.
	mostLeases = 500
)

// ages is what is known of a semaphore's leases.
type ages struct{ oldest, ceiling time.Time }

// leases reads, in one sample of about ten, the leases of semaphores with up to mostLeases.
// It puts the last result into the rows, and returns the cost.
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

// agesOf leaves out expired leases, which have no holder any more.
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
