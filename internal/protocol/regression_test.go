package protocol

import (
	"fmt"
	"testing"
	"time"
)

// Bugs that were found and fixed keep a test each; and what tests share.

// terms are those of an ordinary acquire.
func terms(limit int, change ...func(*Terms)) *Terms {
	t := &Terms{Wait: true, Weight: 1, TTL: 30 * time.Second, Heartbeat: 15 * time.Second, QueueLimit: 1 << 30, Limit: limit}
	for _, f := range change {
		f(t)
	}
	return t
}

// ids returns n ids of a process, as that would make them.
func ids(n int) []string {
	var out []string
	for i := range n {
		out = append(out, fmt.Sprintf("s0.%d", i+1))
	}
	return out
}

// each returns an operation for each of some ids.
func each(op Op, ids ...string) []Op {
	var out []Op
	for _, id := range ids {
		op.ID = id
		out = append(out, op)
	}
	return out
}

// wantCodes fails unless the results have these codes.
func wantCodes(t failer, got []Result, want ...Code) {
	t.Helper()
	var codes []Code
	for _, r := range got {
		codes = append(codes, r.Code)
	}
	if fmt.Sprint(codes) != fmt.Sprint(want) {
		t.Fatalf("codes %v, want %v: %+v", codes, want, got)
	}
}

// A renewal of many leases took an id for the limit of an acquire.
func TestRenewalsOfManyLeases(t *testing.T) {
	t.Parallel()
	onBoth(t, false, func(t *testing.T, r *rig) {
		r.do(t, 0, each(Op{Verb: Acquire, Terms: terms(100)}, ids(40)...)...)
		_, got := r.do(t, 0, each(Op{Verb: Renew, TTL: time.Minute}, ids(40)...)...)
		for _, g := range got {
			if g.Code != Renewed || g.Remaining != time.Minute {
				t.Fatalf("renewed: %+v", g)
			}
		}
		_, got = r.do(t, 0, each(Op{Verb: Heartbeat, TTL: time.Minute}, ids(40)...)...)
		for _, g := range got {
			if g.Code != Granted || g.Remaining > time.Minute {
				t.Fatalf("heartbeat of a holder: %+v", g)
			}
		}
	})
}

// A repeated acquire whose own call grants it was answered as if it still waited.
func TestRepeatMakesRoomForItself(t *testing.T) {
	t.Parallel()
	onBoth(t, false, func(t *testing.T, r *rig) {
		r.do(t, 0, each(Op{Verb: Acquire, Terms: terms(1)}, ids(2)...)...)
		_, got := r.do(t, 0, Op{Verb: Acquire, ID: "s0.2", Terms: terms(2)})
		if wantCodes(t, got, Granted); got[0].Slot != 1 {
			t.Errorf("slot %d, want 1", got[0].Slot)
		}
	})
}

// A waiter that has become too heavy is told when the limit changes, and not only once
// there is room.
func TestTooHeavyIsToldWhenTheLimitChanges(t *testing.T) {
	t.Parallel()
	heavy := func(t *Terms) { t.Weight = 2 }
	for name, change := range map[string]Op{
		"resized":  {Verb: Resize, N: 1},
		"pinned":   {Verb: Pin, N: 1},
		"declared": {Verb: Acquire, ID: "s0.9", Terms: terms(1, func(t *Terms) { t.Wait = false })},
	} {
		t.Run(name, func(t *testing.T) {
			onBoth(t, false, func(t *testing.T, r *rig) {
				r.do(t, 0, Op{Verb: Acquire, ID: "s0.1", Terms: terms(2)}, Op{Verb: Acquire, ID: "s0.2", Terms: terms(2, heavy)})
				r.notes(t)
				r.do(t, 1, change)
				if heard := r.notes(t)["s0"]; len(heard) != 1 || heard[0] != "x s0.2 4" {
					t.Errorf("heard %q", heard)
				}
				if got := r.one(t, Op{Verb: Heartbeat, ID: "s0.2", TTL: time.Minute}); got.Code != Gone || got.Reason != TooHeavy {
					t.Errorf("then %+v", got)
				}
			})
		})
	}
}

// The renewal of an id that waits was taken for a corrupt record.
func TestRenewalOfWaiter(t *testing.T) {
	t.Parallel()
	onBoth(t, false, func(t *testing.T, r *rig) {
		r.do(t, 0, each(Op{Verb: Acquire, Terms: terms(1)}, ids(2)...)...)
		wantCodes(t, []Result{r.one(t, Op{Verb: Renew, ID: "s0.2", TTL: time.Minute})}, Gone)
		wantCodes(t, []Result{r.one(t, Op{Verb: Heartbeat, ID: "s0.2", TTL: time.Minute})}, Queued)
	})
}

