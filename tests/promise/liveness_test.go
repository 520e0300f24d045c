package promise_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/berthadmin"
	"github.com/berth-go/berth/internal/testkit/redistest"
	"github.com/berth-go/berth/internal/testkit/testenv"
)

// L1: the script that frees the permit grants it. The waiter's process need not
// take part: here it hears of nothing.
func TestReleaseHandsOffInTheSameStep(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		holder, waiter := e.Peer(), e.Peer()
		first := e.Hold(holder.Sem(1))
		drop := waiter.Net.Inject(redistest.Rule{Fault: redistest.DropMessage, Match: testenv.IsMessage, Times: -1})
		r := e.Queue(waiter.Sem(1, berth.Label("next"), berth.TTL(e.TTL)))
		e.Release(first)
		st := e.Show()
		if len(st.Leases) != 1 || st.Leases[0].Label != "next" || st.Waiting != 0 {
			e.Errorf("after the release: %+v", st)
		}
		drop.Stop()
		r.Served()
	})
}

// L1, seen from the waiter: it is told, and need not wait for its heartbeat.
func TestHandOffIsHeardAtOnce(t *testing.T) {
	bothWays(t, func(e *testenv.Env, option berth.Option) {
		holder, waiter := e.Peer(), e.Peer()
		first := e.Hold(holder.Sem(1))
		r := e.Queue(waiter.Sem(1), option)
		e.Pass(e.Tick())
		start := time.Now()
		e.Release(first)
		r.Granted()
		e.Within(start, 0, 0, "granted")
	})
}

// L2.
func TestCrashedHolderFreesPermitWithinTTL(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		holder, waiter := e.Peer(), e.Peer()
		start := time.Now()
		dead := e.Hold(holder.Sem(1, berth.TTL(e.TTL)))
		r := e.Follow(waiter.Sem(1))
		holder.Crash()
		lease := r.Granted()
		e.Within(start, e.TTL, 2*e.TTL, "the permit came back")
		if dead.Valid() {
			e.Error("two holders believe at once")
		}
		if lease.Token() <= dead.Token() {
			e.Errorf("token %d after %d", lease.Token(), dead.Token())
		}
	})
}

// L2 to the millisecond: the waiter's timer is armed for the expiry, it does not
// wait for its heartbeat.
func TestExpiryIsNoticedAtOnce(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		holder, waiter := e.Peer(), e.Peer()
		start := time.Now()
		e.Hold(holder.Sem(1, berth.TTL(7*time.Second)))
		r := e.Queue(waiter.Sem(1))
		holder.Crash()
		r.Granted()
		e.Within(start, 7*time.Second, 7*time.Second, "the permit came back")
	})
}

func TestAllHoldersCrash(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		waiter := e.Peer()
		for range 3 {
			p := e.Peer()
			e.Hold(p.Sem(3, berth.TTL(e.TTL)))
			p.Crash()
		}
		start := time.Now()
		r := e.Start(waiter.Sem(3), berth.Weight(3))
		r.Granted()
		e.Within(start, 0, e.TTL, "all permits came back")
	})
}

// bothWays runs body with waiters that the script's short way serves, and with
// such that only the general way does.
func bothWays(t *testing.T, body func(e *testenv.Env, option berth.Option)) {
	for what, option := range map[string]berth.Option{"plain": berth.MaxHold(0), "capped": berth.MaxHold(time.Hour)} {
		t.Run(what, func(t *testing.T) {
			testenv.Each(t, func(e *testenv.Env) { body(e, option) })
		})
	}
}

// L3: the dead are in front of the living, and their times do not add up.
func TestDeadWaitersDelayTheQueueByOneHeartbeatTTLTogether(t *testing.T) {
	bothWays(t, func(e *testenv.Env, option berth.Option) {
		holder, dead, alive := e.Peer(), e.Peer(), e.Peer()
		heartbeat := min(e.TTL, 10*time.Second)
		first := e.Hold(holder.Sem(1))
		for range 6 {
			e.Queue(dead.Sem(1, berth.TTL(e.TTL), option))
		}
		r := e.Queue(alive.Sem(1))
		dead.Crash()
		crashed := time.Now()
		e.Pass(heartbeat / 2) // a hand-off to a dead waiter must not start its time anew
		e.Release(first)
		r.Granted()
		e.Within(crashed, 0, heartbeat, "the living waiter's turn came")
	})
}

