package promise_test

import (
	"errors"
	"testing"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/internal/testkit/testenv"
)

// The ways in which a limit grows, each with the waiters that it wakes.
func TestGrowingTheLimitWakesWaiters(t *testing.T) {
	for what, grow := range map[string]func(*testenv.Env, *testenv.Peer){
		"resize": func(e *testenv.Env, _ *testenv.Peer) { e.Must(e.Inspector.Resize(e.Ctx, testenv.Name, 3)) },
		"pin":    func(e *testenv.Env, _ *testenv.Peer) { e.Must(e.Inspector.Pin(e.Ctx, testenv.Name, 3)) },
		"declaration": func(e *testenv.Env, p *testenv.Peer) {
			err := e.Try(p.Sem(3))
			e.WantErr(err, berth.ErrBusy) // the waiters come first
		},
	} {
		t.Run(what, func(t *testing.T) {
			testenv.Each(t, func(e *testenv.Env) {
				holder, waiter := e.Peer(), e.Peer()
				first := e.Hold(holder.Sem(1))
				a, b, c := e.Queue(waiter.Sem(1)), e.Queue(waiter.Sem(1)), e.Queue(waiter.Sem(1))
				grow(e, holder)
				e.Holds(first, a.Granted(), b.Granted())
				c.Waits()
			})
		})
	}
}

// Holders above a smaller limit keep their leases; nobody is granted until there is room.
func TestShrinkingDrains(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		p := e.Peer()
		var leases []*berth.Lease
		for range 4 {
			leases = append(leases, e.Hold(p.Sem(4)))
		}
		e.Must(e.Inspector.Pin(e.Ctx, testenv.Name, 2))
		r := e.Queue(p.Sem(4))
		e.Release(leases[:2]...)
		r.Waits()
		if st := e.Show(); st.InUse != 2 || st.Limit != 2 {
			e.Errorf("state %+v", st.Summary)
		}
		e.Release(leases[2])
		if l := r.Granted(); l.Limit() != 2 {
			e.Errorf("limit at the grant %d, want 2", l.Limit())
		}
	})
}

// Two deployments that differ: the last declaration is in force, and flapping shows.
func TestClientsWithDifferentLimits(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		old, next := e.Peer(), e.Peer()
		keep := e.Hold(old.Sem(5))
		for range 3 {
			e.Release(e.Hold(next.Sem(3)), e.Hold(old.Sem(5)))
		}
		st := e.Show()
		if st.LimitChanges != 6 || st.Limit != 5 || st.Declared != 5 || st.Pinned {
			e.Errorf("state %+v", st.Summary)
		}
		e.Holds(keep)
	})
}

// A pin wins over declarations, and Unpin puts the last one in force.
func TestPinWinsOverDeclarations(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		p := e.Peer()
		e.Must(e.Inspector.Pin(e.Ctx, testenv.Name, 1))
		first := e.Hold(p.Sem(3))
		if first.Limit() != 1 {
			e.Errorf("limit at the grant %d, want 1", first.Limit())
		}
		r := e.Queue(p.Sem(3))
		if st := e.Show(); st.Limit != 1 || st.Declared != 3 || !st.Pinned {
			e.Errorf("state %+v", st.Summary)
		}
		e.Must(e.Inspector.Unpin(e.Ctx, testenv.Name))
		if l := r.Granted(); l.Limit() != 3 {
			e.Errorf("limit at the grant %d, want 3", l.Limit())
		}
	})
}

// A pin of 0 freezes, also while nobody uses the semaphore; nobody is too heavy for it.
func TestPinOfZeroFreezes(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		p := e.Peer()
		e.Must(e.Inspector.Pin(e.Ctx, testenv.Name, 0))
		err := e.Try(p.Sem(3), berth.Weight(3))
		e.WantErr(err, berth.ErrBusy)
		r := e.Queue(p.Sem(3), berth.Weight(3))
		r.Waits()
		e.Must(e.Inspector.Unpin(e.Ctx, testenv.Name))
		r.Granted()
	})
}

// A resize lasts until somebody declares another limit.
func TestResizeLastsUntilTheNextDeclaration(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		p := e.Peer()
		first := e.Hold(p.Sem(1))
		e.Must(e.Inspector.Resize(e.Ctx, testenv.Name, 2))
		if st := e.Show(); st.Limit != 2 || st.Pinned {
			e.Errorf("state %+v", st.Summary)
		}
		err := e.Try(p.Sem(1))
		e.WantErr(err, berth.ErrBusy)
		e.Holds(first)
		if st := e.Show(); st.Limit != 1 {
			e.Errorf("state %+v", st.Summary)
		}
	})
}

