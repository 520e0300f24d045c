package testenv

import (
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/berthadmin"
)

// Listed returns all that a list yields, its errors joined.
func Listed(list iter.Seq2[berthadmin.Summary, error]) (all []berthadmin.Summary, err error) {
	for s, one := range list {
		if one == nil {
			all = append(all, s)
		}
		err = errors.Join(err, one)
	}
	return all, err
}

// Show returns what the server has of the semaphore: an empty State if it is idle.
func (e *Env) Show() *berthadmin.State {
	e.Helper()
	st, err := e.Inspector.Show(e.Ctx, Name)
	if errors.Is(err, berthadmin.ErrNotFound) {
		return &berthadmin.State{}
	}
	e.Must(err)
	return st
}

// Until asks the server again and again, for what announces itself to nobody.
func (e *Env) Until(what string, ok func(*berthadmin.State) bool) {
	e.Helper()
	for !ok(e.Show()) {
		select {
		case <-time.After(e.Tick()):
		case <-e.Ctx.Done():
			e.Fatalf("never: %s; the state is %+v", what, e.Show())
		}
	}
}

// UntilWaiting waits until n requests are in the queue of the server.
func (e *Env) UntilWaiting(n int) {
	e.Helper()
	e.Until(fmt.Sprint(n, " waiting"), func(s *berthadmin.State) bool { return s.Waiting == n })
}

// Holds fails unless exactly these leases are out, by token.
func (e *Env) Holds(want ...*berth.Lease) {
	e.Helper()
	st := e.Show()
	var got, ids []string
	for _, h := range st.Leases {
		got = append(got, h.ID)
	}
	for _, l := range want {
		ids = append(ids, l.ID())
	}
	if strings.Join(got, " ") != strings.Join(ids, " ") {
		e.Errorf("leases out: %v, want %v", got, ids)
	}
}

// Idle fails unless nobody holds or waits.
func (e *Env) Idle() {
	e.Helper()
	if st := e.Show(); st.Holders+st.Waiting+st.InUse > 0 {
		e.Errorf("not idle: %+v", st)
	}
}

// Keys returns everything that the store has under the prefix, key by key.
func (e *Env) Keys() map[string]string {
	e.Helper()
	all := map[string]string{}
	iter := e.Redis.Scan(e.Ctx, 0, e.Prefix+"*", 1000).Iterator()
	for iter.Next(e.Ctx) {
		key := iter.Val()
		all[key] = e.value(key)
	}
	e.Must(iter.Err())
	return all
}

func (e *Env) value(key string) string {
	kind := e.Redis.Type(e.Ctx, key).Val()
	switch kind {
	case "hash":
		return fmt.Sprint(kind, e.Redis.HGetAll(e.Ctx, key).Val())
	case "zset":
		return fmt.Sprint(kind, e.Redis.ZRangeWithScores(e.Ctx, key, 0, -1).Val())
	case "list":
		return fmt.Sprint(kind, e.Redis.LRange(e.Ctx, key, 0, -1).Val())
	case "set":
		return fmt.Sprint(kind, e.Redis.SMembers(e.Ctx, key).Val())
	default:
		return kind + e.Redis.Get(e.Ctx, key).Val()
	}
}

// UntilNoKeys fails if the store has keys under the prefix for longer than most. Where a real
// machine had requests repeated, tombstones stay for a minute more.
func (e *Env) UntilNoKeys(most time.Duration) {
	e.Helper()
	start := time.Now()
	if !e.Exact {
		most += 2 * time.Minute
	}
	for len(e.Keys()) > 0 {
		if time.Since(start) > most+e.Slack() {
			e.Fatalf("left behind: %v", e.Keys())
		}
		e.Pass(10 * time.Millisecond)
	}
}

// Unchanged fails if the store is not as it was.
func (e *Env) Unchanged(before map[string]string) {
	e.Helper()
	after := e.Keys()
	for key, value := range after {
		if before[key] != value {
			e.Errorf("%s has changed: %s, was %q", key, value, before[key])
		}
	}
	if len(after) != len(before) {
		e.Errorf("keys %v, were %v", after, before)
	}
}

// NothingLeft waits until nobody holds or waits, and checks that nothing is left of
// that: the whole limit can be taken, with a token above the given one, and the keys go.
func (e *Env) NothingLeft(limit int, above int64) {
	e.Helper()
	start := time.Now()
	e.Until("nothing held, nobody waiting", func(s *berthadmin.State) bool { return s.Holders+s.Waiting+s.InUse == 0 })
	if took := time.Since(start); took > 20*time.Second && e.Exact {
		e.Errorf("given back after %v: it may have run out", took)
	}
	s, err := e.Client(e.Redis).Semaphore(Name, limit, berth.TTL(e.TTL))
	e.Must(err)
	all := e.Hold(s, berth.Weight(limit))
	if all.Token() <= above || all.Slot() != 0 {
		e.Errorf("token %d after %d, slot %d", all.Token(), above, all.Slot())
	}
	e.Release(all)
	if e.Exact {
		e.Pass(2 * time.Minute) // tombstones and idle keys run out
		e.Show()
		if keys := e.Embedded.Keys(); len(keys) > 0 {
			e.Errorf("keys left over: %q", keys)
		}
		return
	}
	for _, key := range []string{e.Prefix + ":{s}", e.Prefix + ":{s}:order"} {
		// Tombstones may keep them for a minute, and another: -2 is gone, -1 would be for ever.
		most := 2 * time.Minute
		if left := e.Server.Do(e, "PTTL", key).(int64); left == -1 || left > most.Milliseconds() {
			e.Errorf("key %s goes in %d ms", key, left)
		}
	}
}
