package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/internal/look"
	"github.com/berth-go/berth/internal/protocol"
	"github.com/berth-go/berth/internal/words"
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
		return fail(trialAdvice(err), "no permit was tried, for what that writes may not be deleted: %s", short(err))
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
		return "See whether the server is overloaded, and the network between."
	}
	return "Give the user the rights in docs/operations.md."
}

// Bounds of the search through the keyspace, which is for a finding, not an inventory.
const (
	mostInspected = 2000
	mostRecords   = 5000 // of one semaphore
	mostNamed     = 5
)

// keyspace reads every semaphore without changing it.
func (p *patient) keyspace(ctx context.Context, _ node) Finding {
	store := p.store()
	names, err := look.New(store).Names(ctx)
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return warn("On a server of millions of keys there is nothing to do: berth ls reads all semaphores.",
			"the keys could not be searched within %v, and no semaphore was looked at", checkTimeout)
	case err != nil:
		return scanFailed(err)
	}
	var bad, half, ahead, left, lapsing []string
	looked := 0
	for _, name := range names[:min(len(names), mostInspected)] {
		what, kind, err := p.inspect(ctx, store, name)
		if err != nil && ctx.Err() != nil {
			break
		}
		looked++
		switch {
		case err != nil:
			return scanFailed(err)
		case what == "":
		case strings.HasPrefix(name, ownName):
			left = append(left, name)
		case kind == newer:
			ahead = append(ahead, fmt.Sprintf("%.60q: %s", name, what))
		case kind == evictable:
			lapsing = append(lapsing, fmt.Sprintf("%.60q: %s", name, what))
		case kind == healing:
			half = append(half, fmt.Sprintf("%.60q: %s", name, what))
		default:
			bad = append(bad, fmt.Sprintf("%.60q: %s", name, what))
		}
	}
	switch {
	case len(bad) > 0:
		return fail("Find out who writes to keys with berth's prefix; leave alone what heals by itself, and what a newer berth wrote; for the rest, `berth purge --yes NAME`, or delete the keys with redis-cli.",
			"not all is berth's under %q; %s", p.Prefix, someOf(slices.Concat(bad, ahead, half)))
	case len(ahead) > 0:
		return fail("Upgrade this berth, and leave the keys alone: others use them.", "not all can be read by this berth; %s", someOf(append(ahead, half...)))
	case len(half) > 0:
		return warn("Wait: after a purge there could be more holders than the limit. Find out who deletes keys: memory above, or a program with berth's prefix.",
			"one of two keys was lost; %s", someOf(half))
	case len(lapsing) > 0:
		return p.evicted(lapsing)
	case len(left) > 0:
		return warn("Delete them as a user who may: berth purge --yes "+strings.Join(left, " "),
			"%s that an earlier berth doctor could not delete: %s", words.Plural(len(left), "semaphore"), strings.Join(left, ", "))
	case looked < len(names):
		return found("%s, of which the first %d were looked at: all sound", words.Plural(len(names), "semaphore"), looked)
	}
	return found("%s, all sound", words.Plural(len(names), "semaphore"))
}

// someOf names the first few.
func someOf(all []string) string {
	if more := len(all) - mostNamed; more > 0 {
		all = append(all[:mostNamed:mostNamed], fmt.Sprintf("and %d more", more))
	}
	return strings.Join(all, "; ")
}

func scanFailed(err error) Finding {
	if denied(err) {
		return warn("Give the user the rights in docs/operations.md, SCAN included.", "the semaphores may not be looked at (%s)", short(err))
	}
	return fail("Look at the server's log.", "the semaphores could not be looked at (%s)", short(err))
}

// kind is a kind of what is wrong with a semaphore.
type kind int

const (
	foreign   kind = iota // not this berth's content
	healing               // one of two keys was lost; it heals by itself
	newer                 // in order, but this berth cannot read it
	evictable             // in order, but its keys have what the server evicts first
)

// inspect reads a semaphore, with its records unless they are very many, and tells what is
// wrong with it, if anything.
func (p *patient) inspect(ctx context.Context, store *protocol.Store, name string) (what string, kind kind, err error) {
	if _, invalid := p.client.Semaphore(name, 1); invalid != nil {
		return "no name of berth's", foreign, nil //nolint:nilerr // that is the finding
	}
	reader := look.New(store)
	snap, err := reader.Inspect(ctx, store.Key(name), false)
	if err == nil && snap.Holders+snap.Waiting <= mostRecords {
		_, err = reader.Inspect(ctx, store.Key(name), true)
	}
	failure, _ := errors.AsType[*protocol.Failure](err)
	switch {
	case errors.Is(err, protocol.ErrVersion):
		return "written by a newer berth", newer, nil
	case failure != nil && failure.Heals > 0:
		return "heals by itself in " + words.Age(failure.Heals), healing, nil
	case errors.Is(err, protocol.ErrOlder):
		return "written by an older berth, whose programs must end before a purge", foreign, nil
	case errors.Is(err, protocol.ErrCorrupt):
		return "not berth's content", foreign, nil
	}
	if evicts, _ := p.evictsTTLs(); evicts && err == nil {
		what, err = p.lapse(ctx, store.Key(name), snap)
	}
	return what, evictable, err
}
