package look

import (
	"reflect"
	"testing"

	"github.com/berth-go/berth/internal/protocol"
)

// TestRecordIsWholeOrDamaged: numbers, an owner with a host, and a label, which may be empty.
func TestRecordIsWholeOrDamaged(t *testing.T) {
	t.Parallel()
	for record, whole := range map[string]bool{
		"h 1 0 5 0 1000 - 1/host;client label": true,
		"h 1 0 5 0 1000 - 1/host ":             true,
		"h 1 0 5 0 1000 :1@5,t:2@9 1/host ":    true,
		"h 1 0 5 0 1000 t 1/host ":             false,
		"w 1 t:2 5 0 1000 900 1/host ":         true,
		"h 1 0 5 0 1000 - 1/host":              false,
		"h 1 0 5 0 1000 - 1 label":             false,
		"h x 0 5 0 1000 1/host;client label":   false,
		"h":                                    false,
	} {
		if r, ok := parseRecord(record); ok != whole {
			t.Errorf("%q is whole: %v, read as %+v", record, ok, r)
		}
	}
}

// TestLiveLeavesOutWhatHasExpired, in everything that counts it, and changes nothing that was read.
func TestLiveLeavesOutWhatHasExpired(t *testing.T) {
	t.Parallel()
	read := func() *Snapshot {
		return &Snapshot{
			Exists: true, Now: 100, Expired: 3, Oldest: 10, Head: &Record{Since: 10}, State: protocol.State{Declared: 9, Pin: -1, Used: 6, Holders: 3, Waiting: 2, Next: 40},
			Leases: []Record{{ID: "a", Weight: 3, Expires: 100}, {ID: "b", Weight: 2, Expires: 130}, {ID: "c", Weight: 1, Expires: 40}},
			Queue:  []Record{{ID: "d", Since: 10, Expires: 90}, {ID: "e", Since: 20, Expires: 120}},
		}
	}
	was := read()
	got := was.Live()
	want := &Snapshot{
		Exists: true, Now: 100, Oldest: 20, Lease: 130, State: protocol.State{Declared: 9, Pin: -1, Used: 2, Holders: 1, Waiting: 1, Next: 120},
		Leases: []Record{{ID: "b", Weight: 2, Expires: 130}}, Queue: []Record{{ID: "e", Since: 20, Expires: 120}},
	}
	want.Head = &want.Queue[0]
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
	if !reflect.DeepEqual(was, read()) {
		t.Errorf("changed what was read to %+v", was)
	}
	if again := got.Live(); !reflect.DeepEqual(again, want) {
		t.Errorf("where nothing has expired: %+v", again)
	}
}
