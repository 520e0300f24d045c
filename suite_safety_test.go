package berth_test

import (
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/internal/protocol"
	"github.com/berth-go/berth/internal/redistest"
)

// ledger judges the grants of one semaphore by what the holders believe.
type ledger struct {
	e     *env
	mu    sync.Mutex
	held  map[*berth.Lease]bool
	count int
}

func newLedger(e *env) *ledger { return &ledger{e: e, held: map[*berth.Lease]bool{}} }

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
			g.e.t.Errorf("two leases live in slot %d", l.Slot())
		}
		if other.Token() == l.Token() {
			g.e.t.Errorf("two leases with token %d", l.Token())
		}
		if other.Token() < l.Token() {
			weight += other.Weight()
		}
	}
	if weight > l.Limit() {
		g.e.t.Errorf("%d permits out after a grant under the limit %d", weight, l.Limit())
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

// work takes and gives back n leases of random weight.
func (g *ledger) work(s *berth.Semaphore, n, heaviest int) {
	for range n {
		l, err := s.Acquire(g.e.ctx, berth.Weight(1+rand.N(heaviest)))
		if err != nil {
			return // its process crashed
		}
		g.enter(l)
		if g.e.exact {
			g.e.pass(time.Duration(rand.N(3)) * time.Millisecond)
		}
		g.leave(l)
		if l.Release() != nil {
			return
		}
	}
}

// S1, S2 and S7 under contention, with a crash in the middle of it.
func TestWeightsNeverExceedTheLimit(t *testing.T) {
	each(t, func(_ *testing.T, e *env) {
		g := newLedger(e)
		var wg sync.WaitGroup
		peers := []*peer{e.peer(), e.peer(), e.peer()}
		for _, p := range peers {
			s := p.sem(5, berth.TTL(e.ttl))
			for range 3 {
				wg.Go(func() { g.work(s, 25, 3) })
			}
		}
		wg.Go(func() {
			for g.grants() < 60 {
				e.pass(time.Millisecond)
			}
			peers[0].crash()
		})
		wg.Wait()
		if n := g.grants(); n < 150 {
			e.t.Errorf("%d grants", n)
		}
	})
}

// S1 while an operator moves the limit: a grant is judged by the limit in force.
func TestLimitTenTwoTenUnderLoad(t *testing.T) {
	each(t, func(_ *testing.T, e *env) {
		g := newLedger(e)
		var wg sync.WaitGroup
		for range 3 {
			s := e.peer().sem(10)
			for range 4 {
				wg.Go(func() { g.work(s, 15, 2) })
			}
		}
		for _, limit := range []int{2, 10, 2, 10} {
			n := g.grants()
			for g.grants() < min(n+25, 180) {
				e.pass(time.Millisecond)
			}
			e.must(e.eye.Pin(e.ctx, name, limit))
		}
		wg.Wait()
		if n := g.grants(); n != 180 {
			e.t.Errorf("%d grants, want 180", n)
		}
	})
}

// S1, S5 and S7 on a network that loses, repeats and delays.
func TestWeightsNeverExceedTheLimitOnABadNetwork(t *testing.T) {
	each(t, func(_ *testing.T, e *env) {
		g := newLedger(e)
		var wg sync.WaitGroup
		for range 3 {
			p := e.peer()
			p.badly()
			s := p.sem(3, berth.TTL(e.ttl))
			for range 3 {
				wg.Go(func() { g.work(s, 8, 2) })
			}
		}
		wg.Wait()
		e.until("idle", func(s *berth.State) bool { return s.Holders+s.Waiting == 0 })
	})
}

// badly makes the network of p lose or repeat a tenth of the calls.
func (p *peer) badly() {
	for _, fault := range []redistest.Fault{
		redistest.SwallowReplyAndClose, redistest.Duplicate, redistest.Reset, redistest.SwallowReply,
	} {
		some := func(c redistest.Command) bool { return redistest.IsScript(c) && rand.N(40) == 0 }
		p.net.Inject(redistest.Rule{Match: some, Fault: fault, Times: 3})
	}
	p.net.Inject(redistest.Rule{
		Match: func(c redistest.Command) bool { return messages(c) && rand.N(10) == 0 }, Fault: redistest.DropMessage, Times: -1,
	})
}

// S2.
func TestTokensIncreaseAcrossIdleDeletion(t *testing.T) {
	each(t, func(_ *testing.T, e *env) {
		p, q := e.peer(), e.peer()
		var last int64
		for i := range 20 {
			l := e.hold([]*peer{p, q}[i%2].sem(2))
			if l.Token() <= last || l.Token() > 1<<53 {
				e.t.Fatalf("token %d after %d", l.Token(), last)
			}
			last = l.Token()
			e.release(l)
			if i%5 == 0 {
				e.untilNoKeys(3 * time.Second)
			}
		}
	})
}

// S2, across a purge too: tokens come from the clock.
func TestTokensIncreaseAcrossPurge(t *testing.T) {
	each(t, func(_ *testing.T, e *env) {
		s := e.peer().sem(1)
		first := e.hold(s)
		e.pass(time.Millisecond)
		e.must(e.eye.Purge(e.ctx, name))
		if second := e.hold(s); second.Token() <= first.Token() {
			e.t.Errorf("token %d after %d", second.Token(), first.Token())
		}
	})
}

// S3, however the lease came about and was prolonged.
func TestTrustDeadlineIsNeverLaterThanServerExpiry(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		holder, waiter := e.peer(), e.peer()
		const ttl = 20 * time.Second
		first := e.hold(holder.sem(1, berth.TTL(ttl)))
		e.trusts(first, "a grant by reply")
		e.pass(20 * time.Millisecond)
		e.must(first.Renew(e.ctx))
		e.trusts(first, "a renewal")

		slow := waiter.net.Inject(redistest.Rule{Fault: redistest.DelayMessage, Match: messages})
		r := e.queue(waiter.sem(1, berth.TTL(ttl)))
		e.release(first)
		<-slow.Hit()
		e.pass(20 * time.Millisecond)
		slow.Release()
		second := r.granted()
		e.trusts(second, "a hand-off whose message was late")

		handle, err := second.Detach(e.ctx)
		e.must(err)
		third, err := holder.Adopt(e.ctx, handle)
		e.must(err)
		e.trusts(third, "an adoption")
	})
}

