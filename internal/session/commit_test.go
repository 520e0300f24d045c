package session

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-go/berth/internal/clock"
	"github.com/berth-go/berth/internal/protocol"
	"github.com/berth-go/berth/internal/redistest"
)

// calls returns the script calls from now on, as a func of what has passed.
func (w *world) calls() func() []redistest.Command {
	var all []redistest.Command
	w.net.Inject(redistest.Rule{Times: -1, Match: func(c redistest.Command) bool {
		if redistest.IsScript(c) {
			all = append(all, slices.Clone(c))
		}
		return false
	}})
	return func() []redistest.Command {
		synctest.Wait()
		return all
	}
}

// busy returns a semaphore with a call in flight whose reply is held, and a
// claim that the call has granted.
func (w *world) busy() (*Semaphore, *redistest.Injection) {
	w.Helper()
	s := w.session.Semaphore("s")
	holder := w.acquire(s, terms(1000))
	reply := w.net.Inject(redistest.Rule{Match: redistest.IsScript, Fault: redistest.DelayReply})
	go func() { _ = holder.Renew(context.Background()) }()
	synctest.Wait()
	return s, reply
}

// gather has n goroutines acquire; each tells its outcome.
func (w *world) gather(s *Semaphore, n, limit int) <-chan error {
	done := make(chan error, n)
	for range n {
		go func() {
			_, err := s.Acquire(w.Context(), terms(limit), false, nil)
			done <- err
		}()
	}
	return done
}

// TestOperationsGather: what comes while a call is in flight travels in the next
// one, all of it, and not before.
func TestOperationsGather(t *testing.T) {
	inWorld(t, func(w *world) {
		s, reply := w.busy()
		calls := w.calls()
		done := w.gather(s, crowd-1, 1000)
		if n := len(calls()); n != 0 {
			w.Errorf("%d calls beside the one in flight", n)
		}
		reply.Release()
		for range cap(done) {
			if err := <-done; err != nil {
				w.Error(err)
			}
		}
		if n := len(calls()); n != 1 {
			w.Errorf("%d operations took %d calls", cap(done), n)
		}
	})
}

// TestACrowdHasASecondCall: but only one, and only where the order makes no difference.
func TestACrowdHasASecondCall(t *testing.T) {
	renewal := func(w *world, _ *Semaphore, holder *Claim) { go func() { _ = holder.Renew(w.Context()) }() }
	acquire := func(w *world, s *Semaphore, _ *Claim) { w.gather(s, 1, crowd+1) }
	giveUp := func(_ *world, s *Semaphore, holder *Claim) { s.abandon(holder, ErrReleased) }
	for name, tt := range map[string]struct {
		inFlight      func(*world, *Semaphore, *Claim)
		gather, limit int
		want          int
	}{
		"a crowd":                       {renewal, crowd, crowd + 1, 1},
		"more than a call has":          {renewal, 3 * mostOps, 1000, 1},
		"not a crowd":                   {renewal, crowd - 1, 1000, 0},
		"no room for all":               {renewal, crowd, crowd, 0},
		"no room with those in flight":  {acquire, crowd, crowd + 1, 0},
		"after a release in background": {giveUp, crowd, 1000, 0},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				s := w.session.Semaphore("s")
				holder := w.acquire(s, terms(tt.limit))
				first := w.net.Inject(redistest.Rule{Match: redistest.IsScript, Fault: redistest.DelayReply})
				tt.inFlight(w, s, holder)
				synctest.Wait()
				calls := w.calls()
				second := w.net.Inject(redistest.Rule{Match: redistest.IsScript, Fault: redistest.DelayReply})
				w.gather(s, tt.gather, tt.limit)
				if n := len(calls()); n != tt.want {
					w.Errorf("%d calls beside the one in flight, want %d", n, tt.want)
				}
				second.Stop()
				second.Release()
				first.Release()
				synctest.Wait()
				for _, c := range s.claims {
					if c.state == asking {
						w.Fatal("an acquire has no answer in the end")
					}
				}
			})
		})
	}
}

