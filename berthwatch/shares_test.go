package berthwatch

import (
	"fmt"
	"slices"
	"testing"

	"github.com/berth-go/berth/berthadmin"
)

// TestSharesAreCounted by what tells holders and waiters apart, the largest first.
func TestSharesAreCounted(t *testing.T) {
	state := &berthadmin.State{
		Leases: []berthadmin.Holder{
			{Tenant: "acme", Label: "sync", Host: "web-1", Weight: 3}, {Tenant: "beta", Label: "sync", Host: "web-2", Weight: 1}, {Label: "sync", Host: "web-1", Weight: 1},
		},
		Queue: []berthadmin.Waiter{{Tenant: "acme", Label: "sync", Host: "web-3"}, {Tenant: "acme", Label: "sync", Host: "web-3"}},
	}
	text := func() (all []string) {
		for _, s := range SharesOf(state) {
			all = append(all, s.Text())
		}
		return all
	}
	want := []string{"by tenant: acme 3 held, 2 waiting · none 1 held · beta 1 held", "by host: web-1 4 held · web-2 1 held · web-3 2 waiting"}
	if got := text(); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	state = &berthadmin.State{}
	for i := range 8 {
		state.Queue = append(state.Queue, berthadmin.Waiter{Host: fmt.Sprint("h", i)})
	}
	want = []string{"by host: h0 1 waiting · h1 1 waiting · h2 1 waiting · h3 1 waiting · h4 1 waiting · 3 others 3 waiting"}
	if got := text(); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	if got := SharesOf(&berthadmin.State{}); got != nil {
		t.Errorf("of nobody: %v", got)
	}
}
