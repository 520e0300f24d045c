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

// deadlines is the least score of a deadline.
const deadlines = 1 << 32

// page is how many members one call of inspect.lua reads.
const page = 500

// Snapshot is the state of one semaphore. Records come in pages: of more than a
// few hundred holders and waiters it is not a single moment's picture.
type Snapshot struct {
	Exists bool
	Now    int64 // server time, ms
	State
	Leases []Record // by token
	Queue  []Record // in order
}

// Record is one lease, or one waiter.
type Record struct {
	ID       string
	Weight   int
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
	Label    string
}

// Inspect reads a semaphore without changing it; with its holders and waiters if
// records. A semaphore that does not exist is a Snapshot without Exists.
func (s *Store) Inspect(ctx context.Context, k Key, records bool) (*Snapshot, error) {
	snap := &Snapshot{}
	leases := map[string]*Record{}
	var queue []string
	for from, count := 0, 0; ; from += page {
		if records {
			count = page
		}
		fields, err := s.look.slice(ctx, s.rdb, []any{"evalsha", s.look.sha, 1, k.State, from, count})
		if err != nil {
			return nil, err
		}
		if from == 0 {
			if err := snap.readState(fields); err != nil {
				return nil, err
			}
		}
		members, err := texts(fields)
		if err != nil {
			return nil, err
		}
		for i := 0; i+2 < len(members); i += 3 {
			if err := collect(members[i], members[i+1], members[i+2], leases, &queue); err != nil {
				return nil, err
			}
		}
		if len(members) < 3*page {
			break
		}
	}
	for _, id := range queue {
		if r := leases[id]; r != nil {
			snap.Queue = append(snap.Queue, *r)
			delete(leases, id)
		}
	}
	for _, r := range leases {
		snap.Leases = append(snap.Leases, *r)
	}
	slices.SortFunc(snap.Leases, func(a, b Record) int { return cmp.Compare(a.Token, b.Token) })
	return snap, nil
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
	version, _, _ := strings.Cut(state, " ")
	if n, err := strconv.ParseUint(version, 10, 31); err == nil && n > layout {
		return &Failure{Kind: ErrRejected, Detail: ErrVersion, Err: fmt.Errorf("layout %d", n)}
	}
	c := cursor{rest: state}
	s.State = c.state()
	if c.bad || c.rest != "" {
		return corrupt("state", state)
	}
	return nil
}

// collect files one member of the zset: a place in the queue, or a deadline
// with its record. Free slots and tombstones are of no interest.
func collect(member, score, record string, leases map[string]*Record, queue *[]string) error {
	at, err := strconv.ParseFloat(score, 64)
	switch {
	case err != nil:
		return corrupt("score of "+member, score)
	case at < 0:
		*queue = append(*queue, strings.TrimPrefix(member, "q"))
		return nil
	case at < deadlines || record == "" || strings.HasPrefix(record, "x "):
		return nil
	}
	r, ok := parseRecord(record)
	if !ok {
		return corrupt("record", record)
	}
	r.ID, r.Expires = member, int64(at)
	leases[member] = r
	return nil
}

// parseRecord reads a lease or a waiter:
//
//	h weight slot token ceiling ttl owner label
//	w weight 0 ticket maxhold ttl owner label
func parseRecord(s string) (*Record, bool) {
	kind, rest, _ := strings.Cut(s, " ")
	c := cursor{rest: rest}
	r := &Record{Weight: c.int(), Slot: c.int(), Token: c.next(), Ceiling: c.next(), TTL: c.duration(), Evicting: kind == "e"}
	owner, label, ok := strings.Cut(c.rest, " ")
	r.Label, r.Since = label, r.Token/1000
	pid, host, _ := strings.Cut(strings.TrimPrefix(owner, ":"), "/")
	r.PID, _ = strconv.Atoi(pid)
	r.Host, r.Client, _ = strings.Cut(host, ";")
	switch kind {
	case "h", "e":
	case "w":
		r.Token, r.Slot, r.Ceiling = 0, 0, 0
	default:
		return nil, false
	}
	return r, ok && !c.bad && host != ""
}

// Names lists the semaphores that have keys, in no order, by SCAN.
func (s *Store) Names(ctx context.Context) ([]string, error) {
	if c, ok := s.rdb.(*redis.ClusterClient); ok {
		return s.clusterNames(ctx, c)
	}
	return s.scan(ctx, s.rdb)
}

func (s *Store) scan(ctx context.Context, node redis.Cmdable) ([]string, error) {
	var names []string
	iter := node.Scan(ctx, 0, s.prefix+":{*}", 500).Iterator()
	for iter.Next(ctx) {
		if name, ok := s.Name(iter.Val()); ok {
			names = append(names, name)
		}
	}
	if err := iter.Err(); err != nil {
		return nil, classify(err)
	}
	slices.Sort(names)
	return slices.Compact(names), nil // SCAN may return a key twice
}

func (s *Store) clusterNames(ctx context.Context, c *redis.ClusterClient) ([]string, error) {
	found := make(chan []string)
	var names []string
	done := make(chan struct{})
	go func() {
		defer close(done)
		for part := range found {
			names = append(names, part...)
		}
	}()
	err := c.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
		part, err := s.scan(ctx, node)
		found <- part
		return err
	})
	close(found)
	<-done
	if err != nil {
		return nil, classify(err)
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}
