package fault_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/internal/judge"
)

// beliefs collects from all clients, by the one monotonic clock that they share, for how long they
// took themselves for holders: never longer than the truth, as a belief ends at an instant at which
// the lease was still valid afterwards.
type beliefs struct {
	start time.Time
	mu    sync.Mutex
	all   []judge.Request // guarded by mu
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
	b.all = append(b.all, judge.Request{
		Asked: asked, Granted: true, Start: from, End: to, Weight: lease.Weight(), Slot: lease.Slot(), Token: lease.Token(),
	})
}

// soFar returns what was collected so far.
func (b *beliefs) soFar() []judge.Request {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.all)
}

// count returns how many leases have been held to their end.
func (b *beliefs) count() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.all)
}

// most returns the highest weight that was believed in at once in [from, to).
func (b *beliefs) most(from, to time.Duration) int {
	return judge.Held(b.soFar(), judge.Span{From: from, To: to})
}

// check judges the whole history: limit kept, no slot held twice at once, no
// token twice, and tokens in the order of the grants.
func (b *beliefs) check(t *testing.T, limit int) {
	t.Helper()
	for _, wrong := range judge.Broken(b.soFar(), limit) {
		t.Error(wrong)
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
		highest = max(highest, b.Token)
	}
	ld.l.NothingLeft(limit, highest)
	ld.l.Logf("%d leases held; failures: %v", len(ld.all), ld.errs)
}
