package berth_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/internal/redistest"
)

// A lease says what was granted, and the server says the same.
func TestLeaseTellsWhatWasGranted(t *testing.T) {
	each(t, func(_ *testing.T, e *env) {
		s := e.peer().sem(7, berth.Label("nightly"), berth.TTL(20*time.Second))
		before := time.Now()
		l := e.hold(s, berth.Weight(3))
		if l.Name() != name || l.Weight() != 3 || l.Label() != "nightly" || l.Limit() != 7 || l.Slot() != 0 || !l.Valid() {
			e.t.Errorf("lease %q: weight %d, label %q, limit %d, slot %d, valid %v",
				l.Name(), l.Weight(), l.Label(), l.Limit(), l.Slot(), l.Valid())
		}
		if until := l.ValidUntil(); until.Before(before.Add(15*time.Second)) || until.After(time.Now().Add(20*time.Second)) {
			e.t.Errorf("valid until %v, now it is %v", until, time.Now())
		}
		h := e.show().Leases[0]
		if h.ID != l.ID() || h.Weight != 3 || h.Label != "nightly" || h.Token != l.Token() || h.Slot != 0 || h.PID == 0 || h.Host == "" {
			e.t.Errorf("holder %+v", h)
		}
		if s.Name() != name || s.Limit() != 7 {
			e.t.Errorf("semaphore %q with limit %d", s.Name(), s.Limit())
		}
	})
}

// Leases are renewed for as long as their process lives.
func TestLeaseOutlivesItsTTL(t *testing.T) {
	each(t, func(_ *testing.T, e *env) {
		const ttl = 1500 * time.Millisecond
		l := e.hold(e.peer().sem(1, berth.TTL(ttl)))
		start := time.Now()
		long := 2 * ttl
		if e.exact {
			long = 100 * ttl
		}
		for time.Since(start) < long {
			e.pass(ttl / 4)
			if !l.Valid() {
				e.t.Fatalf("lost after %v", time.Since(start))
			}
		}
		e.holds(l)
		e.release(l)
	})
}

// TTLs that are no whole milliseconds are renewed like all others.
func TestTTLOfBrokenMilliseconds(t *testing.T) {
	exactly(t, func(_ *testing.T, e *env) {
		const ttl = time.Second + time.Microsecond
		p := e.peer()
		l := e.hold(p.sem(2, berth.TTL(ttl)))
		manual := e.hold(p.sem(2, berth.TTL(ttl), berth.WithoutRenewal()))
		e.pass(900 * time.Millisecond)
		if !manual.Valid() {
			e.t.Error("the unrenewed lease did not last its TTL")
		}
		e.pass(10 * ttl)
		if !l.Valid() {
			e.t.Errorf("lost: %v", context.Cause(l.Context()))
		}
	})
}

// WithoutRenewal: one TTL, unless the holder renews.
func TestWithoutRenewal(t *testing.T) {
	each(t, func(_ *testing.T, e *env) {
		p := e.peer()
		start := time.Now()
		l := e.hold(p.sem(1, berth.TTL(e.ttl), berth.WithoutRenewal()))
		e.pass(e.ttl / 4)
		e.must(l.Renew(e.ctx))
		lost := e.lost(l)
		e.within(start, e.ttl, e.ttl+e.ttl/4, "lost")
		if lost.Reason != berth.LostUntrusted || lost.ID != l.ID() || lost.Name != name {
			e.t.Errorf("told %+v", lost)
		}
		wantErr(e.t, l.Renew(e.ctx), berth.ErrLost)
		wantErr(e.t, l.Release(), berth.ErrLost)
		if !l.ValidUntil().IsZero() {
			e.t.Errorf("valid until %v", l.ValidUntil())
		}
	})
}

// A hand-off gives the waiter's heartbeat TTL at first; whoever renews by hand
// was promised the whole.
func TestHandOffWithoutRenewalLastsAWholeTTL(t *testing.T) {
	exactly(t, func(_ *testing.T, e *env) {
		p := e.peer()
		first := e.hold(p.sem(1))
		r := e.queue(p.sem(1, berth.TTL(time.Minute), berth.WithoutRenewal()))
		e.pass(5 * time.Second)
		e.release(first)
		l := r.granted()
		if left := time.Until(l.ValidUntil()); left < 59*time.Second {
			e.t.Errorf("valid for %v", left)
		}
		e.trusts(l, "handed off")
	})
}

// A hand-off is renewed to the full TTL, and lasts.
func TestHandOffIsRenewed(t *testing.T) {
	exactly(t, func(_ *testing.T, e *env) {
		p := e.peer()
		first := e.hold(p.sem(1))
		r := e.queue(p.sem(1, berth.TTL(time.Minute)))
		e.pass(5 * time.Second)
		e.release(first)
		l := r.granted()
		e.trusts(l, "handed off")
		e.pass(10 * time.Minute)
		if !l.Valid() {
			e.t.Error("lost")
		}
		e.trusts(l, "renewed")
	})
}