// TestCallsAreBounded: no call carries more than mostOps.
func TestCallsAreBounded(t *testing.T) {
	inWorld(t, func(w *world) {
		s, reply := w.busy()
		calls := w.calls()
		const n = 2*mostOps + 1
		done := w.gather(s, n, 1000)
		synctest.Wait()
		reply.Release()
		for range n {
			if err := <-done; err != nil {
				w.Error(err)
			}
		}
		all := calls()
		if len(all) > n/crowd+1 {
			w.Errorf("%d operations took %d calls", n, len(all))
		}
		for _, c := range all {
			if ids := strings.Count(strings.Join(c, " "), " "+w.session.id+"."); ids > mostOps {
				w.Errorf("a call carries %d operations", ids)
			}
		}
	})
}

// trying starts an acquire that does not wait in line.
func (w *world) trying(s *Semaphore, t *protocol.Terms) <-chan error {
	t.Wait = false
	done := make(chan error, 1)
	go func() {
		_, err := s.Acquire(context.Background(), t, false, nil)
		done <- err
	}()
	synctest.Wait()
	return done
}

// TestReleasesGoFirst: they free what the others want, and do not wait for the call
// in flight either.
func TestReleasesGoFirst(t *testing.T) {
	inWorld(t, func(w *world) {
		s := w.session.Semaphore("s")
		first, second := w.acquire(s, terms(2)), w.acquire(s, terms(2))
		reply := w.net.Inject(redistest.Rule{Match: redistest.IsScript, Fault: redistest.DelayReply})
		go func() { _ = first.Renew(context.Background()) }()
		synctest.Wait()
		calls := w.calls()
		granted := w.trying(s, terms(2))
		go func() { _ = second.Release() }()
		synctest.Wait()
		reply.Release()
		if err := <-granted; err != nil {
			w.Errorf("a try that came with a release: %v", err)
		}
		if all := calls(); len(all) != 2 || all[0][6] != "L0" || len(all[0]) != 8 {
			w.Errorf("calls: %q", all)
		}
	})
}

// TestReleaseNeverOvertakesItsRenewal: the server would answer the renewal that
// the lease is gone, or worse.
func TestReleaseNeverOvertakesItsRenewal(t *testing.T) {
	inWorld(t, func(w *world) {
		lease := w.acquire(w.session.Semaphore("s"), terms(2))
		renewal := w.net.Inject(redistest.Rule{Match: redistest.IsScript, Fault: redistest.DelayReply})
		go func() { _ = lease.Renew(context.Background()) }()
		synctest.Wait()
		calls := w.calls()
		done := make(chan error, 1)
		go func() { done <- lease.Release() }()
		synctest.Wait()
		if all := calls(); len(all) != 0 {
			w.Errorf("sent while the renewal was under way: %q", all)
		}
		renewal.Release()
		if err := <-done; err != nil {
			w.Error(err)
		}
	})
}

// TestRequestAfterAReleaseComesAfterIt: also when the release is still under way,
// on another connection, and nobody waits for its answer.
func TestRequestAfterAReleaseComesAfterIt(t *testing.T) {
	inWorld(t, func(w *world) {
		s := w.session.Semaphore("s")
		first, second := w.acquire(s, terms(2)), w.acquire(s, terms(2))
		renewal := w.net.Inject(redistest.Rule{Match: redistest.IsScript, Fault: redistest.DelayReply})
		go func() { _ = first.Renew(context.Background()) }()
		synctest.Wait()
		release := w.net.Inject(redistest.Rule{Match: redistest.IsScript, Fault: redistest.Delay})
		go func() { _ = second.Release() }()
		synctest.Wait()
		renewal.Release()
		synctest.Wait()
		granted := w.trying(s, terms(2))
		release.Release()
		if err := <-granted; err != nil {
			w.Errorf("a try after a release: %v", err)
		}
	})
}

// TestPatientCallerIsNotLeftToTheClient: a caller that makes its call itself, for
// its context cannot end, waits for a lost answer no longer than others do.
func TestPatientCallerIsNotLeftToTheClient(t *testing.T) {
	inWorld(t, func(w *world) {
		s := w.session.Semaphore("s")
		bounded := func(what string, f func() error) {
			w.acquire(s, terms(3)) // an answer: there is a connection
			lost := w.net.Inject(redistest.Rule{Match: redistest.IsScript, Fault: redistest.SwallowReply})
			start := time.Now()
			if err := f(); err != nil {
				w.Errorf("%s: %v", what, err)
			}
			if took := time.Since(start); took > Patience || lost.Hits() == 0 {
				w.Errorf("%s took %v, with %d lost answers", what, took, lost.Hits())
			}
		}
		var claim *Claim
		bounded("acquire", func() (err error) {
			claim, err = s.Acquire(context.Background(), terms(3), false, nil)
			return err
		})
		bounded("release", func() error { return claim.Release() })
	})
}

