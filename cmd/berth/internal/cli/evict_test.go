package cli

import (
	"testing"

	"github.com/berth-go/berth/berthadmin"
)

// TestALabelInPlaceOfAnIDIsToldItsFlag, and what an unset variable of a shell leaves is not
// taken for the label of a holder that has none.
func TestALabelInPlaceOfAnIDIsToldItsFlag(t *testing.T) {
	state := &berthadmin.State{Leases: []berthadmin.Holder{{ID: "a"}, {ID: "b", Label: "sync", Host: "web-3", PID: 42}}}
	for word, want := range map[string]string{
		"sync":  "; to choose by label, use --label",
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