func TestDeadWaiterInTheMiddleIsSkipped(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		holder, dead, alive := e.Peer(), e.Peer(), e.Peer()
		first := e.Hold(holder.Sem(1))
		before := e.Queue(alive.Sem(1))
		e.Queue(dead.Sem(1, berth.TTL(e.TTL)))
		after := e.Queue(alive.Sem(1))
		dead.Crash()
		e.Release(first)
		second := before.Granted()
		e.Until("the dead waiter dropped", func(s *berthadmin.State) bool { return s.Waiting == 1 })
		e.Release(second)
		after.Granted()
	})
}

// L4: messages are hints.
func TestLostMessageCostsAtMostOneHeartbeatInterval(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		e.TTL = max(e.TTL, 6*time.Second) // for the lease to be there at the end
		holder, waiter := e.Peer(), e.Peer()
		first := e.Hold(holder.Sem(1))
		drop := waiter.Net.Inject(redistest.Rule{Fault: redistest.DropMessage, Match: testenv.IsMessage, Times: -1})
		r := e.Queue(waiter.Sem(1, berth.TTL(e.TTL)))
		e.Release(first)
		start := time.Now()
		lease := r.Granted()
		e.Within(start, 0, min(e.TTL, 10*time.Second)/3, "granted without the message")
		testenv.Receive(e, "message to lose", drop.Hit()) // the connection that it came by may be read later
		e.Holds(lease)
	})
}

// A waiter whose subscription is cut asks again as soon as it is back.
func TestReconnectedWaiterLooksForItself(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		holder, waiter := e.Peer(), e.Peer()
		first := e.Hold(holder.Sem(1))
		r := e.Queue(waiter.Sem(1))
		waiter.Net.Down()
		e.Release(first)
		waiter.Net.Up()
		start := time.Now()
		r.Granted()
		e.Within(start, 0, 2*time.Second, "granted after the reconnect")
	})
}

// L5: the last release takes the keys away. Under a clock that stands still the
// last token must be kept for a moment.
func TestIdleKeysDisappear(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		p := e.Peer()
		s := p.Sem(2)
		leases := []*berth.Lease{e.Hold(s), e.Hold(s)}
		r := e.Queue(s)
		r.Cancel()
		r.Refused(context.Canceled)
		e.Release(leases...)
		e.UntilNoKeys(3 * time.Second)
	})
}

// knowsThePolicy waits until p knows that its server does not evict, as its keys have a TTL then. A
// busy machine is late to tell.
func knowsThePolicy(e *testenv.Env, p *testenv.Peer) {
	e.Helper()
	l := e.Hold(p.Named("warm", 1))
	e.Until("keys with a TTL", func(*berthadmin.State) bool {
		e.Must(e.Renew(l))
		for key := range e.Keys() {
			if e.Redis.PTTL(e.Ctx, key).Val() <= 0 {
				return false
			}
		}
		return true
	})
	e.Release(l)
}

// L5, after a crash: keys go by TTL where the server does not evict, else when
// somebody lists.
func TestKeysOfCrashedHoldersDisappear(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		p := e.Peer()
		if !e.Exact {
			knowsThePolicy(e, p)
		}
		e.Hold(p.Sem(1, berth.TTL(e.TTL)))
		p.Crash()
		if !e.Exact {
			for key := range e.Keys() {
				if left := e.Redis.PTTL(e.Ctx, key).Val(); left <= 0 || left > e.TTL+2*time.Minute {
					e.Errorf("%s goes in %v", key, left)
				}
			}
		}
		e.Pass(e.TTL)
		e.Until("expired", func(s *berthadmin.State) bool { return s.Holders == 0 })
		all, err := testenv.Listed(e.Inspector.List(e.Ctx))
		e.Must(err)
		if len(all) > 0 {
			e.Errorf("still listed: %+v", all)
		}
		if e.Exact {
			e.UntilNoKeys(3 * time.Minute)
		}
	})
}

