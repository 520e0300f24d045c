package mutants

import (
	"path/filepath"
	"testing"
)

// TestMutantsApplyToTheSourceAsItIs: a mutant whose place has changed would be
// noticed only by the run of hours that plants it.
func TestMutantsApplyToTheSourceAsItIs(t *testing.T) {
	t.Parallel()
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range All {
		if _, err := m.overlay(root, t.TempDir()); err != nil {
			t.Errorf("%s: %v", m.Name, err)
		}
	}
}
