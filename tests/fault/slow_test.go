package fault_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/internal/testkit/redistest"
	"github.com/berth-go/berth/internal/testkit/testenv"
)

// Slow is not dead: a Redis whose answers come late, in order, loses nobody a lease, a place or
// a request.

// patient is a client whose own time-outs are longer than the answers take. It does not ask for
// maintenance notifications: go-redis waits for a mutex where two handshakes do at once, and
// the time of a bubble stands still meanwhile.
func (l *lab) patient() *berth.Client {
	l.Helper()
	return l.Client(l.connect(l.net, func(o *redis.Options) {
		o.ReadTimeout = time.Minute
		o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	}))
}

// TestLateAnswersLoseNoLease: from the first grant on every answer is late, for at least two
// renewals, and the lease stays the holder's; then it is handed to the next waiter.
func TestLateAnswersLoseNoLease(t *testing.T) {
	for name, test := range map[string]struct{ ttl, late, lasts time.Duration }{
		"TTL 30 s, answers 2.2 s late": {30 * time.Second, 2200 * time.Millisecond, 45 * time.Second},
		"TTL 5 m, answers 8 s late":    {5 * time.Minute, 8 * time.Second, 2 * time.Minute},
		"TTL 5 s, answers 1 s late":    {5 * time.Second, time.Second, 20 * time.Second},
		// With 0.3 s a renewal that needs a new connection, which takes two answers more, would be too late.
		"TTL 1 s, answers 0.2 s late": {time.Second, 200 * time.Millisecond, 20 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			everywhere(t, func(l *lab) {
				if !l.Exact && test.ttl < 30*time.Second {
					return // a busy machine may need as long: exact time tells
				}
				if !l.Exact && test.late == 8*time.Second && !testenv.All {
					return // 160 s of waiting
				}
				l.TTL = test.ttl
				holder := l.Hold(l.sem(l.patient(), 1))
				waiting := l.queued(l.Ctx, l.sem(l.patient(), 1), 1)
				l.net.Latency(test.late)
				l.Pass(test.lasts)
				st := l.Show()
				if !holder.Valid() || st.Holders != 1 || st.Leases[0].ID != holder.ID() || st.Waiting != 1 {
					l.Fatalf("after %v: valid: %v (%v), the server has %+v", test.lasts, holder.Valid(), context.Cause(holder.Context()), st)
				}
				l.released(holder, test.late)
				l.released(l.granted(waiting), test.late)
			})
		})
	}
}

// released gives a lease back while answers are late. Release itself waits for 5 s at most, and
// where a renewal has its connection, which only exact time rules out, it needs a new one: two
// answers more.
func (l *lab) released(lease *berth.Lease, late time.Duration) {
	l.Helper()
	longest := late
	if !l.Exact {
		longest *= 3
	}
	if err := lease.Release(); err != nil && (longest < 5*time.Second || !errors.Is(err, berth.ErrUnreachable)) {
		l.Errorf("Release: %v", err)
	}
}

// TestLateAnswersEndNoRequest: answers are late from the first handshake on, or from the second
// request on, by more than a request waits for a silent Redis in all, and a request with time left
// goes on.
func TestLateAnswersEndNoRequest(t *testing.T) {
	// Not 2.5 s, when a call is given up: a bubble does what happens at one instant in any order.
	for _, late := range []time.Duration{1500 * time.Millisecond, 2400 * time.Millisecond} {
		t.Run(fmt.Sprint(late), func(t *testing.T) {
			everywhere(t, func(l *lab) {
				first, second := l.patient(), l.patient()
				s := l.sem(first, 1)
				// See TestFirstRequestOnASlowLinkFails. A busy machine makes the link slower.
				if !l.Exact || 3*late > 5*time.Second {
					l.Release(l.Hold(s))
					l.Release(l.Hold(l.sem(second, 1)))
				}
				l.net.Latency(late)
				ctx, cancel := context.WithTimeout(l.Ctx, time.Minute)
				defer cancel()
				lease, err := s.Acquire(ctx)
				l.Must(err)
				l.Must(lease.Renew(ctx))
				handle, err := lease.Detach(ctx)
				l.Must(err)
				again, err := second.Adopt(ctx, handle)
				l.Must(err)
				l.released(again, late)
			})
		})
	}
}

