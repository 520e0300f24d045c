package redistest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

// slots is the number of slots of a Redis Cluster.
const slots = 16384

// Cluster is a Redis Cluster. From StartCluster it has three masters with a replica each,
// and at first Nodes[3+i] is the replica of Nodes[i]; from StartMasters it has only masters.
type Cluster struct {
	Nodes []*Server
	ids   []string // of Nodes
}

// Steady makes a master of StartCluster count as dead only after a minute of silence. It is
// for tests in which no master dies: otherwise a replica would replace its master on a
// machine that stands still for a second. It makes the cluster start four seconds later.
var Steady = WithConfig("cluster-node-timeout 60000")

// StartCluster starts six servers and returns when they form a cluster. A master that is
// silent for a second counts as dead.
func StartCluster(t testing.TB, opts ...Option) *Cluster {
	t.Helper()
	c := startMasters(t, 6, 3, opts...)
	for i, s := range c.Nodes[3:] {
		s.Do(t, "CLUSTER", "REPLICATE", c.ids[i])
	}
	c.AwaitWhole(t)
	return c
}

// StartMasters starts n servers and returns when they form a cluster without replicas. A
// master counts as dead only after a minute of silence.
func StartMasters(t testing.TB, n int) *Cluster {
	t.Helper()
	c := startMasters(t, n, n)
	for _, s := range c.Nodes {
		await(t, "the cluster to serve", s.serves)
		s.Do(t, "CONFIG", "SET", "cluster-node-timeout", 60000) // not before: it delays the start
	}
	return c
}

// startMasters starts nodes that know each other. The first of them share the slots.
func startMasters(t testing.TB, nodes, sharing int, opts ...Option) *Cluster {
	t.Helper()
	notShort(t)
	NeedsShardChannels(t)
	c := &Cluster{}
	for range nodes {
		s := Start(t, append([]Option{WithTCP(), eager, WithConfig(
			"cluster-enabled yes", "cluster-node-timeout 1000",
			// A replica that lags behind may be elected, too: tests have only just started.
			"cluster-replica-validity-factor 0",
		)}, opts...)...)
		c.Nodes = append(c.Nodes, s)
		c.ids = append(c.ids, s.Do(t, "CLUSTER", "MYID").(string))
	}
	for i, s := range c.Nodes {
		s.Do(t, "CLUSTER", "SET-CONFIG-EPOCH", i+1) // equal epochs would first have to be resolved
		if i < sharing {
			s.Do(t, "CLUSTER", "ADDSLOTSRANGE", i*slots/sharing, (i+1)*slots/sharing-1)
		}
		s.Do(t, "CLUSTER", "MEET", "127.0.0.1", c.Nodes[0].Port())
	}
	for _, s := range c.Nodes {
		await(t, "the nodes to meet", s.knows(nodes))
	}
	return c
}

func (s *Server) knows(nodes int) func() error {
	return func() error {
		text, err := s.nodes()
		if n := strings.Count(text, "\n"); err == nil && (n != nodes || strings.Contains(text, "handshake")) {
			err = fmt.Errorf("%s knows %d nodes", s.Addr(), n)
		}
		return err
	}
}

// nodes returns CLUSTER NODES.
func (s *Server) nodes() (string, error) {
	c := redis.NewClient(&redis.Options{Network: "unix", Addr: s.Socket(), PoolSize: 1, MaxRetries: -1})
	defer c.Close()
	return c.ClusterNodes(context.Background()).Result()
}

// serves returns an error while the node does not serve its part of the cluster's slots.
func (s *Server) serves() error {
	c := redis.NewClient(&redis.Options{Network: "unix", Addr: s.Socket(), PoolSize: 1, MaxRetries: -1})
	defer c.Close()
	text, err := c.ClusterInfo(context.Background()).Result()
	if err == nil && !strings.Contains(text, "cluster_state:ok") {
		err = errors.New(text)
	}
	return err
}

// AwaitWhole returns when all slots are served, and all nodes agree that every replica
// follows a master.
func (c *Cluster) AwaitWhole(t testing.TB) {
	t.Helper()
	for _, s := range c.Nodes {
		await(t, "the cluster to be whole", func() error { return s.seesWhole() })
	}
}

