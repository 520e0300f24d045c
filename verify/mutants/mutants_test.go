package mutants

import (
	"path/filepath"
	"testing"
)

// TestMutantsApplyToTheSourceAsItIs: a mutant whose place has changed would be
// noticed only by the run of hours that plants it.
func TestMutantsApplyToTheSourceAsItIs(t *testing.T) {
	t.Parallel()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	for i := range All {
		if _, err := All[i].overlay(root, t.TempDir()); err != nil {
			t.Errorf("%s: %v", All[i].Name, err)
		}
	}
}
