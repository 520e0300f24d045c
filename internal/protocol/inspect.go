package protocol

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// page is how many members one call of inspect.lua reads.
const page = 500

// Snapshot is the state of one semaphore. Records come in pages: of more than a
// few hundred holders and waiters it is not a single moment's picture.
type Snapshot struct {
	Exists   bool
	Now      int64 // server time, ms
	Declared int
	Pin      int // -1: none
	Paused   bool
	Changes  int // declarations that changed the limit
	Used     int
	Holders  int
	Waiting  int
	Tombs    int
	Last     int64 // the last token or ticket
	Next     int64 // server time at which something may run out; 0: never
	Leases   []Record
	Queue    []Record // in order
}

// Limit returns the limit in force.
func (s *Snapshot) Limit() int {
	if s.Pin >= 0 {
		return s.Pin
	}
	return s.Declared
}

// Record is one lease, or one waiter.
type Record struct {
	ID       string
	Weight   int
	Slot     int   // lease
	Token    int64 // lease
	Since    int64 // ms: granted, or queued
	Expires  int64 // ms
	Evicting bool
	PID      int
	Host     string
	Label    string
}

// Inspect reads a semaphore without changing it; with its holders and waiters if
// records. A semaphore that does not exist is a Snapshot without Exists.
func (s *Store) Inspect(ctx context.Context, k Keys, records bool) (*Snapshot, error) {
	snap := &Snapshot{}
	leases := map[string]*Record{}
	var queue []string
	for from, count := 0, 0; ; from += page {
		if records {
			count = page
		}
		fields, err := s.look.run(ctx, s.rdb, []any{"evalsha", s.look.sha, 2, k.State, k.Order, from, count})
		if err != nil {
			return nil, err
		}
		if from == 0 {
			fields = expand(fields, records)
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
	slices.SortFunc(snap.Leases, func(a, b Record) int { return int(a.Token - b.Token) })
	return snap, nil
}

func corrupt(what, value string) error {
	return &Failure{Kind: ErrRejected, Detail: ErrCorrupt, Err: fmt.Errorf("%s %.80q", what, value)}
}

func garbled() error {
	return &Failure{Kind: ErrUnknown, Err: errors.New("unexpected reply")}
}

// texts returns the fields behind the first three.
func texts(fields []any) ([]string, error) {
	var out []string
	for _, f := range fields[min(3, len(fields)):] {
		s, ok := f.(string)
		if !ok {
			return nil, garbled()
		}
		out = append(out, s)
	}
	return out, nil
}

func (s *Snapshot) readState(fields []any) error {
	if len(fields) < 3 {
		return garbled()
	}
	now, isNumber := fields[0].(int64)
	settings, isText := fields[1].(string)
	counts, isTextToo := fields[2].(string)
	if !isNumber || !isText || !isTextToo {
		return garbled()
	}
	s.Now = now
	if settings == "" && counts == "" {
		return nil
	}
	s.Exists = true
	layout, _, _ := strings.Cut(settings, " ")
	if n, err := strconv.ParseUint(layout, 10, 31); err == nil && n > 1 {
		return &Failure{Kind: ErrRejected, Detail: ErrVersion, Err: fmt.Errorf("layout %d", n)}
	}
	v, ok := numbers(settings, 5)
	if !ok || v[0] != 1 {
		return corrupt("settings", settings)
	}
	s.Declared, s.Pin, s.Paused, s.Changes = int(v[1]), int(v[2]), v[3] == 1, int(v[4])
	v, ok = numbers(counts, 8)
	if !ok {
		return corrupt("counts", counts)
	}
	s.Used, s.Holders, s.Waiting, s.Tombs = int(v[0]), int(v[1]), int(v[2]), int(v[3])
	s.Last, s.Next = v[5], v[6]
	return nil
}

// numbers reads exactly n decimal numbers parted by single spaces.
func numbers(s string, n int) ([]int64, bool) {
	parts := strings.Split(s, " ")
	if len(parts) != n {
		return nil, false
	}
	out := make([]int64, n)
	for i, p := range parts {
		v, err := strconv.ParseInt(p, 10, 64)
		if err != nil || v < -1 {
			return nil, false
		}
		out[i] = v
	}
	return out, true
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
	case at < band || record == "" || strings.HasPrefix(record, "x "):
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

// parseRecord reads what transition writes:
//
//	h weight slot token ceiling evicting owner label
//	w weight since maxhold owner label
func parseRecord(s string) (*Record, bool) {
	kind, rest, _ := strings.Cut(s, " ")
	count := map[string]int{"h": 5, "w": 3}[kind]
	parts := strings.SplitN(rest, " ", count+2)
	if count == 0 || len(parts) != count+2 {
		return nil, false
	}
	v, ok := numbers(strings.Join(parts[:count], " "), count)
	owner := strings.Split(parts[count], "/")
	if !ok || len(owner) < 3 {
		return nil, false
	}
	r := &Record{Weight: int(v[0]), Label: parts[count+1], Host: owner[len(owner)-1]}
	r.PID, _ = strconv.Atoi(owner[len(owner)-2])
	if kind == "h" {
		r.Slot, r.Token, r.Since, r.Evicting = int(v[1]), v[2], v[2]/1000, v[4] == 1
	} else {
		r.Since = v[1]
	}
	return r, true
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

// Delete removes a semaphore's keys. It reports whether there were any.
func (s *Store) Delete(ctx context.Context, k Keys) (bool, error) {
	n, err := s.rdb.Del(ctx, k.State, k.Order).Result()
	if err != nil {
		return false, classify(err)
	}
	return n > 0, nil
}
