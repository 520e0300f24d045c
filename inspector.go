package berth

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/berth-go/berth/internal/protocol"
)

// Inspector reads and administers semaphores by name. It is what the command
// line and a dashboard are built on; programs that only take permits do not
// need it. It is safe for concurrent use.
type Inspector struct{ store *protocol.Store }

// Summary is one semaphore at a glance. In JSON its durations are nanoseconds.
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

// Inspector returns the client's view for operators.
func (c *Client) Inspector() *Inspector { return &Inspector{store: c.session.Store()} }

// List returns all semaphores that have keys on this Redis under the client's
// prefix, by name. It walks the keyspace by SCAN, and reaps on the way what
// crashed processes have left behind. Damaged ones (ErrCorrupt) are reported by
// the error, beside a list of all the others.
func (in *Inspector) List(ctx context.Context) ([]Summary, error) {
	if err := validContext(ctx); err != nil {
		return nil, err
	}
	names, err := in.store.Names(ctx)
	if err != nil {
		return nil, failed(ctx, "", err)
	}
	var (
		all     []Summary
		damaged []error
	)
	for _, name := range names {
		if validName(name) != nil {
			continue // no client can have made it; it must not hide the others
		}
		snap, err := in.snapshot(ctx, name, false)
		switch {
		case errors.Is(err, ErrNotFound): // it was idle, and is gone
		case errors.Is(err, ErrCorrupt):
			damaged = append(damaged, err)
		case err != nil:
			return nil, err
		default:
			all = append(all, summary(name, snap))
		}
	}
	return all, errors.Join(damaged...)
}

// Show returns one semaphore in full: holders by token, waiters in order. It
// fails with ErrNotFound when the semaphore is idle and nothing is pinned.
func (in *Inspector) Show(ctx context.Context, name string) (*State, error) {
	snap, err := in.snapshot(ctx, name, true)
	if err != nil {
		return nil, err
	}
	st := &State{Summary: summary(name, snap), Leases: []Holder{}, Queue: []Waiter{}}
	for _, r := range snap.Leases {
		st.Leases = append(st.Leases, Holder{
			ID: r.ID, Label: r.Label, Host: r.Host, PID: r.PID, Weight: r.Weight, Slot: r.Slot, Token: r.Token,
			Held: since(snap, r.Since), ExpiresIn: until(snap, r.Expires), Evicting: r.Evicting,
		})
	}
	for i, r := range snap.Queue {
		st.Queue = append(st.Queue, Waiter{
			ID: r.ID, Label: r.Label, Host: r.Host, PID: r.PID, Weight: r.Weight, Place: i,
			Waited: since(snap, r.Since), ExpiresIn: until(snap, r.Expires),
		})
	}
	return st, nil
}

// snapshot reaps and then reads.
func (in *Inspector) snapshot(ctx context.Context, name string, records bool) (*protocol.Snapshot, error) {
	if err := in.apply(ctx, name); err != nil {
		return nil, err
	}
	snap, err := in.store.Inspect(ctx, in.store.Keys(name), records)
	if err != nil {
		return nil, failed(ctx, name, err)
	}
	if !snap.Exists || snap.Pin < 0 && !snap.Paused && snap.Holders+snap.Waiting == 0 {
		return nil, fmt.Errorf("%w: semaphore %q has no holder and no waiter", ErrNotFound, name)
	}
	return snap, nil
}

// apply runs operations, or none: that reaps.
func (in *Inspector) apply(ctx context.Context, name string, ops ...protocol.Op) error {
	if err := cmp.Or(validContext(ctx), validName(name)); err != nil {
		return err
	}
	for {
		reply, err := in.store.Do(ctx, in.store.Keys(name), 0, ops)
		if err != nil {
			return failed(ctx, name, err)
		}
		if !reply.More || len(ops) > 0 {
			return nil
		}
	}
}

// existing fails with ErrNotFound for a semaphore that has no keys.
func (in *Inspector) existing(ctx context.Context, name string) error {
	_, err := in.snapshot(ctx, name, false)
	return err
}

