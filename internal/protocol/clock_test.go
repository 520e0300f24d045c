package protocol

import (
	"context"
	"errors"
	"testing"
	"time"
)

// What the server's clock may show, and how it may jump.

// story is a life of a semaphore in which everything happens once.
func story() []event {
	wait := terms(2)
	return []event{
		{ops: each(Op{Verb: Acquire, Terms: wait}, "s0.1", "s0.2", "s0.3", "s0.4")},
		{pause: time.Second, process: 1, ops: each(Op{Verb: Renew, TTL: 30 * time.Second}, "s0.1", "s0.9")},
		{pause: time.Second, ops: each(Op{Verb: Release, Flag: true}, "s0.2", "s0.3")},
		{pause: 11 * time.Second, ops: each(Op{Verb: Heartbeat, TTL: time.Minute, Flag: true}, "s0.4")},
		{pause: 20 * time.Second, process: 2, ops: each(Op{Verb: Acquire, Terms: wait}, "s2.1", "s2.2")},
		{pause: time.Minute},
		{pause: time.Minute},
	}
}

func TestClockOfAnotherTime(t *testing.T) {
	t.Parallel()
	for name, clock := range map[string]time.Time{
		"1971": time.Date(1971, 1, 1, 0, 0, 0, 0, time.UTC),
		"2038": time.Date(2038, 1, 19, 3, 14, 6, 999_999_000, time.UTC),
		"2100": time.Date(2100, 2, 28, 23, 59, 59, 123_456_000, time.UTC),
		"2250": time.Date(2250, 1, 1, 0, 0, 0, 0, time.UTC),
	} {
		for _, keeps := range []bool{false, true} {
			tr := newTrial(t, embedded(t, keeps))
			for _, e := range story() {
				clock = clock.Add(e.pause)
				tr.timed(t, e, clock)
			}
			if tr.model.exists {
				t.Errorf("%s: keys are left\n%v", name, tr.last)
			}
		}
	}
}

// A server without a battery may think that it is 1970. Its deadlines would be
// taken for slots, so it is refused.
func TestClockOfNoTime(t *testing.T) {
	t.Parallel()
	r := embedded(t, false)
	r.mr.SetTime(time.Unix(0, 1000))
	ops := []Op{{Verb: Acquire, ID: "s0.1", Terms: terms(1)}}
	_, err := r.stores[0].Do(context.Background(), r.key, 0, ops)
	wantKind(t, err, ErrRejected, nil)
	if d := r.dump(t); d.exists() {
		t.Errorf("something was written:\n%v", d)
	}
}

// A clock that jumps ahead ends leases early, one that jumps back makes them
// last; tokens rise all the same, also when the last lease has gone meanwhile.
func TestClockThatJumps(t *testing.T) {
	t.Parallel()
	acquire := Op{Verb: Acquire, ID: "s0.1", Terms: terms(1)}
	release := Op{Verb: Release, ID: "s0.1"}
	for _, keeps := range []bool{false, true} {
		r := embedded(t, keeps)
		clock, last := start, int64(0)
		granted := func(op Op) {
			t.Helper()
			got := r.one(t, op)
			if got.Code != Granted || got.Token <= last || got.Slot != 0 {
				t.Fatalf("%+v after token %d", got, last)
			}
			last = got.Token
		}
		jump := func(d time.Duration) {
			clock = clock.Add(d)
			r.mr.SetTime(clock)
		}
		granted(acquire)
		jump(-time.Hour)
		if got := r.one(t, Op{Verb: Renew, ID: "s0.1", TTL: 10 * time.Second}); got.Remaining != 10*time.Second {
			t.Fatalf("renewed: %+v", got)
		}
		r.one(t, release)
		granted(acquire)
		jump(time.Hour)
		wantCodes(t, []Result{r.one(t, Op{Verb: Renew, ID: "s0.1", TTL: time.Minute})}, Gone)
		jump(time.Minute)
		granted(Op{Verb: Acquire, ID: "s0.2", Terms: terms(1)})
	}
}

// TestLastMoment: a call is executed in the last millisecond that it allows, and
// not in the next.
func TestLastMoment(t *testing.T) {
	t.Parallel()
	r := embedded(t, false)
	now := start.UnixMilli()
	for notAfter, want := range map[int64]error{now - 1: ErrRefused, now: nil, now + 1: nil} {
		reply, err := r.stores[0].Do(t.Context(), r.key, notAfter, nil)
		if !errors.Is(err, want) || reply.Now != now {
			t.Errorf("bound %d at %d: error %v, time %d, want %v", notAfter, now, err, reply.Now, want)
		}
	}
}

// TestDeadlineOfFewDigits: an embedded store writes a score like 1790000000000 as
// 1.79e+12, where Redis does not.
func TestDeadlineOfFewDigits(t *testing.T) {
	t.Parallel()
	few := time.UnixMilli(1_790_000_000_000)
	for _, keeps := range []bool{false, true} {
		tr := newTrial(t, embedded(t, keeps))
		tr.timed(t, event{ops: each(Op{Verb: Acquire, Terms: terms(1)}, ids(2)...)}, few.Add(-terms(1).TTL))
		tr.timed(t, event{ops: each(Op{Verb: Heartbeat, TTL: 3 * time.Second}, "s0.2")}, few.Add(-6*time.Second))
		for _, after := range []time.Duration{-3 * time.Second, -time.Millisecond, 0, Late, time.Minute} {
			tr.timed(t, event{ops: each(Op{Verb: Heartbeat, TTL: 3 * time.Second, Flag: true}, ids(2)...)}, few.Add(after))
		}
	}
}
