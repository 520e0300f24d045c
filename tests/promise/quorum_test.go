package promise_test

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/berthtest"
)

// TestQuorumOfThreeNodesAdmitsThreeHoldersForALimitOfTwo is why berth has no
// quorum mode: each of three holders gets a majority of three nodes, no node
// exceeds its limit of two, and yet three hold what two may.
func TestQuorumOfThreeNodesAdmitsThreeHoldersForALimitOfTwo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var nodes []*berth.Semaphore
		for range 3 {
			sem, err := berthtest.New(t).Client().Semaphore("quorum", 2)
			if err != nil {
				t.Fatal(err)
			}
			nodes = append(nodes, sem)
		}
		holders := 0
		for _, order := range [][]int{{0, 1, 2}, {1, 2, 0}, {2, 0, 1}} {
			if majority(t, nodes, order) {
				holders++
			}
		}
		if holders != 3 {
			t.Errorf("%d holders have a majority; docs/decisions/0008-no-quorum.md says 3", holders)
		}
	})
}

// majority acquires on nodes in the given order until it has two of three.
func majority(t *testing.T, nodes []*berth.Semaphore, order []int) bool {
	t.Helper()
	votes := 0
	for _, i := range order {
		_, err := nodes[i].TryAcquire(t.Context())
		switch {
		case err == nil:
			votes++
		case !errors.Is(err, berth.ErrBusy):
			t.Fatal(err)
		}
		if votes == 2 {
			return true
		}
	}
	return false
}