// TestUnsentAcquireIsWithdrawn: who gives up before the request was sent costs
// the server nothing.
func TestUnsentAcquireIsWithdrawn(t *testing.T) {
	inWorld(t, func(w *world) {
		s, reply := w.busy()
		calls := w.calls()
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() {
			_, err := s.Acquire(ctx, terms(1000), false, nil)
			done <- err
		}()
		synctest.Wait()
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			w.Error(err)
		}
		reply.Release()
		if all := calls(); len(all) != 0 {
			w.Errorf("calls: %q", all)
		}
	})
}

// TestOneCallAtATime: a call that gets no answer is given up in time for another,
// and its late answer is not looked at.
func TestOneCallAtATime(t *testing.T) {
	inWorld(t, func(w *world) {
		s, reply := w.busy()
		start := time.Now()
		w.acquire(s, terms(1000))
		if took := time.Since(start); took < mostAttempt || took > mostAttempt+100*time.Millisecond {
			w.Errorf("the next call went out after %v", took)
		}
		before := s.claimsBy(held)
		reply.Release()
		synctest.Wait()
		if after := s.claimsBy(held); before != 2 || after != 2 {
			w.Errorf("%d claims held before the late answer, %d after it", before, after)
		}
	})
}

// claimsBy counts the claims in that state.
func (s *Semaphore) claimsBy(in state) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.claims {
		if c.state == in {
			n++
		}
	}
	return n
}

func TestPatienceOf(t *testing.T) {
	t.Parallel()
	claim := func(ttl time.Duration, wait bool) *Claim {
		return &Claim{Terms: &protocol.Terms{TTL: ttl, Wait: wait}}
	}
	for name, tt := range map[string]struct {
		ops  []*op
		want time.Duration
	}{
		"nothing":            {nil, mostAttempt},
		"a usual lease":      {[]*op{{Op: protocol.Op{Verb: protocol.Acquire}, claim: claim(time.Minute, true)}}, mostAttempt},
		"a short lease":      {[]*op{{Op: protocol.Op{Verb: protocol.Renew}, claim: claim(900*time.Millisecond, true)}}, 300 * time.Millisecond},
		"the shortest lease": {[]*op{{Op: protocol.Op{Verb: protocol.Renew}, claim: claim(10*time.Millisecond, true)}}, leastAttempt},
		"a try":              {[]*op{{Op: protocol.Op{Verb: protocol.Acquire}, claim: claim(time.Minute, false)}}, TryPatience / 2},
		"the shortest of several": {[]*op{
			{Op: protocol.Op{Verb: protocol.Renew}, claim: claim(time.Minute, true)},
			{Op: protocol.Op{Verb: protocol.Renew}, claim: claim(3*time.Second, true)},
		}, time.Second},
	} {
		if got := patienceOf(tt.ops); got != tt.want {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
	}
}

func TestMarginGrowsWithTheLease(t *testing.T) {
	t.Parallel()
	from := clock.Instant(time.Hour)
	for _, ttl := range []time.Duration{10 * time.Millisecond, time.Second, time.Hour, 30 * 24 * time.Hour} {
		cut := ttl - trust(from, ttl).Sub(from)
		if least := time.Millisecond + ttl/100 - time.Millisecond/2; cut < least || cut > ttl/5 {
			t.Errorf("a lease of %v is trusted for %v less", ttl, cut)
		}
	}
}

// TestValidLooksAtTheClock: the keeper's timer may not have fired yet, in a
// process that was stopped.
func TestValidLooksAtTheClock(t *testing.T) {
	t.Parallel()
	c := &Claim{sem: new(Semaphore), state: held, trust: clock.Now().Add(time.Hour)}
	if !c.Valid() {
		t.Error("not valid before its trust deadline")
	}
	if c.trust = clock.Now(); c.Valid() {
		t.Error("valid at its trust deadline")
	}
}
