package promise_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/internal/redistest"
)

// In a cluster each semaphore has a channel of its own. A process has one connection
// to each node for them, however many semaphores it uses, and ends the subscriptions
// of those that nobody holds or waits for.
func TestClusterSubscriptionsEndWithTheirUse(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartMasters(t, 2)
	client := must(berth.New(cluster.Client(t)))
	t.Cleanup(func() { _ = client.Close() })
	kept := must(must(client.Semaphore("kept", 1)).Acquire(t.Context()))
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

// A program uses new names all the time. That a node has never answered for one of them does
// not mean that its address is wrong.
func TestNewNameWaitsForAClusterThatHasAnswered(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartMasters(t, 1)
	client := must(berth.New(cluster.Client(t, func(o *redis.ClusterOptions) { o.DialerRetries = 1 })))
	t.Cleanup(func() { _ = client.Close() })
	if err := must(must(client.Semaphore("old", 1)).Acquire(t.Context())).Release(); err != nil {
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
	lease := must(must(client.Semaphore("long", 1, berth.TTL(time.Hour))).Acquire(t.Context()))
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
