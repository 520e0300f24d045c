package protocol

import (
	"fmt"
	"testing"
	"time"
)

// Bugs that were found and fixed keep a test each.

// terms are those of an ordinary acquire.
func terms(limit int, change ...func(*Terms)) *Terms {
	t := &Terms{Wait: true, Weight: 1, TTL: 30 * time.Second, Heartbeat: 15 * time.Second, QueueLimit: 1 << 30, Limit: limit}
	for _, f := range change {
		f(t)
	}
	return t
}

// ids returns n ids of a session, as that would make them.
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

// The short way read an id as the limit of an acquire when a group of other
// operations was long enough.
func TestRenewalsOfManyLeases(t *testing.T) {
	t.Parallel()
	onBoth(t, form{}, func(t *testing.T, r *rig) {
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

// A repeated acquire whose own call grants it was answered as if it still waited,
// and its new lease was cut to a heartbeat.
func TestRepeatGrantsItself(t *testing.T) {
	t.Parallel()
	onBoth(t, form{}, func(t *testing.T, r *rig) {
		r.do(t, 0, each(Op{Verb: Acquire, Terms: terms(1)}, ids(2)...)...)
		_, got := r.do(t, 0, Op{Verb: Acquire, ID: "s0.2", Terms: terms(2)})
		wantCodes(t, got, Granted)
		if got[0].Slot != 1 {
			t.Errorf("slot %d, want 1", got[0].Slot)
		}
	})
}

// The renewal of an id that waits was taken for a corrupt record.
func TestRenewalOfWaiter(t *testing.T) {
	t.Parallel()
	onBoth(t, form{}, func(t *testing.T, r *rig) {
		r.do(t, 0, each(Op{Verb: Acquire, Terms: terms(1)}, ids(2)...)...)
		wantCodes(t, []Result{r.one(t, Op{Verb: Renew, ID: "s0.2", TTL: time.Minute})}, Gone)
		wantCodes(t, []Result{r.one(t, Op{Verb: Heartbeat, ID: "s0.2", TTL: time.Minute})}, Queued)
	})
}

// One that came, left and came again in one call had two places in the queue,
// and kept the better.
func TestComesTwiceInOneCall(t *testing.T) {
	t.Parallel()
	onBoth(t, form{}, func(t *testing.T, r *rig) {
		wait := Op{Verb: Acquire, Terms: terms(1)}
		ops := each(wait, "s0.1", "s0.2", "s0.3")
		ops = append(ops, Op{Verb: Release, ID: "s0.2"})
		ops = append(ops, each(wait, "s0.2")...)
		ops = append(ops, Op{Verb: Release, ID: "s0.1"})
		_, got := r.do(t, 0, ops...)
		wantCodes(t, got, Granted, Queued, Granted, Cancelled, Queued, Released)
	})
}

// The sorted set lost its TTL when the last member of it left in a call that
// put others in: it would have stayed behind for ever.
func TestOrderKeepsItsTTL(t *testing.T) {
	t.Parallel()
	for _, long := range []bool{false, true} {
		onBoth(t, form{keeps: true, long: long}, func(t *testing.T, r *rig) {
			r.one(t, Op{Verb: Acquire, ID: "s0.1", Terms: terms(1)})
			r.do(t, 0, Op{Verb: Release, ID: "s0.1"}, Op{Verb: Acquire, ID: "s0.2", Terms: terms(1)})
			if d := r.dump(t); d.lapse[0] <= 0 || d.lapse[1] <= 0 {
				t.Fatalf("TTLs %v", d.lapse)
			}
		})
	}
}
