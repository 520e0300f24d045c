package doctor

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/internal/look"
	"github.com/berth-go/berth/internal/protocol"
)

// trialTTL is short, so that an interrupted trial leaves nothing for long.
const trialTTL = 5 * time.Second

// semaphore takes, renews and gives back a permit of the throw-away semaphore,
// and has one handed over to a waiter.
func (p *patient) semaphore(ctx context.Context, _ node) Finding {
	if p.looks {
		return unchecked("take a permit")
	}
	start := time.Now()
	if err := p.sweep(); denied(err) {
		return fail(trialAdvice(err), "no permit was tried, because its keys may not be deleted: %s", short(err))
	}
	defer func() { _ = p.sweep() }() // what it leaves is gone by itself within minutes
	if what, err := p.trial(ctx); err != nil {
		return fail(trialAdvice(err), "%s failed: %s", what, short(err))
	}
	return found("a permit was taken, renewed, handed to a waiter and given back, in %v", rounded(time.Since(start)))
}

func (p *patient) trial(ctx context.Context) (what string, err error) {
	sem, err := p.client.Semaphore(p.own, 1, berth.TTL(trialTTL), berth.Label("berth doctor"))
	if err != nil {
		return "naming a semaphore", err
	}
	// What the server refuses for good is reported at once; what it refuses for
	// now would be tried again, and is worth an answer too.
	lease, err := sem.TryAcquire(ctx)
	if err != nil {
		return "taking a permit", err
	}
	defer func() { _ = lease.Release() }() // in case of an error; else it has been
	if err := lease.Renew(ctx); err != nil {
		return "renewing it", err
	}
	return "handing it to a waiter", handOver(ctx, sem, lease)
}

// handOver queues a request, frees the permit, and checks that the request then has it.
func handOver(ctx context.Context, sem *berth.Semaphore, lease *berth.Lease) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	free := sync.OnceFunc(func() {
		go func() {
			if err := lease.Release(); err != nil {
				cancel(err)
			}
		}()
	})
	next, err := sem.Acquire(ctx, berth.OnQueued(func(berth.Place) { free() }))
	if err != nil {
		return cmp.Or(context.Cause(ctx), err)
	}
	return next.Release()
}

// sweep deletes what the trial may have left, a tombstone for instance.
func (p *patient) sweep() error {
	ctx, cancel := context.WithTimeout(context.Background(), reachTimeout)
	defer cancel()
	store := p.store()
	_, err := look.Delete(ctx, store, store.Key(p.own))
	return err
}

// sentence makes one of words that begin in lower case.
func sentence(words string) string { return strings.ToUpper(words[:1]) + words[1:] + "." }

func trialAdvice(err error) string {
	text := err.Error()
	unfit, isUnfit := errors.AsType[*protocol.Unfit](err)
	switch {
	case isUnfit:
		return sentence(unfit.Do)
	case strings.Contains(text, "READONLY"), strings.Contains(text, "read only replica"):
		return "Connect to the master."
	case strings.Contains(text, "OOM"), strings.Contains(text, "used memory >"):
		return "Raise maxmemory, or free some."
	case strings.Contains(text, "NOREPLICAS"):
		return "Start the missing replicas, or lower min-replicas-to-write."
	case strings.Contains(text, "MISCONF"):
		return "Look at the server's log: it cannot write to its disk."
	case errors.Is(err, berth.ErrUnreachable), errors.Is(err, context.DeadlineExceeded):
		return "Check the load of the server, and the network in between."
	}
	return "Give the user the rights in docs/operations.md."
}
