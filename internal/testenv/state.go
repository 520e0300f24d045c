package testenv

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/berth-go/berth"
)

// Listed returns all that List yields, its errors joined.
func Listed(in *berth.Inspector, ctx context.Context) (all []berth.Summary, err error) { //nolint:revive // reads like the call
	for s, one := range in.List(ctx) {
		if one == nil {
			all = append(all, s)
		}
		err = errors.Join(err, one)
	}
	return all, err
}

// Show returns what the server has of the semaphore: an empty State if it is idle.
func (e *Env) Show() *berth.State {
	e.T.Helper()
	st, err := e.Eye.Show(e.Ctx, Name)
	if errors.Is(err, berth.ErrNotFound) {
		return &berth.State{}
	}
	e.Must(err)
	return st
}

// Until asks the server again and again, for what announces itself to nobody.
func (e *Env) Until(what string, ok func(*berth.State) bool) {
	e.T.Helper()
	for !ok(e.Show()) {
		select {
		case <-time.After(e.Tick()):
		case <-e.Ctx.Done():
			e.T.Fatalf("never: %s; the state is %+v", what, e.Show())
		}
	}
}

// UntilWaiting waits until n requests are in the queue of the server.
func (e *Env) UntilWaiting(n int) {
	e.T.Helper()
	e.Until(fmt.Sprint(n, " waiting"), func(s *berth.State) bool { return s.Waiting == n })
}

// Holds fails unless exactly these leases are out, by token.
func (e *Env) Holds(want ...*berth.Lease) {
	e.T.Helper()
	st := e.Show()
	var got, ids []string
	for _, h := range st.Leases {
		got = append(got, h.ID)
	}
	for _, l := range want {
		ids = append(ids, l.ID())
	}
	if strings.Join(got, " ") != strings.Join(ids, " ") {
		e.T.Errorf("leases out: %v, want %v", got, ids)
	}
}

// Idle fails unless nobody holds or waits.
func (e *Env) Idle() {
	e.T.Helper()
	if st := e.Show(); st.Holders+st.Waiting+st.InUse > 0 {
		e.T.Errorf("not idle: %+v", st)
	}
}

// Keys returns everything that the store has under the prefix, key by key.
func (e *Env) Keys() map[string]string {
	e.T.Helper()
	all := map[string]string{}
	iter := e.Raw.Scan(e.Ctx, 0, e.Prefix+"*", 1000).Iterator()
	for iter.Next(e.Ctx) {
		key := iter.Val()
		all[key] = e.value(key)
	}
	e.Must(iter.Err())
	return all
}

func (e *Env) value(key string) string {
	kind := e.Raw.Type(e.Ctx, key).Val()
	switch kind {
	case "hash":
		return fmt.Sprint(kind, e.Raw.HGetAll(e.Ctx, key).Val())
	case "zset":
		return fmt.Sprint(kind, e.Raw.ZRangeWithScores(e.Ctx, key, 0, -1).Val())
	case "list":
		return fmt.Sprint(kind, e.Raw.LRange(e.Ctx, key, 0, -1).Val())
	case "set":
		return fmt.Sprint(kind, e.Raw.SMembers(e.Ctx, key).Val())
	default:
		return kind + e.Raw.Get(e.Ctx, key).Val()
	}
}

// UntilNoKeys fails if the store has keys under the prefix for longer than most.
func (e *Env) UntilNoKeys(most time.Duration) {
	e.T.Helper()
	start := time.Now()
	for len(e.Keys()) > 0 {
		if time.Since(start) > most+e.Slack() {
			e.T.Fatalf("left behind: %v", e.Keys())
		}
		e.Pass(10 * time.Millisecond)
	}
}

// Unchanged fails if the store is not as it was.
func (e *Env) Unchanged(before map[string]string) {
	e.T.Helper()
	after := e.Keys()
	for key, value := range after {
		if before[key] != value {
			e.T.Errorf("%s has changed: %s, was %q", key, value, before[key])
		}
	}
	if len(after) != len(before) {
		e.T.Errorf("keys %v, were %v", after, before)
	}
}
