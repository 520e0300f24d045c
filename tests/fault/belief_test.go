package fault_test

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/berth-go/berth"
)

// belief is a time in which a client took itself for a holder, by the one
// monotonic clock that all clients of a test share. It is never longer than the
// truth: to is an instant at which the lease was still valid afterwards.
type belief struct {
	asked    time.Duration // before the request
	from, to time.Duration
	weight   int
	slot     int
	token    int64
}

// beliefs collects them from all clients.
type beliefs struct {
	start time.Time
	mu    sync.Mutex
	all   []belief // guarded by mu
}

func newBeliefs() *beliefs { return &beliefs{start: time.Now()} }

// now is the time since the collection began.
func (b *beliefs) now() time.Duration { return time.Since(b.start) }

// hold keeps the lease for about d, as a holder that looks at Valid would, and
// notes for how long it believed.
func (b *beliefs) hold(lease *berth.Lease, asked, d time.Duration) {
	from := b.now()
	end := time.NewTimer(d)
	defer end.Stop()
	look := time.NewTicker(max(d/4, time.Millisecond))
	defer look.Stop()
	to := from
	for done := false; !done; {
		select {
		case <-end.C:
			done = true
		case <-lease.Context().Done():
			done = true
		case <-look.C:
		}
		now := b.now()
		if !lease.Valid() {
			break
		}
		to = now
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.all = append(b.all, belief{asked, from, to, lease.Weight(), lease.Slot(), lease.Token()})
}

// count returns how many leases have been held to their end.
func (b *beliefs) count() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.all)
}

// edge is where a belief begins or ends.
type edge struct {
	at     time.Duration
	begins bool
	belief
}

// most returns the highest weight that was believed in at once in [from, to).
func (b *beliefs) most(from, to time.Duration) int {
	most, sum := 0, 0
	for _, e := range b.edges() {
		if e.at >= to {
			break
		}
		if e.begins {
			sum += e.weight
		} else {
			sum -= e.weight
		}
		if e.at < from {
			most = sum // what is left of it at from
		} else {
			most = max(most, sum)
		}
	}
	return most
}

// edges returns all edges by time. An end and a beginning at once do not overlap.
func (b *beliefs) edges() []edge {
	b.mu.Lock()
	defer b.mu.Unlock()
	var all []edge
	for _, one := range b.all {
		if one.to > one.from {
			all = append(all, edge{one.from, true, one}, edge{one.to, false, one})
		}
	}
	slices.SortFunc(all, func(x, y edge) int {
		if x.at == y.at && x.begins != y.begins {
			return map[bool]int{true: 1, false: -1}[x.begins]
		}
		return cmp.Compare(x.at, y.at)
	})
	return all
}

// check judges the whole history: limit kept, no slot held twice at once, no
// token twice, and tokens in the order of the grants.
func (b *beliefs) check(t *testing.T, limit int) {
	t.Helper()
	if most := b.most(0, time.Hour); most > limit {
		t.Errorf("%d permits were believed in at once, the limit is %d", most, limit)
	}
	slots := map[int]int64{}
	for _, e := range b.edges() {
		if !e.begins {
			delete(slots, e.slot)
			continue
		}
		if other, taken := slots[e.slot]; taken {
			t.Errorf("slot %d belonged to tokens %d and %d at once", e.slot, other, e.token)
		}
		slots[e.slot] = e.token
	}
	b.checkTokens(t)
}

// checkTokens: whoever asked when another had its grant has a larger token.
func (b *beliefs) checkTokens(t *testing.T) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	bySight := slices.SortedFunc(slices.Values(b.all), func(x, y belief) int { return cmp.Compare(x.from, y.from) })
	byAsking := slices.SortedFunc(slices.Values(b.all), func(x, y belief) int { return cmp.Compare(x.asked, y.asked) })
	seen, highest, i := map[int64]bool{}, int64(0), 0
	for _, one := range byAsking {
		for ; i < len(bySight) && bySight[i].from < one.asked; i++ {
			highest = max(highest, bySight[i].token)
		}
		if seen[one.token] || one.token <= highest {
			t.Errorf("token %d was asked for when %d had been granted", one.token, highest)
		}
		seen[one.token] = true
	}
}

// load is a fleet that acquires, holds and releases until it is told to stop.
type load struct {
	*beliefs
	l    *lab
	stop context.CancelFunc
	wg   sync.WaitGroup
	mu   sync.Mutex
	errs map[string]int // guarded by mu; what acquires and releases failed with
}

// start runs workers on each of the semaphores.
func (l *lab) load(workers int, sems ...*berth.Semaphore) *load {
	l.pause = 2 * time.Millisecond // the load costs more than looking
	ctx, cancel := context.WithCancel(l.Ctx)
	ld := &load{beliefs: newBeliefs(), l: l, stop: cancel, errs: map[string]int{}}
	for i := range workers {
		ld.wg.Go(func() { ld.work(ctx, sems[i%len(sems)]) })
	}
	l.Cleanup(func() { ld.stop(); ld.wg.Wait() })
	return ld
}

func (ld *load) work(ctx context.Context, s *berth.Semaphore) {
	for ctx.Err() == nil {
		asked := ld.now()
		lease, err := s.Acquire(ctx)
		if err != nil {
			ld.failed("Acquire", err)
			continue
		}
		ld.hold(lease, asked, time.Duration(rand.N(2000))*time.Microsecond)
		if err := lease.Release(); err != nil {
			ld.failed("Release", err)
		}
	}
}

// failed counts what is no error of berth: the end of the test, leases that were
// lost, a Redis that does not answer.
func (ld *load) failed(what string, err error) {
	kind := "other"
	for _, known := range []error{context.Canceled, berth.ErrLost, berth.ErrUnreachable, berth.ErrRefused} {
		if errors.Is(err, known) {
			kind = known.Error()
			break
		}
	}
	if kind == "other" {
		ld.l.Errorf("%s: %v", what, err)
	}
	ld.mu.Lock()
	defer ld.mu.Unlock()
	ld.errs[what+": "+kind]++
}

// more waits until n more leases have been held.
func (ld *load) more(n int) {
	ld.l.Helper()
	goal := ld.count() + n
	ld.l.waitFor("more leases", func() bool { return ld.count() >= goal })
}

// drain stops the load and checks that nothing is left.
func (ld *load) drain(limit int) {
	ld.l.Helper()
	ld.stop()
	ld.wg.Wait()
	highest := int64(0)
	for _, b := range ld.all {
		highest = max(highest, b.token)
	}
	ld.l.NothingLeft(limit, highest)
	ld.l.Logf("%d leases held; failures: %v", len(ld.all), ld.errs)
}
