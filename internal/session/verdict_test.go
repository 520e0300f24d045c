package session

import (
	"errors"
	"testing"

	"github.com/berth-go/berth/internal/protocol"
)

// TestRefusalAfterAnUnknownOutcomeIsUnknown: when a call got no answer and the
// next one was refused, the operation may have happened all the same. Found by
// a storm with a full disk and a bad network.
func TestRefusalAfterAnUnknownOutcomeIsUnknown(t *testing.T) {
	refused := &protocol.Failure{Kind: protocol.ErrRefused, Err: errors.New("MISCONF")}
	for tries, want := range []error{protocol.ErrRefused, protocol.ErrUnknown} {
		if err := (&op{tries: tries}).verdict(refused); !errors.Is(err, want) || errors.Is(err, protocol.ErrRefused) == (tries > 0) {
			t.Errorf("after %d calls without an answer: %v", tries, err)
		}
	}
}
