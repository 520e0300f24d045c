package promise_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/internal/testkit/redistest"
	"github.com/berth-go/berth/internal/testkit/testenv"
)

// In a cluster each semaphore has a channel of its own. A process has one connection
// to each node for them, however many semaphores it uses, and ends the subscriptions
// of those that nobody holds or waits for.
func TestClusterSubscriptionsEndWithTheirUse(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartMasters(t, 2)
	client := must(berth.New(cluster.Client(t)))
	t.Cleanup(func() { _ = client.Close() })
	kept := first(t, must(client.Semaphore("kept", 1)))
	for i := range 100 {
		lease := must(must(client.Semaphore(fmt.Sprint("name", i), 1)).Acquire(t.Context()))
		if err := lease.Release(); err != nil {
			t.Fatal(err)
		}
	}
	for _, node := range cluster.Nodes {
		if n := strings.Count(node.Do(t, "CLIENT", "LIST", "TYPE", "pubsub").(string), "\n"); n > 1 {
			t.Errorf("%d connections for subscriptions to one node", n)
		}
	}
	channels := func() (all []string) {
		for _, node := range cluster.Nodes {
			for _, c := range node.Do(t, "PUBSUB", "SHARDCHANNELS").([]any) {
				name, _, _ := strings.Cut(c.(string), "}")
				all = append(all, name)
			}
		}
		return all
	}
	for deadline := time.After(2 * time.Minute); !slices.Equal(channels(), []string{"berth:{kept"}); {
		select {
		case <-deadline:
			t.Fatalf("subscribed to %q", channels())
		case <-time.After(50 * time.Millisecond):
		}
	}
	if !kept.Valid() {
		t.Error("the lease was lost")
	}
}

// first returns the lease of a client's first request. A busy machine may take longer for the
// connections than L6 allows a first request.
func first(t *testing.T, sem *berth.Semaphore) *berth.Lease {
	t.Helper()
	lease, err := sem.Acquire(t.Context())
	for range 20 {
		if !errors.Is(err, berth.ErrUnreachable) {
			break
		}
		lease, err = sem.Acquire(t.Context())
	}
	return must(lease, err)
}

// A program uses new names all the time. That a node has never answered for one of them does
// not mean that its address is wrong.
func TestNewNameWaitsForAClusterThatHasAnswered(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartMasters(t, 1)
	client := must(berth.New(cluster.Client(t, func(o *redis.ClusterOptions) { o.DialerRetries = 1 })))
	t.Cleanup(func() { _ = client.Close() })
	if err := first(t, must(client.Semaphore("old", 1))).Release(); err != nil {
		t.Fatal(err)
	}
	cluster.Nodes[0].Kill()
	start := time.Now()
	_, err := must(client.Semaphore("new", 1)).Acquire(t.Context())
	if took := time.Since(start); took < 4*time.Second || !errors.Is(err, berth.ErrUnreachable) {
		t.Errorf("after %v: %v", took, err)
	}
}

// Messages that are published while a subscription is broken are lost: so a holder
// asks when it is back, long before its lease is due to be renewed.
func TestClusterHolderAsksWhenItsSubscriptionIsBack(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartMasters(t, 1)
	faults := redistest.NewFaults(t)
	client := must(berth.New(cluster.Client(t, func(o *redis.ClusterOptions) { o.Dialer = faults.Dialer(nil) })))
	t.Cleanup(func() { _ = client.Close() })
	lease := first(t, must(client.Semaphore("long", 1, berth.TTL(time.Hour))))
	before := faults.Count("EVALSHA")
	cluster.Nodes[0].Do(t, "CLIENT", "KILL", "TYPE", "pubsub")
	for deadline := time.After(time.Minute); faults.Count("EVALSHA") == before; {
		select {
		case <-deadline:
			t.Fatalf("it does not ask; sent were %v", faults.Counts())
		case <-time.After(10 * time.Millisecond):
		}
	}
	if !lease.Valid() {
		t.Error("the lease was lost")
	}
}

// A subscription that is back may be to another server, a promoted replica: if that one
// evicts keys with a TTL, those in use get none any more. What was warned of before is not
// warned of again.
func TestClusterClientAsksForThePolicyAgain(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartMasters(t, 2)
	cluster.Nodes[0].Do(t, "CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
	rdb := cluster.Client(t)
	warnings := new(policyWarnings)
	client := must(berth.New(rdb, berth.Logger(slog.New(slog.NewTextHandler(warnings, nil)))))
	t.Cleanup(func() { _ = client.Close() })
	_ = first(t, must(client.Semaphore("renewed", 1, berth.TTL(3*time.Second))))
	awaitTTL := func(want bool) {
		t.Helper()
		for deadline := time.After(3 * time.Minute); ; {
			ttl, err := rdb.PTTL(t.Context(), "berth:{renewed}").Result()
			if err == nil && ttl > 0 == want {
				return
			}
			select {
			case <-deadline:
				t.Fatalf("the TTL is %v, %v", ttl, err)
			case <-time.After(50 * time.Millisecond):
			}
		}
	}
	awaitTTL(true)
	cluster.Nodes[1].Do(t, "CONFIG", "SET", "maxmemory-policy", "volatile-lru")
	for _, node := range cluster.Nodes {
		node.Do(t, "CLIENT", "KILL", "TYPE", "pubsub")
	}
	awaitTTL(false)
	if n := warnings.Load(); n != 1 {
		t.Errorf("warned %d times", n)
	}
}

// A call whose keys are on the node where an open slot goes needs the right to ASKING.
func TestClusterOpenSlotNeedsTheRight(t *testing.T) {
	t.Parallel()
	rights, clustered := redistest.LeastRights(t, "../..")
	cluster := redistest.StartMasters(t, 2)
	slot := cluster.Slot(t, "{open}")
	cluster.OpenSlot(t, slot, 1-cluster.Owner(t, slot))
	try := func(more ...string) error {
		for _, node := range cluster.Nodes {
			allow(t, node, "berth", slices.Concat(rights, clustered, more))
		}
		rdb := cluster.Client(t, func(o *redis.ClusterOptions) { o.Username, o.Password = "berth", "secret" })
		sem := must(rightsClient(t, rdb).Semaphore("open", 1))
		e := &testenv.Env{T: t, Ctx: t.Context()}
		return e.Timely(func() error {
			lease, err := sem.TryAcquire(t.Context())
			if err != nil {
				return err
			}
			return lease.Release()
		})
	}
	if err := try(); !errors.Is(err, berth.ErrRefused) {
		t.Errorf("without it: %v", err)
	}
	if err := try("+asking"); err != nil {
		t.Errorf("with it: %v", err)
	}
}

// policyWarnings counts the lines of a log about a policy.
type policyWarnings struct{ atomic.Int64 }

// Write implements io.Writer.
func (w *policyWarnings) Write(line []byte) (int, error) {
	if bytes.Contains(line, []byte("allkeys-lru")) {
		w.Add(1)
	}
	return len(line), nil
}