// A permit that is freed for several goes to as many as fit.
func TestFreedPermitsGoToAllWhoFit(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		holder, waiter := e.Peer(), e.Peer()
		heavy := e.Hold(holder.Sem(3), berth.Weight(3))
		var rs []*testenv.Request
		for range 4 {
			rs = append(rs, e.Queue(waiter.Sem(3)))
		}
		e.Release(heavy)
		leases := []*berth.Lease{rs[0].Granted(), rs[1].Granted(), rs[2].Granted()}
		rs[3].Waits()
		e.Holds(leases...)
		e.Release(leases[1])
		rs[3].Granted()
	})
}

// A head that is cancelled wakes those whom it blocked.
func TestCancelledHeadWakesTheNext(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		p := e.Peer()
		s := p.Sem(2)
		e.Hold(s)
		head := e.Queue(s, berth.Weight(2))
		next := e.Queue(s)
		next.Waits()
		head.Cancel()
		head.Refused(context.Canceled)
		next.Granted()
	})
}

// Whoever cancels while being granted leaves nothing behind, whichever is first.
func TestCancelRacingAGrantLeavesNothingBehind(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		holder, waiter := e.Peer(), e.Peer()
		outcomes := map[bool]int{}
		for i := range 60 {
			first := e.Hold(holder.Sem(1))
			r := e.Queue(waiter.Sem(1))
			released := make(chan error)
			go func() { released <- first.Release() }()
			if !e.Exact && i%3 > 0 {
				e.Pass(time.Duration(i) * 10 * time.Microsecond)
			}
			r.Cancel()
			e.Must(<-released)
			<-r.Done
			outcomes[r.Err == nil]++
			if r.Err == nil {
				e.Release(r.Lease)
			} else if !errors.Is(r.Err, context.Canceled) {
				e.Fatal(r.Err)
			}
			e.Until("idle", func(s *berthadmin.State) bool { return s.Holders+s.Waiting == 0 })
		}
		e.Logf("granted/cancelled: %v", outcomes)
	})
}

// A lease that is lost before its holder could learn of it goes back at once, not with
// whatever its process asks next.
func TestLeaseLostBeforeAcquireReturnsGoesBackAtOnce(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		first := e.Hold(e.Peer().Sem(1))
		queued, goOn := make(chan struct{}), make(chan struct{})
		slow := e.Start(e.Peer().Sem(1), berth.OnQueued(func(berth.Place) {
			close(queued)
			<-goOn
		}))
		<-queued
		e.Release(first)
		synctest.Wait()
		e.Must(e.Inspector.Evict(e.Ctx, testenv.Name, e.Show().Leases[0].ID))
		synctest.Wait()
		if st := e.Show(); st.Holders != 1 || !st.Leases[0].Evicting {
			e.Fatalf("state %+v", st)
		}
		close(goOn)
		slow.Refused(berth.ErrEvicted)
		synctest.Wait()
		if st := e.Show(); st.Holders != 0 {
			e.Errorf("state %+v", st)
		}
	})
}

// A cancelled wait returns at once, whatever Redis does.
func TestCancelledWaitReturnsAtOnce(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		holder, waiter := e.Peer(), e.Peer()
		e.Hold(holder.Sem(1))
		r := e.Queue(waiter.Sem(1, berth.TTL(e.TTL)))
		held := waiter.Net.Inject(redistest.Rule{Fault: redistest.SwallowReply, Match: testenv.Carries("L")})
		start := time.Now()
		r.Cancel()
		r.Refused(context.Canceled)
		e.Within(start, 0, 0, "returned")
		<-held.Hit()
		e.Until("gone", func(s *berthadmin.State) bool { return s.Waiting == 0 })
	})
}
