package berth_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/internal/redistest"
)

// L1: the script that frees the permit grants it. The waiter's process need not
// take part: here it hears of nothing.
func TestReleaseHandsOffInTheSameStep(t *testing.T) {
	each(t, func(_ *testing.T, e *env) {
		holder, waiter := e.peer(), e.peer()
		first := e.hold(holder.sem(1))
		drop := waiter.net.Inject(redistest.Rule{Fault: redistest.DropMessage, Match: messages, Times: -1})
		r := e.queue(waiter.sem(1, berth.Label("next"), berth.TTL(e.ttl)))
		e.release(first)
		st := e.show()
		if len(st.Leases) != 1 || st.Leases[0].Label != "next" || st.Waiting != 0 {
			e.t.Errorf("after the release: %+v", st)
		}
		drop.Stop()
		e.release(r.granted())
	})
}

// L1, seen from the waiter: it is told, and need not wait for its heartbeat.
func TestHandOffIsHeardAtOnce(t *testing.T) {
	bothWays(t, func(_ *testing.T, e *env, option berth.Option) {
		holder, waiter := e.peer(), e.peer()
		first := e.hold(holder.sem(1))
		r := e.queue(waiter.sem(1), option)
		e.pass(e.tick())
		start := time.Now()
		e.release(first)
		r.granted()
		e.within(start, 0, 0, "granted")
	})
}

// messages matches what is published, not the confirmations of subscriptions.
func messages(c redistest.Command) bool { return c[0] == "message" }

// L2.
func TestCrashedHolderFreesPermitWithinTTL(t *testing.T) {
	each(t, func(_ *testing.T, e *env) {
		holder, waiter := e.peer(), e.peer()
		start := time.Now()
		dead := e.hold(holder.sem(1, berth.TTL(e.ttl)))
		r := e.queue(waiter.sem(1))
		holder.crash()
		lease := r.granted()
		e.within(start, e.ttl, 2*e.ttl, "the permit came back")
		if dead.Valid() {
			e.t.Error("two holders believe at once")
		}
		if lease.Token() <= dead.Token() {
			e.t.Errorf("token %d after %d", lease.Token(), dead.Token())
		}
	})
}

// L2 to the millisecond: the waiter's timer is armed for the expiry, it does not
// wait for its heartbeat.
func TestExpiryIsNoticedAtOnce(t *testing.T) {
	exactly(t, func(_ *testing.T, e *env) {
		holder, waiter := e.peer(), e.peer()
		start := time.Now()
		e.hold(holder.sem(1, berth.TTL(7*time.Second)))
		r := e.queue(waiter.sem(1))
		holder.crash()
		r.granted()
		e.within(start, 7*time.Second, 7*time.Second, "the permit came back")
	})
}

func TestAllHoldersCrash(t *testing.T) {
	each(t, func(_ *testing.T, e *env) {
		waiter := e.peer()
		for range 3 {
			p := e.peer()
			e.hold(p.sem(3, berth.TTL(e.ttl)))
			p.crash()
		}
		start := time.Now()
		r := e.start(waiter.sem(3), berth.Weight(3))
		r.granted()
		e.within(start, 0, e.ttl, "all permits came back")
	})
}

// bothWays runs body with waiters that the script's short way serves, and with
// such that only the general way does.
func bothWays(t *testing.T, body func(t *testing.T, e *env, option berth.Option)) {
	for what, option := range map[string]berth.Option{"plain": berth.MaxHold(0), "capped": berth.MaxHold(time.Hour)} {
		t.Run(what, func(t *testing.T) {
			each(t, func(t *testing.T, e *env) { body(t, e, option) })
		})
	}
}

// L3: the dead are in front of the living, and their times do not add up.
func TestDeadWaitersDelayTheQueueByOneHeartbeatTTLTogether(t *testing.T) {
	bothWays(t, func(_ *testing.T, e *env, option berth.Option) {
		holder, dead, alive := e.peer(), e.peer(), e.peer()
		heartbeat := min(e.ttl, 10*time.Second)
		first := e.hold(holder.sem(1))
		for range 6 {
			e.queue(dead.sem(1, berth.TTL(e.ttl), option))
		}
		r := e.queue(alive.sem(1))
		dead.crash()
		crashed := time.Now()
		e.pass(heartbeat / 2) // a hand-off to a dead waiter must not start its time anew
		e.release(first)
		r.granted()
		e.within(crashed, 0, heartbeat, "the living waiter's turn came")
	})
}

func TestDeadWaiterInTheMiddleIsSkipped(t *testing.T) {
	each(t, func(_ *testing.T, e *env) {
		holder, dead, alive := e.peer(), e.peer(), e.peer()
		first := e.hold(holder.sem(1))
		before := e.queue(alive.sem(1))
		e.queue(dead.sem(1, berth.TTL(e.ttl)))
		after := e.queue(alive.sem(1))
		dead.crash()
		e.release(first)
		second := before.granted()
		e.until("the dead waiter dropped", func(s *berth.State) bool { return s.Waiting == 1 })
		e.release(second)
		after.granted()
	})
}

// L4: messages are hints.
func TestLostMessageCostsAtMostOneHeartbeatInterval(t *testing.T) {
	each(t, func(_ *testing.T, e *env) {
		holder, waiter := e.peer(), e.peer()
		first := e.hold(holder.sem(1))
		drop := waiter.net.Inject(redistest.Rule{Fault: redistest.DropMessage, Match: messages, Times: -1})
		r := e.queue(waiter.sem(1, berth.TTL(e.ttl)))
		e.release(first)
		start := time.Now()
		lease := r.granted()
		e.within(start, 0, min(e.ttl, 10*time.Second)/3, "granted without the message")
		if drop.Hits() == 0 {
			e.t.Error("there was no message to lose")
		}
		e.holds(lease)
	})
}

