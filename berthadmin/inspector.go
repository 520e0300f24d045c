package berthadmin

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

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/internal/look"
	"github.com/berth-go/berth/internal/protocol"
	"github.com/berth-go/berth/internal/rules"
)

// Inspector reads and administers semaphores by name. The command line and the
// web pages use it; programs that only take permits do not need it. It is safe for
// concurrent use.
//
// Each method makes a few calls to Redis, each of which ends within 2 seconds, or when ctx
// ends; for 500 holders or 250 waiters there is one more. The names of List, and the
// holders and waiters of one semaphore, may take a minute. The errors of all methods are
// berth.ErrInvalid, berth.ErrUnreachable (there was no answer, and a change may have been
// made: repeat it), berth.ErrRefused, berth.ErrCorrupt (nothing was changed; see Purge) and
// ctx's error; a method that can also return ErrNotFound says so.
type Inspector struct {
	store  *protocol.Store
	looks  *look.Reader
	rdb    redis.UniversalClient
	prefix string
	log    *slog.Logger

	because  bool // changes are recorded, with who and why
	who, why string

	live  bool // see Live
	spent func(time.Duration)
}

// Summary describes one semaphore in short. In JSON, durations are in milliseconds and
// their names end in "_ms", as in everything that the Inspector returns, and berth.NoLimit is null.
type Summary struct {
	Name         string        `json:"name"`
	Limit        int           `json:"limit"`         // in force: the pin, or what was last declared
	Declared     int           `json:"declared"`      // what was last declared by code
	Pinned       bool          `json:"pinned"`        // an operator's pin is in force
	Paused       bool          `json:"paused"`        // nothing is granted until resumed
	InUse        int           `json:"in_use"`        // permits that are held
	Holders      int           `json:"holders"`       // leases that are held
	Waiting      int           `json:"waiting"`       // waiters in the queue
	OldestWait   time.Duration `json:"-"`             // how long the first in the queue has waited; 0 when the queue is empty
	NextExpiry   time.Duration `json:"-"`             // until the first lease expires unless renewed; 0 when there is none, or in a list a hundred waiters expire before
	Expired      int           `json:"expired"`       // holders and waiters that have expired but are still counted: the next call removes them
	LimitChanges int           `json:"limit_changes"` // declarations that changed the limit, or the rates
	Rates        []Rate        `json:"rates"`         // those in force, by unit and window
	RatesPinned  bool          `json:"rates_pinned"`  // an operator has pinned them: no declaration changes them
	PausedFor    time.Duration `json:"-"`             // until its pause ends by itself; 0: it is not paused, or until Resume
	PausedBy     string        `json:"paused_by"`     // who set the pause that ends by itself; else ""
	// RetryAfter is how long the rates alone keep out the first in the queue or, where nobody waits, a
	// request of weight 1 without costs, if nobody else comes. 0: they do not.
	RetryAfter time.Duration `json:"-"`
}

// State describes one semaphore in full.
type State struct {
	Summary
	Leases []Holder `json:"leases"`
	Queue  []Waiter `json:"queue"`
}

// Holder describes one lease.
type Holder struct {
	ID        string        `json:"id"`
	Session   string        `json:"session"` // of the Client that acquired it; one process may have several
	Label     string        `json:"label"`
	Host      string        `json:"host"`
	PID       int           `json:"pid"`
	Client    string        `json:"client"`          // implementation and version
	Extra     string        `json:"extra,omitempty"` // what else its client says: key=value;key=value
	Tenant    string        `json:"tenant"`          // for whom it was acquired; "": nobody
	Weight    int           `json:"weight"`
	TTL       time.Duration `json:"-"`
	Slot      int           `json:"slot"`
	Token     int64         `json:"token"`
	Held      time.Duration `json:"-"`
	ExpiresIn time.Duration `json:"-"`        // 0 when it has expired
	Until     time.Duration `json:"-"`        // until its MaxHold ends it, renewed or not; 0 when it has none
	Evicting  bool          `json:"evicting"` // its holder is asked to stop, and it is no longer renewed
	Expired   bool          `json:"expired"`  // it has expired, and the next call to the semaphore removes it
}