// Resize changes the limit as a declaration does: waiters that now fit are
// granted at once, holders above it keep their leases. The next acquire that
// declares another limit changes it again; to keep it, Pin. ErrNotFound when the
// semaphore is idle: then there is nothing to change.
func (in *Inspector) Resize(ctx context.Context, name string, limit int) error {
	if err := validLimit(limit, 1); err != nil {
		return err
	}
	if err := in.existing(ctx, name); err != nil {
		return err
	}
	return in.apply(ctx, name, protocol.Op{Verb: protocol.Resize, N: limit})
}

// Pin sets a limit that wins over every declaration until Unpin, also while the
// semaphore is idle. 0 freezes it: nothing is granted, everybody waits.
func (in *Inspector) Pin(ctx context.Context, name string, limit int) error {
	if err := validLimit(limit, 0); err != nil {
		return err
	}
	return in.apply(ctx, name, protocol.Op{Verb: protocol.Pin, N: limit})
}

// Unpin puts the declared limit in force again.
func (in *Inspector) Unpin(ctx context.Context, name string) error {
	if err := in.existing(ctx, name); err != nil {
		return err
	}
	return in.apply(ctx, name, protocol.Op{Verb: protocol.Pin, N: -1})
}

// Pause stops all grants until Resume; holders keep their leases.
func (in *Inspector) Pause(ctx context.Context, name string) error {
	return in.apply(ctx, name, protocol.Op{Verb: protocol.Pause, Flag: true})
}

// Resume lets grants happen again.
func (in *Inspector) Resume(ctx context.Context, name string) error {
	if err := in.existing(ctx, name); err != nil {
		return err
	}
	return in.apply(ctx, name, protocol.Op{Verb: protocol.Pause})
}

// Evict takes a waiter out of the queue, or asks a holder to stop: its lease's
// context ends with ErrEvicted, it is renewed no more, and its permits are free
// when it releases them or its lease runs out. With force they are free at once,
// although the holder may not have heard of it yet: then the limit can be
// exceeded for a moment. ErrNotFound when id neither holds nor waits.
func (in *Inspector) Evict(ctx context.Context, name, id string, force bool) error {
	if !leaseID.MatchString(id) {
		return &InvalidError{"id", fmt.Sprintf("%.40q is no lease id", id)}
	}
	ops := []protocol.Op{{Verb: protocol.Evict, ID: id, Flag: force}}
	if err := in.apply(ctx, name, ops...); err != nil {
		return err
	}
	if ops[0].Result.Code == protocol.Gone {
		return fmt.Errorf("%w: %s is no holder or waiter of semaphore %q", ErrNotFound, id, name)
	}
	return nil
}

// Purge deletes the semaphore's keys, whatever they hold. Holders that still
// live lose their leases at their next renewal, and until then the limit can be
// exceeded. It is the way out of ErrCorrupt.
func (in *Inspector) Purge(ctx context.Context, name string) error {
	if err := cmp.Or(validContext(ctx), validName(name)); err != nil {
		return err
	}
	found, err := in.store.Delete(ctx, in.store.Keys(name))
	if err != nil {
		return failed(ctx, name, err)
	}
	if !found {
		return fmt.Errorf("%w: semaphore %q has no keys", ErrNotFound, name)
	}
	return nil
}

// failed words an error for the caller, whose own context may be the reason.
func failed(ctx context.Context, name string, err error) error {
	err = public(name, err)
	if ctx.Err() != nil {
		return fmt.Errorf("%w: %w", ctx.Err(), err)
	}
	return err
}

func summary(name string, s *protocol.Snapshot) Summary {
	return Summary{
		Name: name, Limit: s.Limit(), Declared: s.Declared, Pinned: s.Pin >= 0, Paused: s.Paused, InUse: s.Used,
		Holders: s.Holders, Waiting: s.Waiting, NextExpiry: until(s, s.Next), LimitChanges: s.Changes,
	}
}

func since(s *protocol.Snapshot, at int64) time.Duration {
	return max(time.Duration(s.Now-at)*time.Millisecond, 0)
}

func until(s *protocol.Snapshot, at int64) time.Duration {
	if at == 0 {
		return 0
	}
	return max(time.Duration(at-s.Now)*time.Millisecond, 0)
}
