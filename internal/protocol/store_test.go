package protocol

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth/internal/testkit/redistest"
)

func TestNamesAndDelete(t *testing.T) {
	t.Parallel()
	onBoth(t, false, func(t *testing.T, r *rig) {
		ctx, s := context.Background(), r.stores[0]
		names := []string{"a", "a:order", "a b", "x*[y]", "{", "漢"}
		for _, name := range names {
			if _, err := s.Do(ctx, s.Key(name), 0, []Op{{Verb: Acquire, ID: "s0.1", Terms: terms(1)}}); err != nil {
				t.Fatal(err)
			}
		}
		got, err := s.Names(ctx)
		if slices.Sort(names); err != nil || !slices.Equal(got, names) {
			t.Fatalf("names %q, %v, want %q", got, err, names)
		}
		for _, name := range names {
			if there, err := s.Delete(ctx, s.Key(name)); err != nil || !there {
				t.Errorf("delete %q: %v, %v", name, there, err)
			}
		}
		if there, err := s.Delete(ctx, s.Key("a")); err != nil || there {
			t.Errorf("delete again: %v, %v", there, err)
		}
		if got, err = s.Names(ctx); err != nil || len(got) != 0 {
			t.Errorf("names %q, %v, want none", got, err)
		}
	})
}

// apart is a client whose DELs are answered one after the other, and which knows no other
// answer than that there is nothing.
type apart struct {
	cannedReply
	dels *[]any // a number, or an error
}

func (c apart) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(_ context.Context, cmd redis.Cmder) error {
		if del, ok := cmd.(once); ok {
			answer := (*c.dels)[0]
			*c.dels = (*c.dels)[1:]
			if err, failed := answer.(error); failed {
				del.SetErr(err)
			}
			del.SetVal(answer)
			return del.Err()
		}
		cmd.SetErr(redis.Nil)
		return redis.Nil
	}
}

// TestDeleteWhileTheKeysAreApart: a slot is moving. What was refused after one key had gone is
// not known to have changed nothing.
func TestDeleteWhileTheKeysAreApart(t *testing.T) {
	t.Parallel()
	moving, refused := replyError("TRYAGAIN Multiple keys request during rehashing of slot"), replyError("NOPERM no")
	for what, c := range map[string]struct {
		dels  []any
		there bool
		kind  error
	}{
		"both":          {[]any{int64(2)}, true, nil},
		"none":          {[]any{int64(0)}, false, nil},
		"refused":       {[]any{refused}, false, ErrRejected},
		"apart":         {[]any{moving, int64(1), int64(1)}, true, nil},
		"apart, one":    {[]any{moving, int64(0), int64(1)}, true, nil},
		"apart, none":   {[]any{moving, int64(0), int64(0)}, false, nil},
		"first refused": {[]any{moving, refused}, false, ErrRejected},
		"then refused":  {[]any{moving, int64(1), refused}, false, ErrUnknown},
		"then passing":  {[]any{moving, int64(1), moving}, false, ErrUnknown},
	} {
		rdb := redis.NewClient(&redis.Options{MaxRetries: -1})
		t.Cleanup(func() { _ = rdb.Close() })
		rdb.AddHook(apart{dels: &c.dels})
		s := NewStore(rdb, "berth", "s0", 1, "host")
		there, err := s.Delete(t.Context(), s.Key("a"))
		if there != c.there || len(c.dels) > 0 || (err == nil) != (c.kind == nil) {
			t.Errorf("%s: %v, %v; %d answers are left", what, there, err, len(c.dels))
		} else if err != nil {
			wantKind(t, err, c.kind, nil)
		}
	}
}

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
