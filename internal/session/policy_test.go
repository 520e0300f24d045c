package session

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
)

// policy sets what INFO says: a policy, an error, or nothing at all.
func (s *server) policy(answer string) {
	s.on("info", func(ctx context.Context, cmd redis.Cmder, _ func() error) error {
		switch answer {
		case "hang":
			return hang(ctx, cmd)
		case "NOPERM":
			return refuse(cmd, answer)
		}
		cmd.(*redis.StringCmd).SetVal("# Memory\r\nmaxmemory_policy:" + answer + "\r\n")
		return nil
	})
}

// script returns the hash of the script that a call runs: keys carry a TTL in one and not in
// the other.
func (s *server) script() any {
	_, _ = s.store.Do(s.Context(), s.store.Key("a"), 0, nil)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.args["evalsha"][1]
}

// TestKeysCarryATTLOnlyWhereItIsKnownToBeHarmless: not where the server does not tell, in
// whatever way.
func TestKeysCarryATTLOnlyWhereItIsKnownToBeHarmless(t *testing.T) {
	inBubble(t, func(s *server) {
		without := s.script()
		for _, answer := range []string{"noeviction", "volatile-lru", "allkeys-lfu", "hang", "noeviction", "NOPERM"} {
			s.policy(answer)
			start := time.Now()
			s.askPolicy()
			if took := time.Since(start); took > 2*time.Second {
				s.Errorf("%s: the first request has waited for %v", answer, took)
			}
			if harmless := answer == "noeviction" || answer == "allkeys-lfu"; (s.script() != without) != harmless {
				s.Errorf("%s: keys carry a TTL: %v", answer, !harmless)
			}
			if answer == "hang" { // it is asked for in the background
				s.policy("volatile-ttl")
				<-time.After(leastPolicyPause)
				synctest.Wait()
			}
		}
	})
}

// TestPolicyIsAskedForUntilItIsKnown, ever less often, but soon when there is a new reason.
func TestPolicyIsAskedForUntilItIsKnown(t *testing.T) {
	inBubble(t, func(s *server) {
		s.policy("NOPERM")
		s.askPolicy()
		<-time.After(5*time.Hour + time.Minute)
		sent := s.sent("info")
		var pauses []time.Duration
		for i := range sent[1:] {
			pauses = append(pauses, sent[i+1]-sent[i])
		}
		var want []time.Duration
		for pause := leastPolicyPause; pause < mostPolicyPause; pause *= 2 {
			want = append(want, pause)
		}
		want = append(want, mostPolicyPause, mostPolicyPause)
		if !slices.Equal(pauses[:min(len(pauses), len(want))], want) {
			s.Errorf("asked after %v", pauses)
		}
		before := len(sent)
		s.askPolicy()
		synctest.Wait()
		<-time.After((2+4)*leastPolicyPause + time.Millisecond)
		if n := len(s.sent("info")) - before; n != 3 { // at once, and after short pauses
			s.Errorf("asked %d times after a new reason", n)
		}
		s.policy("noeviction")
		<-time.After(time.Minute)
		before = len(s.sent("info"))
		<-time.After(5 * time.Hour)
		if n := len(s.sent("info")) - before; n > 0 {
			s.Errorf("asked %d times when it was known", n)
		}
		s.askPolicy()
		if n := len(s.sent("info")) - before; n != 1 {
			s.Errorf("asked %d times when it may be another one", n)
		}
	})
}

// TestPolicyThatIsDangerousIsToldOnce, and again when it is back.
func TestPolicyThatIsDangerousIsToldOnce(t *testing.T) {
	inBubble(t, func(s *server) {
		for _, c := range []struct {
			answer   string
			warnings int
		}{{"volatile-lru", 0}, {"allkeys-lru", 1}, {"allkeys-lru", 1}, {"allkeys-random", 2}, {"noeviction", 2}, {"allkeys-lru", 3}} {
			s.policy(c.answer)
			s.askPolicy()
			if n := s.warnings(); n != c.warnings {
				s.Errorf("%s: %d warnings, want %d", c.answer, n, c.warnings)
			}
		}
	})
}

