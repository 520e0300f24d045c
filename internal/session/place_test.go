package session

import (
	"slices"
	"testing"
	"time"

	"github.com/berth-go/berth/internal/protocol"
)

// TestFirstHeartbeatOfACallAsksForThePlace, and no other operation that might.
func TestFirstHeartbeatOfACallAsksForThePlace(t *testing.T) {
	t.Parallel()
	beat := protocol.Op{Verb: protocol.Heartbeat, TTL: time.Second}
	asks := protocol.Op{Verb: protocol.Heartbeat, TTL: time.Second, Flag: true}
	look, release := protocol.Op{Verb: protocol.Heartbeat}, protocol.Op{Verb: protocol.Release}
	for _, test := range []struct{ ops, want []protocol.Op }{
		{[]protocol.Op{release, look, beat, beat}, []protocol.Op{release, look, asks, beat}},
		{[]protocol.Op{beat}, []protocol.Op{asks}},
		{[]protocol.Op{release, look}, []protocol.Op{release, look}},
	} {
		if askPlace(test.ops); !slices.Equal(test.ops, test.want) {
			t.Errorf("%+v, want %+v", test.ops, test.want)
		}
	}
}
