package berthwatch

import (
	"context"
	"time"

	"github.com/berth-go/berth/berthadmin"
)

const (
	// step is how many keys the server looks at in one call of the search.
	step = 1000
	// lap is the least time from the beginning of one search to the next, for each step: in a
	// keyspace of one step, what comes into use is found within two seconds.
	lap = 1500 * time.Millisecond
	// between is the most of it: a large keyspace is not searched all the time.
	between = 30 * time.Second
	// kept is how long a name is sampled that is not found any more.
	kept = 2 * between
)

// walker walks through the names again and again.
type walker struct {
	*gauge
	costs usual // of a step
	steps int   // of the last walk
}

// search walks through the names again and again, slowly, until ctx ends.
func (s *Sampler) search(ctx context.Context) {
	w := &walker{gauge: newGauge(s.in), steps: 1}
	for last := (time.Time{}); ctx.Err() == nil; {
		begun := time.Now()
		err := s.walk(ctx, w, begun, last)
		s.mu.Lock()
		if ctx.Err() == nil {
			s.view.SearchErr = err
		}
		s.mu.Unlock()
		if err != nil {
			rest(ctx, afterBreak)
			continue
		}
		last = begun
		next := begun.Add(min(time.Duration(w.steps)*max(lap, s.cfg.Every), between))
		rest(ctx, max(time.Until(next), w.pause()))
	}
}

// pause is the time after a step, of which the server spends its share.
func (w *walker) pause() time.Duration { return (share - 1) * w.costs.cost() }

// walk goes once through all names, and drops those that neither it nor the walk before it,
// which began at last, has found for a while.
func (s *Sampler) walk(ctx context.Context, w *walker, begun, last time.Time) error {
	dropped := 0
	for cursor, steps := "", 1; ; steps++ {
		names, next, err := s.step(ctx, w, cursor)
		if err != nil {
			return err
		}
		dropped += s.add(names, begun)
		if cursor = next; cursor == "" {
			w.steps = steps
			break
		}
		if !rest(ctx, w.pause()) {
			return ctx.Err()
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, t := range s.names {
		if t.found.Before(last) && begun.Sub(t.found) >= kept {
			delete(s.names, name)
		}
	}
	s.view.Search, s.view.NamesAt, s.view.Found = time.Since(begun), begun, true
	if s.dropped = dropped; !s.whole {
		s.whole = true
		signal(s.first)
	}
	return nil
}

// step makes one step of a walk, and measures it when that is due.
func (s *Sampler) step(ctx context.Context, w *walker, cursor string) (names []string, next string, err error) {
	read := func(in *berthadmin.Inspector) (trips int, err error) {
		err = s.ask(ctx, func(ctx context.Context) error {
			names, next, err = in.Names(ctx, cursor, step)
			return err
		})
		return 1, err
	}
	if !w.costs.due(1, lap) {
		_, err = read(w.plain)
		return names, next, err
	}
	cost, err := w.cost(ctx, read)
	if err == nil {
		w.costs.add(cost, 1)
	}
	return names, next, err
}

// inUse adds a name that was heard of or looked at, and need not be searched for.
func (s *Sampler) inUse(name string) {
	if len(s.cfg.Names) == 0 {
		s.add([]string{name}, time.Now())
	}
}

// add adds names that were in use at a moment to those that are sampled, and returns how many
// it had no room for.
func (s *Sampler) add(names []string, at time.Time) (dropped int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range names {
		t := s.names[name]
		switch {
		case t == nil && len(s.names) >= mostNames:
			dropped++
			continue
		case t == nil:
			t = &track{}
			s.names[name] = t
			s.added = append(s.added, name)
			signal(s.kick)
		}
		t.found = later(t.found, at)
	}
	return dropped
}
