package look_test

import (
	"context"
	"fmt"
	"net"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/berthadmin"
	"github.com/berth-go/berth/internal/testkit/redistest"
	"github.com/berth-go/berth/internal/testkit/testenv"
)

// walk returns the names from cursor on, and in how many steps they came.
func walk(t *testing.T, in *testenv.Inspector, cursor string, names []string) (all []string, steps int) {
	t.Helper()
	for ; cursor != "" || steps == 0; steps++ {
		part, next, err := in.Names(t.Context(), cursor, 10)
		if err != nil {
			t.Fatal(err)
		}
		names, cursor = append(names, part...), next
	}
	slices.Sort(names)
	return slices.Compact(names), steps
}

// TestWalkSurvivesAFailover: the second master fails over to a node whose address comes
// before that of the first, which the walk has already seen. What is there is found, too.
func TestWalkSurvivesAFailover(t *testing.T) {
	t.Parallel()
	nodes := redistest.StartMasters(t, 2)
	addr := []string{nodes.Nodes[0].Addr(), nodes.Nodes[1].Addr()}
	slices.Sort(addr)
	first, second := addr[1], addr[0] // before the failover, it is called localhost
	_, port, _ := net.SplitHostPort(second)
	var names atomic.Pointer[map[string]string]
	names.Store(&map[string]string{first: first, second: "localhost:" + port})
	rdb := nodes.Client(t, func(o *redis.ClusterOptions) {
		o.ClusterSlots = func(ctx context.Context) ([]redis.ClusterSlot, error) {
			node := redis.NewClient(&redis.Options{Addr: first})
			defer node.Close()
			slots, err := node.ClusterSlots(ctx).Result() //nolint:staticcheck // it is what the option wants, and go-redis itself asks
			for i := range slots {
				for j := range slots[i].Nodes {
					slots[i].Nodes[j].Addr = (*names.Load())[slots[i].Nodes[j].Addr]
				}
			}
			return slots, err
		}
	})
	client, err := berth.New(rdb)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	in := (&testenv.Env{T: t, Ctx: t.Context()}).Patient(berthadmin.Of(client))
	var want, seen []string
	for i := range 30 {
		want = append(want, fmt.Sprintf("n%02d", i))
		if err := in.Pin(t.Context(), want[i], i); err != nil {
			t.Fatal(err)
		}
	}
	seen, cursor, err := in.Names(t.Context(), "", 1000)
	if err != nil || cursor == "" || len(seen) == 0 || len(seen) == len(want) {
		t.Fatalf("the first master has %q; %q, %v", seen, cursor, err)
	}
	names.Store(&map[string]string{first: first, second: second})
	if all, _ := walk(t, in, cursor, seen); !slices.Equal(all, want) {
		t.Errorf("found %q, want %q", all, want)
	}
}

// TestLookingAtACluster: names come from all masters, one after another, and a sample
// from all of them, in the order that was asked for.
func TestLookingAtACluster(t *testing.T) {
	t.Parallel()
	rdb := redistest.StartMasters(t, 3).Client(t)
	client, err := berth.New(rdb)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	in := (&testenv.Env{T: t, Ctx: t.Context()}).Patient(berthadmin.Of(client))
	var want []string
	for i := range 60 {
		want = append(want, fmt.Sprintf("n%02d", i))
		if err := in.Pin(t.Context(), want[i], i); err != nil {
			t.Fatal(err)
		}
	}
	if names, steps := walk(t, in, "", nil); !slices.Equal(names, want) || steps < 3 {
		t.Errorf("%d steps, names %q", steps, names)
	}
	i := 0
	for st, err := range in.Sample(t.Context(), want, berthadmin.SampleOptions{}) {
		if err != nil || st.Name != want[i] || st.Limit != i {
			t.Fatalf("%d: %+v, %v", i, st, err)
		}
		i++
	}
	if i != len(want) {
		t.Errorf("%d of %d came", i, len(want))
	}
	if err := in.Because("ann", "").Pause(t.Context(), "n00"); err != nil {
		t.Fatal(err)
	}
	for a, err := range in.Audit(t.Context()) {
		if err != nil || a.Name != "n00" {
			t.Errorf("audited %+v, %v", a, err)
		}
	}
}
