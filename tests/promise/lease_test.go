package promise_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/berthadmin"
	"github.com/berth-go/berth/internal/testkit/redistest"
	"github.com/berth-go/berth/internal/testkit/testenv"
)

// A lease says what was granted, and the server says the same.
func TestLeaseTellsWhatWasGranted(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		s := e.Peer().Sem(7, berth.Label("nightly"), berth.TTL(20*time.Second))
		before := time.Now()
		l := e.Hold(s, berth.Weight(3))
		if l.Name() != testenv.Name || l.Weight() != 3 || l.Label() != "nightly" || l.Limit() != 7 || l.Slot() != 0 || !l.Valid() {
			e.Errorf("lease %q: weight %d, label %q, limit %d, slot %d, valid %v",
				l.Name(), l.Weight(), l.Label(), l.Limit(), l.Slot(), l.Valid())
		}
		if until := l.ValidUntil(); until.Before(before.Add(15*time.Second)) || until.After(time.Now().Add(20*time.Second)) {
			e.Errorf("valid until %v, now it is %v", until, time.Now())
		}
		h := e.Show().Leases[0]
		if h.ID != l.ID() || h.Weight != 3 || h.Label != "nightly" || h.Token != l.Token() || h.Slot != 0 || h.PID == 0 || h.Host == "" {
			e.Errorf("holder %+v", h)
		}
		if s.Name() != testenv.Name || s.Limit() != 7 {
			e.Errorf("semaphore %q with limit %d", s.Name(), s.Limit())
		}
	})
}

// Leases are renewed for as long as their process lives.
func TestLeaseOutlivesItsTTL(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		ttl := 6 * time.Second // a slow machine renews late
		long := 2 * ttl
		if e.Exact {
			long = 100 * ttl
		}
		s := e.Peer().Sem(1, berth.TTL(ttl))
		e.Must(e.InTime(func() error {
			l := e.Hold(s)
			for start := time.Now(); time.Since(start) < long; {
				e.Pass(ttl / 4)
				if !l.Valid() {
					return fmt.Errorf("lost after %v: %w", time.Since(start), e.Lost(l))
				}
			}
			e.Holds(l)
			return l.Release()
		}))
	})
}

// TTLs that are no whole milliseconds are renewed like all others.
func TestTTLOfBrokenMilliseconds(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		const ttl = time.Second + time.Microsecond
		p := e.Peer()
		l := e.Hold(p.Sem(2, berth.TTL(ttl)))
		manual := e.Hold(p.Sem(2, berth.TTL(ttl), berth.WithoutRenewal()))
		e.Pass(900 * time.Millisecond)
		if !manual.Valid() {
			e.Error("the unrenewed lease did not last its TTL")
		}
		e.Pass(10 * ttl)
		if !l.Valid() {
			e.Errorf("lost: %v", context.Cause(l.Context()))
		}
	})
}

// WithoutRenewal: one TTL, unless the holder renews.
func TestWithoutRenewal(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		p := e.Peer()
		var start time.Time
		var l *berth.Lease
		e.Must(e.InTime(func() error {
			start = time.Now()
			l = e.Hold(p.Sem(1, berth.TTL(e.TTL), berth.WithoutRenewal()))
			e.Pass(e.TTL / 4)
			return e.Renew(l)
		}))
		lost := e.Lost(l)
		e.Within(start, e.TTL, e.TTL+e.TTL/4, "lost")
		if lost.Reason != berth.LostUntrusted || lost.ID != l.ID() || lost.Name != testenv.Name {
			e.Errorf("told %+v", lost)
		}
		e.WantErr(l.Renew(e.Ctx), berth.ErrLost)
		e.WantErr(l.Release(), berth.ErrLost)
		if !l.ValidUntil().IsZero() {
			e.Errorf("valid until %v", l.ValidUntil())
		}
	})
}

// A hand-off gives the waiter's heartbeat TTL at first; whoever renews by hand
// was promised the whole.
func TestHandOffWithoutRenewalLastsAWholeTTL(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		p := e.Peer()
		first := e.Hold(p.Sem(1))
		r := e.Queue(p.Sem(1, berth.TTL(time.Minute), berth.WithoutRenewal()))
		e.Pass(5 * time.Second)
		e.Release(first)
		l := r.Granted()
		if left := time.Until(l.ValidUntil()); left < 59*time.Second {
			e.Errorf("valid for %v", left)
		}
		trusts(e, l, "handed off")
	})
}

