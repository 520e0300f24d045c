package fault_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/internal/testkit/redistest"
	"github.com/berth-go/berth/internal/testkit/testenv"
)

// TestCancelRacesGrant: the holder releases and the waiter gives up in the same
// moment, or one just before the other, many times. Either the waiter has the
// permit or the next one has.
func TestCancelRacesGrant(t *testing.T) {
	everywhere(t, func(l *lab) {
		s, other := l.sem(l.faulty(), 1), l.sem(l.faulty(), 1)
		highest, won := int64(0), 0
		const rounds = 45
		for round := range rounds {
			holder := l.Hold(s)
			ctx, cancel := context.WithCancel(l.Ctx)
			waiting := l.queued(ctx, other, 1)
			released := make(chan error, 1)
			go func() {
				if round%3 == 1 {
					<-ctx.Done()
				}
				released <- l.GiveBack(holder)
			}()
			if round%3 == 2 {
				l.waitFor("released", func() bool { return len(released) == 1 })
			}
			cancel()
			if err := testenv.Receive(l, "release", released); err != nil {
				l.Fatal(err)
			}
			switch o := testenv.Receive(l, "end of the wait", waiting); {
			case o.err == nil:
				won++
				l.Release(o.lease)
			case !errors.Is(o.err, context.Canceled):
				l.Fatalf("Acquire: %v", o.err)
			}
			next := l.Hold(s)
			if next.Token() <= highest {
				l.Fatalf("token %d after %d", next.Token(), highest)
			}
			highest = next.Token()
			l.Release(next)
		}
		l.Logf("the grant won %d of %d races", won, rounds)
		l.NothingLeft(1, highest)
	})
}

// TestCancelAfterGrant forces one order: the permit was handed over, the news
// are on their way, and the waiter gives up. It gives back what it never saw, and what that cost of a
// rate.
func TestCancelAfterGrant(t *testing.T) {
	everywhere(t, func(l *lab) {
		for !l.cancelAfterGrant() {
			if l.Exact {
				l.Fatal("a heartbeat brought the grant")
			}
		}
	})
}

// cancelAfterGrant returns false if a heartbeat has brought the grant, as on a slow machine. It is
// no Helper: its own lines tell which of its leases was lost.
func (l *lab) cancelAfterGrant() bool {
	news := l.net.Inject(redistest.Rule{Match: testenv.IsMessage, Fault: redistest.DelayMessage, Times: -1})
	defer news.Stop()
	rate := berth.Rate(1000, time.Hour)
	holder := l.Hold(l.sem(l.healthy(), 1, rate))
	ctx, cancel := context.WithCancel(l.Ctx)
	defer cancel()
	first := l.queued(ctx, l.sem(l.faulty(), 1, rate), 1)
	second := l.queued(l.Ctx, l.sem(l.healthy(), 1, rate), 2)
	l.Release(holder)
	testenv.Receive(l, "message", news.Hit())
	cancel()
	o := testenv.Receive(l, "end of the wait", first)
	if o.err == nil {
		l.Release(o.lease)
		l.Release(l.granted(second))
		return false
	}
	if !errors.Is(o.err, context.Canceled) {
		l.Errorf("a cancelled Acquire returned %v", o.err)
	}
	next := l.granted(second)
	news.Release() // about a lease that was given back: it must not matter
	if st := l.Show(); st.Holders != 1 || st.Leases[0].ID != next.ID() {
		l.Errorf("the server has %+v", st)
	}
	if st := l.Show(); l.Exact && (len(st.Rates) != 1 || st.Rates[0].Spent != 2) {
		l.Errorf("%v: what nobody has seen costs nothing", st.Rates)
	}
	l.Release(next)
	return true
}

// TestCancelBeforeGrant forces the other: the waiter has given up, its cancel is
// on its way, and the permit is handed to it. The cancel then releases.
func TestCancelBeforeGrant(t *testing.T) {
	everywhere(t, func(l *lab) {
		holder := l.Hold(l.sem(l.healthy(), 1))
		ctx, cancel := context.WithCancel(l.Ctx)
		first := l.queued(ctx, l.sem(l.faulty(), 1), 1)
		second := l.queued(l.Ctx, l.sem(l.healthy(), 1), 2)
		onItsWay := l.delay("L")
		cancel()
		if o := testenv.Receive(l, "end of the wait", first); !errors.Is(o.err, context.Canceled) {
			l.Errorf("a cancelled Acquire returned %v", o.err)
		}
		testenv.Receive(l, "cancel", onItsWay.Hit())
		l.Release(holder)
		start := time.Now()
		onItsWay.Release()
		next := l.granted(second)
		if took := time.Since(start); took > 100*time.Millisecond && l.Exact {
			l.Errorf("served %v after the cancel arrived", took)
		}
		l.Release(next)
		l.NothingLeft(1, next.Token())
	})
}

// TestHeadCancels: a head that does not fit gives up, and those behind it that
// fit are served in that moment (golang/go #37852).
func TestHeadCancels(t *testing.T) {
	everywhere(t, func(l *lab) {
		s := l.sem(l.faulty(), 3)
		holder := l.Hold(s, berth.Weight(2))
		ctx, cancel := context.WithCancel(l.Ctx)
		head := l.queued(ctx, l.sem(l.faulty(), 3), 1, berth.Weight(2))
		behind := l.queued(l.Ctx, s, 2)
		start := time.Now()
		cancel()
		testenv.Receive(l, "end of the wait", head)
		lease := l.granted(behind)
		if took := time.Since(start); took > 100*time.Millisecond && l.Exact {
			l.Errorf("served %v after the head gave up", took)
		}
		l.Release(lease, holder)
		l.NothingLeft(3, lease.Token())
	})
}

// TestEveryWaiterCancels: a whole queue gives up while permits are handed down
// it. Nothing sticks.
func TestEveryWaiterCancels(t *testing.T) {
	everywhere(t, func(l *lab) {
		s, other := l.sem(l.faulty(), 1), l.sem(l.faulty(), 1)
		holder := l.Hold(s)
		ctx, cancel := context.WithCancel(l.Ctx)
		var all []*testenv.Request
		for i := range 50 {
			all = append(all, l.QueueUntil(ctx, []*berth.Semaphore{s, other}[i%2]))
		}
		l.waitFor("all in line", func() bool { return l.Show().Waiting == len(all) })
		go cancel()
		l.Release(holder)
		highest := holder.Token()
		for _, r := range all {
			if testenv.Receive(l, "end of the wait", r.Done); r.Err == nil {
				highest = max(highest, r.Lease.Token())
				l.Release(r.Lease)
			}
		}
		l.NothingLeft(1, highest)
	})
}
