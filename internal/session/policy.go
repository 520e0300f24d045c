package session

import (
	"context"
	"strings"
	"time"

	"github.com/berth-go/berth/internal/clock"
	"github.com/berth-go/berth/internal/protocol"
)

// Pauses between attempts to learn the eviction policy grow from the first to the second.
const (
	leastPolicyPause = time.Second
	mostPolicyPause  = time.Hour
	// mostPolicyCall bounds one attempt.
	mostPolicyCall = 2 * time.Second
	// policyDelay is how long in a Cluster a new subscription waits for others to ask for the
	// policy with it: there is one for each semaphore. By then the nodes know who is a master.
	policyDelay = 5 * time.Second
	// policyPause is how long the next such question comes after one at the earliest: where names
	// come and go, so do subscriptions. And while there are calls, an answer is believed for as
	// long: an operator may change the policy of a running server.
	policyPause = time.Minute
)

// askPolicyAgain asks if the last answer is old, and nobody asks. It is called at now, with the
// answer to each call.
func (s *Session) askPolicyAgain(now clock.Instant) {
	last := s.learnt.Load()
	if last == 0 || now.Sub(clock.Instant(last)) < policyPause || s.asking.Load() || !s.learnt.CompareAndSwap(last, int64(now)) {
		return
	}
	go s.askPolicy()
}

// askPolicySoon has all that call it until the next question ask once.
func (s *Session) askPolicySoon() {
	if !s.soon.CompareAndSwap(false, true) {
		return
	}
	delay := policyDelay
	if asked := clock.Instant(s.asked.Load()); asked != 0 {
		delay = max(delay, asked.Add(policyPause).Sub(clock.Now()))
	}
	time.AfterFunc(delay, func() {
		s.asked.Store(int64(clock.Now()))
		s.soon.Store(false) // before asking: what changes from now on is not in the answer
		if s.ctx.Err() == nil {
			s.askPolicy()
		}
	})
}

// askPolicy asks the server for its eviction policy, and retries in the background if that
// fails, at once if it is called again. Until the policy is known, keys carry no TTL while they
// matter.
func (s *Session) askPolicy() {
	if !s.asking.CompareAndSwap(false, true) {
		select {
		case s.again <- struct{}{}:
		default:
		}
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
			case <-s.again: // after an outage, say: what kept it from knowing may be over
				pause = leastPolicyPause
			case <-time.After(pause):
			}
			if s.learnPolicy(false) {
				return
			}
		}
	}()
}

// policyAnswer is what Store.Evicts returns.
type policyAnswer struct {
	evicts bool
	policy string
}

func (s *Session) learnPolicy(first bool) (known bool) {
	s.learnt.Store(int64(clock.Now())) // before asking: what changes from now on may not be in the answer
	a, err := protocol.Bounded(s.ctx, mostPolicyCall, func(ctx context.Context) (a policyAnswer, err error) {
		a.evicts, a.policy, err = s.store.Evicts(ctx)
		return a, err
	})
	s.store.Evicting(a.evicts || err != nil)
	switch {
	case err == nil:
		s.comparePolicy(a)
	case first && s.ctx.Err() == nil:
		s.log.Debug("berth: the eviction policy is not known; keys get no TTL while they matter", "error", err)
	}
	return err == nil
}

// comparePolicy warns of what has become dangerous. Where keys in use had a TTL, and are evicted
// first for that from now on, all that hold or wait here make a call, which takes the TTL off.
func (s *Session) comparePolicy(a policyAnswer) {
	was := s.policy
	s.policy = a
	allkeys := strings.HasPrefix(a.policy, "allkeys")
	newly := a.evicts && !was.evicts && was.policy != ""
	switch {
	case allkeys && a.policy != was.policy:
		s.log.Warn("berth: this server may evict any key, so leases can vanish under memory pressure; use noeviction", "policy", a.policy)
	case newly && !allkeys:
		s.log.Warn("berth: the server's policy was changed, and it evicts first what has a TTL; leases that nobody renews still have one: look with berth doctor, or use noeviction", "policy", a.policy)
	}
	if !newly {
		return
	}
	for _, sem := range s.active() {
		sem.recheck()
	}
}
