package protocol

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth/internal/testkit/redistest"
)

// A slot of a cluster that is open, as a reshard leaves it that was interrupted: one node
// is MIGRATING it, the other IMPORTING, some keys have moved and others have not. What
// needs one key works; what needs two works while they are on one node; anything else is
// refused, for asking again may help, and changes nothing, so that the keys that are left
// can be moved.

// resharded is a cluster of two nodes.
type resharded struct {
	*redistest.Cluster
	client *redis.ClusterClient
	store  *Store
	names  int
}

// inSlot is one semaphore, whose slot is open.
type inSlot struct {
	*resharded
	*testing.T
	key      Key
	slot     int
	from, to int
}

func newResharded(t *testing.T) *resharded {
	t.Helper()
	c := &resharded{Cluster: redistest.StartMasters(t, 2)}
	c.client = c.Client(t, func(o *redis.ClusterOptions) { o.MaxRedirects = 3 })
	c.store = NewStore(c.client, "berth", "s0", 1, "host")
	return c
}

// on returns a semaphore of its own, after some calls; then its slot is opened.
func (c *resharded) on(t *testing.T, calls ...[]Op) *inSlot {
	t.Helper()
	c.names++
	s := &inSlot{resharded: c, T: t, key: c.store.Key(fmt.Sprint("name", c.names))}
	for _, ops := range calls {
		s.ok(ops...)
	}
	s.slot = c.Slot(t, s.key.State)
	s.to = 1 - c.Owner(t, s.slot)
	s.from = c.OpenSlot(t, s.slot, s.to)
	return s
}

// ok makes a call that must not be refused, and returns the codes of its results.
func (s *inSlot) ok(ops ...Op) (codes []Code) {
	s.Helper()
	if _, err := s.store.Do(context.Background(), s.key, 0, ops); err != nil {
		s.Fatalf("%s: %v", opsString(ops), err)
	}
	for _, r := range resultsOf(ops) {
		codes = append(codes, r.Code)
	}
	return codes
}

// want makes a call, and wants these codes.
func (s *inSlot) want(ops []Op, codes ...Code) {
	s.Helper()
	if got := s.ok(ops...); !reflect.DeepEqual(got, codes) {
		s.Fatalf("%s: codes %v, want %v", opsString(ops), got, codes)
	}
}

// refused makes every call that there is, but those that may pass, and wants each to be
// refused and to change nothing.
func (s *inSlot) refused(but ...string) {
	s.Helper()
	all := probes()
	for _, name := range but {
		delete(all, name)
	}
	all["nothing"] = Op{}
	before := s.stored()
	for name, op := range all {
		ops := []Op{op}
		if name == "nothing" {
			ops = nil
		}
		_, err := s.store.Do(context.Background(), s.key, 0, ops)
		if !errors.Is(err, ErrRefused) {
			s.Errorf("%s: %v, %+v", name, err, resultsOf(ops))
		}
		if after := s.stored(); !maps.Equal(after, before) {
			s.Fatalf("%s: changed\n%q\nto\n%q", name, before, after)
		}
	}
}

// unseen wants a look to be refused, too, and not to tell of damage alone.
func (s *inSlot) unseen() {
	s.Helper()
	for _, records := range []bool{true, false} {
		seen, err := Inspect(context.Background(), s.store, s.key, records)
		if !errors.Is(err, ErrRefused) || errors.Is(err, ErrCorrupt) && !strings.Contains(err.Error(), "while their slot moves") {
			s.Errorf("a look: %+v, %v", seen, err)
		}
	}
}

// stored is what the nodes have of the semaphore.
func (s *inSlot) stored() map[string]string {
	s.Helper()
	out := map[string]string{}
	for i, node := range s.Nodes {
		for _, key := range s.keys(i) {
			ctx, pipe := context.Background(), node.Client(s.T).Pipeline()
			pipe.Do(ctx, "ASKING")
			fields := pipe.HGetAll(ctx, key)
			pipe.Do(ctx, "ASKING")
			scores := pipe.ZRangeWithScores(ctx, key, 0, -1)
			_, _ = pipe.Exec(ctx) // an error says that the key is of the other type
			out[fmt.Sprint(i, " ", key)] = fmt.Sprint(fields.Val(), scores.Val())
		}
	}
	return out
}

// keys are those of the semaphore that a node has.
func (s *inSlot) keys(node int) (keys []string) {
	s.Helper()
	for _, key := range s.Nodes[node].Do(s.T, "CLUSTER", "GETKEYSINSLOT", s.slot, 100).([]any) {
		keys = append(keys, key.(string))
	}
	return keys
}

// move moves keys; that nothing is in their way is part of each test.
func (s *inSlot) move(keys ...string) {
	s.Helper()
	var args []any
	for _, key := range keys {
		args = append(args, key)
	}
	s.MoveKeys(s.T, s.from, s.to, args...)
}

// finish moves what is left, and closes the slot.
func (s *inSlot) finish() {
	s.Helper()
	if keys := s.keys(s.from); len(keys) > 0 {
		s.move(keys...)
	}
	s.CloseSlot(s.T, s.slot, s.to)
}

// forAnHour are terms under which nothing runs out before a slow machine has come to it.
func forAnHour(t *Terms) { t.TTL, t.Heartbeat = time.Hour, time.Hour }

func held() [][]Op { return [][]Op{ask(0, 2, 1, forAnHour)} }

// onReplicas makes a call wait for a replica, of which there is none.
func onReplicas(ops []Op) []Op {
	ops[0].Replicas = 1
	return ops
}

func crowded() [][]Op {
	wants := func(id int) []Op { return ask(id, 2, 1, forAnHour) }
	return [][]Op{append(wants(0), wants(1)...), append(wants(2), wants(3)...)}
}

