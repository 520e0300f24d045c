package connect

import (
	"fmt"
	"net"
	"os"
	"testing"

	"github.com/berth-go/berth"
)

// TestFailedDialIsToldWithWhatToDo, where that is known, and without the password.
func TestFailedDialIsToldWithWhatToDo(t *testing.T) {
	target, err := Parse("redis://:hunter2@h:1")
	if err != nil {
		t.Fatal(err)
	}
	for reason, want := range map[error]string{
		&net.DNSError{Err: "no such host", Name: "h"}: "berth: redis is unreachable: dial tcp: lookup h: no such host: check the host in the URL (h:1, from --redis)",
		os.ErrDeadlineExceeded:                        "berth: redis is unreachable: dial tcp: i/o timeout (h:1, from --redis)",
	} {
		failed := fmt.Errorf("%w: %w", berth.ErrUnreachable, &net.OpError{Op: "dial", Net: "tcp", Err: reason})
		if got := target.Explain(failed, "--redis"); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
