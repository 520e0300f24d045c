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

// Messages are hints: losing them costs time, at most one heartbeat interval.

// interval is how often a waiter of the lab is heard from: every third of its
// heartbeat TTL, which is the lease's or 10 s. A busy machine may take longer.
func (l *lab) interval() time.Duration {
	ttl := min(l.TTL, 10*time.Second)
	if l.Exact {
		return ttl/3 + 10*time.Millisecond
	}
	return ttl
}

// handOff has holder release and returns the waiter's lease and how long that took.
func (l *lab) handOff(holder *berth.Lease, waiting <-chan outcome) (*berth.Lease, time.Duration) {
	l.Helper()
	start := time.Now()
	l.Release(holder)
	lease := l.granted(waiting)
	return lease, time.Since(start)
}

func TestGrantMessageLost(t *testing.T) {
	everywhere(t, func(l *lab) {
		lost := l.net.Inject(redistest.Rule{Match: testenv.IsMessage, Fault: redistest.DropMessage, Times: -1})
		holder := l.Hold(l.sem(l.healthy(), 1))
		waiting := l.queued(l.Ctx, l.sem(l.faulty(), 1), 1)
		lease, took := l.handOff(holder, waiting)
		if took > l.interval()+l.Slack() {
			l.Errorf("served after %v, interval %v", took, l.interval())
		}
		testenv.Receive(l, "message to lose", lost.Hit())
		if !lease.Valid() {
			l.Error("granted, but not valid")
		}
		l.Release(lease)
		l.NothingLeft(1, lease.Token())
	})
}

// TestGrantMessageLate: the message arrives when the lease was used and given
// back, and the next one waits. It must not be taken for a grant.
func TestGrantMessageLate(t *testing.T) {
	everywhere(t, func(l *lab) {
		late := l.net.Inject(redistest.Rule{Match: testenv.IsMessage, Fault: redistest.DelayMessage})
		c := l.faulty()
		holder := l.Hold(l.sem(l.healthy(), 1))
		first := l.queued(l.Ctx, l.sem(c, 1), 1)
		lease, _ := l.handOff(holder, first)
		second := l.queued(l.Ctx, l.sem(l.healthy(), 1), 1)
		l.Release(lease)
		next := l.granted(second)
		third := l.queued(l.Ctx, l.sem(c, 1), 1)
		late.Release()
		l.Release(next)
		last := l.granted(third)
		if last.Token() <= next.Token() || last.ID() == lease.ID() {
			l.Errorf("token %d after %d, lease %s after %s", last.Token(), next.Token(), last.ID(), lease.ID())
		}
		l.Release(last)
		l.NothingLeft(1, last.Token())
	})
}

// TestLossMessageLost: a holder hears of its loss by its next renewal.
func TestLossMessageLost(t *testing.T) {
	everywhere(t, func(l *lab) {
		l.net.Inject(redistest.Rule{Match: testenv.IsMessage, Fault: redistest.DropMessage, Times: -1})
		lease := l.Hold(l.sem(l.faulty(), 1))
		held := lease.Context()
		start := time.Now()
		if err := l.Inspector.ForceEvict(l.Ctx, "s", lease.ID()); err != nil {
			l.Fatal(err)
		}
		testenv.Receive(l, "end of the lease", held.Done())
		if took := time.Since(start); took > l.TTL/3+l.TTL/10 && l.Exact {
			l.Errorf("told after %v with a TTL of %v", took, l.TTL)
		}
		if cause := context.Cause(held); !errors.Is(cause, berth.ErrEvicted) {
			l.Errorf("the lease ended with %v", cause)
		}
		if err := lease.Release(); !errors.Is(err, berth.ErrEvicted) {
			l.Errorf("Release: %v", err)
		}
		l.NothingLeft(1, lease.Token())
	})
}

// TestQueueMessageLost: a waiter whose weight no longer fits hears of it by its
// next heartbeat.
func TestQueueMessageLost(t *testing.T) {
	everywhere(t, func(l *lab) {
		l.net.Inject(redistest.Rule{Match: testenv.IsMessage, Fault: redistest.DropMessage, Times: -1})
		holder := l.Hold(l.sem(l.healthy(), 2))
		waiting := l.queued(l.Ctx, l.sem(l.faulty(), 2), 1, berth.Weight(2))
		if err := l.Inspector.Pin(l.Ctx, "s", 1); err != nil {
			l.Fatal(err)
		}
		if o := testenv.Receive(l, "refusal", waiting); !errors.Is(o.err, berth.ErrTooHeavy) {
			l.Errorf("Acquire: %v", o.err)
		}
		if err := l.Inspector.Unpin(l.Ctx, "s"); err != nil {
			l.Fatal(err)
		}
		l.Release(holder)
		l.NothingLeft(2, holder.Token())
	})
}

