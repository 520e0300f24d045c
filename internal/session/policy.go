package session

import (
	"context"
	"strings"
	"time"
)

// Pauses between attempts to learn the eviction policy grow from the first to the second.
const (
	leastPolicyPause = time.Second
	mostPolicyPause  = time.Hour
	// mostPolicyCall bounds one attempt.
	mostPolicyCall = 2 * time.Second
)

// askPolicy asks the server for its eviction policy, and retries in the background if that
// fails. Until the policy is known, keys carry no TTL while they matter.
func (s *Session) askPolicy() {
	if !s.asking.CompareAndSwap(false, true) {
		return
	}
	if s.learnPolicy(true) {
		s.asking.Store(false)
		return
	}
	go func() {
		defer s.asking.Store(false)
		for pause := leastPolicyPause; ; pause = min(2*pause, mostPolicyPause) {
			select {
			case <-s.ctx.Done():
				return
			case <-time.After(pause):
			}
			if s.learnPolicy(false) {
				return
			}
		}
	}()
}

func (s *Session) learnPolicy(first bool) (known bool) {
	ctx, cancel := context.WithTimeout(s.ctx, mostPolicyCall)
	defer cancel()
	evicts, policy, err := s.store.Evicts(ctx)
	s.store.Evicting(evicts)
	switch {
	case err == nil && strings.HasPrefix(policy, "allkeys"):
		s.log.Warn("berth: this server may evict any key, so leases can vanish under memory pressure; use noeviction", "policy", policy)
	case err != nil && first && s.ctx.Err() == nil:
		s.log.Debug("berth: the eviction policy is not known; keys get no TTL while they matter", "error", err)
	}
	return err == nil
}
