package berthwatch

import (
	"context"
	"time"
)

// Fresh is Look for those who come seldom, such as a scrape for metrics: where nothing is
// known yet, or the sampler was asleep, it waits for the next sample, until ctx ends or
// sampling fails. Otherwise it does not wait.
func (s *Sampler) Fresh(ctx context.Context) View {
	for {
		s.mu.Lock()
		sampled := s.sampled
		s.mu.Unlock()
		v := s.Look() // after that: a sample in between is not missed
		if v.Err != nil || v.Whole && time.Since(v.At) < idle {
			return v
		}
		select {
		case <-ctx.Done():
			return v
		case <-sampled:
		}
	}
}

// tell wakes those who wait for a sample. s.mu is held.
func (s *Sampler) tell() {
	close(s.sampled)
	s.sampled = make(chan struct{})
}
