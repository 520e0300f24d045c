package redistest

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// LeastRights returns the ACL rights that docs/operations.md tells operators to grant, and
// those that a Cluster needs as well, so that tests run with what operators read. root is
// the path of the repository.
func LeastRights(t testing.TB, root string) (rights, clustered []string) {
	t.Helper()
	doc, err := os.ReadFile(filepath.Join(root, "docs/operations.md"))
	if err != nil {
		t.Fatal(err)
	}
	rule := regexp.MustCompile(`(?s)user berth on >PASSWORD (.*?)\n\n`).FindSubmatch(doc)
	if rule == nil {
		t.Fatal("docs/operations.md has no ACL rule")
	}
	more := regexp.MustCompile("A Cluster needs `(.*?)` as well").FindSubmatch(doc)
	if more == nil {
		t.Fatal("docs/operations.md does not tell what a Cluster needs")
	}
	return strings.Fields(string(rule[1])), strings.Fields(string(more[1]))
}
