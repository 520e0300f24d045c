package berth_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/internal/redistest"
)

// Messages are hints: losing them costs time, at most one heartbeat interval.

// interval is how often a waiter of the lab is heard from: every third of its
// heartbeat TTL, which is the lease's or 10 s. A busy machine may take longer.
func (l *lab) interval() time.Duration {
	if l.store != nil {
		return min(l.ttl, 10*time.Second)/3 + 10*time.Millisecond
	}
	return l.ttl
}

// handOff has holder release and returns the waiter's lease and how long that took.
func (l *lab) handOff(holder *berth.Lease, waiting <-chan outcome) (*berth.Lease, time.Duration) {
	l.Helper()
	start := time.Now()
	l.release(holder)
	lease := l.granted(waiting)
	return lease, time.Since(start)
}

func TestGrantMessageLost(t *testing.T) {
	everywhere(t, func(l *lab) {
		lost := l.net.Inject(redistest.Rule{Match: message, Fault: redistest.DropMessage, Times: -1})
		holder := l.acquire(l.sem(l.spared(), 1))
		waiting := l.queued(l.bounded(), l.sem(l.struck(), 1), 1)
		lease, took := l.handOff(holder, waiting)
		if took > l.interval() || lost.Hits() == 0 {
			l.Errorf("served after %v, interval %v, messages lost: %d", took, l.interval(), lost.Hits())
		}
		if !lease.Valid() {
			l.Error("granted, but not valid")
		}
		l.release(lease)
		l.idle(1, lease.Token())
	})
}

// TestGrantMessageLate: the message arrives when the lease was used and given
// back, and the next one waits. It must not be taken for a grant.
func TestGrantMessageLate(t *testing.T) {
	everywhere(t, func(l *lab) {
		late := l.net.Inject(redistest.Rule{Match: message, Fault: redistest.DelayMessage})
		c := l.struck()
		holder := l.acquire(l.sem(l.spared(), 1))
		first := l.queued(l.bounded(), l.sem(c, 1), 1)
		lease, _ := l.handOff(holder, first)
		second := l.queued(l.bounded(), l.sem(l.spared(), 1), 1)
		l.release(lease)
		next := l.granted(second)
		third := l.queued(l.bounded(), l.sem(c, 1), 1)
		late.Release()
		l.release(next)
		last := l.granted(third)
		if last.Token() <= next.Token() || last.ID() == lease.ID() {
			l.Errorf("token %d after %d, lease %s after %s", last.Token(), next.Token(), last.ID(), lease.ID())
		}
		l.release(last)
		l.idle(1, last.Token())
	})
}

// TestLossMessageLost: a holder hears of its loss by its next renewal.
func TestLossMessageLost(t *testing.T) {
	everywhere(t, func(l *lab) {
		l.net.Inject(redistest.Rule{Match: message, Fault: redistest.DropMessage, Times: -1})
		lease := l.acquire(l.sem(l.struck(), 1))
		held := lease.Context()
		start := time.Now()
		if err := l.eye.ForceEvict(l.bounded(), "s", lease.ID()); err != nil {
			l.Fatal(err)
		}
		receive(l, "end of the lease", held.Done())
		if took := time.Since(start); took > l.ttl/3+l.ttl/10 && l.store != nil {
			l.Errorf("told after %v with a TTL of %v", took, l.ttl)
		}
		if cause := context.Cause(held); !errors.Is(cause, berth.ErrEvicted) {
			l.Errorf("the lease ended with %v", cause)
		}
		if err := lease.Release(); !errors.Is(err, berth.ErrEvicted) {
			l.Errorf("Release: %v", err)
		}
		l.idle(1, lease.Token())
	})
}

// TestQueueMessageLost: a waiter whose weight no longer fits hears of it by its
// next heartbeat.
func TestQueueMessageLost(t *testing.T) {
	everywhere(t, func(l *lab) {
		l.net.Inject(redistest.Rule{Match: message, Fault: redistest.DropMessage, Times: -1})
		holder := l.acquire(l.sem(l.spared(), 2))
		waiting := l.queued(l.bounded(), l.sem(l.struck(), 2), 1, berth.Weight(2))
		if err := l.eye.Pin(l.bounded(), "s", 1); err != nil {
			l.Fatal(err)
		}
		if o := receive(l, "refusal", waiting); !errors.Is(o.err, berth.ErrTooHeavy) {
			l.Errorf("Acquire: %v", o.err)
		}
		if err := l.eye.Unpin(l.bounded(), "s"); err != nil {
			l.Fatal(err)
		}
		l.release(holder)
		l.idle(2, holder.Token())
	})
}