// A waiter whose subscription is cut asks again as soon as it is back.
func TestReconnectedWaiterLooksForItself(t *testing.T) {
	each(t, func(_ *testing.T, e *env) {
		holder, waiter := e.peer(), e.peer()
		first := e.hold(holder.sem(1))
		r := e.queue(waiter.sem(1))
		waiter.net.Down()
		e.release(first)
		waiter.net.Up()
		start := time.Now()
		r.granted()
		e.within(start, 0, 2*time.Second, "granted after the reconnect")
	})
}

// L5: the last release takes the keys away. Under a clock that stands still the
// last token must be kept for a moment.
func TestIdleKeysDisappear(t *testing.T) {
	each(t, func(_ *testing.T, e *env) {
		p := e.peer()
		s := p.sem(2)
		leases := []*berth.Lease{e.hold(s), e.hold(s)}
		r := e.queue(s)
		r.cancel()
		r.refused(e.canceled())
		e.release(leases...)
		e.untilNoKeys(3 * time.Second)
	})
}

// L5, after a crash: keys go by TTL where the server does not evict, else when
// somebody lists.
func TestKeysOfCrashedHoldersDisappear(t *testing.T) {
	each(t, func(_ *testing.T, e *env) {
		p := e.peer()
		e.hold(p.sem(1, berth.TTL(e.ttl)))
		p.crash()
		if !e.exact {
			for key := range e.keys() {
				if left := e.raw.PTTL(e.ctx, key).Val(); left <= 0 || left > e.ttl+2*time.Minute {
					e.t.Errorf("%s goes in %v", key, left)
				}
			}
		}
		e.pass(e.ttl)
		e.until("expired", func(s *berth.State) bool { return s.Holders == 0 })
		all, err := listed(e.eye, e.ctx)
		e.must(err)
		if len(all) > 0 {
			e.t.Errorf("still listed: %+v", all)
		}
		if e.exact {
			e.untilNoKeys(3 * time.Minute)
		}
	})
}

// untilNoKeys fails if the store has keys under the prefix for longer than most.
func (e *env) untilNoKeys(most time.Duration) {
	e.t.Helper()
	start := time.Now()
	for len(e.keys()) > 0 {
		if time.Since(start) > most+e.slack() {
			e.t.Fatalf("left behind: %v", e.keys())
		}
		e.pass(10 * time.Millisecond)
	}
}

// A permit that is freed for several goes to as many as fit.
func TestFreedPermitsGoToAllWhoFit(t *testing.T) {
	each(t, func(_ *testing.T, e *env) {
		holder, waiter := e.peer(), e.peer()
		heavy := e.hold(holder.sem(3), berth.Weight(3))
		var rs []*request
		for range 4 {
			rs = append(rs, e.queue(waiter.sem(3)))
		}
		e.release(heavy)
		leases := []*berth.Lease{rs[0].granted(), rs[1].granted(), rs[2].granted()}
		rs[3].waits()
		e.holds(leases...)
		e.release(leases[1])
		rs[3].granted()
	})
}

// A head that is cancelled wakes those whom it blocked.
func TestCancelledHeadWakesTheNext(t *testing.T) {
	each(t, func(_ *testing.T, e *env) {
		p := e.peer()
		s := p.sem(2)
		e.hold(s)
		head := e.queue(s, berth.Weight(2))
		next := e.queue(s)
		next.waits()
		head.cancel()
		head.refused(e.canceled())
		next.granted()
	})
}

// Whoever cancels while being granted leaves nothing behind, whichever is first.
func TestCancelRacingAGrantLeavesNothingBehind(t *testing.T) {
	each(t, func(_ *testing.T, e *env) {
		holder, waiter := e.peer(), e.peer()
		outcomes := map[bool]int{}
		for i := range 60 {
			first := e.hold(holder.sem(1))
			r := e.queue(waiter.sem(1))
			released := make(chan error)
			go func() { released <- first.Release() }()
			if !e.exact && i%3 > 0 {
				e.pass(time.Duration(i) * 10 * time.Microsecond)
			}
			r.cancel()
			e.must(<-released)
			<-r.done
			outcomes[r.err == nil]++
			if r.err == nil {
				e.release(r.lease)
			} else if !errors.Is(r.err, e.canceled()) {
				e.t.Fatal(r.err)
			}
			e.until("idle", func(s *berth.State) bool { return s.Holders+s.Waiting == 0 })
		}
		e.t.Logf("granted/cancelled: %v", outcomes)
	})
}

// A cancelled wait returns at once, whatever Redis does.
func TestCancelledWaitReturnsAtOnce(t *testing.T) {
	each(t, func(_ *testing.T, e *env) {
		holder, waiter := e.peer(), e.peer()
		e.hold(holder.sem(1))
		r := e.queue(waiter.sem(1, berth.TTL(e.ttl)))
		held := waiter.net.Inject(redistest.Rule{Fault: redistest.SwallowReply, Match: verb("L")})
		start := time.Now()
		r.cancel()
		r.refused(e.canceled())
		e.within(start, 0, 0, "returned")
		<-held.Hit()
		e.until("gone", func(s *berth.State) bool { return s.Waiting == 0 })
	})
}

// verb matches calls whose first operation is one of these (protocol.Verb).
func verb(wanted ...string) func(redistest.Command) bool {
	return func(c redistest.Command) bool {
		return slices.ContainsFunc(verbs(c), func(v string) bool { return slices.Contains(wanted, v) })
	}
}
