package look

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth/internal/protocol"
	"github.com/berth-go/berth/internal/testkit/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// rig is one semaphore on one server.
type rig struct {
	rdb    *redis.Client
	mr     *miniredis.Miniredis // nil: a real server
	prefix string
	store  *protocol.Store
	key    protocol.Key
}

func newRig(rdb *redis.Client, mr *miniredis.Miniredis, prefix string) *rig {
	r := &rig{rdb: rdb, mr: mr, prefix: prefix, store: protocol.NewStore(rdb, prefix, "s0", 100, "host")}
	r.store.Evicting(false)
	r.key = r.store.Key("name")
	return r
}

// onBoth runs a test on an embedded store, whose clock stands, and on a real server.
func onBoth(t *testing.T, body func(t *testing.T, r *rig)) {
	t.Helper()
	t.Run("embedded", func(t *testing.T) {
		t.Parallel()
		mr := miniredis.RunT(t)
		mr.SetTime(time.UnixMicro(1_790_000_000_000_123))
		rdb := redis.NewClient(&redis.Options{Addr: mr.Addr(), ReadTimeout: time.Minute, MaxRetries: -1})
		t.Cleanup(func() { _ = rdb.Close() })
		body(t, newRig(rdb, mr, "berth"))
	})
	t.Run("real", func(t *testing.T) {
		t.Parallel()
		server := redistest.Shared(t)
		body(t, newRig(server.Client(t, redistest.Patient), nil, server.Prefix(t)))
	})
}

// do runs ops; a failure ends the test.
func (r *rig) do(t *testing.T, ops ...protocol.Op) {
	t.Helper()
	for part := range slices.Chunk(ops, protocol.MaxIDs) {
		if _, err := r.store.Do(context.Background(), r.key, 0, part); err != nil {
			t.Fatal(err)
		}
	}
}

// inspect reads with records; a failure ends the test.
func (r *rig) inspect(t *testing.T, rdb redis.UniversalClient) *Snapshot {
	t.Helper()
	snap, err := New(protocol.NewStore(rdb, r.prefix, "s9", 1, "host")).Inspect(t.Context(), r.key, true)
	if err != nil {
		t.Fatal(err)
	}
	return snap
}

func terms(limit int, change ...func(*protocol.Terms)) *protocol.Terms {
	t := &protocol.Terms{Wait: true, Weight: 1, TTL: 30 * time.Second, Heartbeat: 15 * time.Second, QueueLimit: 1 << 30, Limit: limit}
	for _, f := range change {
		f(t)
	}
	return t
}

// ids returns n ids of a process.
func ids(n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprintf("s0.%d", i+1))
	}
	return all
}

// each returns an operation for each of some ids.
func each(op protocol.Op, ids ...string) (all []protocol.Op) {
	for _, id := range ids {
		op.ID = id
		all = append(all, op)
	}
	return all
}

// acquire returns a request for each of some ids.
func acquire(limit int, ids ...string) []protocol.Op {
	return each(protocol.Op{Verb: protocol.Acquire, Terms: terms(limit)}, ids...)
}

// answering is a client that gets its answers from a function, without a network.
type answering func(cmd redis.Cmder)

func (answering) DialHook(redis.DialHook) redis.DialHook {
	return func(context.Context, string, string) (net.Conn, error) { panic("the network was used") }
}

func (f answering) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(_ context.Context, cmd redis.Cmder) error {
		f(cmd)
		return cmd.Err()
	}
}

func (f answering) ProcessPipelineHook(redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(_ context.Context, cmds []redis.Cmder) error {
		for _, cmd := range cmds {
			f(cmd)
		}
		return nil
	}
}

// answered returns a store whose commands get their answers from f.
func answered(t testing.TB, f answering) *protocol.Store {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{MaxRetries: -1})
	t.Cleanup(func() { _ = rdb.Close() })
	rdb.AddHook(f)
	return protocol.NewStore(rdb, "berth", "s0", 1, "host")
}

// replyError is an error that the server sent.
type replyError string

func (e replyError) Error() string { return string(e) }
func (e replyError) RedisError()   {}

// wantKind fails unless err is of the kind, and with the detail if there is one.
func wantKind(t testing.TB, err, kind, detail error) {
	t.Helper()
	if !errors.Is(err, kind) || detail != nil && !errors.Is(err, detail) {
		t.Fatalf("error %v, want %v %v", err, kind, detail)
	}
}
