package protocol

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	lowest    = "-inf"  // below all scores
	deadlines = 1 << 32 // the least score of a deadline
	front     = 1 << 53 // above all tokens: up to here the script's numbers are exact

	queuePrefix = "#" // in front of an id: its place in the queue
)

// page is how many members one call reads.
const page = 500

// Snapshot is the state of one semaphore. Records are read in pages: if there are more than
// a few hundred they are not of a single moment, but those of leases and waiters that exist
// throughout the reading are included. Expired ones are included until a call of Do removes
// them. Next is about leases and waiters alone: 0 if there is none, and with records exact.
type Snapshot struct {
	Exists bool
	Now    int64 // server time, ms
	State
	Remnant bool      // one of its two keys was lost, and leases have run out: the next call of Do removes the other
	Oldest  int64     // ms: the first in the queue was queued; 0: nobody waits
	Expired int       // leases and waiters that have expired; without records, 250 at most
	Leases  []Record  // by token
	Queue   []Record  // in order
	Who     string    // wants the pause that ends
	Counted []Counted // what counts for the rate, the earliest end first; without records, some of it
	Stale   bool      // something has left the rate's window, or a pause has ended: this is without it, and the next call of Do removes it
}

// Counted is what grants of one time cost in sum, which counts for the rate until some time.
type Counted struct {
	Sum   int
	Until int64 // ms
}

// Record is one lease, or one waiter.
type Record struct {
	ID       string
	Weight   int
	Cost     int   // waiter: of the rate
	Slot     int   // lease
	Token    int64 // lease
	Since    int64 // ms: granted, or queued
	Expires  int64 // ms
	Ceiling  int64 // lease, ms: no renewal goes beyond it; 0: none
	TTL      time.Duration
	Evicting bool
	PID      int
	Host     string
	Client   string // implementation and version
	Extra    string // what else its owner says: key=value;key=value
	Tenant   string // for whom it acquires; "": nobody
	Label    string
}

// Inspect reads a semaphore without changing it, and if records is set its holders and
// waiters, too. For a semaphore that does not exist, Snapshot.Exists is false.
func (s *Store) Inspect(ctx context.Context, k Key, records bool) (*Snapshot, error) {
	in := s.Inspection([]Key{k}, records)
	for more := true; more; {
		more = in.Next(ctx)
	}
	found := in.Found()
	return found[0].Snapshot, found[0].Err
}

// Look is Inspect without records, but Snapshot.Rest is exact for a request of this cost, unless
// so many hold or wait that reading the marks between them would take more than a page.
func (s *Store) Look(ctx context.Context, k Key, cost int) (*Snapshot, error) {
	snap, err := s.Inspect(ctx, k, false)
	if err != nil || snap.Rest(cost) == 0 || snap.Slots+2*snap.Waiting+snap.Marks >= page {
		return snap, err
	}
	return s.Inspect(ctx, k, true)
}

// Inspection is Inspect for several semaphores, page by page, so that its caller can bound
// the time for each page.
type Inspection struct {
	// Timed asks the server for its time before and after each page, in the same pipeline.
	Timed bool
	// Spent is the server's time for the pages so far, whatever the network and this process
	// took, if Told is set. It is not without Timed, and in a Cluster, where a pipeline goes to
	// several servers.
	Spent time.Duration
	Told  bool

	store     *Store
	all, left []*reading
	records   bool
}

// Inspection begins an inspection. It sends nothing.
func (s *Store) Inspection(keys []Key, records bool) *Inspection {
	all := make([]*reading, len(keys))
	for i, k := range keys {
		all[i] = &reading{key: k, from: lowest, leases: map[string]*Record{}, counted: map[string]Counted{}}
	}
	return &Inspection{store: s, all: all, left: slices.Clone(all), records: records}
}

// Next reads the next page of each semaphore, all in one pipeline, and reports whether there
// are more.
func (in *Inspection) Next(ctx context.Context) (more bool) {
	count := 0
	if in.records {
		count = page
	}
	spent, told := in.store.turn(ctx, in.left, count, in.Timed && !in.store.Sharded())
	in.Spent += spent
	in.Told = told
	in.left = slices.DeleteFunc(in.left, func(r *reading) bool { return r.done })
	return len(in.left) > 0
}

// Found is the result of an Inspection for one semaphore: a Snapshot or an error.
type Found struct {
	*Snapshot
	Err error
}

// Found returns the results, when there are no more pages.
func (in *Inspection) Found() []Found {
	found := make([]Found, len(in.all))
	for i, r := range in.all {
		if found[i].Err = in.store.moving(r.err); r.err == nil {
			found[i].Snapshot = r.snapshot(in.records)
		}
	}
	return found
}

