package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/berth-go/berth/internal/look"
	"github.com/berth-go/berth/internal/protocol"
	"github.com/berth-go/berth/internal/words"
)

// Bounds of the search through the keyspace, which is for a finding, not an inventory.
const (
	mostInspected = 2000
	mostRecords   = 5000 // of one semaphore
	mostNamed     = 5
)

// condition is what a look at a semaphore finds.
type condition int

const (
	sound     condition = iota
	foreign             // not this berth's content
	newer               // in order, but this berth cannot read it
	healing             // one of two keys was lost; it heals by itself
	evictable           // in order, but its keys have what the server evicts first
	leftover            // what an earlier doctor could not delete
)

// keyspace reads every semaphore without changing it.
func (p *patient) keyspace(ctx context.Context, _ node) Finding {
	names, err := look.New(p.store()).Names(ctx)
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return warn("On a server of millions of keys there is nothing to do: berth ls reads all semaphores.",
			"the keys could not be searched within %v, and no semaphore was looked at", checkTimeout)
	case err != nil:
		return scanFailed(err)
	}
	looked, some := 0, map[condition][]string{}
	for _, name := range names[:min(len(names), mostInspected)] {
		is, what, err := p.inspect(ctx, name)
		if err != nil && ctx.Err() != nil {
			break
		}
		if err != nil {
			return scanFailed(err)
		}
		looked++
		if is != sound && strings.HasPrefix(name, ownName) {
			some[leftover] = append(some[leftover], name)
		} else {
			some[is] = append(some[is], fmt.Sprintf("%.60q: %s", name, what))
		}
	}
	if looked < len(names) && len(some[sound]) == looked {
		return found("%s, of which the first %d were looked at: all sound", words.Plural(len(names), "semaphore"), looked)
	}
	return p.worst(len(names), some)
}

// worst is the finding about the worst condition in which there are some of the semaphores.
func (p *patient) worst(all int, some map[condition][]string) Finding {
	switch {
	case len(some[foreign]) > 0:
		return fail("Find out who writes to keys with berth's prefix; leave alone what heals by itself, and what a newer berth wrote; for the rest, `berth purge --yes NAME`, or delete the keys with redis-cli.",
			"not all is berth's under %q; %s", p.Prefix, namesOf(some[foreign], some[newer], some[healing]))
	case len(some[newer]) > 0:
		return fail("Upgrade this berth, and leave the keys alone: others use them.",
			"not all can be read by this berth; %s", namesOf(some[newer], some[healing]))
	case len(some[healing]) > 0:
		return warn("Wait: after a purge there could be more holders than the limit. Find out who deletes keys: memory above, or a program with berth's prefix.",
			"one of two keys was lost; %s", namesOf(some[healing]))
	case len(some[evictable]) > 0:
		return p.evicted(namesOf(some[evictable]))
	case len(some[leftover]) > 0:
		return warn("Delete them as a user who may: berth purge --yes "+strings.Join(some[leftover], " "),
			"%s that an earlier berth doctor could not delete: %s",
			words.Plural(len(some[leftover]), "semaphore"), strings.Join(some[leftover], ", "))
	}
	return found("%s, all sound", words.Plural(all, "semaphore"))
}

// namesOf names the first few.
func namesOf(lists ...[]string) string {
	all := slices.Concat(lists...)
	if more := len(all) - mostNamed; more > 0 {
		all = append(all[:mostNamed], fmt.Sprintf("and %d more", more))
	}
	return strings.Join(all, "; ")
}

func scanFailed(err error) Finding {
	if denied(err) {
		return warn("Give the user the rights in docs/operations.md, SCAN included.", "the semaphores may not be looked at (%s)", short(err))
	}
	return fail("Look at the server's log.", "the semaphores could not be looked at (%s)", short(err))
}

// inspect reads a semaphore, with its records unless they are very many, and returns its condition,
// and that in words.
func (p *patient) inspect(ctx context.Context, name string) (condition, string, error) {
	if _, invalid := p.client.Semaphore(name, 1); invalid != nil {
		return foreign, "no name of berth's", nil //nolint:nilerr // that is the finding
	}
	reader, key := look.New(p.store()), p.store().Key(name)
	snap, err := reader.Inspect(ctx, key, false)
	if err == nil && snap.Holders+snap.Waiting <= mostRecords {
		_, err = reader.Inspect(ctx, key, true)
	}
	failure, _ := errors.AsType[*protocol.Failure](err)
	switch {
	case errors.Is(err, protocol.ErrVersion):
		return newer, "written by a newer berth", nil
	case failure != nil && failure.Heals > 0:
		return healing, "heals by itself in " + words.Age(failure.Heals), nil
	case errors.Is(err, protocol.ErrOlder):
		return foreign, "written by an older berth, whose programs must end before a purge", nil
	case errors.Is(err, protocol.ErrCorrupt):
		return foreign, "not berth's content", nil
	case err != nil:
		return sound, "", err
	}
	return p.lapse(ctx, key, snap)
}

// lapse tells whether the keys of a semaphore that is in use have a TTL, on a server that evicts what
// has one. A user who may not ask for it is told what the semaphore says of its keys.
func (p *patient) lapse(ctx context.Context, k protocol.Key, snap *look.Snapshot) (condition, string, error) {
	if p.evictsTTLs() == OK || snap.Used+snap.Waiting == 0 && !snap.Counts() && snap.Ends == 0 {
		return sound, "", nil
	}
	pipe := p.Redis.Pipeline()
	state, order := pipe.PTTL(ctx, k.State), pipe.PTTL(ctx, k.Order())
	_, err := pipe.Exec(ctx)
	longest := max(state.Val(), order.Val())
	switch {
	case denied(err) && snap.Lapses:
		return evictable, "its keys have a TTL", nil
	case denied(err):
		return sound, "", nil
	case err != nil || longest <= 0:
		return sound, "", err
	}
	return evictable, "its keys have a TTL of " + words.Age(longest), nil
}

// evictsTTLs tells how bad it is that a server evicts first what has a TTL: Fail if one that does has a
// bound to its memory, Warn if none has, OK if no server does.
func (p *patient) evictsTTLs() Status {
	bad := OK
	for _, n := range p.nodes {
		switch {
		case !strings.HasPrefix(n.info["maxmemory_policy"], "volatile-"):
		case n.info["maxmemory"] != "0":
			return Fail
		default:
			bad = Warn
		}
	}
	return bad
}

// evicted is the finding about semaphores in use whose keys have a TTL.
func (p *patient) evicted(names string) Finding {
	when := "when memory is short"
	status := p.evictsTTLs()
	if status == Warn {
		when = "as soon as somebody sets maxmemory"
	}
	return Finding{
		Status: status,
		Found:  when + ", the server evicts first what has a TTL, as keys in use have: permits would be granted twice; " + names,
		Advice: "Set maxmemory-policy noeviction. Or, if the policy was changed just now, ask again in two minutes: " +
			"programs take the TTL off with their next call. A permit of berth acquire keeps it until berth renew.",
	}
}
