package redistest

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// LeastRights returns the ACL rights that docs/operations.md says operators to grant, and
// those that a Cluster needs as well, so that tests run with what operators read. root is
// the path of the repository.
func LeastRights(t testing.TB, root string) (rights, clustered []string) {
	t.Helper()
	doc, err := os.ReadFile(filepath.Join(root, "docs/operations.md"))
	if err != nil {
		t.Fatal(err)
	}
	rule := userRule(t, doc, "berth")
	more := regexp.MustCompile("A Cluster needs `(.*?)` as well").FindSubmatch(doc)
	if more == nil {
		t.Fatal("docs/operations.md does not tell what a Cluster needs")
	}
	return rule, strings.Fields(string(more[1]))
}

// RightsOf returns the ACL rights of one of the users of the same page: viewer and reader are those
// who only look.
func RightsOf(t testing.TB, root, user string) []string {
	t.Helper()
	doc, err := os.ReadFile(filepath.Join(root, "docs/operations.md"))
	if err != nil {
		t.Fatal(err)
	}
	return userRule(t, doc, user)
}

// userRule returns the rights of a user in an ACL rule of a page.
func userRule(t testing.TB, doc []byte, user string) []string {
	t.Helper()
	rule := regexp.MustCompile(`(?s)user ` + user + ` on >PASSWORD (.*?)\n\n`).FindSubmatch(doc)
	if rule == nil {
		t.Fatalf("docs/operations.md has no ACL rule for %s", user)
	}
	return strings.Fields(string(rule[1]))
}
