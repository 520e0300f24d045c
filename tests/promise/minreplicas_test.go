package promise_test

import (
	"errors"
	"testing"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/internal/testkit/redistest"
)

// TestMinReplicasWithoutReplicas: nothing is held after the refusal, and the
// permit comes back at once, not at its expiry. With replicas, and what happens
// at a failover: dev/verify/topology.
func TestMinReplicasWithoutReplicas(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	client := must(berth.New(s.Client(t), berth.Prefix(s.Prefix(t))))
	t.Cleanup(func() { _ = client.Close() })
	sem := must(client.Semaphore("safe", 1, berth.TTL(time.Hour)))
	for _, acquire := range []func() (*berth.Lease, error){
		func() (*berth.Lease, error) { return sem.Acquire(t.Context(), berth.MinReplicas(1)) },
		func() (*berth.Lease, error) { return sem.TryAcquire(t.Context(), berth.MinReplicas(2)) },
		func() (*berth.Lease, error) {
			return sem.Acquire(t.Context(), berth.MinReplicas(1), berth.WithoutRenewal())
		},
	} {
		_, err := acquire()
		short, ok := errors.AsType[*berth.NotReplicatedError](err)
		if !ok || !errors.Is(err, berth.ErrNotReplicated) || short.Got != 0 || short.Want < 1 || short.Name != "safe" {
			t.Errorf("without a replica: %v", err)
		}
		if err := must(sem.Acquire(t.Context())).Release(); err != nil {
			t.Error(err)
		}
	}
}

// TestMinReplicasIsBounded: what cannot be meant is refused at once.
func TestMinReplicasIsBounded(t *testing.T) {
	t.Parallel()
	client := must(berth.New(redistest.Shared(t).Client(t)))
	for _, n := range []int{-1, 101} {
		if _, err := client.Semaphore("safe", 1, berth.MinReplicas(n)); !errors.Is(err, berth.ErrInvalid) {
			t.Errorf("MinReplicas(%d): %v", n, err)
		}
	}
}

// TestMinReplicasNeedsTheRight: who may not WAIT is told so, and holds nothing.
func TestMinReplicasNeedsTheRight(t *testing.T) {
	t.Parallel()
	rights, _ := redistest.LeastRights(t, "../..")
	client := rightsClient(t, asBerth(t, redistest.Start(t), rights))
	sem := must(client.Semaphore("safe", 1))
	_, err := sem.Acquire(t.Context(), berth.MinReplicas(1))
	short, ok := errors.AsType[*berth.NotReplicatedError](err)
	if !ok || short.Err == nil {
		t.Errorf("without the right to WAIT: %v", err)
	}
	if err := must(sem.Acquire(t.Context())).Release(); err != nil {
		t.Error(err)
	}
}
