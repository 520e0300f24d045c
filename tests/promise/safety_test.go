package promise_test

import (
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/berthadmin"
	"github.com/berth-go/berth/internal/look"
	"github.com/berth-go/berth/internal/protocol"
	"github.com/berth-go/berth/internal/testkit/redistest"
	"github.com/berth-go/berth/internal/testkit/testenv"
)

// ledger judges the grants of one semaphore by what the holders believe.
type ledger struct {
	e     *testenv.Env
	mu    sync.Mutex
	held  map[*berth.Lease]bool
	count int
}

func newLedger(e *testenv.Env) *ledger { return &ledger{e: e, held: map[*berth.Lease]bool{}} }

// enter notes a grant and looks at all leases that were out then: those with a
// smaller token that still last (S1, S7), and with the same one (S2).
func (g *ledger) enter(l *berth.Lease) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.count++
	weight := l.Weight()
	for other := range g.held {
		if !other.Valid() {
			continue
		}
		if other.Slot() == l.Slot() && l.Valid() {
			g.e.Errorf("two leases live in slot %d", l.Slot())
		}
		if other.Token() == l.Token() {
			g.e.Errorf("two leases with token %d", l.Token())
		}
		if other.Token() < l.Token() {
			weight += other.Weight()
		}
	}
	if weight > l.Limit() {
		g.e.Errorf("%d permits out after a grant under the limit %d", weight, l.Limit())
	}
	g.held[l] = true
}

func (g *ledger) leave(l *berth.Lease) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.held, l)
}

func (g *ledger) grants() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.count
}

// work takes and gives back n leases of random weight, unless its process crashes: then the
// Redis client is closed, which berth tells as a refusal. Where Redis does not answer in time,
// or a lease runs out, it goes on.
func (g *ledger) work(s *berth.Semaphore, n, heaviest int) {
	slow := func(err error) bool { return errors.Is(err, berth.ErrUnreachable) || errors.Is(err, berth.ErrLost) }
	for left := n; left > 0; {
		l, err := s.Acquire(g.e.Ctx, berth.Weight(1+rand.N(heaviest)))
		if slow(err) {
			continue
		}
		if err != nil {
			if !errors.Is(err, berth.ErrRefused) {
				g.e.Error(err)
			}
			return
		}
		left--
		g.enter(l)
		if g.e.Exact {
			g.e.Pass(time.Duration(rand.N(3)) * time.Millisecond)
		}
		g.leave(l)
		if err := l.Release(); err != nil && !slow(err) && !errors.Is(err, berth.ErrRefused) {
			g.e.Error(err)
		}
	}
}

// S1, S2 and S7 under contention, with a crash in the middle of it.
func TestWeightsNeverExceedTheLimit(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		g := newLedger(e)
		var wg sync.WaitGroup
		peers := []*testenv.Peer{e.Peer(), e.Peer(), e.Peer()}
		for _, p := range peers {
			s := p.Sem(5, berth.TTL(e.TTL))
			for range 3 {
				wg.Go(func() { g.work(s, 25, 3) })
			}
		}
		wg.Go(func() {
			for g.grants() < 60 {
				e.Pass(time.Millisecond)
			}
			peers[0].Crash()
		})
		wg.Wait()
		if n := g.grants(); n < 150 {
			e.Errorf("%d grants", n)
		}
	})
}

// S1 while an operator moves the limit: a grant is judged by the limit in force.
func TestLimitTenTwoTenUnderLoad(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		g := newLedger(e)
		var wg sync.WaitGroup
		for range 3 {
			s := e.Peer().Sem(10)
			for range 4 {
				wg.Go(func() { g.work(s, 15, 2) })
			}
		}
		for _, limit := range []int{2, 10, 2, 10} {
			n := g.grants()
			for g.grants() < min(n+25, 180) {
				e.Pass(time.Millisecond)
			}
			e.Must(e.Inspector.Pin(e.Ctx, testenv.Name, limit))
		}
		wg.Wait()
		if n := g.grants(); n != 180 {
			e.Errorf("%d grants, want 180", n)
		}
	})
}

// S1, S5 and S7 on a network that loses, repeats and delays.
func TestWeightsNeverExceedTheLimitOnABadNetwork(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		g := newLedger(e)
		var wg sync.WaitGroup
		for range 3 {
			p := e.Peer()
			badly(p)
			s := p.Sem(3, berth.TTL(e.TTL))
			for range 3 {
				wg.Go(func() { g.work(s, 8, 2) })
			}
		}
		wg.Wait()
		e.Until("idle", func(s *berthadmin.State) bool { return s.Holders+s.Waiting == 0 })
	})
}

