package gate

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/berth-go/berth"
)

// observe asks each limit once, without waiting, and lets the call pass. It waits for Redis for
// AnswerWithin at most, in all. A permit that was free is held while the call runs, so that other
// calls see it taken, but its loss ends nothing.
func (g *Gate[R]) observe(ctx context.Context, r R) *Permit {
	a := g.attempt(ctx, r)
	a.away = g.outage.known(ctx)
	if err := a.prepare(r); err != nil {
		g.tally.add(a.asks[a.order[0]].Name, berth.ObservedRefusal, err)
		return g.permit(nil, nil)
	}
	bounded, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer time.AfterFunc(g.AnswerWithin, func() { cancel(errSilence) }).Stop()
	if a.away != nil { // nothing is sent, but the client's hooks count the call
		cancel(a.away)
	}
	passed := false
	defer func() {
		if !passed { // a hook panicked
			giveBack(a.leases, g.Logger, g.Package)
		}
	}()
	for _, i := range a.order {
		k := &a.asks[i]
		lease, saw, err := internals.Observe(bounded, k.Sem, g.MaxWait != 0, k.opts)
		a.leases[i] = lease
		g.tally.add(k.Name, saw, err)
		switch {
		case answered(err):
			g.outage.over()
		case a.away == nil && (errors.Is(err, berth.ErrUnreachable) || context.Cause(bounded) == errSilence): //nolint:errorlint // as it was given
			_ = g.outage.unanswered(ctx)
		}
	}
	passed = true
	return g.permit(a.asks, a.leases)
}

// tally counts observed calls, and logs those that would not have had a permit at once: the first
// when it comes, and the others together, every reportEvery.
type tally struct {
	log *slog.Logger
	pkg string

	mu    sync.Mutex
	count map[berth.Observation]int // guarded by mu; since it was told
	due   bool                      // guarded by mu; tell will be called
	last  string                    // guarded by mu; the semaphore of the last that had no permit
	err   error                     // guarded by mu; why it had none
}

func (t *tally) add(name string, saw berth.Observation, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.count == nil {
		t.count = map[berth.Observation]int{}
	}
	t.count[saw]++
	if saw == berth.ObservedGrant {
		return
	}
	t.last, t.err = name, err
	if !t.due {
		t.due = true
		t.tell()
		time.AfterFunc(reportEvery, t.again)
	}
}

// again tells of those since the last time, if there are any.
func (t *tally) again() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err == nil {
		t.due = false
		return
	}
	t.tell()
	time.AfterFunc(reportEvery, t.again)
}

// tell logs the counts. mu is held.
func (t *tally) tell() {
	t.log.Info(t.pkg+": observed only, and let through",
		"would_wait", t.count[berth.ObservedWait], "would_be_refused", t.count[berth.ObservedRefusal],
		"unknown", t.count[berth.ObservedUnknown], "granted", t.count[berth.ObservedGrant], "last", t.last, "why", t.err)
	clear(t.count)
	t.last, t.err = "", nil
}