// Whoever has become too heavy for the limit is told, and blocks nobody.
func TestHeadHeavierThanLimitIsToldAndDoesNotBlock(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		holder, waiter := e.Peer(), e.Peer()
		first := e.Hold(holder.Sem(4), berth.Weight(3))
		heavy := e.Queue(waiter.Sem(4), berth.Weight(4))
		next := e.Queue(waiter.Sem(4), berth.Weight(2))
		e.Must(e.Inspector.Pin(e.Ctx, testenv.Name, 3))
		var told *berth.TooHeavyError
		if err := heavy.Refused(berth.ErrTooHeavy); !errors.As(err, &told) || told.Weight != 4 || told.Limit != 3 {
			e.Errorf("told %v", err)
		}
		next.Waits()
		e.Release(first)
		e.Holds(next.Granted())
	})
}

func TestTooHeavyIsRefusedAtOnce(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		s := e.Peer().Sem(3)
		_, err := s.Acquire(e.Ctx, berth.Weight(4))
		var told *berth.TooHeavyError
		if !errors.As(err, &told) || *told != (berth.TooHeavyError{Name: testenv.Name, Weight: 4, Status: berth.Status{Limit: 3}}) {
			e.Errorf("told %v", err)
		}
		e.WantErr(err, berth.ErrTooHeavy)
		err = e.Try(s, berth.Weight(4))
		e.WantErr(err, berth.ErrTooHeavy)
		e.Idle()
	})
}

// Each lease has its own TTL: a visitor's does not count for others.
func TestClientsWithDifferentTTLs(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		long, short, waiter := e.Peer(), e.Peer(), e.Peer()
		stays := e.Hold(long.Sem(2, berth.TTL(time.Hour)))
		start := time.Now()
		e.Hold(short.Sem(2, berth.TTL(e.TTL)))
		long.Crash()
		short.Crash()
		r := e.Follow(waiter.Sem(2))
		last := e.Queue(waiter.Sem(2))
		second := r.Granted()
		e.Within(start, e.TTL, e.TTL, "the short lease ran out")
		last.Waits()
		e.Holds(stays, second)
		if left := e.Show().Leases[0].ExpiresIn; left < 50*time.Minute {
			e.Errorf("the long lease has %v left", left)
		}
	})
}

// TryAcquire tells who is in the way.
func TestBusyErrorInforms(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		p := e.Peer()
		e.Hold(p.Sem(3), berth.Weight(2), berth.TTL(20*time.Second))
		e.Queue(p.Sem(3), berth.Weight(2))
		err := e.Try(p.Sem(3))
		e.WantErr(err, berth.ErrBusy)
		var busy *berth.BusyError
		if !errors.As(err, &busy) {
			e.Fatalf("told %v", err)
		}
		if busy.Name != testenv.Name || busy.InUse != 2 || busy.Limit != 3 || busy.Waiting != 1 || busy.QueueFull || busy.Paused {
			e.Errorf("told %+v", busy)
		}
		if busy.NextExpiry <= 0 || busy.NextExpiry > 20*time.Second {
			e.Errorf("next expiry %v", busy.NextExpiry)
		}
	})
}

// The limits of QueueLimit: n wait, the next one is refused; 0 never waits.
func TestQueueLimit(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		p, q := e.Peer(), e.Peer()
		first := e.Hold(p.Sem(1))
		_, err := p.Sem(1).Acquire(e.Ctx, berth.QueueLimit(0))
		e.WantErr(err, berth.ErrQueueFull)
		a := e.Queue(p.Sem(1), berth.QueueLimit(2))
		b := e.Queue(q.Sem(1), berth.QueueLimit(2))
		_, err = q.Sem(1).Acquire(e.Ctx, berth.QueueLimit(2))
		e.WantErr(err, berth.ErrQueueFull)
		var full *berth.BusyError
		if !errors.As(err, &full) || full.Waiting != 2 || !full.QueueFull {
			e.Errorf("told %+v", err)
		}
		e.Queue(q.Sem(1), berth.QueueLimit(3))
		e.Release(first)
		e.Release(a.Granted())
		b.Granted()
	})
}