// TestManySubscriptionsAskOnce: in a Cluster there is one for each semaphore.
func TestManySubscriptionsAskOnce(t *testing.T) {
	inBubble(t, func(s *server) {
		s.policy("noeviction")
		for range 100 {
			s.askPolicySoon()
		}
		<-time.After(policyDelay - time.Millisecond)
		s.askPolicySoon()
		for range 10 * 60 { // names come and go for ten minutes
			<-time.After(time.Second)
			s.askPolicySoon()
		}
		sent := s.sent("info")
		if len(sent) < 10 || len(sent) > 12 || sent[0] != policyDelay || sent[1] < policyDelay+policyPause {
			s.Errorf("asked after %v", sent)
		}
		<-time.After(policyPause)
		before := time.Since(s.begun)
		s.askPolicySoon()
		<-time.After(policyPause)
		if sent = s.sent("info"); sent[len(sent)-1] != before+policyDelay {
			s.Errorf("after a pause asked after %v, want %v", sent[len(sent)-1], before+policyDelay)
		}
	})
}

// hold returns a held request for a semaphore. By hand nobody renews it, for an hour.
func (s *server) hold(name string, manual bool) *Request {
	s.Helper()
	terms := terms(true)
	if manual {
		terms.TTL = time.Hour
	}
	r, err := s.Semaphore(name).Acquire(s.Context(), terms, manual, nil)
	if err != nil {
		s.Fatal(err)
	}
	return r
}

// TestPolicyIsAskedAgainWhileThereAreCalls: once a minute, however many there are, and not without.
func TestPolicyIsAskedAgainWhileThereAreCalls(t *testing.T) {
	inBubble(t, func(s *server) {
		s.policy("noeviction")
		held := s.hold("held", false)
		asked := func(d time.Duration, meanwhile func()) int {
			before := len(s.sent("info"))
			for end := time.Now().Add(d); time.Now().Before(end); <-time.After(time.Second) {
				meanwhile()
			}
			return len(s.sent("info")) - before
		}
		if n := asked(10*time.Minute, func() {}); n < 8 || n > 10 { // renewals come every 10 s or so
			s.Errorf("asked %d times in ten minutes with a lease", n)
		}
		if n := asked(3*time.Minute, func() {
			for range 5 {
				_ = s.hold("busy", false).Release()
			}
		}); n < 2 || n > 3 {
			s.Errorf("asked %d times in three minutes with many calls", n)
		}
		if err := held.Release(); err != nil {
			s.Fatal(err)
		}
		if n := asked(time.Hour, func() {}); n > 0 {
			s.Errorf("asked %d times without a call", n)
		}
	})
}

// TestChangedPolicyTakesTheTTLOff: within a minute, or with the next renewal, all keys that a client
// uses have none, and it is told once that others may have.
func TestChangedPolicyTakesTheTTLOff(t *testing.T) {
	inBubble(t, func(s *server) {
		s.policy("noeviction")
		s.hold("renewed", false)
		s.hold("by hand", true)
		lapses := func(name string) bool { return s.rdb.PTTL(s.Context(), "berth:{"+name+"}").Val() > 0 }
		if !lapses("renewed") || !lapses("by hand") {
			s.Fatal("they have no TTL where nothing is evicted")
		}
		s.policy("volatile-lru")
		<-time.After(policyPause + ttl/3)
		synctest.Wait()
		if lapses("renewed") || lapses("by hand") {
			s.Errorf("keys in use have a TTL: %v, %v", lapses("renewed"), lapses("by hand"))
		}
		<-time.After(5 * time.Minute)
		if n := s.warnings(); n != 1 {
			s.Errorf("%d warnings", n)
		}
		s.policy("noeviction")
		<-time.After(policyPause + ttl/3)
		if synctest.Wait(); !lapses("renewed") {
			s.Error("it has no TTL, and nothing is evicted any more")
		}
	})
}
