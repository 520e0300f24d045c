package protocol

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/berth-go/berth/internal/testkit/redistest"
)

// Halves: one of a semaphore's two keys was lost, as eviction or a careless DEL loses it.
// What is left tells until when leases may live. Until then every call is refused; after
// that the rest is removed, and life goes on. In no case are there more than the limit.

// losses are the ways to lose one of the keys, for a clock that is set by hand.
func losses() map[string]damage {
	return map[string]damage{
		"hash, DEL": command(nil, "DEL", "STATE"), "set, DEL": command(nil, "DEL", "ORDER"),
		"hash, expired": vanish("STATE"), "set, expired": vanish("ORDER"),
		"hash, UNLINK": command(nil, "UNLINK", "STATE"), "set, all its members": command(nil, "ZREMRANGEBYRANK", "ORDER", 0, -1),
	}
}

// ends is the time at which a half heals: with the hash all deadlines are in the set; with
// the set, state tells a time that is after all of them.
func (r *rig) ends(t failer, set bool) (at int64) {
	t.Helper()
	d := r.dump(t)
	if set {
		return d.state(t).Till
	}
	for _, score := range d.scores {
		at = max(at, int64(score))
	}
	return at
}

// deadlineOf is the last deadline of a holder.
func deadlineOf(d dump) (at int64) {
	for _, p := range holdersOf(d) {
		at = max(at, int64(p.deadline))
	}
	return at
}

// TestHalfIsRefusedUntilItHeals: with the clock set by hand, to the millisecond.
func TestHalfIsRefusedUntilItHeals(t *testing.T) {
	t.Parallel()
	for name, lay := range map[string]setup{"furnish": furnish, "plain": plain, "buried": buried, "lone": lone, "inherits": inherits} {
		for how, loss := range losses() {
			t.Run(name+", "+how, func(t *testing.T) {
				t.Parallel()
				for _, keeps := range []bool{false, true} {
					if keeps && testing.Short() {
						continue
					}
					r := embedded(t, keeps)
					lay(t, r)
					held, heals := deadlineOf(r.dump(t)), r.ends(t, how[0] == 's')
					if heals < held {
						t.Fatalf("heals at %d, and a lease lasts until %d", heals, held)
					}
					loss.do(t, r)
					for _, at := range []int64{start.UnixMilli() + 1000, held - 1, held, heals - 1} {
						r.refused(t, at, heals)
					}
					r.heals(t, heals)
				}
			})
		}
	}
}

// refused checks that at some time no call changes anything, and all tell when it heals.
func (r *rig) refused(t *testing.T, at, heals int64) {
	t.Helper()
	if at >= heals {
		return
	}
	r.mr.SetTime(time.UnixMilli(at))
	before := r.raw(t)
	if !before.exists() {
		return // Redis removed what was left, at the time that the keys had
	}
	for name, op := range probes() {
		ops := []Op{op}
		_, err := r.stores[0].Do(t.Context(), r.key, 0, ops)
		wantKind(t, err, ErrRejected, ErrCorrupt)
		if got := healsIn(err); got != milliseconds(heals-at) {
			t.Errorf("%s at %d heals in %v, want %v", name, at, got, milliseconds(heals-at))
		}
	}
	if after := r.raw(t); fmt.Sprint(after) != fmt.Sprint(before) {
		t.Errorf("changed\n%v\nto\n%v", before, after)
	}
}

// heals checks that from some time on it is a new semaphore.
func (r *rig) heals(t *testing.T, at int64) {
	t.Helper()
	tr := &trial{rig: r, model: newModel(), heads: lookouts{}}
	r.notes(t)
	clock := time.UnixMilli(at)
	r.mr.SetTime(clock)
	if state := r.dump(t).fields["state"]; state != "" { // it has kept what was declared, and the last token
		was := r.dump(t).state(t)
		tr.model.declared, tr.model.last = was.Declared, was.Last
	}
	tr.timed(t, event{ops: each(Op{Verb: Acquire, Terms: terms(3)}, "s1.1", "s1.2", "s1.3", "s1.4")}, clock)
	for _, e := range story() {
		clock = clock.Add(e.pause)
		tr.timed(t, e, clock)
	}
}

