package topology

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/berthadmin"
	"github.com/berth-go/berth/internal/testkit/redistest"
)

// TestMinReplicas: a grant counts when a replica has it, and only then.
func TestMinReplicas(t *testing.T) {
	t.Parallel()
	master := redistest.Start(t, redistest.WithTCP())
	replica := redistest.StartReplica(t, master)
	one, other := lone(t, master.Client(t, suited)), lone(t, master.Client(t, suited))
	safe := must(one.Semaphore("safe", 1, berth.TTL(ttl), berth.MinReplicas(1)))(t)
	plain := must(other.Semaphore("safe", 1, berth.TTL(ttl)))(t)

	// What was confirmed stays trusted until its deadline, and is lost then. A machine that
	// stands still for the TTL loses it before a renewal was answered.
	var cause error
	for range 10 {
		lease := acquired(t, safe)
		replica.Stop()
		select {
		case <-lease.Context().Done():
		case <-time.After(recovery):
			t.Fatal("the lease outlives the last renewal that a replica has")
		}
		_ = lease.Release() // it is lost
		if cause = context.Cause(lease.Context()); errors.Is(cause, berth.ErrNotReplicated) {
			break
		}
		replica.Cont()
	}
	if !errors.Is(cause, berth.ErrLost) || !errors.Is(cause, berth.ErrNotReplicated) {
		t.Errorf("the lease ended with: %v", cause)
	}

	// With a TTL that tells a lease that is given back from one that runs out on a slow machine.
	long := must(one.Semaphore("safe", 1, berth.TTL(10*recovery), berth.MinReplicas(1)))(t)
	err := patient(func() error {
		_, err := long.Acquire(t.Context())
		return err
	}, berth.ErrUnreachable)
	short, ok := errors.AsType[*berth.NotReplicatedError](err)
	if !ok || !errors.Is(err, berth.ErrNotReplicated) || short.Want != 1 || short.Got != 0 {
		t.Errorf("Acquire without a replica: %v", err)
	}
	began := time.Now()
	_ = acquired(t, plain).Release()
	if d := time.Since(began); d > recovery {
		t.Errorf("the permit came back after %v: it was not given back but ran out", d)
	}
	replica.Cont()
	_ = acquired(t, safe).Release()
}

// patient makes a call again and again while it fails with one of these errors: on a slow
// machine a server has no time to answer. It gives up when a test that waits for it would.
func patient(call func() error, slow ...error) error {
	for give := time.Now().Add(recovery); ; {
		err := call()
		is := func(e error) bool { return errors.Is(err, e) }
		if !slices.ContainsFunc(slow, is) || time.Now().After(give) {
			return err
		}
	}
}

// acquired returns a lease, for which no replica may be too slow.
func acquired(t *testing.T, sem *berth.Semaphore) (lease *berth.Lease) {
	t.Helper()
	must(0, patient(func() (err error) {
		lease, err = sem.Acquire(t.Context())
		return err
	}, berth.ErrNotReplicated, berth.ErrUnreachable))(t)
	return lease
}

// TestMinReplicasOutlivesTheMaster: the promoted replica knows the lease, however
// it came about.
func TestMinReplicasOutlivesTheMaster(t *testing.T) {
	for name, byMessage := range map[string]bool{"granted by reply": false, "handed off": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			master := redistest.Start(t, redistest.WithTCP())
			replica := redistest.StartReplica(t, master)
			client := lone(t, master.Client(t, suited))
			sem := must(client.Semaphore("safe", 1, berth.MinReplicas(1)))(t)
			if byMessage {
				handOver(t, sem, lone(t, master.Client(t, suited)))
			} else {
				acquired(t, sem)
			}
			replica.Promote(t)
			master.Kill()
			after := must(lone(t, replica.Client(t, suited)).Semaphore("safe", 1))(t)
			err := patient(func() error {
				_, err := after.TryAcquire(t.Context())
				return err
			}, berth.ErrUnreachable)
			if !errors.Is(err, berth.ErrBusy) {
				t.Errorf("the promoted replica answers: %v", err)
			}
		})
	}
}

// handOver has sem get its lease from a holder that releases it.
func handOver(t *testing.T, sem *berth.Semaphore, holder *berth.Client) {
	t.Helper()
	of := must(holder.Semaphore(sem.Name(), 1))(t)
	queued := false
	must(0, patient(func() error {
		before := acquired(t, of)
		_, err := sem.Acquire(t.Context(), berth.OnQueued(func(p berth.Place) {
			queued = true
			if p.Ahead == 0 {
				_ = before.Release() // a second time does no harm
			}
		}))
		if err != nil {
			_ = before.Release()
		}
		return err
	}, berth.ErrNotReplicated, berth.ErrUnreachable))(t)
	if !queued {
		t.Error("the lease was not handed over")
	}
}

// TestMinReplicasInACluster: WAIT goes to the node that has the semaphore, also
// after the slot has moved, and when only its keys have.
func TestMinReplicasInACluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, redistest.Steady)
	connect := onCluster(t, cluster)
	client, other := lone(t, connect()), lone(t, connect())
	sem := must(client.Semaphore("safe", 1, berth.MinReplicas(1)))(t)
	slot := cluster.Slot(t, "{safe}")
	for i := range 2 {
		if i > 0 {
			cluster.Migrate(t, slot, (cluster.Owner(t, slot)+1)%3)
		}
		handOver(t, sem, other)
		var st *berthadmin.State
		must(0, patient(func() (err error) {
			st, err = berthadmin.Of(client).Show(t.Context(), "safe")
			return err
		}, berth.ErrUnreachable))(t)
		if len(st.Leases) != 1 {
			t.Fatalf("%d leases", len(st.Leases))
		}
		err := patient(func() error {
			return berthadmin.Of(client).ForceEvict(t.Context(), "safe", st.Leases[0].ID)
		}, berth.ErrUnreachable)
		if err != nil && !errors.Is(err, berthadmin.ErrNotFound) { // then an attempt without an answer has done it
			t.Fatal(err)
		}
	}
	from := cluster.Owner(t, slot)
	to := (from + 1) % 3
	cluster.OpenSlot(t, slot, to) // and it stays open
	if keys := cluster.Nodes[from].Do(t, "CLUSTER", "GETKEYSINSLOT", slot, 100).([]any); len(keys) > 0 {
		cluster.MoveKeys(t, from, to, keys...)
	}
	_ = acquired(t, sem).Release()
	three := must(sem.With(berth.MinReplicas(3)))(t)
	err := patient(func() error {
		_, err := three.Acquire(t.Context())
		return err
	}, berth.ErrUnreachable)
	if !errors.Is(err, berth.ErrNotReplicated) {
		t.Errorf("3 replicas of the 1 that there is: %v", err)
	}
}

// lone returns a client of its own.
func lone(t *testing.T, rdb redis.UniversalClient) *berth.Client {
	t.Helper()
	c := must(berth.New(rdb))(t)
	t.Cleanup(func() { _ = c.Close() })
	return c
}