// TestFirstRequestOnASlowLinkFails: to connect takes three answers, and if that is more than 5 s
// nothing was heard of Redis. What the request may yet get is given back.
func TestFirstRequestOnASlowLinkFails(t *testing.T) {
	inBubble(t, func(l *lab) {
		l.net.Latency(2500 * time.Millisecond)
		began := time.Now()
		_, err := l.sem(l.patient(), 1).Acquire(l.Ctx)
		l.WantErr(err, berth.ErrUnreachable)
		if took := time.Since(began); took != 5*time.Second {
			l.Errorf("it took %v", took)
		}
		l.Pass(time.Minute)
		l.NothingLeft(1, 0)
	})
}

// TestSlowRedisIsReachedWithAShortTTL: a handshake takes more answers than fit into the TTL, and a
// client that heeds the time that a call has gets its connection in spite of it.
func TestSlowRedisIsReachedWithAShortTTL(t *testing.T) {
	inBubble(t, func(l *lab) { // a busy machine may need as long for an answer: exact time tells
		l.TTL = time.Second
		heeds := l.Client(l.connect(l.net, func(o *redis.Options) {
			o.ContextTimeoutEnabled = true
			o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
		}))
		l.net.Latency(700 * time.Millisecond)
		ctx, cancel := context.WithTimeout(l.Ctx, time.Minute)
		defer cancel()
		_, err := l.sem(heeds, 1).Acquire(ctx)
		l.Must(err)
	})
}

// TestOutageKeepsTheOrderOfAProcess: requests that came one after the other while Redis did not
// answer are granted in that order when it does.
func TestOutageKeepsTheOrderOfAProcess(t *testing.T) {
	const apart, requests = 350 * time.Millisecond, 12
	for _, outage := range []time.Duration{1500 * time.Millisecond, 3 * time.Second, 4500 * time.Millisecond, 9 * time.Second} {
		t.Run(fmt.Sprint(outage), func(t *testing.T) {
			t.Parallel()
			t.Run("embedded", func(t *testing.T) {
				inBubble(t, func(l *lab) {
					kept := l.net.Inject(redistest.Rule{Match: redistest.IsScript, Fault: redistest.Delay, Times: -1})
					l.inOrder(l.sem(l.patient(), 1), requests, apart, outage, func() { kept.Stop(); kept.Release() })
				})
			})
			t.Run("redis", func(t *testing.T) {
				onServer(t, redistest.Start(t), func(l *lab) {
					s := l.sem(l.patient(), 1)
					l.Release(l.Hold(s))
					l.Server.Stop()
					l.inOrder(s, requests, apart, outage, l.Server.Cont)
				})
			})
		})
	}
}

// inOrder makes requests during an outage, and checks the order of their grants. One that has
// waited for longer than Acquire waits for a silent Redis may fail, and so may all those before
// it.
func (l *lab) inOrder(s *berth.Semaphore, requests int, apart, outage time.Duration, end func()) {
	l.Helper()
	var mu sync.Mutex
	var granted, failed []int
	var done sync.WaitGroup
	over := time.AfterFunc(outage, end)
	defer over.Stop()
	for n := range requests {
		if n > 0 {
			l.Pass(apart)
		}
		done.Go(func() {
			lease, err := s.Acquire(l.Ctx)
			mu.Lock()
			if err != nil {
				failed = append(failed, n)
			} else {
				granted = append(granted, n)
			}
			mu.Unlock()
			if err == nil {
				l.Must(lease.Release())
			}
		})
	}
	done.Wait()
	if !slices.IsSorted(granted) || len(granted)+len(failed) != requests {
		l.Errorf("granted in the order %v, failed %v", granted, failed)
	}
	if outage < 5*time.Second && len(failed) > 0 {
		l.Errorf("requests %v failed in an outage of %v", failed, outage)
	}
	l.NothingLeft(1, 0)
}

