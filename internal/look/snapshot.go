package look

import (
	"cmp"
	"slices"
	"time"

	"github.com/berth-go/berth/internal/protocol"
)

// Snapshot is the state of one semaphore. Records are read in pages: if there are more than
// a few hundred they are not of a single moment, but those of leases and waiters that exist
// throughout the reading are included. Expired ones are included until a call of Do removes
// them. Next is about leases and waiters alone: 0 if there is none, and with records exact.
type Snapshot struct {
	Exists bool
	Now    int64 // server time, ms
	protocol.State
	Remnant bool      // one of its two keys was lost, and leases have run out: the next call of Do removes the other
	Oldest  int64     // ms: the first in the queue was queued; 0: nobody waits
	Lease   int64     // ms: the first lease expires; 0: there is none or, without records, 100 waiters expire before
	Head    *Record   // the first in the queue, without its deadline; nil: nobody waits
	Expired int       // leases and waiters that have expired; without records, 250 at most
	Leases  []Record  // by token
	Queue   []Record  // in order
	Who     string    // wants the pause that ends
	Counted []Counted // what counts for rates that are windows, by rate, the earliest end first
	Stale   bool      // something counts no more for a rate, or a pause has ended: this is without it, and the next call of Do removes it
}

// Counted is what grants of one time cost in sum, which counts for a rate until some time.
type Counted struct {
	Rate  int // its place in Rates
	Sum   int
	Until int64 // ms
}

// Record is one lease, or one waiter.
type Record struct {
	ID       string
	Weight   int
	Costs    protocol.Costs // as it was asked for, and of a lease as it was settled; of rates that there were
	Slot     int            // lease
	Token    int64          // lease
	Since    int64          // ms: granted, or queued
	Expires  int64          // ms
	Ceiling  int64          // lease, ms: no renewal goes beyond it; 0: none
	TTL      time.Duration
	Evicting bool
	PID      int
	Host     string
	Client   string // implementation and version
	Extra    string // what else its owner says: key=value;key=value
	Tenant   string // for whom it acquires; "": nobody
	Share    int    // of the tenant; 0: there is none
	Label    string
}

// Rest returns how long the rates alone do not let in what has this weight and these costs, if nobody
// else comes, to the millisecond: 0 if they do.
func (s *Snapshot) Rest(weight int, costs protocol.Costs) (rest time.Duration) {
	for i, b := range s.Budgets(s.Now) {
		cost, until := costs.Of(b.Unit, weight), s.Now
		if b.Burst > 0 {
			until = s.Refilled(i, cost)
		}
		over := b.Spent + cost - b.N
		for _, n := range s.Counted {
			if n.Rate == i && over > 0 {
				over, until = over-n.Sum, n.Until
			}
		}
		rest = max(rest, time.Duration(until-s.Now)*time.Millisecond)
	}
	return rest
}

// Live returns a Snapshot with records as it is without the leases and waiters that have expired,
// which count no more in anything. Whom their permits go to is for the next call of Do.
func (s *Snapshot) Live() *Snapshot {
	live := *s
	live.Leases, live.Queue = nil, nil
	live.Expired, live.Next, live.Oldest = 0, 0, 0
	keep := func(all []Record, gone func(Record)) (kept []Record) {
		for _, r := range all {
			switch {
			case r.Expires <= s.Now:
				gone(r)
				continue
			case live.Next == 0 || r.Expires < live.Next:
				live.Next = r.Expires
			}
			kept = append(kept, r)
		}
		return kept
	}
	live.Leases = keep(s.Leases, func(r Record) { live.Holders, live.Used = live.Holders-1, live.Used-r.Weight })
	live.Lease, live.Head = live.Next, nil
	live.Queue = keep(s.Queue, func(Record) { live.Waiting-- })
	if len(live.Queue) > 0 {
		live.Oldest, live.Head = live.Queue[0].Since, &live.Queue[0]
	}
	return &live
}

// snapshot returns what was read.
func (a *reading) snapshot(records bool) *Snapshot {
	snap := &a.snap
	snap.count(a.counted)
	if snap.Ends > 0 && snap.Ends <= snap.Now {
		snap.Paused, snap.Ends, snap.Who, snap.Stale = false, 0, "", true
	}
	next := int64(0)
	for _, r := range a.there {
		if r.Expires <= snap.Now {
			snap.Expired++
		}
		if next == 0 || r.Expires < next {
			next = r.Expires
		}
		if r.Token > 0 && (snap.Lease == 0 || r.Expires < snap.Lease) {
			snap.Lease = r.Expires
		}
	}
	if next > 0 || snap.Next <= snap.Now || snap.Holders+snap.Waiting == 0 {
		snap.Next = next // that of the state may be a tombstone's, or of before a renewal
	}
	if snap.Waiting == 0 {
		snap.Lease = snap.Next
	}
	if !records {
		return snap
	}
	for _, id := range a.queue {
		if w := a.there[id]; w != nil && w.Token == 0 {
			snap.Queue = append(snap.Queue, *w)
			delete(a.there, id)
		}
	}
	for _, l := range a.there {
		if l.Token > 0 { // else it was queued after the queue was read
			snap.Leases = append(snap.Leases, *l)
		}
	}
	a.inTurns()
	slices.SortFunc(snap.Leases, func(a, b Record) int { return cmp.Compare(a.Token, b.Token) })
	return snap
}

// count takes in what counts for rates, and leaves out what does no longer.
func (s *Snapshot) count(all []Counted) {
	var left [protocol.MostRates]int
	for _, n := range all {
		if n.Until > s.Now {
			s.Counted = append(s.Counted, n)
		} else {
			left[n.Rate] += n.Sum
		}
	}
	s.Stale = s.Fade(s.Now, left) || s.Stale
}
