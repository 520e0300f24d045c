package berth_test

import (
	"errors"
	"testing"
	"time"

	"github.com/berth-go/berth"
)

// The ways in which a limit grows, each with the waiters that it wakes.
func TestGrowingTheLimitWakesWaiters(t *testing.T) {
	for what, grow := range map[string]func(*env, *peer){
		"resize": func(e *env, _ *peer) { e.must(e.eye.Resize(e.ctx, name, 3)) },
		"pin":    func(e *env, _ *peer) { e.must(e.eye.Pin(e.ctx, name, 3)) },
		"declaration": func(e *env, p *peer) {
			_, err := p.sem(3).TryAcquire(e.ctx)
			wantErr(e.t, err, berth.ErrBusy) // the waiters come first
		},
	} {
		t.Run(what, func(t *testing.T) {
			each(t, func(_ *testing.T, e *env) {
				holder, waiter := e.peer(), e.peer()
				first := e.hold(holder.sem(1))
				a, b, c := e.queue(waiter.sem(1)), e.queue(waiter.sem(1)), e.queue(waiter.sem(1))
				grow(e, holder)
				e.holds(first, a.granted(), b.granted())
				c.waits()
			})
		})
	}
}

// Holders above a smaller limit keep their leases; nobody is granted until there is room.
func TestShrinkingDrains(t *testing.T) {
	each(t, func(_ *testing.T, e *env) {
		p := e.peer()
		var leases []*berth.Lease
		for range 4 {
			leases = append(leases, e.hold(p.sem(4)))
		}
		e.must(e.eye.Pin(e.ctx, name, 2))
		r := e.queue(p.sem(4))
		e.release(leases[:2]...)
		r.waits()
		if st := e.show(); st.InUse != 2 || st.Limit != 2 {
			e.t.Errorf("state %+v", st.Summary)
		}
		e.release(leases[2])
		if l := r.granted(); l.Limit() != 2 {
			e.t.Errorf("limit at the grant %d, want 2", l.Limit())
		}
	})
}

// Two deployments that differ: the last declaration is in force, and flapping shows.
func TestClientsWithDifferentLimits(t *testing.T) {
	each(t, func(_ *testing.T, e *env) {
		old, next := e.peer(), e.peer()
		keep := e.hold(old.sem(5))
		for range 3 {
			e.release(e.hold(next.sem(3)), e.hold(old.sem(5)))
		}
		st := e.show()
		if st.LimitChanges != 6 || st.Limit != 5 || st.Declared != 5 || st.Pinned {
			e.t.Errorf("state %+v", st.Summary)
		}
		e.holds(keep)
	})
}

// A pin wins over declarations, and Unpin puts the last one in force.
func TestPinWinsOverDeclarations(t *testing.T) {
	each(t, func(_ *testing.T, e *env) {
		p := e.peer()
		e.must(e.eye.Pin(e.ctx, name, 1))
		first := e.hold(p.sem(3))
		if first.Limit() != 1 {
			e.t.Errorf("limit at the grant %d, want 1", first.Limit())
		}
		r := e.queue(p.sem(3))
		if st := e.show(); st.Limit != 1 || st.Declared != 3 || !st.Pinned {
			e.t.Errorf("state %+v", st.Summary)
		}
		e.must(e.eye.Unpin(e.ctx, name))
		if l := r.granted(); l.Limit() != 3 {
			e.t.Errorf("limit at the grant %d, want 3", l.Limit())
		}
	})
}

// A pin of 0 freezes, also while nobody uses the semaphore; nobody is too heavy for it.
func TestPinOfZeroFreezes(t *testing.T) {
	each(t, func(_ *testing.T, e *env) {
		p := e.peer()
		e.must(e.eye.Pin(e.ctx, name, 0))
		_, err := p.sem(3).TryAcquire(e.ctx, berth.Weight(3))
		wantErr(e.t, err, berth.ErrBusy)
		r := e.queue(p.sem(3), berth.Weight(3))
		r.waits()
		e.must(e.eye.Unpin(e.ctx, name))
		r.granted()
	})
}

// A resize lasts until somebody declares another limit.
func TestResizeLastsUntilTheNextDeclaration(t *testing.T) {
	each(t, func(_ *testing.T, e *env) {
		p := e.peer()
		first := e.hold(p.sem(1))
		e.must(e.eye.Resize(e.ctx, name, 2))
		if st := e.show(); st.Limit != 2 || st.Pinned {
			e.t.Errorf("state %+v", st.Summary)
		}
		_, err := p.sem(1).TryAcquire(e.ctx)
		wantErr(e.t, err, berth.ErrBusy)
		e.holds(first)
		if st := e.show(); st.Limit != 1 {
			e.t.Errorf("state %+v", st.Summary)
		}
	})
}