// The sorted set lost its TTL when the last member of it left in a call that
// put others in: it would have stayed behind for ever.
func TestOrderKeepsItsTTL(t *testing.T) {
	t.Parallel()
	onBoth(t, true, func(t *testing.T, r *rig) {
		r.do(t, 0, each(Op{Verb: Acquire, Terms: terms(2)}, "s0.1", "s0.3")...)
		r.do(t, 0, Op{Verb: Release, ID: "s0.1"}, Op{Verb: Release, ID: "s0.3"}, Op{Verb: Acquire, ID: "s0.2", Terms: terms(2)})
		if d := r.dump(t); d.lapse[0] <= 0 || d.lapse[1] <= 0 {
			t.Fatalf("TTLs %v", d.lapse)
		}
	})
}

// The model forgot the limit of a semaphore that was idle, and kept because the clock was
// not past its last token, before a call rather than after it.
func TestLimitOfAnIdleSemaphoreIsChanged(t *testing.T) {
	t.Parallel()
	tr := newTrial(t, embedded(t, false))
	tr.timed(t, event{ops: each(Op{Verb: Acquire, Terms: terms(3)}, "s0.2")}, start)
	tr.timed(t, event{ops: each(Op{Verb: Release}, "s0.2")}, start)
	tr.timed(t, event{ops: append([]Op{{Verb: Resize, N: 1}}, each(Op{Verb: Acquire, Terms: terms(3)}, "s0.1")...)}, start.Add(time.Microsecond))
}

// A hand-off of a lease with a MaxHold put off the end of the keys, and the healing of half of
// them, for as long as the lease might be held.
func TestMaxHoldDoesNotPutOffTheEndOfTheKeys(t *testing.T) {
	t.Parallel()
	onBoth(t, true, func(t *testing.T, r *rig) {
		r.do(t, 0, each(Op{Verb: Acquire, Terms: terms(1, func(t *Terms) { t.MaxHold = 24 * time.Hour })}, ids(2)...)...)
		_, got := r.do(t, 0, Op{Verb: Release, ID: "s0.1"})
		wantCodes(t, got, Released)
		if d := r.dump(t); d.state(t).Holders != 1 || d.lapse[0] > 5*time.Minute {
			t.Fatalf("%d holders, and TTLs %v of the keys", d.state(t).Holders, d.lapse)
		}
	})
}

// A release that left a tombstone as it was, although a copy of the acquire could still come
// after that: it was granted to nobody.
func TestReleaseOutlastsLateCopies(t *testing.T) {
	t.Parallel()
	for _, reason := range []Reason{Expired, Evicted, WasReleased} {
		r := embedded(t, false)
		start := time.Unix(1_790_000_000, 0)
		at := func(d time.Duration) { r.mr.SetTime(start.Add(d)) }
		acquire := Op{Verb: Acquire, ID: "s0.1", Terms: terms(1, func(t *Terms) { t.TTL, t.Heartbeat = time.Second, time.Second })}
		release := Op{Verb: Release, ID: "s0.1", Flag: true}
		at(0)
		r.do(t, 0, acquire)
		ends := Late // the tombstone does
		switch reason {
		case Evicted:
			r.do(t, 0, Op{Verb: Evict, ID: "s0.1", Flag: true})
			ends = told * time.Millisecond
		case WasReleased:
			r.do(t, 0, release)
		}
		at(2 * time.Second)
		r.do(t, 0, each(Op{Verb: Acquire, Terms: terms(1)}, "s0.2")...)
		r.do(t, 0, Op{Verb: Release, ID: "s0.2"})
		at(ends - 100*time.Millisecond)
		_, got := r.do(t, 0, release)
		if wantCodes(t, got, Gone); got[0].Reason != reason {
			t.Errorf("reason %v, want %v", got[0].Reason, reason)
		}
		at(ends + Late - 200*time.Millisecond)
		if _, got = r.do(t, 0, acquire); got[0].Code != Gone {
			t.Errorf("after reason %v, a late copy got %v", reason, got[0].Code)
		}
		at(ends + Late)
		_, got = r.do(t, 0, acquire) // the tombstone has gone
		wantCodes(t, got, Granted)
	}
}
