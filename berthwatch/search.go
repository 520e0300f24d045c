package berthwatch

import (
	"context"
	"time"
)

const (
	// step is how many keys the server looks at in one call of the search.
	step = 1000
	// between is the least time from the beginning of one search to the next.
	between = 30 * time.Second
)

// search walks through the names again and again, slowly, until ctx ends.
func (s *Sampler) search(ctx context.Context) {
	for ctx.Err() == nil {
		begun := time.Now()
		s.mu.Lock()
		s.round++
		round := s.round
		s.mu.Unlock()
		err := s.walk(ctx, round)
		s.mu.Lock()
		if ctx.Err() == nil {
			s.view.SearchErr = err
		}
		s.mu.Unlock()
		pause := time.Until(begun.Add(between))
		if err != nil {
			pause = afterBreak
		}
		rest(ctx, pause)
	}
}

// walk goes once through all names, and drops those that neither it nor the walk before it
// has found.
func (s *Sampler) walk(ctx context.Context, round int) error {
	begun, dropped := time.Now(), 0
	for cursor := ""; ; {
		var names []string
		var next string
		cost, err := s.cost(ctx, func() (trips int, err error) {
			names, next, err = s.in.Names(ctx, cursor, step)
			return 1, err
		})
		if err != nil {
			return err
		}
		dropped += s.add(names, round)
		if !rest(ctx, (share-1)*cost) {
			return ctx.Err()
		}
		if cursor = next; cursor == "" {
			break
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, t := range s.names {
		if t.found < round-1 {
			delete(s.names, name)
		}
	}
	s.view.Search = time.Since(begun)
	s.view.Found = true
	if s.dropped = dropped; !s.whole {
		s.whole = true
		signal(s.first)
	}
	return nil
}

// add adds names to those that are sampled, and returns how many it had no room for.
func (s *Sampler) add(names []string, round int) (dropped int) {
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
		}
		t.found = max(t.found, round)
	}
	return dropped
}
