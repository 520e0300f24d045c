package look_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/internal/redistest"
	"github.com/berth-go/berth/internal/testenv"
)

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
	in := (&testenv.Env{T: t, Ctx: t.Context()}).Patient(client.Inspector())
	var want []string
	for i := range 60 {
		want = append(want, fmt.Sprintf("n%02d", i))
		if err := in.Pin(t.Context(), want[i], i); err != nil {
			t.Fatal(err)
		}
	}
	var names []string
	steps := 0
	for cursor := ""; cursor != "" || steps == 0; steps++ {
		var part []string
		if part, cursor, err = in.Names(t.Context(), cursor, 10); err != nil {
			t.Fatal(err)
		}
		names = append(names, part...)
	}
	slices.Sort(names)
	if names = slices.Compact(names); !slices.Equal(names, want) || steps < 3 {
		t.Errorf("%d steps, names %q", steps, names)
	}
	i := 0
	for st, err := range in.Sample(t.Context(), want, berth.SampleOptions{}) {
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
