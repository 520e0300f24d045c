package berth

import (
	"context"
	"time"
)

// Inspector reads and administers semaphores by name. It is what the command
// line and a dashboard are built on; programs that only take permits do not
// need it. It is safe for concurrent use.
type Inspector struct{}

// Summary is one semaphore at a glance.
type Summary struct {
	Name         string        `json:"name"`
	Limit        int           `json:"limit"`         // in force: the pin, or what was last declared
	Declared     int           `json:"declared"`      // what was last declared by code
	Pinned       bool          `json:"pinned"`        // an operator's pin is in force
	Paused       bool          `json:"paused"`        // nothing is granted until resumed
	InUse        int           `json:"in_use"`        // permits out
	Holders      int           `json:"holders"`       // leases out
	Waiting      int           `json:"waiting"`       // waiters in the queue
	NextExpiry   time.Duration `json:"next_expiry"`   // until something runs out unless renewed; 0 when nothing will
	LimitChanges int           `json:"limit_changes"` // declarations that changed the limit
}

// State is one semaphore in full.
type State struct {
	Summary
	Leases []Holder `json:"leases"`
	Queue  []Waiter `json:"queue"`
}

// Holder is one lease.
type Holder struct {
	ID        string        `json:"id"`
	Label     string        `json:"label"`
	Host      string        `json:"host"`
	PID       int           `json:"pid"`
	Weight    int           `json:"weight"`
	Slot      int           `json:"slot"`
	Token     int64         `json:"token"`
	Held      time.Duration `json:"held"`
	ExpiresIn time.Duration `json:"expires_in"`
	Evicting  bool          `json:"evicting"` // asked to stop, not renewed any more
}

// Waiter is one place in the queue.
type Waiter struct {
	ID        string        `json:"id"`
	Label     string        `json:"label"`
	Host      string        `json:"host"`
	PID       int           `json:"pid"`
	Weight    int           `json:"weight"`
	Place     int           `json:"place"` // waiters in front of it
	Waited    time.Duration `json:"waited"`
	ExpiresIn time.Duration `json:"expires_in"` // until it counts as dead unless it is heard from
}

func (in *Inspector) List(ctx context.Context) ([]Summary, error)             { panic("stub") }
func (in *Inspector) Show(ctx context.Context, name string) (*State, error)   { panic("stub") }
func (in *Inspector) Resize(ctx context.Context, name string, limit int) error { panic("stub") }
func (in *Inspector) Pin(ctx context.Context, name string, limit int) error   { panic("stub") }
func (in *Inspector) Unpin(ctx context.Context, name string) error            { panic("stub") }
func (in *Inspector) Pause(ctx context.Context, name string) error            { panic("stub") }
func (in *Inspector) Resume(ctx context.Context, name string) error           { panic("stub") }
func (in *Inspector) Evict(ctx context.Context, name, id string, force bool) error {
	panic("stub")
}
func (in *Inspector) Purge(ctx context.Context, name string) error { panic("stub") }
