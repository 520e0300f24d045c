package protocol

import (
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth/internal/testkit/redistest"
)

func TestNameOfKey(t *testing.T) {
	t.Parallel()
	s := canned(t, nil, nil)
	for key, want := range map[string]string{
		s.Key("a").State: "a", s.Key("a}b{").State: "a}b{", s.Key("a").Order(): "", "other:{a}": "", "berth:inbox:s0": "",
	} {
		if got, ok := s.Name(key); ok != (want != "") || ok && got != want {
			t.Errorf("name of %q: %q, %v", key, got, ok)
		}
	}
}

func TestChannels(t *testing.T) {
	t.Parallel()
	cluster := redis.NewClusterClient(&redis.ClusterOptions{})
	t.Cleanup(func() { _ = cluster.Close() })
	one, many := canned(t, nil, nil), NewStore(cluster, "berth", "s0", 1, "host")
	if one.Channel(one.Key("a").State) != one.Channel(one.Key("b").State) || one.Sharded() {
		t.Error("a process needs one channel only")
	}
	if mine := one.Channel(""); !one.IsChannel(mine) || one.IsChannel("x"+mine) || !strings.HasPrefix(mine, strings.TrimSuffix(one.AllChannels(), "*")) {
		t.Errorf("channel %q, pattern %q", mine, one.AllChannels())
	}
	if key := many.Key("a").State; many.StateOf(many.Channel(key)) != key {
		t.Errorf("shard channel %q is that of %q", many.Channel(key), many.StateOf(many.Channel(key)))
	}
	if many.Channel(many.Key("a").State) != "berth:{a}:s0" || !many.Sharded() {
		t.Errorf("shard channel %q", many.Channel(many.Key("a").State))
	}
}

func TestEvicts(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	r := newRig(t, server.Client(t, redistest.Patient), nil, server.Prefix(t), false)
	for policy, want := range map[string]bool{"noeviction": false, "volatile-ttl": true, "volatile-lru": true, "allkeys-lru": false} {
		if err := r.rdb.ConfigSet(t.Context(), "maxmemory-policy", policy).Err(); err != nil {
			t.Fatal(err)
		}
		if evicts, got, err := r.stores[0].Evicts(t.Context()); evicts != want || got != policy || err != nil {
			t.Errorf("under %s: evicts %v, policy %q, %v", policy, evicts, got, err)
		}
	}
	if evicts, _, err := canned(t, "nothing", nil).Evicts(t.Context()); !evicts || err == nil {
		t.Errorf("without a policy: evicts %v, %v", evicts, err)
	}
}

// TestRefusedConnectionIsToldToAllCalls that travel together, or wait for replicas: what a server says
// to a wrong password belongs to no command.
func TestRefusedConnectionIsToldToAllCalls(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	rdb := server.Client(t, func(o *redis.Options) { o.Username, o.Password = "nobody", "wrong" })
	s := NewStore(rdb, "berth", "s0", 1, "host")
	calls := []*Call{{Key: s.Key("a"), Ops: ask(0, 1, 1)}, {Key: s.Key("b"), Ops: ask(1, 1, 1)}}
	s.DoAll(t.Context(), calls)
	replicated := ask(2, 1, 1)
	replicated[0].Terms.MinReplicas = 1
	_, err := s.Do(t.Context(), s.Key("c"), 0, replicated)
	for _, err := range []error{calls[0].Err, calls[1].Err, err} {
		if !redis.IsAuthError(err) {
			t.Errorf("%v", err)
		}
	}
}

// TestOneMasterThatEvictsIsEnough: a Cluster evicts keys with a TTL if one of its masters
// does, and a policy under which any key may go is what the caller hears of.
func TestOneMasterThatEvictsIsEnough(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartMasters(t, 3)
	s := NewStore(cluster.Client(t), "berth", "s0", 1, "host")
	for _, test := range []struct {
		policies [3]string
		evicts   bool
		policy   string
	}{
		{[3]string{"noeviction", "noeviction", "noeviction"}, false, "noeviction"},
		{[3]string{"noeviction", "volatile-lru", "noeviction"}, true, "volatile-lru"},
		{[3]string{"noeviction", "allkeys-lru", "noeviction"}, false, "allkeys-lru"},
		{[3]string{"volatile-ttl", "noeviction", "allkeys-lru"}, true, "allkeys-lru"},
	} {
		for i, policy := range test.policies {
			cluster.Nodes[i].Do(t, "CONFIG", "SET", "maxmemory-policy", policy)
		}
		for range 20 { // a single node would be a random one
			if evicts, policy, err := s.Evicts(t.Context()); evicts != test.evicts || policy != test.policy || err != nil {
				t.Fatalf("%v: evicts %v, policy %q, %v", test.policies, evicts, policy, err)
			}
		}
	}
	cluster.Nodes[2].Do(t, "ACL", "SETUSER", "default", "-info")
	if evicts, _, err := s.Evicts(t.Context()); !evicts || err == nil {
		t.Errorf("one that does not tell: evicts %v, %v", evicts, err)
	}
}

func TestLimitInForce(t *testing.T) {
	t.Parallel()
	for _, s := range []State{{Declared: 3, Pin: -1}, {Declared: 5, Pin: 3}} {
		if s.Limit() != 3 {
			t.Errorf("limit of %+v: %d", s, s.Limit())
		}
	}
}