// badly makes the network of p lose or repeat a tenth of the calls.
func badly(p *testenv.Peer) {
	for _, fault := range []redistest.Fault{
		redistest.SwallowReplyAndClose, redistest.Duplicate, redistest.Reset, redistest.SwallowReply,
	} {
		some := func(c redistest.Command) bool { return redistest.IsScript(c) && rand.N(40) == 0 }
		p.Net.Inject(redistest.Rule{Match: some, Fault: fault, Times: 3})
	}
	p.Net.Inject(redistest.Rule{
		Match: func(c redistest.Command) bool { return testenv.IsMessage(c) && rand.N(10) == 0 }, Fault: redistest.DropMessage, Times: -1,
	})
}

// S2.
func TestTokensIncreaseAcrossIdleDeletion(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		p, q := e.Peer(), e.Peer()
		var last int64
		for i := range 20 {
			l := e.Hold([]*testenv.Peer{p, q}[i%2].Sem(2))
			if l.Token() <= last || l.Token() > 1<<53 {
				e.Fatalf("token %d after %d", l.Token(), last)
			}
			last = l.Token()
			e.Release(l)
			if i%5 == 0 {
				e.UntilNoKeys(3 * time.Second)
			}
		}
	})
}

// S2, across a purge too: tokens come from the clock.
func TestTokensIncreaseAcrossPurge(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		s := e.Peer().Sem(1)
		first := e.Hold(s)
		e.Pass(time.Millisecond)
		e.Must(e.Inspector.Purge(e.Ctx, testenv.Name))
		if second := e.Hold(s); second.Token() <= first.Token() {
			e.Errorf("token %d after %d", second.Token(), first.Token())
		}
	})
}

// S3, however the lease came about and was prolonged.
func TestTrustDeadlineIsNeverLaterThanServerExpiry(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		holder, waiter := e.Peer(), e.Peer()
		const ttl = 20 * time.Second
		first := e.Hold(holder.Sem(1, berth.TTL(ttl)))
		trusts(e, first, "a grant by reply")
		e.Pass(20 * time.Millisecond)
		e.Must(e.Renew(first))
		trusts(e, first, "a renewal")

		slow := waiter.Net.Inject(redistest.Rule{Fault: redistest.DelayMessage, Match: testenv.IsMessage})
		r := e.Queue(waiter.Sem(1, berth.TTL(ttl)))
		e.Subscribed()
		e.Release(first)
		testenv.Receive(e, "message", slow.Hit())
		e.Pass(20 * time.Millisecond)
		slow.Release()
		second := r.Granted()
		trusts(e, second, "a hand-off whose message was late")

		handle, err := second.Detach(e.Ctx)
		e.Must(err)
		third, err := holder.Adopt(e.Ctx, handle)
		e.Must(err)
		trusts(e, third, "an adoption")
	})
}

// S3 for a grant that is read again: the first reply was lost, so the lease is
// younger for its holder than for the server.
func TestTrustDeadlineAfterLostReply(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		p := e.Peer()
		s := p.Sem(1)
		e.Release(e.Hold(s)) // the connections and the script are there
		for _, v := range []string{"A", "R"} {
			p.Net.Inject(redistest.Rule{Match: testenv.Carries(v), Fault: redistest.SwallowReply})
		}
		l := e.Hold(s)
		trusts(e, l, "a grant whose reply was lost")
		e.Must(e.Renew(l))
		trusts(e, l, "a renewal whose reply was lost")
	})
}

// trusts fails if the holder's deadline is later than the server's. Test and
// server read the same machine's clock, to the server's whole milliseconds.
func trusts(e *testenv.Env, l *berth.Lease, what string) {
	e.Helper()
	until := l.ValidUntil()
	store := protocol.NewStore(e.Redis, e.Prefix, "eye", 0, "")
	snap, err := look.New(store).Inspect(e.Ctx, store.Key(testenv.Name), true)
	e.Must(err)
	if !l.Valid() {
		e.Errorf("%s: it is not valid", what)
	}
	i := slices.IndexFunc(snap.Leases, func(r look.Record) bool { return r.ID == l.ID() })
	if i < 0 {
		e.Fatalf("%s: the server does not know %s", what, l.ID())
	}
	if server := time.UnixMilli(snap.Leases[i].Expires); until.After(server) {
		e.Errorf("%s: trusted until %v, the server's expiry is %v", what, until, server)
	}
}

