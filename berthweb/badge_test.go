package berthweb

import (
	"os"
	"strings"
	"testing"
)

// TestHelpIsThere: each address names a section of a page of docs.
func TestHelpIsThere(t *testing.T) {
	for state, section := range helps {
		page, anchor, _ := strings.Cut(section, "#")
		text, err := os.ReadFile("../docs/" + page)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(strings.ToLower(string(text)), "\n## "+anchor) && anchor != "" {
			t.Errorf("%s: %s has no section %q", state, page, anchor)
		}
	}
	for state, want := range map[string]string{
		"2 expired": "runbook.md#berthdeadholders", "half lost, heals in 3.0s": "runbook.md#berthdamaged", "3 paused": "runbook.md#berthpaused",
	} {
		if got := help(state); got != docs+want {
			t.Errorf("%s: %q", state, got)
		}
	}
	for _, state := range []string{"idle", "over limit", "invalid name"} {
		if got := help(state); got != "" {
			t.Errorf("%s: %q", state, got)
		}
	}
}