// Unrenewed is how long ago the lease was granted or renewed, if its holder should have renewed it
// since: it has missed a renewal at least, or no process renews it, as after "berth acquire". Else, and
// if its MaxHold bounds it, or it has expired, it is 0.
func (h Holder) Unrenewed() time.Duration {
	ago := h.TTL - h.ExpiresIn
	if h.Expired || ago < h.TTL/2 || h.Until > 0 && h.ExpiresIn >= h.Until {
		return 0
	}
	return ago
}

// Waiter describes one waiter in the queue.
type Waiter struct {
	ID      string `json:"id"`
	Session string `json:"session"`
	Label   string `json:"label"`
	Host    string `json:"host"`
	PID     int    `json:"pid"`
	Client  string `json:"client"`
	Extra   string `json:"extra,omitempty"`
	Tenant  string `json:"tenant"` // for whom it waits, and where, as berth.Tenant says; "": nobody
	Weight  int    `json:"weight"`
	// Costs are what it costs of the rates in force, by unit, and KeptBy is the rate that would keep it
	// out if it were the first; nil: none would.
	Costs     map[string]int `json:"costs"`
	KeptBy    *Rate          `json:"kept_by,omitempty"`
	Ahead     int            `json:"ahead"` // waiters in front of it
	Waited    time.Duration  `json:"-"`
	ExpiresIn time.Duration  `json:"-"`       // until it expires without another heartbeat
	Expired   bool           `json:"expired"` // its heartbeats ended, and the next call to the semaphore removes it
}

// List yields all semaphores that have keys on this Redis under the client's prefix, sorted
// by name. It walks the keyspace by SCAN, and removes holders and waiters that have
// expired, and a key whose other half was lost, once nothing in it can be alive. For a user
// who may not write it leaves them out instead. For a
// damaged semaphore (berth.ErrCorrupt) it yields the name and the error; any other error
// ends the list.
func (in *Inspector) List(ctx context.Context) iter.Seq2[Summary, error] {
	return func(yield func(Summary, error) bool) {
		if err := in.ready(ctx); err != nil {
			yield(Summary{}, err)
			return
		}
		names, err := protocol.Bounded(ctx, mostScan, in.looks.Names)
		if err != nil {
			yield(Summary{}, failed(ctx, "", err))
			return
		}
		names = slices.DeleteFunc(names, func(name string) bool { return rules.Name(name, berth.MaxName) != "" })
		for st, err := range in.Sample(ctx, names, SampleOptions{}) {
			switch {
			case err == nil && st.Expired > 0:
				err = in.reap(ctx, st)
			case errors.Is(err, errLeft):
				if err = in.apply(ctx, st.Name); err == nil || protocol.Denied(err) {
					continue
				}
			}
			if errors.Is(err, ErrNotFound) {
				continue // nothing was left of it
			}
			if !yield(st.Summary, err) || err != nil && !errors.Is(err, berth.ErrCorrupt) {
				return
			}
		}
	}
}

// reap removes what has expired, and reads the summary again.
func (in *Inspector) reap(ctx context.Context, st *State) error {
	snap, err := in.snapshot(ctx, st.Name, false)
	if err == nil {
		st.Summary = summary(st.Name, snap)
	}
	return err
}

// Show returns one semaphore in full: holders sorted by token, waiters in the order of
// the queue. First it removes holders and waiters that have expired; for a user who may not
// write it leaves them out instead. The error is
// ErrNotFound when the semaphore is idle, and neither pinned nor paused.
func (in *Inspector) Show(ctx context.Context, name string) (*State, error) {
	snap, err := in.snapshot(ctx, name, true)
	if err != nil {
		return nil, err
	}
	return state(name, snap), nil
}

// How long one call may take, whatever the Redis client does.
const (
	mostCall = 2 * time.Second
	mostLive = 10 * time.Second
	mostScan = time.Minute // of many calls
)

// snapshot removes what has expired, and then reads. For a user who may not write it reads, and
// leaves out what has expired.
func (in *Inspector) snapshot(ctx context.Context, name string, records bool) (*look.Snapshot, error) {
	err := in.apply(ctx, name)
	denied := protocol.Denied(err)
	if err != nil && !denied {
		return nil, err
	}
	found, err := in.sample(ctx, []string{name}, records || denied)
	if err == nil {
		err = found[0].Err
	}
	if err != nil {
		return nil, failed(ctx, name, err)
	}
	snap := found[0].Snapshot
	if denied {
		snap = snap.Live()
	}
	return snap, inUse(name, snap)
}

