package repo_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestUsersPackageStaysSmall compiles a small program of a user. What berth and go-redis hand
// to its compiler grows with every package that touches a client (docs/decisions/0019). Its
// size does not depend on the machine.
func TestUsersPackageStaysSmall(t *testing.T) {
	t.Parallel()
	const most = 2 << 20 // bytes; with go-redis 9.22 it is 1.2 MB
	cmd := exec.Command("go", "list", "-export", "-f", "{{.Export}}", "./examples/quickstart")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v\n%s", cmd, err, stderr.String())
	}
	object, err := os.Stat(strings.TrimSpace(string(out)))
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d bytes", object.Size())
	if object.Size() > most {
		t.Errorf("a package that uses berth takes %d bytes, more than %d: each of a user's packages pays that", object.Size(), most)
	}
}
