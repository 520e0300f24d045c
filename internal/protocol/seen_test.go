package protocol

import (
	"context"
	"time"
)

// Package look reads for operators what this package stores. It imports this one, so that its tests
// have no part in what is tried here, damage and long stories; and these tests cannot import it.
// What hook_test.go sets is look's, for all of them.
var (
	// Inspect is look.Reader.Inspect.
	Inspect func(ctx context.Context, s *Store, k Key, records bool) (*Seen, error)
	// Delete is look.Delete.
	Delete func(ctx context.Context, s *Store, k Key) (bool, error)
	// Rest is look.Snapshot.Rest of a Snapshot with records.
	Rest func(ctx context.Context, s *Store, k Key, weight int, costs Costs) (time.Duration, error)
)

// Seen is a look.Snapshot.
type Seen struct {
	Exists bool
	Now    int64
	State
	Remnant bool
	Oldest  int64
	Expired int
	Leases  []SeenRecord
	Queue   []SeenRecord
	Who     string
	Counted []SeenCounted
	Stale   bool
}

// SeenCounted is a look.Counted.
type SeenCounted struct {
	Rate  int
	Sum   int
	Until int64
}

// SeenRecord is a look.Record.
type SeenRecord struct {
	ID       string
	Weight   int
	Costs    Costs
	Slot     int
	Token    int64
	Since    int64
	Expires  int64
	Ceiling  int64
	TTL      time.Duration
	Evicting bool
	PID      int
	Host     string
	Client   string
	Extra    string
	Tenant   string
	Share    int
	Label    string
}