// errLeft: a semaphore is idle, but keys are there, with what has expired. One may have been lost.
var errLeft = fmt.Errorf("%w: what is left of it has expired", ErrNotFound)

// inUse fails with ErrNotFound for a semaphore that is idle and not pinned or paused, and
// of whose rate nothing is spent.
func inUse(name string, s *look.Snapshot) error {
	switch {
	case s.Exists && (s.Pin >= 0 || s.RatesPinned || s.Paused || s.Holders+s.Waiting > 0 || s.Counts()):
		return nil
	case s.Remnant, s.Stale:
		return fmt.Errorf("%w (semaphore %q)", errLeft, name)
	}
	return fmt.Errorf("%w: semaphore %q has no holder and no waiter", ErrNotFound, name)
}

// apply is applied for what needs no reply.
func (in *Inspector) apply(ctx context.Context, name string, ops ...protocol.Op) error {
	_, err := in.applied(ctx, name, ops...)
	return err
}

// applied runs operations, and returns the reply to them. Without any it removes what has expired. The first call tells the
// server's clock, and the operations count no later than they can be waited for: a word that
// the network delivers after it was given up would undo what was said since.
func (in *Inspector) applied(ctx context.Context, name string, ops ...protocol.Op) (done protocol.Reply, err error) {
	if err := cmp.Or(in.ready(ctx), invalid("name", rules.Name(name, berth.MaxName))); err != nil {
		return done, err
	}
	call := func(notAfter int64, ops []protocol.Op) (protocol.Reply, error) {
		return protocol.Bounded(ctx, mostCall, func(ctx context.Context) (protocol.Reply, error) {
			return in.store.Do(ctx, in.store.Key(name), notAfter, ops)
		})
	}
	reply, err := call(0, nil)
	if err == nil && len(ops) > 0 {
		reply, err = call(reply.Now+2*mostCall.Milliseconds(), ops) // as the first reply may have been slow, too
	}
	done = reply
	for err == nil && reply.More {
		if reply, err = call(0, nil); err != nil && len(ops) > 0 {
			err = protocol.Unsure("it was done", err)
		}
	}
	if err != nil {
		return done, failed(ctx, name, err)
	}
	return done, nil
}

// change applies op to a semaphore that is in use, and otherwise fails with
// ErrNotFound.
func (in *Inspector) change(ctx context.Context, name string, op protocol.Op) error {
	if _, err := in.snapshot(ctx, name, false); err != nil {
		return err
	}
	return in.apply(ctx, name, op)
}

// Resize declares a limit, as an acquire does: waiters that now fit are granted at
// once, and holders above the limit keep their leases. The next acquire that declares
// another limit changes it again; Pin prevents that. The error is ErrNotFound when the
// semaphore is idle: then there is nothing to change.
func (in *Inspector) Resize(ctx context.Context, name string, limit int) error {
	if err := invalid("limit", rules.Limit(limit, 1, berth.MaxLimit)); err != nil {
		return err
	}
	return in.audited(ctx, Audited{Verb: "resize", Name: name, What: strconv.Itoa(limit)}, func() error {
		return in.change(ctx, name, protocol.Op{Verb: protocol.Resize, N: limit})
	})
}

// Pin sets a limit that takes precedence over every declaration until Unpin, even
// while the semaphore is idle. A limit of 0 stops all grants.
func (in *Inspector) Pin(ctx context.Context, name string, limit int) error {
	if err := invalid("limit", rules.Limit(limit, 0, berth.MaxLimit)); err != nil {
		return err
	}
	return in.audited(ctx, Audited{Verb: "pin", Name: name, What: strconv.Itoa(limit)}, func() error {
		return in.apply(ctx, name, protocol.Op{Verb: protocol.Pin, N: limit})
	})
}

// Unpin removes the pin, and the declared limit is in force again: waiters that now
// fit are granted at once. The error is ErrNotFound when the semaphore is idle, and
// neither pinned nor paused.
func (in *Inspector) Unpin(ctx context.Context, name string) error {
	return in.audited(ctx, Audited{Verb: "unpin", Name: name}, func() error {
		return in.change(ctx, name, protocol.Op{Verb: protocol.Pin, N: -1})
	})
}