// turn reads the next page of each. If timed is set it returns the server's time for them, if
// the server told.
func (s *Store) turn(ctx context.Context, all []*reading, count int, timed bool) (spent time.Duration, told bool) {
	if len(all) == 0 {
		return 0, timed
	}
	step := s.step.Load()
	args := func(r *reading) []any {
		look := fmt.Sprintf("I%s %d %d", r.from, r.skip, count)
		return append(append([]any{"evalsha", step.sha}, s.keys(r.key)...), 0, 1, look, 0)
	}
	if len(all) == 1 && !timed {
		fields, err := step.slice(ctx, s.rdb, args(all[0]))
		all[0].take(fields, err, count)
		return 0, false
	}
	cmds := make([]*redis.Cmd, len(all))
	spent, told = inPipeline(ctx, s.rdb, timed, func(pipe redis.Pipeliner) {
		for i, r := range all {
			cmds[i] = redis.NewCmd(ctx, args(r)...)
			_ = pipe.Process(ctx, cmds[i]) // only queues it
		}
	})
	var unknown []*reading // where the server does not know the script
	for i, r := range all {
		if redis.HasErrorPrefix(cmds[i].Err(), "NOSCRIPT") {
			unknown = append(unknown, r)
		} else {
			fields, err := list(cmds[i])
			r.take(fields, err, count)
		}
	}
	if len(unknown) > 0 { // the first of them sends the script
		fields, err := step.slice(ctx, s.rdb, step.whole(args(unknown[0])))
		unknown[0].take(fields, err, count)
		more, _ := s.turn(ctx, unknown[1:], count, timed)
		spent += more
	}
	return spent, told
}

// inPipeline sends what fill queues. If timed is set it asks the server for its time before and
// after that, and returns the difference, if the server told.
func inPipeline(ctx context.Context, rdb redis.Cmdable, timed bool, fill func(redis.Pipeliner)) (spent time.Duration, told bool) {
	pipe := rdb.Pipeline()
	if !timed {
		fill(pipe)
		_, _ = pipe.Exec(ctx) // each command has its error
		return 0, false
	}
	before := pipe.Time(ctx)
	fill(pipe)
	after := pipe.Time(ctx)
	_, _ = pipe.Exec(ctx)
	return max(after.Val().Sub(before.Val()), 0), before.Err() == nil && after.Err() == nil
}

// reading is a Snapshot that is read page by page.
type reading struct {
	key     Key
	from    string // the score at which the next page begins
	skip    int    // how many of that score have been read
	snap    Snapshot
	leases  map[string]*Record // waiters too, by id
	counted map[string]Counted // by the name of their mark
	queue   []string           // ids
	done    bool               // all is read, or err
	err     error
}

// take adds a page of so many members.
func (r *reading) take(fields []any, err error, count int) {
	var members []string
	if err == nil && r.from == lowest {
		err = r.snap.readState(fields)
	}
	if err == nil {
		members, err = texts(fields)
	}
	for i := 0; err == nil && i+2 < len(members); i += 3 {
		err = r.collect(members[i], members[i+1], members[i+2])
	}
	r.err, r.done = err, err != nil || count == 0 || len(members) < 3*count
	if !r.done {
		r.advance(members[1], members[len(members)-2], count)
	}
}

// advance goes to the next page, after one of so many members with scores from first to
// last. The next page begins with the members of the score last, which may so be read
// twice: none is missed when members before them are removed. If a page has only members of
// one score, the next one begins after those that were read.
func (r *reading) advance(first, last string, count int) {
	switch {
	case first != last:
		r.from, r.skip = last, 0
	case r.from == last:
		r.skip += count
	default:
		r.from, r.skip = last, count
	}
}

// snapshot returns what was read.
func (r *reading) snapshot(records bool) *Snapshot {
	snap := &r.snap
	snap.count(r.counted)
	if snap.Ends > 0 && snap.Ends <= snap.Now {
		snap.Paused, snap.Ends, snap.Who, snap.Stale = false, 0, "", true
	}
	next := int64(0)
	for _, l := range r.leases {
		if l.Expires <= snap.Now {
			snap.Expired++
		}
		if next == 0 || l.Expires < next {
			next = l.Expires
		}
	}
	if next > 0 || snap.Next <= snap.Now || snap.Holders+snap.Waiting == 0 {
		snap.Next = next // that of the state may be a tombstone's, or of before a renewal
	}
	if !records {
		return snap
	}
	for _, id := range r.queue {
		if l := r.leases[id]; l != nil && l.Token == 0 {
			snap.Queue = append(snap.Queue, *l)
			delete(r.leases, id)
		}
	}
	for _, l := range r.leases {
		if l.Token > 0 { // else it was queued after the queue was read
			snap.Leases = append(snap.Leases, *l)
		}
	}
	slices.SortFunc(snap.Leases, func(a, b Record) int { return cmp.Compare(a.Token, b.Token) })
	return snap
}