// Whoever has become too heavy for the limit is told, and blocks nobody.
func TestHeadHeavierThanLimitIsToldAndDoesNotBlock(t *testing.T) {
	each(t, func(_ *testing.T, e *env) {
		holder, waiter := e.peer(), e.peer()
		first := e.hold(holder.sem(4), berth.Weight(3))
		heavy := e.queue(waiter.sem(4), berth.Weight(4))
		next := e.queue(waiter.sem(4), berth.Weight(2))
		e.must(e.eye.Pin(e.ctx, name, 3))
		var told *berth.TooHeavyError
		if err := heavy.refused(berth.ErrTooHeavy); !errors.As(err, &told) || told.Weight != 4 || told.Limit != 3 {
			e.t.Errorf("told %v", err)
		}
		next.waits()
		e.release(first)
		e.holds(next.granted())
	})
}

func TestTooHeavyIsRefusedAtOnce(t *testing.T) {
	each(t, func(_ *testing.T, e *env) {
		s := e.peer().sem(3)
		_, err := s.Acquire(e.ctx, berth.Weight(4))
		var told *berth.TooHeavyError
		if !errors.As(err, &told) || *told != (berth.TooHeavyError{Name: name, Weight: 4, Limit: 3}) {
			e.t.Errorf("told %v", err)
		}
		wantErr(e.t, err, berth.ErrTooHeavy)
		_, err = s.TryAcquire(e.ctx, berth.Weight(4))
		wantErr(e.t, err, berth.ErrTooHeavy)
		e.idle()
	})
}

// Each lease has its own TTL: a visitor's does not count for others.
func TestClientsWithDifferentTTLs(t *testing.T) {
	each(t, func(_ *testing.T, e *env) {
		long, short, waiter := e.peer(), e.peer(), e.peer()
		stays := e.hold(long.sem(2, berth.TTL(time.Hour)))
		start := time.Now()
		e.hold(short.sem(2, berth.TTL(e.ttl)))
		long.crash()
		short.crash()
		r := e.queue(waiter.sem(2))
		last := e.queue(waiter.sem(2))
		second := r.granted()
		e.within(start, e.ttl, e.ttl, "the short lease ran out")
		last.waits()
		e.holds(stays, second)
		if left := e.show().Leases[0].ExpiresIn; left < 50*time.Minute {
			e.t.Errorf("the long lease has %v left", left)
		}
	})
}

// TryAcquire tells who is in the way.
func TestBusyErrorInforms(t *testing.T) {
	each(t, func(_ *testing.T, e *env) {
		p := e.peer()
		e.hold(p.sem(3), berth.Weight(2), berth.TTL(20*time.Second))
		e.queue(p.sem(3), berth.Weight(2))
		_, err := p.sem(3).TryAcquire(e.ctx)
		wantErr(e.t, err, berth.ErrBusy)
		var busy *berth.BusyError
		if !errors.As(err, &busy) {
			e.t.Fatalf("told %v", err)
		}
		if busy.Name != name || busy.InUse != 2 || busy.Limit != 3 || busy.Waiting != 1 || busy.QueueFull || busy.Paused {
			e.t.Errorf("told %+v", busy)
		}
		if busy.NextExpiry <= 0 || busy.NextExpiry > 20*time.Second {
			e.t.Errorf("next expiry %v", busy.NextExpiry)
		}
	})
}

// The limits of QueueLimit: n wait, the next one is refused; 0 never waits.
func TestQueueLimit(t *testing.T) {
	each(t, func(_ *testing.T, e *env) {
		p, q := e.peer(), e.peer()
		first := e.hold(p.sem(1))
		_, err := p.sem(1).Acquire(e.ctx, berth.QueueLimit(0))
		wantErr(e.t, err, berth.ErrQueueFull)
		a := e.queue(p.sem(1), berth.QueueLimit(2))
		b := e.queue(q.sem(1), berth.QueueLimit(2))
		_, err = q.sem(1).Acquire(e.ctx, berth.QueueLimit(2))
		wantErr(e.t, err, berth.ErrQueueFull)
		var full *berth.BusyError
		if !errors.As(err, &full) || full.Waiting != 2 || !full.QueueFull {
			e.t.Errorf("told %+v", err)
		}
		e.queue(q.sem(1), berth.QueueLimit(3))
		e.release(first)
		e.release(a.granted())
		b.granted()
	})
}