// A hand-off is renewed to the full TTL, and lasts.
func TestHandOffIsRenewed(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		p := e.Peer()
		first := e.Hold(p.Sem(1))
		r := e.Queue(p.Sem(1, berth.TTL(time.Minute)))
		e.Pass(5 * time.Second)
		e.Release(first)
		l := r.Granted()
		trusts(e, l, "handed off")
		e.Pass(10 * time.Minute)
		if !l.Valid() {
			e.Error("lost")
		}
		trusts(e, l, "renewed")
	})
}

// MaxHold ends a lease that hangs, by the server's clock, however it is renewed.
func TestMaxHold(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		p, q := e.Peer(), e.Peer()
		hold, ttl := 2*e.TTL, e.TTL
		if !e.Exact {
			ttl = time.Minute // a slow machine would lose a short lease before
		}
		start := time.Now()
		l := e.Hold(p.Sem(1, berth.TTL(ttl), berth.MaxHold(hold)))
		r := e.Follow(q.Sem(1))
		_ = l.Renew(e.Ctx) // it may be over
		lost := e.Lost(l)
		if lost.Reason != berth.LostMaxHold {
			e.Errorf("told %q", lost.Reason)
		}
		r.Granted()
		e.Within(start, hold, hold, "granted to the next")
		e.WantErr(l.Renew(e.Ctx), berth.ErrLost)
	})
}

// MaxHold shorter than the TTL bounds a hand-off's lease, too.
func TestMaxHoldBelowTheTTL(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		p := e.Peer()
		s := p.Sem(1, berth.TTL(time.Hour), berth.MaxHold(e.TTL/2))
		first := e.Hold(p.Sem(1))
		r := e.Queue(s)
		e.Release(first)
		start := time.Now()
		l := r.Granted()
		e.Lost(l)
		if d := time.Since(start); d > e.TTL/2+e.Slack() {
			e.Errorf("lost after %v", d)
		}
	})
}

// A hand-off is told by a message, which says nothing of MaxHold: it counts all the same.
func TestHandOffIsTrustedForNoLongerThanMaxHold(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		p := e.Peer()
		first := e.Hold(p.Sem(1))
		r := e.Queue(p.Sem(1, berth.MaxHold(2*time.Second)))
		e.Release(first)
		l := r.Granted()
		trusts(e, l, "handed off")
		start := time.Now()
		e.Lost(l)
		e.Within(start, 0, 2*time.Second, "lost")
	})
}

// HeadStart moves a waiter's place by the stated time and nothing more.
func TestHeadStart(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		p, q := e.Peer(), e.Peer()
		first := e.Hold(p.Sem(1))
		a := e.Queue(p.Sem(1))
		e.Pass(50 * time.Millisecond)
		b := e.Queue(q.Sem(1), berth.HeadStart(time.Millisecond))
		c := e.Queue(q.Sem(1), berth.HeadStart(time.Minute))
		d := e.Queue(p.Sem(1), berth.HeadStart(time.Hour))
		f := e.Queue(q.Sem(1), berth.HeadStart(time.Minute/2))
		e.Release(first)
		last := first.Token()
		for i, r := range []*testenv.Request{d, c, f, a, b} {
			l := r.Granted()
			if l.Token() < last {
				e.Fatalf("the one that should be %d. in line came earlier", i)
			}
			last = l.Token()
			e.Release(l)
		}
	})
}