// TestTombstonesAloneMayBeLost: a server that evicts may evict the sorted set of a semaphore
// that nobody uses, and the hash then tells that there is nothing to wait for.
func TestTombstonesAloneMayBeLost(t *testing.T) {
	t.Parallel()
	onBoth(t, false, func(t *testing.T, r *rig) {
		r.do(t, 0, Op{Verb: Acquire, ID: "s0.1", Terms: terms(1)})
		r.do(t, 0, Op{Verb: Release, ID: "s0.1", Flag: true})
		if d := r.dump(t); d.state(t).Others != 1 || len(d.scores) == 0 {
			t.Fatalf("no tombstone: %v", d)
		}
		if err := r.rdb.Del(t.Context(), r.key.Order()).Err(); err != nil {
			t.Fatal(err)
		}
		if _, err := Inspect(t.Context(), r.stores[0], r.key, true); err != nil {
			t.Error(err)
		}
		_, got := r.do(t, 0, Op{Verb: Acquire, ID: "s0.2", Terms: terms(1)})
		wantCodes(t, got, Granted)
	})
}

// TestHalfOfAPausedSemaphore: what operators have set outlives the loss of the set, and so
// does the last token, for a clock that goes back.
func TestHalfOfAPausedSemaphore(t *testing.T) {
	t.Parallel()
	for _, keeps := range []bool{false, true} {
		r := embedded(t, keeps)
		plain(t, r)
		r.do(t, 0, Op{Verb: Pin, N: 5}, Op{Verb: Pause, Flag: true}, Op{Verb: Resize, N: 4})
		was := r.dump(t).state(t)
		command(nil, "DEL", "ORDER").do(t, r)
		r.mr.SetTime(time.UnixMilli(was.Till))
		reply, _ := r.do(t, 0)
		if s := reply.State; s.Pin != 5 || !s.Paused || s.Declared != 4 || s.Changes != was.Changes || s.Used != 0 || s.Holders != 0 || s.Last != was.Last {
			t.Errorf("was %+v\nand is %+v", was, s)
		}
		if d := r.raw(t); len(d.fields) != 1 || len(d.scores) != 0 || r.mr.TTL(r.key.State) != 0 {
			t.Errorf("left, with a TTL of %v:\n%v", r.mr.TTL(r.key.State), d)
		}
		acquire := Op{Verb: Acquire, ID: "s1.1", Terms: terms(3, func(t *Terms) { t.Wait = false })}
		wantCodes(t, []Result{r.one(t, acquire)}, Busy)
		r.mr.SetTime(start.Add(-time.Hour))
		r.do(t, 0, Op{Verb: Pin, N: -1}, Op{Verb: Pause})
		if got := r.one(t, acquire); got.Code != Granted || got.Token <= was.Last {
			t.Errorf("after token %d: %+v", was.Last, got)
		}
	}
}

// TestHalfOfAPausedSemaphoreAndAUserWithoutRights: the pause is not lost when the call that
// healed cannot go on.
func TestHalfOfAPausedSemaphoreAndAUserWithoutRights(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	r := newRig(t, server.Client(t, redistest.Patient), nil, server.Prefix(t), false)
	weak := NewStore(without(t, server, "-zadd"), r.prefix, "s0", 100, "host")
	plain(t, r)
	r.do(t, 0, Op{Verb: Pause, Flag: true})
	field(nil, 12, 1).do(t, r) // till
	command(nil, "DEL", "ORDER").do(t, r)
	if _, err := weak.Do(t.Context(), r.key, 0, each(Op{Verb: Acquire, Terms: terms(3)}, "s0.9")); err == nil {
		t.Fatal("passed without ZADD")
	}
	if s := r.dump(t).state(t); !s.Paused || s.Used != 0 {
		t.Errorf("left: %+v", s)
	}
}

// TestHalfOfACompactLease: its one key is the whole; where there is a set beside it, that
// is not a half of it.
func TestHalfOfACompactLease(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, r *rig) {
		compact(t, r)
		r.rdb.Del(t.Context(), r.key.State)
		if got := r.one(t, Op{Verb: Acquire, ID: "s1.1", Terms: terms(1)}); got.Code != Granted {
			t.Errorf("nothing is left, and %+v", got)
		}
	})
}

