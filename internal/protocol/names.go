package protocol

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
)

// Names returns the names of the semaphores that have keys, sorted.
func (s *Store) Names(ctx context.Context) ([]string, error) {
	var all []string
	for cursor := ""; ; {
		names, next, err := s.NamesFrom(ctx, cursor, 500)
		if err != nil {
			return nil, err
		}
		all = append(all, names...)
		if cursor = next; cursor == "" {
			slices.Sort(all)
			return slices.Compact(all), nil // a name's keys may come in several steps
		}
	}
}

// NamesFrom makes one step of a walk through the keyspace, which looks at about budget
// keys. It returns the names of the semaphores among them, in no order and perhaps some
// twice, and the cursor of the next step. The cursor is "" before the first step and after
// the last. In a Cluster the walk goes from master to master.
func (s *Store) NamesFrom(ctx context.Context, cursor string, budget int) (names []string, next string, err error) {
	at, addr, _ := strings.Cut(cmp.Or(cursor, "0"), " ")
	from, err := strconv.ParseUint(at, 10, 64)
	if err != nil {
		return nil, "", &Failure{Kind: ErrRejected, Err: fmt.Errorf("%w: %.40q is not a cursor", ErrRequest, cursor)}
	}
	var node redis.Cmdable = s.rdb
	here, after := "", ""
	if c, ok := s.rdb.(*redis.ClusterClient); ok {
		if node, here, after, err = masterFrom(ctx, c, addr); err != nil || node == nil {
			return nil, "", err
		}
		if here != addr {
			from = 0 // the master of the last step has gone
		}
	}
	keys, to, err := node.Scan(ctx, from, s.prefix+":{*", int64(budget)).Result()
	if err != nil {
		return nil, "", classify(err)
	}
	for _, key := range keys {
		// The hash may have been lost, and the sorted set still tell of leases.
		if name, ok := s.Name(strings.TrimSuffix(key, orderSuffix)); ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	switch {
	case to != 0:
		next = strings.TrimSpace(fmt.Sprint(to, " ", here))
	case after != "":
		next = "0 " + after
	}
	return names, next, nil
}

// masterFrom returns the master with the first address that is not below addr, or nil, and
// the next master's address, or "".
func masterFrom(ctx context.Context, c *redis.ClusterClient, addr string) (node redis.Cmdable, here, after string, err error) {
	nodes, err := masters(ctx, c)
	if err != nil {
		return nil, "", "", classify(err)
	}
	nodes = slices.DeleteFunc(nodes, func(m *redis.Client) bool { return m.Options().Addr < addr })
	slices.SortFunc(nodes, func(a, b *redis.Client) int { return strings.Compare(a.Options().Addr, b.Options().Addr) })
	if len(nodes) == 0 {
		return nil, "", "", nil
	}
	if len(nodes) > 1 {
		after = nodes[1].Options().Addr
	}
	return nodes[0], nodes[0].Options().Addr, after, nil
}

// masters returns the nodes that have slots. The cluster is asked for them anew.
func masters(ctx context.Context, c *redis.ClusterClient) (all []*redis.Client, err error) {
	var mu sync.Mutex
	err = c.ForEachMaster(ctx, func(_ context.Context, m *redis.Client) error {
		mu.Lock()
		defer mu.Unlock()
		all = append(all, m)
		return nil
	})
	return all, err
}