// Pause stops all grants until Resume. An idle semaphore can be paused, too. Holders
// keep their leases, and waiters their places.
func (in *Inspector) Pause(ctx context.Context, name string) error {
	return in.audited(ctx, Audited{Verb: "pause", Name: name}, func() error {
		return in.apply(ctx, name, protocol.Op{Verb: protocol.Pause, Flag: true})
	})
}

// PauseFor is Pause for a time: it ends by itself when d has passed, or before by Resume. A longer
// pause is not shortened. d is in whole milliseconds, from berth.MinTTL to berth.MaxTTL.
func (in *Inspector) PauseFor(ctx context.Context, name string, d time.Duration) error {
	if d < berth.MinTTL || d > berth.MaxTTL {
		return &berth.InvalidError{What: "pause", Reason: fmt.Sprintf("%v is outside %v to %v", d, berth.MinTTL, berth.MaxTTL)}
	}
	return in.audited(ctx, Audited{Verb: "pause", Name: name, What: d.String()}, func() error {
		return in.apply(ctx, name, protocol.Op{Verb: protocol.Cool, TTL: d, Who: cmp.Or(in.who, "an operator")})
	})
}

// Resume ends a pause: waiters that fit are granted at once. The error is ErrNotFound
// when the semaphore is idle, and neither pinned nor paused.
func (in *Inspector) Resume(ctx context.Context, name string) error {
	return in.audited(ctx, Audited{Verb: "resume", Name: name}, func() error {
		return in.change(ctx, name, protocol.Op{Verb: protocol.Pause})
	})
}

// Evict removes a waiter from the queue, or asks a holder to stop: the context of its
// lease ends with berth.ErrEvicted, the lease is no longer renewed, and its permits are free
// when it is released or expires. The error is ErrNotFound when there is no lease or
// waiter with this id.
func (in *Inspector) Evict(ctx context.Context, name, id string) error {
	return in.audited(ctx, Audited{Verb: "evict", Name: name, What: id}, func() error { return in.evict(ctx, name, id, false) })
}

// ForceEvict is like Evict, but a holder's permits are free at once, although the
// holder may not have been told yet: until the message arrives, or, if it is lost,
// until the next renewal, the limit can be exceeded.
func (in *Inspector) ForceEvict(ctx context.Context, name, id string) error {
	return in.audited(ctx, Audited{Verb: "evict --force", Name: name, What: id}, func() error { return in.evict(ctx, name, id, true) })
}

func (in *Inspector) evict(ctx context.Context, name, id string, force bool) error {
	if err := invalid("id", rules.ID(id)); err != nil {
		return err
	}
	ops := []protocol.Op{{Verb: protocol.Evict, ID: id, Flag: force}}
	if err := in.apply(ctx, name, ops...); err != nil {
		return err
	}
	if ops[0].Result.Code == protocol.Gone {
		return fmt.Errorf("%w: %s is neither a holder nor a waiter of semaphore %q", ErrNotFound, id, name)
	}
	return nil
}

// Purge deletes the semaphore's keys, whatever they hold, including a pin or a pause.
// Holders lose their leases at their next renewal, and until then the limit can be
// exceeded; waiters queue again. Purge repairs a semaphore that is berth.ErrCorrupt, but
// leaves alone what a newer berth wrote, whose permits are in use: the error is a
// *berth.CorruptError with Newer set. It is ErrNotFound when there are no keys.
func (in *Inspector) Purge(ctx context.Context, name string) error {
	return in.audited(ctx, Audited{Verb: "purge", Name: name}, func() error { return in.purge(ctx, name) })
}

func (in *Inspector) purge(ctx context.Context, name string) error {
	if err := cmp.Or(in.ready(ctx), invalid("name", rules.Name(name, berth.MaxName))); err != nil {
		return err
	}
	found, err := protocol.Bounded(ctx, mostCall, func(ctx context.Context) (bool, error) {
		return look.Delete(ctx, in.store, in.store.Key(name))
	})
	if err != nil {
		return failed(ctx, name, err)
	}
	if !found {
		return fmt.Errorf("%w: semaphore %q has no keys", ErrNotFound, name)
	}
	return nil
}