// TestHalfHealsOnAServer: with leases that run out while the test waits, by the server's
// own time. State tells a time that is a minute too late: the test moves it.
func TestHalfHealsOnAServer(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	for _, keeps := range []bool{false, true} {
		for _, key := range []string{"STATE", "ORDER"} {
			t.Run(fmt.Sprintf("%s,keeps=%v", key, keeps), func(t *testing.T) {
				t.Parallel()
				r := newRig(t, server.Client(t, redistest.Patient), nil, server.Prefix(t), keeps)
				short := terms(2, func(t *Terms) { t.TTL = 200 * time.Millisecond })
				_, got := r.do(t, 0, each(Op{Verb: Acquire, Terms: short}, ids(2)...)...)
				wantCodes(t, got, Granted, Granted)
				held := deadlineOf(r.dump(t))
				field(nil, 12, held).do(t, r) // till
				command(nil, "DEL", key).do(t, r)
				r.persist(t)
				healed := r.awaitHealing(t, held)
				if healed < held {
					t.Errorf("healed at %d, the leases lasted until %d", healed, held)
				}
				_, got = r.do(t, 1, each(Op{Verb: Acquire, Terms: terms(2)}, "s1.2", "s1.3")...)
				wantCodes(t, got, Granted, Queued)
				if s := r.dump(t).state(t); s.Used != 2 || s.Waiting != 1 {
					t.Errorf("healed: %+v", s)
				}
			})
		}
	}
}

// persist takes the TTL of what is left away: Redis itself would remove it in time.
func (r *rig) persist(t failer) {
	t.Helper()
	for _, key := range []string{r.key.State, r.key.Order()} {
		if err := r.rdb.Persist(context.Background(), key).Err(); err != nil {
			t.Fatalf("%v", err)
		}
	}
}

// awaitHealing acquires until that is not refused, and returns the server's time then. In
// between it blocks on a list of nobody, on the server, for as long as the refusal says.
func (r *rig) awaitHealing(t failer, held int64) int64 {
	t.Helper()
	ctx := context.Background()
	for range 100 {
		ops := []Op{{Verb: Acquire, ID: "s1.1", Terms: terms(2)}}
		reply, err := r.stores[1].Do(ctx, r.key, 0, ops)
		if err == nil {
			wantCodes(t, resultsOf(ops), Granted)
			return reply.Now
		}
		wantKind(t, err, ErrRejected, ErrCorrupt)
		heals := healsIn(err)
		if heals <= 0 || heals > 200*time.Millisecond {
			t.Fatalf("heals in %v: %v", heals, err)
		}
		r.rdb.Do(ctx, "BLPOP", r.prefix+":nobody", fmt.Sprintf("%.3f", heals.Seconds()))
	}
	t.Fatalf("does not heal, at %v; the leases lasted until %d", r.rdb.Time(ctx).Val().UnixMilli(), held)
	return 0
}

// TestLossDuringALife: whatever is lost and whenever, never more than the limit hold, and
// life goes on.
func TestLossDuringALife(t *testing.T) {
	t.Parallel()
	for how, loss := range losses() {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			r := embedded(t, false)
			for before := range 6 {
				if granted := r.live(t, loss, before); granted < 4 {
					t.Errorf("lost before call %d: only %d were granted in all", before, granted)
				}
			}
		})
	}
}

// live has newcomers try twice every seven seconds, for some minutes, and a key lost
// before one of these calls. It returns how many were granted.
func (r *rig) live(t *testing.T, loss damage, before int) int {
	t.Helper()
	r.reset(t)
	clock, until := start, map[string]time.Time{}
	r.mr.SetTime(clock)
	try := Op{Verb: Acquire, Terms: terms(3, func(t *Terms) { t.Wait = false })}
	for i := range 20 {
		if i == before && !r.isCompact(t) {
			loss.do(t, r)
		}
		clock = clock.Add(7 * time.Second)
		r.mr.SetTime(clock)
		ops := each(try, fmt.Sprint("s0.", 2*i), fmt.Sprint("s0.", 2*i+1))
		if _, err := r.stores[0].Do(t.Context(), r.key, 0, ops); err != nil {
			wantKind(t, err, ErrRejected, ErrCorrupt)
		}
		live := 0
		for _, op := range ops {
			if op.Result.Code == Granted {
				until[op.ID] = clock.Add(op.Result.Remaining)
			}
		}
		for _, end := range until {
			if clock.Before(end) {
				live++
			}
		}
		if live > 3 {
			t.Fatalf("lost before call %d: %d hold at call %d", before, live, i)
		}
	}
	return len(until)
}