// TestSubscriptionCutAtTheGrant: the message is on its way when the connection
// breaks, so it is lost for good. The new subscription looks at the state.
func TestSubscriptionCutAtTheGrant(t *testing.T) {
	everywhere(t, func(l *lab) {
		onItsWay := l.net.Inject(redistest.Rule{Match: testenv.IsMessage, Fault: redistest.DelayMessage})
		holder := l.Hold(l.sem(l.healthy(), 1))
		waiting := l.queued(l.Ctx, l.sem(l.faulty(), 1), 1)
		l.Release(holder)
		testenv.Receive(l, "message", onItsWay.Hit())
		start := time.Now()
		l.net.CutAll()
		lease := l.granted(waiting)
		// No heartbeat is due yet: the pause before the next subscription is all.
		if took := time.Since(start); took > 100*time.Millisecond && l.Exact {
			l.Errorf("served %v after the cut", took)
		}
		l.Release(lease)
		l.NothingLeft(1, lease.Token())
	})
}

// TestNetworkDownAtTheGrant: as above, but the network stays away for a while.
func TestNetworkDownAtTheGrant(t *testing.T) {
	everywhere(t, func(l *lab) {
		onItsWay := l.net.Inject(redistest.Rule{Match: testenv.IsMessage, Fault: redistest.DelayMessage})
		holder := l.Hold(l.sem(l.healthy(), 1))
		waiting := l.queued(l.Ctx, l.sem(l.faulty(), 1), 1)
		behind := l.queued(l.Ctx, l.sem(l.healthy(), 1), 2)
		// A heartbeat that a slow machine lets come before the network goes would take the permit.
		heartbeats := l.net.Inject(redistest.Rule{Match: redistest.IsScript, Fault: redistest.SwallowRequest, Times: -1})
		l.Release(holder)
		testenv.Receive(l, "message", onItsWay.Hit())
		l.net.Down()
		heartbeats.Stop()
		// The hand-off runs out unused, and the next in line is served.
		second := l.granted(behind)
		l.net.Up()
		l.Release(second)
		// Whoever missed its turn is still in line, now at its end.
		first := l.granted(waiting)
		if first.Token() <= second.Token() {
			l.Errorf("token %d after %d", first.Token(), second.Token())
		}
		l.Release(first)
		l.NothingLeft(1, first.Token())
	})
}

// TestDroppedWaiterOutlastsAnotherOutage: one outage cost the waiter its place,
// the next one begins when it asks again. It is in line already, so it waits on.
func TestDroppedWaiterOutlastsAnotherOutage(t *testing.T) {
	t.Parallel()
	inBubble(t, func(l *lab) {
		holder := l.Hold(l.sem(l.healthy(), 1))
		waiting := l.queued(l.Ctx, l.sem(l.faulty(), 1), 1)
		l.net.Down()
		l.waitFor("dropped from the queue", func() bool { return l.Show().Waiting == 0 })
		asks := l.net.Inject(redistest.Rule{Match: testenv.Carries("A"), Fault: redistest.SwallowRequest, Times: -1})
		l.net.Up()
		testenv.Receive(l, "request", asks.Hit())
		<-time.After(time.Minute)
		asks.Stop()
		l.waitFor("in line again", func() bool { return l.Show().Waiting == 1 })
		l.Release(holder)
		lease := l.granted(waiting)
		l.Release(lease)
		l.NothingLeft(1, lease.Token())
	})
}

// halfOpen: the pub/sub connection goes silent without closing, from the first
// message on. Waiters are served by their heartbeats, and a new subscription
// replaces the dead one.
func halfOpen(l *lab) {
	c := l.faulty()
	silent := l.net.Inject(redistest.Rule{Match: testenv.IsMessage, Fault: redistest.DelayMessage})
	holder := l.Hold(l.sem(l.healthy(), 1))
	start := time.Now()
	lease, took := l.handOff(holder, l.queued(l.Ctx, l.sem(c, 1), 1))
	if took > l.interval() || silent.Hits() != 1 {
		l.Errorf("served after %v, interval %v, messages held: %d", took, l.interval(), silent.Hits())
	}
	l.waitFor("subscribed again", func() bool { return l.net.Count("SUBSCRIBE") == 2 })
	if took := time.Since(start); took > 11*time.Second && l.Exact {
		l.Errorf("subscribed again after %v", took)
	}
	l.Release(lease)

	// Messages arrive again: a hand-off takes no heartbeat.
	holder = l.Hold(l.sem(l.healthy(), 1))
	lease, took = l.handOff(holder, l.queued(l.Ctx, l.sem(c, 1), 1))
	if took > 100*time.Millisecond && l.Exact {
		l.Errorf("with a new subscription, served after %v", took)
	}
	l.Release(lease)
	l.NothingLeft(1, lease.Token())
}

func TestHalfOpenSubscription(t *testing.T) {
	t.Parallel()
	inBubble(t, halfOpen)
}
