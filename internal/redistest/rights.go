package redistest

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// LeastRights returns the rights that docs/operations.md tells operators to
// give; root is the way to the repository. A test of what operators read.
func LeastRights(t testing.TB, root string) []string {
	t.Helper()
	doc, err := os.ReadFile(filepath.Join(root, "docs/operations.md"))
	if err != nil {
		t.Fatal(err)
	}
	rule := regexp.MustCompile(`(?s)user berth on >PASSWORD (.*?)\n\n`).FindSubmatch(doc)
	if rule == nil {
		t.Fatal("docs/operations.md has no ACL rule")
	}
	return strings.Fields(string(rule[1]))
}
