package berthadmin

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/internal/look"
	"github.com/berth-go/berth/internal/protocol"
	"github.com/berth-go/berth/internal/rules"
)

// SampleOptions says what Sample reads.
type SampleOptions struct {
	// Records makes Sample read holders and waiters, too. It reads them in pages: if there
	// are more than a few hundred they are not a snapshot of a single moment, but those
	// that hold or wait throughout the reading are included.
	Records bool
}

// How many semaphores travel in one pipeline, without records and with.
const (
	page        = 100
	pageRecords = 10
)

// Sample yields the state of each of the semaphores, in the order of names. It is made
// for live views: it writes nothing, works for a Redis user without write permission,
// and needs one round trip for a hundred semaphores. Therefore it does not remove
// holders and waiters that have expired: they have Expired set, Summary.Expired counts
// them, and so do the other numbers, until the next call to their semaphore.
//
// ErrNotFound (the semaphore is idle, and neither pinned nor paused) and a
// *berth.CorruptError (it is damaged, or a newer berth wrote it) concern only the semaphore
// that is named in the State yielded with them. With ErrNotFound it also has
// Summary.LimitChanges, which the server remembers for a while, and counts on from. Any
// other error is yielded last.
func (in *Inspector) Sample(ctx context.Context, names []string, o SampleOptions) iter.Seq2[*State, error] {
	return func(yield func(*State, error) bool) {
		if err := in.ready(ctx); err != nil {
			yield(&State{}, err)
			return
		}
		for _, name := range names {
			if err := invalid("name", rules.Name(name, berth.MaxName)); err != nil {
				yield(&State{Summary: Summary{Name: name}}, err)
				return
			}
		}
		size := page
		if o.Records {
			size = pageRecords
		}
		for part := range slices.Chunk(names, size) {
			found, err := in.sample(ctx, part, o.Records)
			for i, name := range part {
				st := &State{Summary: Summary{Name: name}}
				err := err
				if err != nil {
					err = failed(ctx, "", err)
				} else {
					st, err = sampled(ctx, name, found[i])
				}
				if !yield(st, err) || err != nil && !errors.Is(err, ErrNotFound) && !errors.Is(err, berth.ErrCorrupt) {
					return
				}
			}
		}
	}
}

// sample reads some semaphores, each page of all in one pipeline. Heartbeats move waiters to
// the last page: of a queue that is longer and farther away than can be read between two of
// them, there is no end.
func (in *Inspector) sample(ctx context.Context, names []string, records bool) ([]look.Found, error) {
	keys := make([]protocol.Key, len(names))
	for i, name := range names {
		keys[i] = in.store.Key(name)
	}
	inspection := in.looks.Inspection(keys, records)
	inspection.Timed = in.spent != nil
	ctx, cancel := context.WithTimeout(ctx, mostScan)
	defer cancel()
	for more := true; more; {
		before := inspection.Spent
		var err error
		more, err = protocol.Bounded(ctx, in.patience(), func(ctx context.Context) (bool, error) { return inspection.Next(ctx), nil })
		if err != nil {
			return nil, err
		}
		in.meter(inspection.Spent-before, inspection.Told)
	}
	return inspection.Found(), nil
}

// sampled turns what was found into a State, which always has the semaphore's name.
func sampled(ctx context.Context, name string, found look.Found) (*State, error) {
	st := &State{Summary: Summary{Name: name}}
	if found.Err != nil {
		err := failed(ctx, name, found.Err)
		if !errors.Is(err, berth.ErrCorrupt) { // that Redis is away has nothing to do with this one
			err = failed(ctx, "", found.Err)
		}
		return st, err
	}
	if err := inUse(name, found.Snapshot); err != nil {
		st.LimitChanges = found.Changes
		return st, err
	}
	return state(name, found.Snapshot), nil
}

