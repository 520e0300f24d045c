package connect

import (
	"fmt"
	"net"
	"os"
	"testing"
)

// TestTheReasonComesFirst: a server that could not be reached for a known reason is not told as one
// that does not answer, unless it is the time that ran out.
func TestTheReasonComesFirst(t *testing.T) {
	target, err := Parse("redis://:hunter2@h:1")
	if err != nil {
		t.Fatal(err)
	}
	for reason, want := range map[error]string{
		&net.DNSError{Err: "no such host", Name: "h"}: "berth: no connection: dial tcp: lookup h: no such host: check the host in the URL (h:1, from --redis)",
		os.ErrDeadlineExceeded:                        "berth: redis does not answer: dial tcp: i/o timeout (h:1, from --redis)",
	} {
		failed := fmt.Errorf("berth: redis does not answer: %w", &net.OpError{Op: "dial", Net: "tcp", Err: reason})
		if got := target.Explain(failed, "--redis"); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
