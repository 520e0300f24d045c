package cli

import (
	"strings"
	"testing"

	"github.com/berth-go/berth/berthadmin"
)

// TestALabelInPlaceOfAnIDIsToldItsFlag, and what an unset variable of a shell leaves is not
// taken for the label of a holder that has none.
func TestALabelInPlaceOfAnIDIsToldItsFlag(t *testing.T) {
	state := &berthadmin.State{Leases: []berthadmin.Holder{{ID: "a"}, {ID: "b", Label: "sync", Tenant: "acme", Host: "web-3", PID: 42}}}
	for word, want := range map[string]string{
		"sync":  "; to choose by label, use --label",
		"acme":  "; to choose by tenant, use --tenant",
		"web-3": "; to choose by host, use --host",
		"42":    "; to choose by process, use --pid",
		"c":     "",
		"":      "",
	} {
		if got := flagFor(word, state); got != want {
			t.Errorf("%q: %q, want %q", word, got, want)
		}
	}
}

// TestEvictionChoosesByAllItsFlags: who has all that they say, and nobody else.
func TestEvictionChoosesByAllItsFlags(t *testing.T) {
	state := &berthadmin.State{
		Leases: []berthadmin.Holder{
			{ID: "acme", Tenant: "acme", Label: "sync", Host: "web-3", PID: 42},
			{ID: "other", Tenant: "other", Label: "sync", Host: "web-3", PID: 42},
			{ID: "none", Label: "sync", Host: "web-3", PID: 42},
			{ID: "host", Tenant: "acme", Label: "sync", Host: "web-4", PID: 42},
		},
		Queue: []berthadmin.Waiter{{ID: "waiter", Tenant: "acme", Label: "sync", Host: "web-3", PID: 43}},
	}
	for want, e := range map[string]eviction{
		"waiter acme host":            {tenant: "acme"},
		"waiter acme":                 {tenant: "acme", host: "web-3"},
		"acme host":                   {tenant: "acme", pid: 42},
		"waiter acme other none host": {label: "sync"},
	} {
		found, err := e.find([]target{{name: "s", state: state}}, nil)
		var ids []string
		for _, v := range found {
			ids = append(ids, v.ID)
		}
		if got := strings.Join(ids, " "); got != want || err != nil {
			t.Errorf("%+v: %s, %v, want %s", e, got, err, want)
		}
	}
}