// Names makes one step of a walk through the keyspace by SCAN, in which the server looks
// at about budget keys. It returns the semaphores among them, in no order and perhaps
// some twice, and the cursor of the next step. The first step has the cursor "", and
// after the last step next is "". Callers can pause between steps to spread the load of
// a large keyspace. In a Redis Cluster the walk goes from master to master.
//
// The walk finds all semaphores that have keys throughout, and perhaps others that have
// keys for some of that time.
func (in *Inspector) Names(ctx context.Context, cursor string, budget int) (names []string, next string, err error) {
	if err := in.ready(ctx); err != nil {
		return nil, "", err
	}
	if budget < 1 || budget > 10000 {
		return nil, "", &berth.InvalidError{What: "budget", Reason: fmt.Sprintf("%d is outside 1 to 10000", budget)}
	}
	found, err := protocol.Bounded(ctx, in.patience(), func(ctx context.Context) (look.Step, error) {
		return in.looks.NamesFrom(ctx, cursor, budget, in.spent != nil)
	})
	if errors.Is(err, protocol.ErrRequest) {
		return nil, "", &berth.InvalidError{What: "cursor", Reason: fmt.Sprintf("%.40q was not returned by Names", cursor)}
	}
	if err != nil {
		return nil, "", failed(ctx, "", err)
	}
	in.meter(found.Spent, found.Told)
	return slices.DeleteFunc(found.Names, func(name string) bool { return rules.Name(name, berth.MaxName) != "" }), found.Next, nil
}

// Live returns an Inspector for a view that goes on, such as a dashboard. Its Sample, Names and
// Ping wait for each answer for up to 10 seconds and not 2, because one that comes late is still
// of use. If spent is not nil, Sample and Names call it with the time that each answer took the
// server, by the server's own clock. Where the server does not tell, as for Sample in a Redis
// Cluster, spent is not called.
func (in *Inspector) Live(spent func(time.Duration)) *Inspector {
	other := in.copied()
	other.live, other.spent = true, spent
	return other
}

// patience is how long Sample and Names wait for an answer.
func (in *Inspector) patience() time.Duration {
	if in.live {
		return mostLive
	}
	return mostCall
}

// meter tells who called Live of the server's time.
func (in *Inspector) meter(spent time.Duration, told bool) {
	if in.spent != nil && told {
		in.spent(spent)
	}
}

func state(name string, s *look.Snapshot) *State {
	st := &State{Summary: summary(name, s), Leases: []Holder{}, Queue: []Waiter{}}
	for _, r := range s.Leases {
		st.Leases = append(st.Leases, Holder{
			ID: r.ID, Session: sessionOf(r.ID), Label: r.Label, Host: r.Host, PID: r.PID, Client: r.Client, Extra: r.Extra, Tenant: r.Tenant, Weight: r.Weight, TTL: r.TTL, Slot: r.Slot, Token: r.Token,
			Held: since(s, r.Since), ExpiresIn: until(s, r.Expires), Until: until(s, r.Ceiling), Evicting: r.Evicting, Expired: r.Expires <= s.Now,
		})
	}
	for i := range s.Queue {
		r := &s.Queue[i]
		costs, kept := charged(st.Rates, r)
		st.Queue = append(st.Queue, Waiter{
			ID: r.ID, Session: sessionOf(r.ID), Label: r.Label, Host: r.Host, PID: r.PID, Client: r.Client, Extra: r.Extra, Tenant: r.Tenant, Weight: r.Weight, Costs: costs, KeptBy: kept, Ahead: i,
			Waited: since(s, r.Since), ExpiresIn: until(s, r.Expires), Expired: r.Expires <= s.Now,
		})
	}
	return st
}

// sessionOf returns what an id begins with: the name of who asked for it.
func sessionOf(id string) string {
	name, _, _ := strings.Cut(id, ".")
	return name
}

func summary(name string, s *look.Snapshot) Summary {
	sum := Summary{
		Name: name, Limit: s.Limit(), Declared: s.Declared, Pinned: s.Pin >= 0, Paused: s.Paused, InUse: s.Used,
		Holders: s.Holders, Waiting: s.Waiting, NextExpiry: until(s, s.Lease), Expired: s.Expired, LimitChanges: s.Changes,
	}
	sum.Rates, sum.RetryAfter = spent(s)
	sum.RatesPinned = s.RatesPinned
	if s.Ends > 0 {
		sum.PausedFor, sum.PausedBy = until(s, s.Ends), s.Who
	}
	if s.Oldest > 0 {
		sum.OldestWait = since(s, s.Oldest)
	}
	return sum
}

func since(s *look.Snapshot, at int64) time.Duration {
	return max(time.Duration(s.Now-at)*time.Millisecond, 0)
}

func until(s *look.Snapshot, at int64) time.Duration {
	if at == 0 {
		return 0
	}
	return max(time.Duration(at-s.Now)*time.Millisecond, 0)
}
