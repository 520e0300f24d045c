package berth

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth/internal/protocol"
	"github.com/berth-go/berth/internal/session"
)

// Inspector reads and administers semaphores by name. It is what the command line
// and a dashboard are built on; programs that only take permits do not need it. It
// is safe for concurrent use.
//
// Each method makes a few calls to Redis, which end within 2 seconds each, or when
// ctx ends; List may take a minute for the names. The errors of all are ErrInvalid,
// ErrUnreachable (there was no answer, and a change may have been made: repeat it),
// ErrRefused, ErrCorrupt (nothing was changed; see Purge), ctx's error, and where
// it says so ErrNotFound.
type Inspector struct {
	store  *protocol.Store
	rdb    redis.UniversalClient
	prefix string
	log    *slog.Logger

	because  bool // what is changed is recorded, as done by
	who, why string
}

// Summary is one semaphore at a glance. In JSON its times are in milliseconds, as
// in all that the Inspector returns, and say so in their names.
type Summary struct {
	Name         string        `json:"name"`
	Limit        int           `json:"limit"`         // in force: the pin, or what was last declared
	Declared     int           `json:"declared"`      // what was last declared by code
	Pinned       bool          `json:"pinned"`        // an operator's pin is in force
	Paused       bool          `json:"paused"`        // nothing is granted until resumed
	InUse        int           `json:"in_use"`        // permits out
	Holders      int           `json:"holders"`       // leases out
	Waiting      int           `json:"waiting"`       // waiters in the queue
	OldestWait   time.Duration `json:"-"`             // how long the first in the queue has waited; 0 when nobody waits
	NextExpiry   time.Duration `json:"-"`             // until something runs out unless renewed; 0 when nothing will
	Expired      int           `json:"expired"`       // holders and waiters that ran out and are still counted: the next call takes them out
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
	Session   string        `json:"session"` // of the Client that asked for it; one process may have several
	Label     string        `json:"label"`
	Host      string        `json:"host"`
	PID       int           `json:"pid"`
	Client    string        `json:"client"` // implementation and version
	Weight    int           `json:"weight"`
	TTL       time.Duration `json:"-"`
	Slot      int           `json:"slot"`
	Token     int64         `json:"token"`
	Held      time.Duration `json:"-"`
	ExpiresIn time.Duration `json:"-"`        // 0 when it has expired
	Until     time.Duration `json:"-"`        // until its MaxHold ends it, renewed or not; 0 when it has none
	Evicting  bool          `json:"evicting"` // asked to stop, not renewed any more
	Expired   bool          `json:"expired"`  // it ran out, and the next call to the semaphore takes it out
}

// Waiter is one place in the queue.
type Waiter struct {
	ID        string        `json:"id"`
	Session   string        `json:"session"`
	Label     string        `json:"label"`
	Host      string        `json:"host"`
	PID       int           `json:"pid"`
	Client    string        `json:"client"`
	Weight    int           `json:"weight"`
	Ahead     int           `json:"ahead"` // waiters in front of it
	Waited    time.Duration `json:"-"`
	ExpiresIn time.Duration `json:"-"`       // until it counts as dead unless it is heard from
	Expired   bool          `json:"expired"` // it was not heard from, and the next call to the semaphore takes it out
}

// Inspector returns the client's view for operators.
func (c *Client) Inspector() *Inspector {
	return &Inspector{store: c.session.Store(), rdb: c.rdb, prefix: c.prefix, log: c.log}
}

// List yields all semaphores that have keys on this Redis under the client's prefix,
// by name. It walks the keyspace by SCAN, and takes out on the way what crashed
// processes have left behind. With a damaged one (ErrCorrupt) it yields its name and
// the error; any other error ends the list.
func (in *Inspector) List(ctx context.Context) iter.Seq2[Summary, error] {
	return func(yield func(Summary, error) bool) {
		if err := validContext(ctx); err != nil {
			yield(Summary{}, err)
			return
		}
		names, err := session.Bounded(ctx, mostScan, in.store.Names)
		if err != nil {
			yield(Summary{}, failed(ctx, "", err))
			return
		}
		names = slices.DeleteFunc(names, func(name string) bool { return validName(name) != nil })
		for st, err := range in.Sample(ctx, names, SampleOptions{}) {
			if err == nil && st.Expired > 0 {
				err = in.reap(ctx, st)
			}
			if errors.Is(err, ErrNotFound) {
				continue // it was idle, and is gone
			}
			if !yield(st.Summary, err) || err != nil && !errors.Is(err, ErrCorrupt) {
				return
			}
		}
	}
}

// reap takes out what has run out, and reads again.
func (in *Inspector) reap(ctx context.Context, st *State) error {
	snap, err := in.snapshot(ctx, st.Name, false)
	if err == nil {
		st.Summary = summary(st.Name, snap)
	}
	return err
}

// Show returns one semaphore in full: holders by token, waiters in order. It takes
// out first what has run out. ErrNotFound when the semaphore is idle, and neither
// pinned nor paused.
func (in *Inspector) Show(ctx context.Context, name string) (*State, error) {
	snap, err := in.snapshot(ctx, name, true)
	if err != nil {
		return nil, err
	}
	return state(name, snap), nil
}

// How long one call may take, whatever the client does.
const (
	mostCall = 2 * time.Second
	mostScan = time.Minute
)