// TestFailedRenewalMovesNothing: a renewal that its holder was told has failed does not move the
// trust deadline when its answer comes.
func TestFailedRenewalMovesNothing(t *testing.T) {
	everywhere(t, func(l *lab) {
		l.TTL = 2 * time.Minute
		lease := l.Hold(l.sem(l.patient(), 1), berth.WithoutRenewal())
		until := lease.ValidUntil()
		kept := l.net.Inject(redistest.Rule{Match: testenv.Carries("R"), Fault: redistest.DelayReply, Times: -1})
		l.Pass(100 * time.Millisecond)
		l.WantErr(lease.Renew(l.Ctx), berth.ErrUnreachable)
		kept.Release()
		kept.Stop()
		l.Show()
		for range 20 {
			l.Pass(50 * time.Millisecond)
			if moved := lease.ValidUntil().Sub(until); moved.Abs() > 20*time.Millisecond {
				l.Fatalf("the deadline moved by %v after the renewal had failed", moved)
			}
		}
		l.Must(l.Renew(lease))
		if !lease.ValidUntil().After(until) {
			l.Error("a renewal after one that failed moved nothing")
		}
		l.Release(lease)
	})
}

// TestSlowAnswerIsNotADeadConnection: a call that has no answer for three times as long as the last
// answer took has no connection checked, and one for which that is longer has.
func TestSlowAnswerIsNotADeadConnection(t *testing.T) {
	for late, checked := range map[time.Duration]bool{900 * time.Millisecond: false, 500 * time.Millisecond: true} {
		t.Run(fmt.Sprint(late), func(t *testing.T) {
			inBubble(t, func(l *lab) {
				s := l.sem(l.Client(l.pooled(4)), 1)
				l.net.Latency(late)
				l.Release(l.Hold(s))
				before := l.net.Count("PING")
				hung := l.net.Inject(redistest.Rule{Match: testenv.Carries("A"), Fault: redistest.DelayReply})
				time.AfterFunc(2900*time.Millisecond, hung.Release) // it is given up after 2.5 s
				l.Hold(s)
				if n := l.net.Count("PING") - before; n > 0 != checked {
					l.Errorf("%d connections were checked", n)
				}
			})
		})
	}
}

// TestRequestsThatArriveLateAreLetInLater: Redis refuses what arrives later than the client allowed,
// since nobody may want it any more; so the client allows more for the next.
func TestRequestsThatArriveLateAreLetInLater(t *testing.T) {
	inBubble(t, func(l *lab) {
		s := l.sem(l.patient(), 1)
		l.Release(l.Hold(s)) // so that the server's clock is known
		copies := l.delays(3, 2300*time.Millisecond)
		l.Hold(s)
		if copies[1].Hits() != 1 || copies[2].Hits() != 0 {
			l.Error("the second request was not let in")
		}
	})
}

// TestRefusalsOfWhatWasGivenUpAreHeard: what arrives too late is answered when its call has been given
// up, and Redis is not silent all the same.
func TestRefusalsOfWhatWasGivenUpAreHeard(t *testing.T) {
	inBubble(t, func(l *lab) {
		s := l.sem(l.patient(), 1)
		l.Release(l.Hold(s)) // so that the server's clock is known
		l.delays(9, 3*time.Second)
		began := time.Now()
		l.Hold(s)
		if took := time.Since(began); took < 5*time.Second {
			l.Errorf("it took %v, as if nothing had been refused", took)
		}
	})
}

// delays has each of the next copies of an acquire arrive so late.
func (l *lab) delays(n int, late time.Duration) (copies []delayed) {
	l.Helper()
	for range n {
		kept := l.delay("A")
		copies = append(copies, kept)
		go func() {
			select {
			case <-kept.Hit():
				<-time.After(late)
			case <-l.Ctx.Done():
			}
			kept.Release()
		}()
	}
	return copies
}