// OnQueued tells the place, and that it moves up.
func TestOnQueuedTellsThePlace(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		p := e.Peer()
		first := e.Hold(p.Sem(1))
		a, b := e.Queue(p.Sem(1)), e.Queue(p.Sem(1))
		places := make(chan berth.Place, 100)
		last := e.Start(p.Sem(1, berth.TTL(e.TTL)), berth.OnQueued(func(p berth.Place) { places <- p }))
		if got := <-places; got != (berth.Place{Ahead: 2, Status: berth.Status{InUse: 1, Limit: 1, Waiting: 3}}) {
			e.Errorf("at first %+v", got)
		}
		e.Release(first)
		second := a.Granted()
		for got := range places { // by heartbeat
			if got == (berth.Place{Ahead: 1, Status: berth.Status{InUse: 1, Limit: 1, Waiting: 2}}) {
				break
			}
		}
		e.Release(second)
		e.Release(b.Granted())
		last.Granted()
	})
}

// A lease changes hands: its first process ends, the second one renews it.
func TestDetachAndAdopt(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		p, q := e.Peer(), e.Peer()
		first := e.Hold(p.Sem(3, berth.TTL(6*time.Second), berth.Label("job"), berth.Weight(2)))
		handle, err := first.Detach(context.Background())
		e.Must(err)
		if first.Valid() || !errors.Is(context.Cause(first.Context()), berth.ErrDetached) {
			e.Errorf("after Detach: valid %v, cause %v", first.Valid(), context.Cause(first.Context()))
		}
		e.WantErr(first.Release(), berth.ErrReleased)
		e.WantErr(first.Renew(e.Ctx), berth.ErrReleased)
		_, err = first.Detach(context.Background())
		e.WantErr(err, berth.ErrReleased)
		e.Must(p.Close())

		l, err := q.Adopt(e.Ctx, handle)
		e.Must(err)
		if l.ID() == first.ID() || l.Token() <= first.Token() || l.Slot() != first.Slot() || l.TTL() != first.TTL() || l.Weight() != 2 || l.Label() != "job" || l.Limit() != 3 {
			e.Errorf("adopted %+v", l)
		}
		e.Holds(l)
		e.Pass(l.TTL() + l.TTL()/3)
		if !l.Valid() {
			e.Error("the adopted lease was not renewed")
		}
		e.Release(l)
		e.Idle()
	})
}

// Losses are told to the process that has adopted.
func TestAdoptedLeaseHearsOfEviction(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		p, q := e.Peer(), e.Peer()
		handle, err := e.Hold(p.Sem(1)).Detach(context.Background())
		e.Must(err)
		l, err := q.Adopt(e.Ctx, handle)
		e.Must(err)
		start := time.Now()
		e.Must(e.Inspector.ForceEvict(e.Ctx, testenv.Name, l.ID()))
		if lost := e.Lost(l); lost.Reason != berth.LostEvicted {
			e.Errorf("told %q", lost.Reason)
		}
		e.Within(start, 0, 0, "told")
	})
}

// A handle whose lease has run out, or was never detached, resumes nothing.
func TestAdoptOfWhatIsGone(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		p, q := e.Peer(), e.Peer()
		var handle berth.Handle
		e.Must(e.InTime(func() (err error) {
			handle, err = e.Hold(p.Sem(1, berth.TTL(e.TTL))).Detach(context.Background())
			return err
		}))
		e.Until("expired", func(s *berthadmin.State) bool { return s.Holders == 0 })
		_, err := q.Adopt(e.Ctx, handle)
		e.WantErr(err, berth.ErrLost)
		e.Idle()
	})
}

// A Detach whose context ends together with its success leaves either a handle, or nothing
// that keeps the permit.
func TestDetachWhoseContextEnds(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		p := e.Peer()
		for range 50 {
			l := e.Hold(p.Sem(1))
			slow := p.Net.Inject(redistest.Rule{Match: testenv.Carries("M"), Fault: redistest.DelayReply})
			ctx, cancel := context.WithTimeout(e.Ctx, time.Millisecond)
			time.AfterFunc(time.Millisecond, slow.Release)
			handle, err := l.Detach(ctx)
			cancel()
			if err == nil {
				e.Must(p.ReleaseHandle(e.Ctx, handle))
			}
			synctest.Wait()
			e.WantErr(context.Cause(l.Context()), berth.ErrDetached)
			e.Idle()
		}
	})
}

