package berthwatch

import (
	"context"
	"errors"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/berthadmin"
)

const (
	// seldom is how many samples there are for one in which leases are read, too.
	seldom = 10
	// mostRecords is how many holders and waiters a semaphore may have for them to be read:
	// the longer its queue, the longer everything else would wait.
	mostRecords = 500
)

// ages is what is known of a semaphore's leases.
type ages struct{ oldest, ceiling time.Time }

// leases reads, in one sample of about ten, the leases of semaphores with up to mostRecords.
// It puts the last result into the rows, and returns the cost. If it fails the ages are unknown
// until the next attempt: the rows are as good without them.
func (s *Sampler) leases(ctx context.Context, rows []Row) (cost time.Duration) {
	s.mu.Lock()
	known := s.ages
	due := time.Since(s.agesAt) >= seldom*max(s.cfg.Every, s.view.Pace)
	s.mu.Unlock()
	if due {
		known, cost = s.readLeases(ctx, rows)
		s.leaseCosts.add(cost, 1)
		cost = s.leaseCosts.cost()
		s.mu.Lock()
		s.ages, s.agesAt = known, time.Now()
		s.mu.Unlock()
	}
	for i, r := range rows {
		if r.aged() {
			rows[i].Oldest, rows[i].Ceiling = known[r.Name].oldest, known[r.Name].ceiling
		}
	}
	return cost
}

// aged reports whether the leases of r are read.
func (r *Row) aged() bool { return r.Holders > 0 && r.Holders+r.Waiting <= mostRecords }

func (s *Sampler) readLeases(ctx context.Context, rows []Row) (read map[string]ages, cost time.Duration) {
	var names []string
	for _, r := range rows {
		if r.aged() {
			names = append(names, r.Name)
		}
	}
	read = map[string]ages{}
	if len(names) == 0 {
		return read, 0
	}
	cost, err := s.gauge.cost(ctx, func(in *berthadmin.Inspector) (trips int, err error) {
		for st, err := range in.Sample(ctx, names, berthadmin.SampleOptions{Records: true}) {
			switch {
			case err == nil:
				read[st.Name] = agesOf(st.Leases)
			case !errors.Is(err, berthadmin.ErrNotFound) && !errors.Is(err, berth.ErrCorrupt):
				return 0, err
			}
		}
		return (len(names) + 9) / 10, nil
	})
	if err != nil {
		return nil, cost
	}
	return read, cost
}

// agesOf leaves out expired leases, which have no holder any more.
func agesOf(leases []berthadmin.Holder) (a ages) {
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