// MaxHold ends a lease that hangs, by the server's clock, however it is renewed.
func TestMaxHold(t *testing.T) {
	each(t, func(_ *testing.T, e *env) {
		p, q := e.peer(), e.peer()
		hold := 2 * e.ttl
		start := time.Now()
		l := e.hold(p.sem(1, berth.TTL(e.ttl), berth.MaxHold(hold)))
		r := e.queue(q.sem(1))
		lost := e.lost(l)
		if lost.Reason != berth.LostMaxHold {
			e.t.Errorf("told %q", lost.Reason)
		}
		r.granted()
		e.within(start, hold, hold, "granted to the next")
		wantErr(e.t, l.Renew(e.ctx), berth.ErrLost)
	})
}

// MaxHold shorter than the TTL bounds the first lease, and a hand-off's too.
func TestMaxHoldBelowTheTTL(t *testing.T) {
	each(t, func(_ *testing.T, e *env) {
		p := e.peer()
		s := p.sem(1, berth.TTL(time.Hour), berth.MaxHold(e.ttl/2))
		first := e.hold(s)
		r := e.queue(s)
		e.release(first)
		start := time.Now()
		l := r.granted()
		e.lost(l)
		if d := time.Since(start); d > e.ttl/2+e.slack() {
			e.t.Errorf("lost after %v", d)
		}
	})
}

// HeadStart moves a waiter's place by the stated time and nothing more.
func TestHeadStart(t *testing.T) {
	each(t, func(_ *testing.T, e *env) {
		p, q := e.peer(), e.peer()
		first := e.hold(p.sem(1))
		a := e.queue(p.sem(1))
		e.pass(50 * time.Millisecond)
		b := e.queue(q.sem(1), berth.HeadStart(time.Millisecond))
		c := e.queue(q.sem(1), berth.HeadStart(time.Minute))
		d := e.queue(p.sem(1), berth.HeadStart(time.Hour))
		f := e.queue(q.sem(1), berth.HeadStart(time.Minute/2))
		e.release(first)
		last := first.Token()
		for i, r := range []*request{d, c, f, a, b} {
			l := r.granted()
			if l.Token() < last {
				e.t.Fatalf("the one that should be %d. in line came earlier", i)
			}
			last = l.Token()
			e.release(l)
		}
	})
}

// OnQueued tells the place, and that it moves up.
func TestOnQueuedTellsThePlace(t *testing.T) {
	each(t, func(_ *testing.T, e *env) {
		p := e.peer()
		first := e.hold(p.sem(1))
		a, b := e.queue(p.sem(1)), e.queue(p.sem(1))
		places := make(chan berth.Place, 100)
		last := e.start(p.sem(1, berth.TTL(e.ttl)), berth.OnQueued(func(p berth.Place) { places <- p }))
		if got := <-places; got != (berth.Place{Ahead: 2, InUse: 1, Limit: 1, Waiting: 3}) {
			e.t.Errorf("at first %+v", got)
		}
		e.release(first)
		second := a.granted()
		for got := range places { // by heartbeat
			if got == (berth.Place{Ahead: 1, InUse: 1, Limit: 1, Waiting: 2}) {
				break
			}
		}
		e.release(second)
		e.release(b.granted())
		last.granted()
	})
}

// A lease changes hands: its first process ends, the second one renews it.
func TestDetachAndAdopt(t *testing.T) {
	each(t, func(_ *testing.T, e *env) {
		p, q := e.peer(), e.peer()
		first := e.hold(p.sem(3, berth.TTL(1500*time.Millisecond), berth.Label("job"), berth.Weight(2)))
		handle, err := first.Detach(context.Background())
		e.must(err)
		if first.Valid() || !errors.Is(context.Cause(first.Context()), berth.ErrReleased) {
			e.t.Errorf("after Detach: valid %v, cause %v", first.Valid(), context.Cause(first.Context()))
		}
		wantErr(e.t, first.Release(), berth.ErrReleased)
		wantErr(e.t, first.Renew(e.ctx), berth.ErrReleased)
		_, err = first.Detach(context.Background())
		wantErr(e.t, err, berth.ErrReleased)
		e.must(p.Close())

		l, err := q.Adopt(e.ctx, handle)
		e.must(err)
		if l.ID() == first.ID() || l.Token() <= first.Token() || l.Slot() != first.Slot() || l.TTL() != first.TTL() || l.Weight() != 2 || l.Label() != "job" || l.Limit() != 3 {
			e.t.Errorf("adopted %+v", l)
		}
		e.holds(l)
		e.pass(2 * time.Second)
		if !l.Valid() {
			e.t.Error("the adopted lease was not renewed")
		}
		e.release(l)
		e.idle()
	})
}