// TestSubscriptionCutAtTheGrant: the message is on its way when the connection
// breaks, so it is lost for good. The new subscription looks at the state.
func TestSubscriptionCutAtTheGrant(t *testing.T) {
	everywhere(t, func(l *lab) {
		onItsWay := l.net.Inject(redistest.Rule{Match: message, Fault: redistest.DelayMessage})
		holder := l.acquire(l.sem(l.spared(), 1))
		waiting := l.queued(l.bounded(), l.sem(l.struck(), 1), 1)
		l.release(holder)
		receive(l, "message", onItsWay.Hit())
		start := time.Now()
		l.net.CutAll()
		lease := l.granted(waiting)
		// No heartbeat is due yet: the pause before the next subscription is all.
		if took := time.Since(start); took > 100*time.Millisecond && l.store != nil {
			l.Errorf("served %v after the cut", took)
		}
		l.release(lease)
		l.idle(1, lease.Token())
	})
}

// TestNetworkDownAtTheGrant: as above, but the network stays away for a while.
func TestNetworkDownAtTheGrant(t *testing.T) {
	everywhere(t, func(l *lab) {
		onItsWay := l.net.Inject(redistest.Rule{Match: message, Fault: redistest.DelayMessage})
		holder := l.acquire(l.sem(l.spared(), 1))
		waiting := l.queued(l.bounded(), l.sem(l.struck(), 1), 1)
		behind := l.queued(l.bounded(), l.sem(l.spared(), 1), 2)
		l.release(holder)
		receive(l, "message", onItsWay.Hit())
		l.net.Down()
		// The hand-off runs out unused, and the next in line is served.
		second := l.granted(behind)
		l.net.Up()
		l.release(second)
		// Whoever missed its turn is still in line, now at its end.
		first := l.granted(waiting)
		if first.Token() <= second.Token() {
			l.Errorf("token %d after %d", first.Token(), second.Token())
		}
		l.release(first)
		l.idle(1, first.Token())
	})
}

// TestDroppedWaiterOutlastsAnotherOutage: one outage cost the waiter its place,
// the next one begins when it asks again. It is in line already, so it waits on.
func TestDroppedWaiterOutlastsAnotherOutage(t *testing.T) {
	t.Parallel()
	inBubble(t, func(l *lab) {
		holder := l.acquire(l.sem(l.spared(), 1))
		waiting := l.queued(l.bounded(), l.sem(l.struck(), 1), 1)
		l.net.Down()
		l.until("dropped from the queue", func() bool { return l.show().Waiting == 0 })
		asks := l.net.Inject(redistest.Rule{Match: carries("A"), Fault: redistest.SwallowRequest, Times: -1})
		l.net.Up()
		receive(l, "request", asks.Hit())
		<-time.After(time.Minute)
		asks.Stop()
		l.until("in line again", func() bool { return l.show().Waiting == 1 })
		l.release(holder)
		lease := l.granted(waiting)
		l.release(lease)
		l.idle(1, lease.Token())
	})
}

// halfOpen: the pub/sub connection goes silent without closing, from the first
// message on. Waiters are served by their heartbeats, and a new subscription
// replaces the dead one.
func halfOpen(l *lab) {
	c := l.struck()
	silent := l.net.Inject(redistest.Rule{Match: message, Fault: redistest.DelayMessage})
	holder := l.acquire(l.sem(l.spared(), 1))
	start := time.Now()
	lease, took := l.handOff(holder, l.queued(l.bounded(), l.sem(c, 1), 1))
	if took > l.interval() || silent.Hits() != 1 {
		l.Errorf("served after %v, interval %v, messages held: %d", took, l.interval(), silent.Hits())
	}
	l.until("subscribed again", func() bool { return l.net.Count("SUBSCRIBE") == 2 })
	if took := time.Since(start); took > 11*time.Second && l.store != nil {
		l.Errorf("subscribed again after %v", took)
	}
	l.release(lease)

	// Messages arrive again: a hand-off takes no heartbeat.
	holder = l.acquire(l.sem(l.spared(), 1))
	lease, took = l.handOff(holder, l.queued(l.bounded(), l.sem(c, 1), 1))
	if took > 100*time.Millisecond && l.store != nil {
		l.Errorf("with a new subscription, served after %v", took)
	}
	l.release(lease)
	l.idle(1, lease.Token())
}

func TestHalfOpenSubscription(t *testing.T) {
	t.Parallel()
	inBubble(t, halfOpen)
}