func (s *Server) seesWhole() error {
	if err := s.serves(); err != nil {
		return err
	}
	text, err := s.nodes()
	if err != nil {
		return err
	}
	if masters, replicas := strings.Count(text, "master"), strings.Count(text, "slave"); masters != 3 || replicas != 3 || strings.Contains(text, "fail") {
		return errors.New(text)
	}
	if strings.Contains(text, "myself,slave") {
		return s.follows()
	}
	if n, err := s.Info("connected_slaves"); err != nil || n != "1" {
		return fmt.Errorf("%s has %q replicas, %w", s.Addr(), n, err)
	}
	return nil
}

// Client returns a client of the cluster. The functions may change its options.
func (c *Cluster) Client(t testing.TB, opts ...func(*redis.ClusterOptions)) *redis.ClusterClient {
	t.Helper()
	o := &redis.ClusterOptions{}
	for _, s := range c.Nodes {
		o.Addrs = append(o.Addrs, s.Addr())
	}
	for _, opt := range opts {
		opt(o)
	}
	client := redis.NewClusterClient(o)
	t.Cleanup(func() { _ = client.Close() }) // the test may have closed it already
	return client
}

// Slot returns the slot of a key.
func (c *Cluster) Slot(t testing.TB, key string) int {
	t.Helper()
	return int(c.Nodes[0].Do(t, "CLUSTER", "KEYSLOT", key).(int64))
}

// Owner returns the index of the master that serves a slot, according to itself.
func (c *Cluster) Owner(t testing.TB, slot int) int {
	t.Helper()
	owner := -1
	await(t, "a master to own the slot", func() error {
		for i, s := range c.Nodes {
			text, err := s.nodes()
			if err == nil && ownsSlot(text, slot) {
				owner = i
				return nil
			}
		}
		return fmt.Errorf("nobody serves slot %d", slot)
	})
	return owner
}

// ownsSlot reports whether the node that returned text for CLUSTER NODES serves slot.
func ownsSlot(text string, slot int) bool {
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) < 9 || !strings.Contains(f[2], "myself") || !strings.Contains(f[2], "master") {
			continue
		}
		for _, r := range f[8:] {
			var from, to int
			switch n, _ := fmt.Sscanf(r, "%d-%d", &from, &to); {
			case n == 2 && from <= slot && slot <= to, n == 1 && from == slot:
				return true
			}
		}
	}
	return false
}

// Migrate moves a slot with all its keys to another master, as an operator does, while
// clients use it.
func (c *Cluster) Migrate(t testing.TB, slot, to int) {
	t.Helper()
	from := c.OpenSlot(t, slot, to)
	for {
		keys := c.Nodes[from].Do(t, "CLUSTER", "GETKEYSINSLOT", slot, 100).([]any)
		if len(keys) == 0 {
			break
		}
		c.MoveKeys(t, from, to, keys...)
	}
	c.CloseSlot(t, slot, to)
}

// OpenSlot begins to move a slot to another master, without moving keys. It returns the
// index of the master that has the slot and its keys.
func (c *Cluster) OpenSlot(t testing.TB, slot, to int) (from int) {
	t.Helper()
	from = c.Owner(t, slot)
	c.Nodes[to].Do(t, "CLUSTER", "SETSLOT", slot, "IMPORTING", c.ids[from])
	c.Nodes[from].Do(t, "CLUSTER", "SETSLOT", slot, "MIGRATING", c.ids[to])
	return from
}

// MoveKeys moves keys of an open slot.
func (c *Cluster) MoveKeys(t testing.TB, from, to int, keys ...any) {
	t.Helper()
	c.Nodes[from].Do(t, append([]any{"MIGRATE", "127.0.0.1", c.Nodes[to].Port(), "", 0, 5000, "KEYS"}, keys...)...)
}

// CloseSlot completes the move of a slot, whose keys have all been moved.
func (c *Cluster) CloseSlot(t testing.TB, slot, to int) {
	t.Helper()
	source, target := c.Nodes[c.Owner(t, slot)], c.Nodes[to]
	// The target first, so that the slot always has an owner. The other masters would
	// learn of it by themselves, but later, and redirect clients wrongly until then.
	target.Do(t, "CLUSTER", "SETSLOT", slot, "NODE", c.ids[to])
	source.Do(t, "CLUSTER", "SETSLOT", slot, "NODE", c.ids[to])
	for _, s := range c.Nodes {
		if role, err := s.Info("role"); err == nil && role == "master" && s != source && s != target {
			s.Do(t, "CLUSTER", "SETSLOT", slot, "NODE", c.ids[to])
		}
	}
}