// Losses are told to the process that has adopted.
func TestAdoptedLeaseHearsOfEviction(t *testing.T) {
	each(t, func(_ *testing.T, e *env) {
		p, q := e.peer(), e.peer()
		handle, err := e.hold(p.sem(1)).Detach(context.Background())
		e.must(err)
		l, err := q.Adopt(e.ctx, handle)
		e.must(err)
		start := time.Now()
		e.must(e.eye.ForceEvict(e.ctx, name, l.ID()))
		if lost := e.lost(l); lost.Reason != berth.LostEvicted {
			e.t.Errorf("told %q", lost.Reason)
		}
		e.within(start, 0, 0, "told")
	})
}

// A handle whose lease has run out, or was never detached, resumes nothing.
func TestAdoptOfWhatIsGone(t *testing.T) {
	each(t, func(_ *testing.T, e *env) {
		p, q := e.peer(), e.peer()
		handle, err := e.hold(p.sem(1, berth.TTL(e.ttl))).Detach(context.Background())
		e.must(err)
		e.until("expired", func(s *berth.State) bool { return s.Holders == 0 })
		_, err = q.Adopt(e.ctx, handle)
		wantErr(e.t, err, berth.ErrLost)
		e.idle()
	})
}

// The process that detached may adopt too.
func TestAdoptInTheSameProcess(t *testing.T) {
	each(t, func(_ *testing.T, e *env) {
		p := e.peer()
		handle, err := e.hold(p.sem(1)).Detach(context.Background())
		e.must(err)
		l, err := p.Adopt(e.ctx, handle)
		e.must(err)
		if again, err := p.Adopt(e.ctx, handle); err == nil {
			e.t.Errorf("adopted twice: %v", again.ID())
		}
		e.holds(l)
		e.release(l)
		e.idle()
	})
}

func TestReleaseTwice(t *testing.T) {
	each(t, func(_ *testing.T, e *env) {
		p := e.peer()
		l := e.hold(p.sem(1))
		e.release(l)
		next := e.hold(p.sem(1))
		wantErr(e.t, l.Release(), berth.ErrReleased)
		wantErr(e.t, l.Renew(e.ctx), berth.ErrReleased)
		wantErr(e.t, context.Cause(l.Context()), berth.ErrReleased)
		e.holds(next)
	})
}

// Release stops and joins what is under way, whichever comes first.
func TestReleaseDuringRenew(t *testing.T) {
	each(t, func(_ *testing.T, e *env) {
		p := e.peer()
		for range 20 {
			l := e.hold(p.sem(1))
			var wg sync.WaitGroup
			for range 3 {
				wg.Go(func() {
					if err := l.Renew(e.ctx); err != nil && !errors.Is(err, berth.ErrReleased) {
						e.t.Error(err)
					}
				})
			}
			e.release(l)
			wg.Wait()
			e.idle()
		}
	})
}

// Several releases of one lease: one gives back, nobody else's permit goes.
func TestConcurrentReleases(t *testing.T) {
	each(t, func(_ *testing.T, e *env) {
		p := e.peer()
		l, keep := e.hold(p.sem(2)), e.hold(p.sem(2))
		errs := make(chan error)
		for range 5 {
			go func() { errs <- l.Release() }()
		}
		worked := 0
		for range 5 {
			if err := <-errs; err == nil {
				worked++
			} else {
				wantErr(e.t, err, berth.ErrReleased)
			}
		}
		if worked != 1 {
			e.t.Errorf("%d of 5 releases worked", worked)
		}
		e.holds(keep)
	})
}

// A release is not hindered by a dead context, and a dead network is told.
func TestReleaseIsBounded(t *testing.T) {
	exactly(t, func(_ *testing.T, e *env) {
		p := e.peer()
		ctx, cancel := context.WithCancel(e.ctx)
		l, err := p.sem(1, berth.TTL(time.Minute)).Acquire(ctx)
		e.must(err)
		cancel()
		if !l.Valid() || l.Context().Err() != nil {
			e.t.Error("the end of the wait's context ended the lease")
		}
		hung := p.net.Inject(redistest.Rule{Fault: redistest.SwallowRequest, Match: redistest.IsScript, Times: -1})
		start := time.Now()
		wantErr(e.t, l.Release(), berth.ErrUnreachable)
		e.within(start, time.Second, 10*time.Second, "gave up")
		hung.Stop()
		e.until("released in the background", func(s *berth.State) bool { return s.Holders == 0 })
		e.within(start, 0, 20*time.Second, "released")
	})
}

// Messages for people say what to do.
func TestErrorsSayWhatToDo(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err  error
		want []string
	}{
		{&berth.BusyError{Name: "n", InUse: 2, Limit: 2, Waiting: 1}, []string{`"n"`, "2 of 2", "1 waiting", "Acquire"}},
		{&berth.BusyError{Name: "n", QueueFull: true}, []string{"queue full", "QueueLimit"}},
		{&berth.BusyError{Name: "n", Paused: true}, []string{"paused by an operator"}},
		{&berth.TooHeavyError{Name: "n", Weight: 3, Limit: 2}, []string{"3", "2", "raise the limit"}},
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