// snapshot takes out what has run out, and then reads.
func (in *Inspector) snapshot(ctx context.Context, name string, records bool) (*protocol.Snapshot, error) {
	if err := in.apply(ctx, name); err != nil {
		return nil, err
	}
	snap, err := session.Bounded(ctx, mostCall, func(ctx context.Context) (*protocol.Snapshot, error) {
		return in.store.Inspect(ctx, in.store.Key(name), records)
	})
	if err != nil {
		return nil, failed(ctx, name, err)
	}
	return snap, inUse(name, snap)
}

// inUse fails with ErrNotFound for a semaphore that is idle and not pinned or paused.
func inUse(name string, s *protocol.Snapshot) error {
	if !s.Exists || s.Pin < 0 && !s.Paused && s.Holders+s.Waiting == 0 {
		return fmt.Errorf("%w: semaphore %q has no holder and no waiter", ErrNotFound, name)
	}
	return nil
}

// apply runs operations, or none: that takes out what has run out.
func (in *Inspector) apply(ctx context.Context, name string, ops ...protocol.Op) error {
	if err := cmp.Or(validContext(ctx), validName(name)); err != nil {
		return err
	}
	for left := ops; ; left = nil {
		reply, err := session.Bounded(ctx, mostCall, func(ctx context.Context) (protocol.Reply, error) {
			return in.store.Do(ctx, in.store.Key(name), 0, left)
		})
		if err != nil && len(left) < len(ops) {
			err = protocol.Unsure(err) // they have been executed
		}
		if err != nil {
			return failed(ctx, name, err)
		}
		if !reply.More {
			return nil
		}
	}
}

// change applies op to a semaphore that is in use, or else fails with ErrNotFound.
func (in *Inspector) change(ctx context.Context, name string, op protocol.Op) error {
	if _, err := in.snapshot(ctx, name, false); err != nil {
		return err
	}
	return in.apply(ctx, name, op)
}

// Resize changes the limit as a declaration does: waiters that now fit are
// granted at once, holders above it keep their leases. The next acquire that
// declares another limit changes it again; to keep it, Pin. ErrNotFound when the
// semaphore is idle: then there is nothing to change.
func (in *Inspector) Resize(ctx context.Context, name string, limit int) error {
	if err := validLimit(limit, 1); err != nil {
		return err
	}
	return in.audited(ctx, "resize", name, strconv.Itoa(limit), func() error {
		return in.change(ctx, name, protocol.Op{Verb: protocol.Resize, N: limit})
	})
}

// Pin sets a limit that wins over every declaration until Unpin, also while the
// semaphore is idle. 0 freezes it: nothing is granted, everybody waits.
func (in *Inspector) Pin(ctx context.Context, name string, limit int) error {
	if err := validLimit(limit, 0); err != nil {
		return err
	}
	return in.audited(ctx, "pin", name, strconv.Itoa(limit), func() error {
		return in.apply(ctx, name, protocol.Op{Verb: protocol.Pin, N: limit})
	})
}

// Unpin puts the declared limit in force again: waiters that now fit are granted at
// once. ErrNotFound when the semaphore is idle, and neither pinned nor paused.
func (in *Inspector) Unpin(ctx context.Context, name string) error {
	return in.audited(ctx, "unpin", name, "", func() error {
		return in.change(ctx, name, protocol.Op{Verb: protocol.Pin, N: -1})
	})
}

// Pause stops all grants until Resume, also while the semaphore is idle; holders
// keep their leases, and waiters their places.
func (in *Inspector) Pause(ctx context.Context, name string) error {
	return in.audited(ctx, "pause", name, "", func() error {
		return in.apply(ctx, name, protocol.Op{Verb: protocol.Pause, Flag: true})
	})
}

// Resume lets grants happen again: waiters that fit are granted at once.
// ErrNotFound when the semaphore is idle, and neither pinned nor paused.
func (in *Inspector) Resume(ctx context.Context, name string) error {
	return in.audited(ctx, "resume", name, "", func() error {
		return in.change(ctx, name, protocol.Op{Verb: protocol.Pause})
	})
}

// Evict takes a waiter out of the queue, or asks a holder to stop: its lease's
// context ends with ErrEvicted, it is renewed no more, and its permits are free
// when it releases them or its lease runs out. ErrNotFound when id neither holds nor
// waits.
func (in *Inspector) Evict(ctx context.Context, name, id string) error {
	return in.audited(ctx, "evict", name, id, func() error { return in.evict(ctx, name, id, false) })
}

// ForceEvict is Evict, but a holder's permits are free at once, although it may not
// have heard of it yet: then the limit can be exceeded, until the message arrives
// or, if it is lost, until the next renewal.
func (in *Inspector) ForceEvict(ctx context.Context, name, id string) error {
	return in.audited(ctx, "evict --force", name, id, func() error { return in.evict(ctx, name, id, true) })
}

func (in *Inspector) evict(ctx context.Context, name, id string, force bool) error {
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

// Purge deletes the semaphore's keys, whatever they hold, pin and pause included.
// Holders that still live lose their leases at their next renewal, and until then
// the limit can be exceeded; waiters queue again. It is the way out of ErrCorrupt.
// ErrNotFound when there are no keys.
func (in *Inspector) Purge(ctx context.Context, name string) error {
	return in.audited(ctx, "purge", name, "", func() error { return in.purge(ctx, name) })
}

func (in *Inspector) purge(ctx context.Context, name string) error {
	if err := cmp.Or(validContext(ctx), validName(name)); err != nil {
		return err
	}
	found, err := session.Bounded(ctx, mostCall, func(ctx context.Context) (bool, error) {
		return in.store.Delete(ctx, in.store.Key(name))
	})
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