// S3 and S4 do not depend on any client's clock: here the server's is hours off.
func TestClientClocksMayBeWrongByHours(t *testing.T) {
	for _, off := range []time.Duration{-3 * time.Hour, 3 * time.Hour} {
		t.Run(off.String(), func(t *testing.T) {
			testenv.Embedded(t, func(e *testenv.Env) {
				stop := make(chan struct{})
				defer close(stop)
				e.Embedded.SetTime(time.Now().Add(off))
				go skew(e, off, stop)
				holder, waiter := e.Peer(), e.Peer()
				start := time.Now()
				dead := e.Hold(holder.Sem(1, berth.TTL(time.Second)))
				r := e.Queue(waiter.Sem(1, berth.TTL(time.Second)))
				e.Pass(1500 * time.Millisecond) // renewals work
				if !dead.Valid() {
					e.Error("lost although renewed")
				}
				holder.Crash()
				until := dead.ValidUntil()
				r.Granted()
				e.Within(start, 1500*time.Millisecond, 2500*time.Millisecond, "the permit came back")
				if r.At.Before(until) {
					e.Error("granted before the crashed holder's trust ended")
				}
			})
		})
	}
}

// skew keeps the store's clock off by a constant.
func skew(e *testenv.Env, off time.Duration, stop chan struct{}) {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			e.Embedded.SetTime(time.Now().Add(off))
		case <-stop:
			return
		}
	}
}

// S4, over many waiters and several processes.
func TestThousandWaitersAreServedInOrder(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		peers := []*testenv.Peer{e.Peer(), e.Peer(), e.Peer(), e.Peer()}
		first := e.Hold(peers[0].Sem(1))
		rs := make([]*testenv.Request, e.Many(1000))
		for i := range rs {
			rs[i] = e.Queue(peers[i%len(peers)].Sem(1))
		}
		last := first.Token()
		e.Release(first)
		for i, r := range rs {
			l := r.Granted()
			if l.Token() <= last {
				e.Fatalf("waiter %d has token %d, the one before it %d", i, l.Token(), last)
			}
			last = l.Token()
			e.Release(l)
		}
		e.Idle()
	})
}

// S6.
func TestRenewalNeverRecreates(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		p := e.Peer()
		l := e.Hold(p.Sem(1, berth.WithoutRenewal()))
		e.Must(e.Inspector.Purge(e.Ctx, testenv.Name))
		err := e.Renew(l)
		e.WantErr(err, berth.ErrLost)
		if lost := e.Lost(l); lost.Reason != berth.LostVanished {
			e.Errorf("the holder is told %q", lost.Reason)
		}
		e.Idle()
		e.WantErr(l.Release(), berth.ErrLost)
		e.Idle()
	})
}

// S6 by the keeper's renewal, and the holder is told.
func TestHolderOfAVanishedLeaseIsTold(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		lost := e.InTime(func() error { // a slow machine renews late
			l := e.Hold(e.Peer().Sem(1, berth.TTL(max(e.TTL, 3*time.Second))))
			e.Must(e.Inspector.Purge(e.Ctx, testenv.Name))
			return e.Lost(l)
		})
		if told, ok := errors.AsType[*berth.LostError](lost); !ok || told.Reason != berth.LostVanished {
			e.Errorf("the holder is told %v", lost)
		}
		e.Idle()
	})
}

// S7: the lowest free slot, and never one that is in use.
func TestSlotsOfLiveLeasesDiffer(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		p, q := e.Peer(), e.Peer()
		var leases []*berth.Lease
		for i := range 6 {
			l := e.Hold([]*testenv.Peer{p, q}[i%2].Sem(9))
			if l.Slot() != i {
				e.Fatalf("slot %d, want %d", l.Slot(), i)
			}
			leases = append(leases, l)
		}
		e.Release(leases[4], leases[1], leases[3])
		for _, want := range []int{1, 3, 4, 6} {
			if l := e.Hold(q.Sem(9)); l.Slot() != want {
				e.Errorf("slot %d, want %d", l.Slot(), want)
			}
		}
	})
}

// S7 by hand-off: the waiter gets the slot that the release freed.
func TestHandOffGivesTheFreedSlot(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		p := e.Peer()
		leases := []*berth.Lease{e.Hold(p.Sem(3)), e.Hold(p.Sem(3)), e.Hold(p.Sem(3))}
		r := e.Queue(p.Sem(3))
		e.Release(leases[1])
		if l := r.Granted(); l.Slot() != 1 {
			e.Errorf("slot %d, want 1", l.Slot())
		}
	})
}