// S3 for a grant that is read again: the first reply was lost, so the lease is
// younger for its holder than for the server.
func TestTrustDeadlineAfterLostReply(t *testing.T) {
	each(t, func(_ *testing.T, e *env) {
		p := e.peer()
		s := p.sem(1, berth.TTL(1200*time.Millisecond))
		e.release(e.hold(s)) // the connections and the script are there
		for _, v := range []string{"A", "R"} {
			p.net.Inject(redistest.Rule{Match: verb(v), Fault: redistest.SwallowReply})
		}
		l := e.hold(s)
		e.trusts(l, "a grant whose reply was lost")
		e.must(l.Renew(e.ctx))
		e.trusts(l, "a renewal whose reply was lost")
	})
}

// trusts fails if the holder's deadline is later than the server's. Test and
// server read the same machine's clock, to the server's whole milliseconds.
func (e *env) trusts(l *berth.Lease, what string) {
	e.t.Helper()
	until := l.ValidUntil()
	store := protocol.NewStore(e.raw, e.prefix, "eye", 0, "")
	snap, err := store.Inspect(e.ctx, store.Key(name), true)
	e.must(err)
	if !l.Valid() {
		e.t.Errorf("%s: it is not valid", what)
	}
	i := slices.IndexFunc(snap.Leases, func(r protocol.Record) bool { return r.ID == l.ID() })
	if i < 0 {
		e.t.Fatalf("%s: the server does not know %s", what, l.ID())
	}
	if server := time.UnixMilli(snap.Leases[i].Expires); until.After(server) {
		e.t.Errorf("%s: trusted until %v, the server's expiry is %v", what, until, server)
	}
}

