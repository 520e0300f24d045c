package berthwatch

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/berth-go/berth/berthadmin"

	"github.com/berth-go/berth"
)

// again is when a sample that failed is tried again.
const again = time.Second

// job is something that is to be read, and not before a moment.
type job struct {
	at   time.Time
	read func()
}

// sample samples until ctx ends, or there was no look for a while: all semaphores, those that
// are looked at in full, and before the next sample of all those that have just been found.
func (s *Sampler) sample(ctx context.Context) {
	var list, detail, added time.Time // when each may be read again
	for ctx.Err() == nil && !s.idle() {
		now, among := time.Now(), time.Duration(share)
		name, due := s.due()
		if name != "" {
			among *= 2 // the list and the details get half of the share each
		}
		jobs := []job{{list, func() { list = now.Add(s.list(ctx, among)) }}}
		if name != "" {
			jobs = append(jobs, job{later(due, detail), func() {
				detail = now.Add(among * s.detail(ctx, name)) //nolint:durationcheck // among is a number
			}})
		}
		if s.expects() {
			jobs = append(jobs, job{added, func() {
				added = now.Add(among * s.readAdded(ctx)) //nolint:durationcheck // among is a number
			}})
		}
		next := slices.MinFunc(jobs, func(a, b job) int { return a.at.Compare(b.at) })
		if !now.Before(next.at) {
			next.read()
			continue
		}
		select {
		case <-ctx.Done():
		case <-s.kick:
		case <-s.first:
			list = time.Now()
		case <-time.After(next.at.Sub(now)):
		}
	}
}

// paced returns the time from one sample of this cost to the next.
func (s *Sampler) paced(cost, among time.Duration) time.Duration {
	return max(s.cfg.Every, among*cost) //nolint:durationcheck // among is a number
}

// list samples all semaphores, and returns the time until the next sample.
func (s *Sampler) list(ctx context.Context, among time.Duration) time.Duration {
	s.mu.Lock()
	names := slices.Sorted(maps.Keys(s.names))
	s.added = nil
	whole := s.whole
	s.mu.Unlock()
	rows, err := s.measured(ctx, names)
	cost := s.costs.cost()
	if err == nil && whole && s.cfg.Leases {
		cost += s.leases(ctx, rows)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.tell()
	s.fresh = true
	if s.view.Err = err; err != nil || ctx.Err() != nil {
		return min(s.cfg.Every, again)
	}
	s.view.Rows, s.view.At, s.view.Cost, s.view.Pace = rows, time.Now(), cost, s.paced(cost, share)
	s.view.Whole = whole
	s.remember(rows, s.view.At)
	s.sum(rows, s.view.At)
	return s.paced(cost, among)
}

// measured samples semaphores, and notes the cost when that is due.
func (s *Sampler) measured(ctx context.Context, names []string) (rows []Row, err error) {
	if len(names) == 0 { // whether it is up to date that there are none, only an answer can tell
		if err = s.ask(ctx, s.gauge.plain.Ping); err != nil {
			return nil, err
		}
		return s.read(ctx, s.gauge.plain, names)
	}
	read := s.reading(ctx, names, &rows)
	if !s.costs.due(len(names), s.cfg.Every) {
		_, err = read(s.gauge.plain)
		return rows, err
	}
	cost, err := s.gauge.cost(ctx, read)
	if err == nil {
		s.costs.add(cost, len(names))
	}
	return rows, err
}

// reading returns the function that samples semaphores into rows.
func (s *Sampler) reading(ctx context.Context, names []string, rows *[]Row) func(*berthadmin.Inspector) (trips int, err error) {
	return func(in *berthadmin.Inspector) (trips int, err error) {
		err = s.ask(ctx, func(ctx context.Context) error {
			*rows, err = s.read(ctx, in, names)
			return err
		})
		return (len(names) + 99) / 100, err
	}
}

// read samples semaphores, and puts names aside that none can have.
func (s *Sampler) read(ctx context.Context, in *berthadmin.Inspector, names []string) ([]Row, error) {
	rows := make([]Row, 0, len(names))
	for st, err := range in.Sample(ctx, names, berthadmin.SampleOptions{}) {
		if errors.Is(err, berth.ErrInvalid) { // of this name, before anything was sent
			s.setAside(Row{Summary: st.Summary, Err: err})
			return s.read(ctx, in, slices.DeleteFunc(names, func(name string) bool { return name == st.Name }))
		}
		if !answered(err) || errors.Is(err, berth.ErrRefused) {
			return nil, err
		}
		r := Row{Summary: st.Summary, Idle: errors.Is(err, berthadmin.ErrNotFound)}
		if err != nil && !r.Idle {
			r.Err = err
		}
		rows = append(rows, r)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.invalid) > 0 {
		rows = append(rows, s.invalid...)
		sortRows(rows)
	}
	return rows, nil
}

// expects reports whether names were found since the last sample of all. After the first search
// there is one at once.
func (s *Sampler) expects() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.added) > 0 && s.view.Whole
}

// readAdded samples what was found since the last sample of all, and returns the cost. If that
// fails, the next sample of all has it.
func (s *Sampler) readAdded(ctx context.Context) time.Duration {
	s.mu.Lock()
	names := slices.Compact(slices.Sorted(slices.Values(s.added)))
	s.added = nil
	s.mu.Unlock()
	var rows []Row
	cost, err := s.gauge.cost(ctx, s.reading(ctx, names, &rows))
	if err != nil {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.tell()
	all := slices.DeleteFunc(slices.Clone(s.view.Rows), func(r Row) bool {
		_, found := slices.BinarySearch(names, r.Name)
		return found
	})
	s.view.Rows = sortRows(append(all, rows...))
	if len(s.view.Rows) <= mostHistories {
		s.remember(rows, time.Now())
	}
	return cost
}

func sortRows(rows []Row) []Row {
	slices.SortFunc(rows, func(a, b Row) int { return strings.Compare(a.Name, b.Name) })
	return rows
}

// setAside notes a name that no semaphore can have.
func (s *Sampler) setAside(r Row) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.names, r.Name)
	s.invalid = append(s.invalid, r)
}

// busier orders rows by how busy they are. Among equals, those with a history come first.
func (s *Sampler) busier(a, b Row) int {
	weight := func(r Row) int {
		w := 4*r.Waiting + 2*r.InUse
		if t := s.names[r.Name]; t != nil && t.fine.points != nil {
			w++
		}
		return w
	}
	return cmp.Or(cmp.Compare(weight(b), weight(a)), cmp.Compare(a.Name, b.Name))
}