// open is a semaphore in an open slot: the calls before it was opened, and what is tried then.
type open struct {
	before [][]Op
	then   func(s *inSlot)
}

// inOpenSlot runs the tests one after the other; each ends with the slot closed, and all well.
func inOpenSlot(t *testing.T, tests map[string]open) {
	c := newResharded(t)
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := c.on(t, test.before...)
			test.then(s)
			s.finish()
			s.endsWell()
		})
	}
}

func TestOpenSlot(t *testing.T) {
	t.Parallel()
	tries := func(t *Terms) { t.Wait = false }
	inOpenSlot(t, map[string]open{
		"a lease is renewed and released": {held(), func(s *inSlot) {
			s.want(renew(0), Renewed)
			s.want(renew(0), Renewed)
			s.want(back(0), Released)
			s.want(ask(1, 2, 1), Granted)
		}},
		"a lease has moved": {held(), func(s *inSlot) {
			s.move(s.key.State)
			s.want(renew(0), Renewed)
			s.want(ask(1, 2, 1), Granted)
			s.want(ask(2, 2, 1), Queued)
			s.want(back(0), Released)
			s.want(beat(2), Granted)
		}},
		"a lease has moved that replicas must have": {held(), func(s *inSlot) {
			s.move(s.key.State)
			s.Nodes[s.to].Do(s.T, "SCRIPT", "FLUSH") // its text has to follow where the hash went
			s.want(onReplicas(renew(0)), Renewed)
			s.want(onReplicas(ask(1, 2, 1)), Granted)
		}},
		"another one would need a second key": {held(), func(s *inSlot) {
			s.refused("renew", "release", "acquire again")
			s.want(renew(0), Renewed)
			s.finish()
			s.want(ask(1, 2, 1, tries), Granted)
			s.want(ask(2, 2, 1, tries), Busy)
		}},
		"an idle semaphore": {nil, func(s *inSlot) {
			s.want(ask(0, 1, 1), Granted)
			s.want(renew(0), Renewed)
			s.want(ask(1, 1, 1), Queued)
			s.want(back(0), Released)
			s.want(beat(1), Granted)
			s.want(back(1), Released)
			s.want(ask(2, 1, 1), Granted)
			s.want(back(2), Released)
		}},
		"both keys stay": {crowded(), func(s *inSlot) {
			s.want(renew(0), Renewed)
			s.want(back(0), Released)
			s.want(beat(2), Granted)
			s.want(append(back(1), back(2)...), Released, Released)
			s.want(beat(3), Granted)
			s.want(ask(0, 2, 1), Granted)
		}},
		"both keys have moved": {crowded(), func(s *inSlot) {
			s.move(s.key.State, s.key.Order())
			s.want(back(0), Released)
			s.want(beat(2), Granted)
			s.want(ask(0, 2, 1), Queued)
		}},
	})
}

func TestHalfMovedInAnOpenSlot(t *testing.T) {
	t.Parallel()
	inOpenSlot(t, map[string]open{
		"the hash has moved": {crowded(), func(s *inSlot) {
			s.move(s.key.State)
			s.refused()
			s.unseen()
			s.move(s.key.Order())
			s.want(back(0), Released)
			s.want(beat(2), Granted)
		}},
		"the sorted set has moved": {crowded(), func(s *inSlot) {
			s.move(s.key.Order())
			s.refused()
			s.unseen()
			s.move(s.key.State)
			s.want(back(0), Released)
			s.want(beat(2), Granted)
		}},
		"the hash has moved, and all leases have run out": {crowded(), func(s *inSlot) {
			s.runOut()
			s.move(s.key.State)
			s.refused()
			s.move(s.key.Order())
			s.want(ask(1, 2, 1), Granted)
		}},
		"the sorted set has moved, and all leases have run out": {crowded(), func(s *inSlot) {
			s.runOut()
			s.move(s.key.Order())
			s.refused()
		}},
	})
}

func TestDeleteInAnOpenSlot(t *testing.T) {
	t.Parallel()
	inOpenSlot(t, map[string]open{
		"deleted while the hash has moved": {crowded(), func(s *inSlot) {
			s.move(s.key.State)
			s.deleted()
		}},
		"deleted while the sorted set has moved": {crowded(), func(s *inSlot) {
			s.move(s.key.Order())
			s.deleted()
		}},
		"deleted, with a lease alone": {held(), (*inSlot).deleted},
	})
}

// deleted deletes the semaphore, wherever its keys are.
func (s *inSlot) deleted() {
	s.Helper()
	if there, err := Delete(context.Background(), s.store, s.key); err != nil || !there {
		s.Errorf("Delete: %v, %v", there, err)
	}
	if left := s.stored(); len(left) > 0 {
		s.Errorf("left: %q", left)
	}
}

// runOut has the hash say that all deadlines have passed. It has not moved yet.
func (s *inSlot) runOut() {
	s.Helper()
	rig := &rig{rdb: s.Nodes[s.from].Client(s.T), key: s.key}
	field(nil, 12, time.Now().Add(-time.Hour).UnixMilli()).do(s.T, rig)
}

// endsWell checks that after all this the limit is kept, and that nobody waits in vain.
func (s *inSlot) endsWell() {
	s.Helper()
	s.ok(Op{Verb: Resize, N: 2})
	for _, id := range cast {
		s.ok(Op{Verb: Release, ID: id})
	}
	s.want(append(ask(0, 2, 1), append(ask(1, 2, 1), ask(2, 2, 1)...)...), Granted, Granted, Queued)
	s.want(back(0), Released)
	s.want(beat(2), Granted)
	s.want(append(back(1), back(2)...), Released, Released)
	if left := s.stored(); len(left) > 0 {
		s.Errorf("left: %q", left)
	}
}