// S3 and S4 do not depend on any client's clock: here the server's is hours off.
func TestClientClocksMayBeWrongByHours(t *testing.T) {
	for _, off := range []time.Duration{-3 * time.Hour, 3 * time.Hour} {
		t.Run(off.String(), func(t *testing.T) {
			exactly(t, func(_ *testing.T, e *env) {
				stop := make(chan struct{})
				defer close(stop)
				e.embedded.SetTime(time.Now().Add(off))
				go e.skew(off, stop)
				holder, waiter := e.peer(), e.peer()
				start := time.Now()
				dead := e.hold(holder.sem(1, berth.TTL(time.Second)))
				r := e.queue(waiter.sem(1, berth.TTL(time.Second)))
				e.pass(1500 * time.Millisecond) // renewals work
				if !dead.Valid() {
					e.t.Error("lost although renewed")
				}
				holder.crash()
				until := dead.ValidUntil()
				r.granted()
				e.within(start, 1500*time.Millisecond, 2500*time.Millisecond, "the permit came back")
				if r.at.Before(until) {
					e.t.Error("granted before the crashed holder's trust ended")
				}
			})
		})
	}
}

// skew keeps the store's clock off by a constant.
func (e *env) skew(off time.Duration, stop chan struct{}) {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			e.embedded.SetTime(time.Now().Add(off))
		case <-stop:
			return
		}
	}
}

// S4, over many waiters and several processes.
func TestThousandWaitersAreServedInOrder(t *testing.T) {
	each(t, func(_ *testing.T, e *env) {
		peers := []*peer{e.peer(), e.peer(), e.peer(), e.peer()}
		first := e.hold(peers[0].sem(1))
		rs := make([]*request, e.many(1000))
		for i := range rs {
			rs[i] = e.queue(peers[i%len(peers)].sem(1))
		}
		last := first.Token()
		e.release(first)
		for i, r := range rs {
			l := r.granted()
			if l.Token() <= last {
				e.t.Fatalf("waiter %d has token %d, the one before it %d", i, l.Token(), last)
			}
			last = l.Token()
			e.release(l)
		}
		e.idle()
	})
}

// S6.
func TestRenewalNeverRecreates(t *testing.T) {
	each(t, func(_ *testing.T, e *env) {
		p := e.peer()
		l := e.hold(p.sem(1, berth.WithoutRenewal()))
		e.must(e.eye.Purge(e.ctx, name))
		err := l.Renew(e.ctx)
		wantErr(e.t, err, berth.ErrLost)
		if lost := e.lost(l); lost.Reason != berth.LostVanished {
			e.t.Errorf("the holder is told %q", lost.Reason)
		}
		e.idle()
		wantErr(e.t, l.Release(), berth.ErrLost)
		e.idle()
	})
}

// S6 by the keeper's renewal, and the holder is told.
func TestHolderOfAVanishedLeaseIsTold(t *testing.T) {
	each(t, func(_ *testing.T, e *env) {
		l := e.hold(e.peer().sem(1, berth.TTL(e.ttl)))
		e.must(e.eye.Purge(e.ctx, name))
		if lost := e.lost(l); lost.Reason != berth.LostVanished {
			e.t.Errorf("the holder is told %q", lost.Reason)
		}
		e.idle()
	})
}

// S7: the lowest free slot, and never one that is in use.
func TestSlotsOfLiveLeasesDiffer(t *testing.T) {
	each(t, func(_ *testing.T, e *env) {
		p, q := e.peer(), e.peer()
		var leases []*berth.Lease
		for i := range 6 {
			l := e.hold([]*peer{p, q}[i%2].sem(9))
			if l.Slot() != i {
				e.t.Fatalf("slot %d, want %d", l.Slot(), i)
			}
			leases = append(leases, l)
		}
		e.release(leases[4], leases[1], leases[3])
		for _, want := range []int{1, 3, 4, 6} {
			if l := e.hold(q.sem(9)); l.Slot() != want {
				e.t.Errorf("slot %d, want %d", l.Slot(), want)
			}
		}
	})
}

// S7 by hand-off: the waiter gets the slot that the release freed.
func TestHandOffGivesTheFreedSlot(t *testing.T) {
	each(t, func(_ *testing.T, e *env) {
		p := e.peer()
		leases := []*berth.Lease{e.hold(p.sem(3)), e.hold(p.sem(3)), e.hold(p.sem(3))}
		r := e.queue(p.sem(3))
		e.release(leases[1])
		if l := r.granted(); l.Slot() != 1 {
			e.t.Errorf("slot %d, want 1", l.Slot())
		}
	})
}
