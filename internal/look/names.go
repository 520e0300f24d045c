package look

import (
	"context"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth/internal/protocol"
)

// Names returns the names of the semaphores that have keys, sorted.
func (r *Reader) Names(ctx context.Context) ([]string, error) {
	var all []string
	for cursor := ""; ; {
		step, err := r.NamesFrom(ctx, cursor, 500, false)
		if err != nil {
			return nil, err
		}
		all = append(all, step.Names...)
		if cursor = step.Next; cursor == "" {
			slices.Sort(all)
			return slices.Compact(all), nil // a name's keys may come in several steps
		}
	}
}

// Step is one step of a walk through the keyspace.
type Step struct {
	Names []string      // sorted, each once in this step
	Next  string        // the cursor of the next step; "": there is none
	Spent time.Duration // the server's time for it, if Told
	Told  bool
}

// NamesFrom makes the step of a walk through the keyspace that begins at cursor, "" at first,
// and looks at about budget keys. If timed is set it asks for the server's time. In a Cluster
// the walk goes from master to master, and begins again when other nodes have become masters:
// theirs may be the keys that it has passed by.
func (r *Reader) NamesFrom(ctx context.Context, cursor string, budget int, timed bool) (step Step, err error) {
	at, err := parseWalk(cursor)
	if err != nil {
		return step, err
	}
	var node redis.Cmdable = r.store.Redis()
	last := true
	if c, ok := r.store.Redis().(*redis.ClusterClient); ok {
		all, err := protocol.Masters(ctx, c)
		if err != nil {
			return step, r.store.Failed(err)
		}
		if len(all) == 0 {
			return step, nil
		}
		if is := fingerprint(all); at.masters != is || at.node >= len(all) {
			at = walk{masters: is}
		}
		node, last = all[at.node], at.node == len(all)-1
	}
	var scan *redis.ScanCmd
	step.Spent, step.Told = inPipeline(ctx, node, timed, func(pipe redis.Pipeliner) {
		scan = pipe.Scan(ctx, at.scan, r.store.AllKeys(), int64(budget))
	})
	keys, to, err := scan.Result()
	if err != nil {
		return step, r.store.Failed(err)
	}
	for _, key := range keys {
		// The hash may have been lost, and the sorted set still tell of leases.
		if name, ok := r.store.Name(strings.TrimSuffix(key, ":order")); ok {
			step.Names = append(step.Names, name)
		}
	}
	slices.Sort(step.Names)
	step.Names = slices.Compact(step.Names)
	if at.scan = to; to == 0 {
		if last {
			return step, nil
		}
		at.node++
	}
	step.Next = at.String()
	return step, nil
}

// walk is where a walk through the keyspace goes on.
type walk struct {
	scan    uint64 // the cursor of SCAN, on
	node    int    // the master with this number, of those
	masters uint32 // whose addresses have this fingerprint
}

// String returns the cursor for w.
func (w walk) String() string { return fmt.Sprintf("%d %d %08x", w.scan, w.node, w.masters) }

// parseWalk reads a cursor.
func parseWalk(cursor string) (w walk, err error) {
	if cursor == "" {
		return w, nil
	}
	if _, err := fmt.Sscanf(cursor, "%d %d %x", &w.scan, &w.node, &w.masters); err != nil || w.String() != cursor || w.node < 0 {
		return w, &protocol.Failure{Kind: protocol.ErrRejected, Err: fmt.Errorf("%w: %.40q is not a cursor", protocol.ErrRequest, cursor)}
	}
	return w, nil
}

// fingerprint sorts nodes by address, and returns a number that differs for others.
func fingerprint(nodes []*redis.Client) uint32 {
	addr := func(n *redis.Client) string { return n.Options().Addr }
	slices.SortFunc(nodes, func(a, b *redis.Client) int { return strings.Compare(addr(a), addr(b)) })
	h := fnv.New32a()
	for _, n := range nodes {
		fmt.Fprintln(h, addr(n))
	}
	return h.Sum32()
}
