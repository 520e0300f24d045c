package doctor

import (
	"context"
	"strings"

	"github.com/berth-go/berth/internal/look"
	"github.com/berth-go/berth/internal/protocol"
	"github.com/berth-go/berth/internal/words"
)

// What a server evicts of the keys in use, where its policy is volatile-*.

// evictsTTLs reports whether a server evicts keys with a TTL first, and whether one that does has a
// bound to its memory.
func (p *patient) evictsTTLs() (evicts, soon bool) {
	for _, n := range p.nodes {
		if strings.HasPrefix(n.info["maxmemory_policy"], "volatile-") {
			evicts, soon = true, soon || n.info["maxmemory"] != "0"
		}
	}
	return evicts, soon
}

// lapse tells the TTL of a semaphore's keys, if it has one while its loss would matter. A user who
// may not ask for it is told what the semaphore says of its keys.
func (p *patient) lapse(ctx context.Context, k protocol.Key, snap *look.Snapshot) (string, error) {
	if snap.Used+snap.Waiting+snap.Spent == 0 && snap.Ends == 0 {
		return "", nil
	}
	pipe := p.Redis.Pipeline()
	state, order := pipe.PTTL(ctx, k.State), pipe.PTTL(ctx, k.Order())
	_, err := pipe.Exec(ctx)
	longest := max(state.Val(), order.Val())
	switch {
	case denied(err) && snap.Lapses:
		return "its keys have a TTL", nil
	case denied(err):
		return "", nil
	case err != nil || longest <= 0:
		return "", err
	}
	return "its keys have a TTL of " + words.Age(longest), nil
}

// evicted is the finding about semaphores in use whose keys have a TTL.
func (p *patient) evicted(lapsing []string) Finding {
	const advice = "Set maxmemory-policy noeviction. Or, if the policy was changed just now, ask again in two minutes: " +
		"programs take the TTL off with their next call. A permit of berth acquire keeps it until berth renew."
	text := "the server evicts first what has a TTL, as keys in use have: permits would be granted twice; " + someOf(lapsing)
	if _, soon := p.evictsTTLs(); !soon {
		return warn(advice, "as soon as somebody sets maxmemory, %s", text)
	}
	return fail(advice, "when memory is short, %s", text)
}