// count takes in what counts for the rate, and leaves out what does no longer.
func (s *Snapshot) count(all map[string]Counted) {
	for _, n := range all {
		if n.Until > s.Now {
			s.Counted = append(s.Counted, n)
		} else {
			s.Spent, s.Stale = s.Spent-n.Sum, true
		}
	}
	slices.SortFunc(s.Counted, func(a, b Counted) int {
		return cmp.Or(cmp.Compare(a.Until, b.Until), cmp.Compare(a.Sum, b.Sum))
	})
}

func corrupt(what, value string) error {
	return &Failure{Kind: ErrRejected, Detail: ErrCorrupt, Err: fmt.Errorf("%s %.80q", what, value)}
}

func garbled() error {
	return &Failure{Kind: ErrUnknown, Err: errors.New("unexpected reply")}
}

// texts returns the fields behind the first two.
func texts(fields []any) ([]string, error) {
	var out []string
	for _, f := range fields[min(2, len(fields)):] {
		s, ok := f.(string)
		if !ok {
			return nil, garbled()
		}
		out = append(out, s)
	}
	return out, nil
}

func (s *Snapshot) readState(fields []any) error {
	if len(fields) < 2 {
		return garbled()
	}
	now, isNumber := fields[0].(int64)
	state, isText := fields[1].(string)
	if !isNumber || !isText {
		return garbled()
	}
	s.Now = now
	if state == "" {
		return nil
	}
	s.Exists = true
	c := cursor{rest: state}
	s.State = c.state()
	if c.bad || c.rest != "" {
		return corrupt("state", state)
	}
	s.Remnant = s.Next > 0 && s.Used+s.Holders+s.Waiting+s.Marks == 0
	return nil
}

// collect adds one member of the sorted set: a place in the queue, or a deadline with its
// record. It ignores free slots and marks.
func (r *reading) collect(member, score, record string) error {
	at, err := strconv.ParseFloat(score, 64)
	switch {
	case err != nil:
		return corrupt("score of "+member, score)
	case at < 0:
		if len(r.queue) == 0 {
			w, ok := parseRecord(record)
			if !ok {
				return corrupt("waiter", record)
			}
			r.snap.Oldest = w.Since
		}
		r.queue = append(r.queue, strings.TrimPrefix(member, queuePrefix))
		return nil
	case at < deadlines || record == "" || strings.HasPrefix(record, "x ") || strings.HasPrefix(record, "t "):
		return nil
	case strings.HasPrefix(record, "r "):
		return r.count(member, record)
	case strings.HasPrefix(record, "p "):
		r.snap.Ends, r.snap.Who = int64(at), strings.TrimPrefix(record, "p ")
		return nil
	}
	l, ok := parseRecord(record)
	if !ok {
		return corrupt("record", record)
	}
	l.ID, l.Expires = member, int64(at)
	r.leases[member] = l
	return nil
}

// count adds what counts for the rate: r sum until.
func (r *reading) count(member, record string) error {
	c := cursor{rest: strings.TrimPrefix(record, "r ")}
	n := Counted{Sum: c.int(), Until: c.next()}
	if c.bad || c.rest != "" {
		return corrupt("record", record)
	}
	r.counted[member] = n
	return nil
}

// Rest returns how long the rate alone does not let in what costs so much, if nobody else
// comes: 0 if it does. It is exact to the millisecond for a Snapshot with records; for
// another it is a lower bound.
func (s *Snapshot) Rest(cost int) time.Duration {
	over := s.Spent + cost - s.Rate.N
	if s.Rate.N == 0 || over <= 0 {
		return 0
	}
	until := s.Now + 1
	for _, n := range s.Counted { // the earliest first
		if over > 0 {
			over, until = over-n.Sum, n.Until
		}
	}
	return time.Duration(max(until-s.Now, 1)) * time.Millisecond
}

// parseRecord reads a lease or a waiter:
//
//	h weight slot token ceiling ttl owner label
//	w weight cost ticket maxhold ttl owner label
func parseRecord(s string) (*Record, bool) {
	kind, rest, _ := strings.Cut(s, " ")
	c := cursor{rest: rest}
	r := &Record{Weight: c.int(), Slot: c.int(), Token: c.next(), Ceiling: c.next(), TTL: c.duration(), Evicting: kind == "e"}
	owner, label, ok := strings.Cut(c.rest, " ")
	owner, r.Tenant, _ = strings.Cut(owner, ownsFor)
	r.Label, r.Since = label, r.Token/1000
	pid, host, _ := strings.Cut(strings.TrimPrefix(owner, ":"), "/")
	r.PID, _ = strconv.Atoi(pid)
	r.Host, r.Client, _ = strings.Cut(host, ";")
	r.Client, r.Extra, _ = strings.Cut(r.Client, ";")
	switch kind {
	case "h", "e":
	case "w":
		r.Cost = cmp.Or(r.Slot, r.Weight)
		r.Token, r.Slot, r.Ceiling = 0, 0, 0
	default:
		return nil, false
	}
	return r, ok && !c.bad && host != ""
}
