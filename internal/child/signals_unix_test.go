//go:build unix

package child_test

import (
	"os"
	"os/exec"
	"testing"
)

// TestSignalsEndChildrenThoughThisProcessIgnoresThem, as it does in the background of a script.
func TestSignalsEndChildrenThoughThisProcessIgnoresThem(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sh", "-c", `trap "" INT HUP; exec "$0"`, self)
	cmd.Env = append(os.Environ(), "BERTH_CHILD=heeds {}")
	out, err := cmd.Output()
	if want := "\"signal: interrupt\"\n\"signal: hangup\"\n"; err != nil || string(out) != want {
		t.Errorf("%v, ended by\n%swant\n%s", err, out, want)
	}
}