// The process that detached may adopt too.
func TestAdoptInTheSameProcess(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		p := e.Peer()
		handle, err := e.Hold(p.Sem(1)).Detach(context.Background())
		e.Must(err)
		l, err := p.Adopt(e.Ctx, handle)
		e.Must(err)
		if again, err := p.Adopt(e.Ctx, handle); err == nil {
			e.Errorf("adopted twice: %v", again.ID())
		}
		e.Holds(l)
		e.Release(l)
		e.Idle()
	})
}

func TestReleaseTwice(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		p := e.Peer()
		l := e.Hold(p.Sem(1))
		e.Release(l)
		next := e.Hold(p.Sem(1))
		e.WantErr(l.Release(), berth.ErrReleased)
		e.WantErr(l.Renew(e.Ctx), berth.ErrReleased)
		e.WantErr(context.Cause(l.Context()), berth.ErrReleased)
		e.Holds(next)
	})
}

// Release stops and joins what is under way, whichever comes first.
func TestReleaseDuringRenew(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		p := e.Peer()
		for range 20 {
			l := e.Hold(p.Sem(1))
			var wg sync.WaitGroup
			for range 3 {
				wg.Go(func() {
					if err := l.Renew(e.Ctx); err != nil && !errors.Is(err, berth.ErrReleased) {
						e.Error(err)
					}
				})
			}
			e.Release(l)
			wg.Wait()
			e.Idle()
		}
	})
}

// Several releases of one lease: one gives back, nobody else's permit goes.
func TestConcurrentReleases(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		p := e.Peer()
		l, keep := e.Hold(p.Sem(2)), e.Hold(p.Sem(2))
		errs := make(chan error)
		for range 5 {
			go func() { errs <- l.Release() }()
		}
		worked := 0
		for range 5 {
			if err := <-errs; err == nil {
				worked++
			} else {
				e.WantErr(err, berth.ErrReleased)
			}
		}
		if worked != 1 {
			e.Errorf("%d of 5 releases worked", worked)
		}
		e.Holds(keep)
	})
}

// A release is not hindered by a dead context, and a dead network is told.
func TestReleaseIsBounded(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		p := e.Peer()
		ctx, cancel := context.WithCancel(e.Ctx)
		l, err := p.Sem(1, berth.TTL(time.Minute)).Acquire(ctx)
		e.Must(err)
		cancel()
		if !l.Valid() || l.Context().Err() != nil {
			e.Error("the end of the wait's context ended the lease")
		}
		hung := p.Net.Inject(redistest.Rule{Fault: redistest.SwallowRequest, Match: redistest.IsScript, Times: -1})
		start := time.Now()
		e.WantErr(l.Release(), berth.ErrUnreachable)
		e.Within(start, time.Second, 10*time.Second, "gave up")
		hung.Stop()
		e.Until("released in the background", func(s *berthadmin.State) bool { return s.Holders == 0 })
		e.Within(start, 0, 20*time.Second, "released")
	})
}

// Messages for people say what to do.
func TestErrorsSayWhatToDo(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err  error
		want []string
	}{
		{&berth.BusyError{Name: "n", Status: berth.Status{InUse: 2, Limit: 2, Waiting: 1}}, []string{`"n"`, "2 of 2", "1 waiting", "wait for it"}},
		{&berth.BusyError{Name: "n", QueueFull: true}, []string{"the queue", "is full", "raise the queue limit"}},
		{&berth.BusyError{Name: "n", QueueFull: true, Tenant: "t"}, []string{`the queue of semaphore "n" is full for tenant "t"`, "raise the queue limit"}},
		{&berth.BusyError{Name: "n", Status: berth.Status{Paused: true}}, []string{"paused by an operator"}},
		{&berth.TooHeavyError{Name: "n", Weight: 3, Status: berth.Status{Limit: 2}}, []string{"3", "2", "raise the limit"}},
		{&berth.LostError{Name: "n", ID: "i", Reason: berth.LostExpired, Err: errShift}, []string{"expired", "stop", errShift.Error()}},
		{&berth.InvalidError{What: "limit", Reason: "0 is outside 1 to 2"}, []string{"invalid limit", "outside"}},
	} {
		for _, want := range c.want {
			if !strings.Contains(c.err.Error(), want) {
				t.Errorf("%q does not mention %q", c.err, want)
			}
		}
	}
}
