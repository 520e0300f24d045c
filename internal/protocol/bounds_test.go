package protocol

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// However much there is to do, one call does a bounded part of it and says that
// there is more.

const crowd = 10000

// crowd is smaller where size is not the point and an embedded store would be
// slow: it sorts a whole set whenever one looks at its head.
func (r *rig) crowd() int {
	if r.mr != nil {
		return 1200
	}
	return crowd
}

// fill makes n acquires, as many in a call as may be.
func fill(t failer, r *rig, n int, terms *Terms) []string {
	t.Helper()
	all := ids(n)
	for some := range slices.Chunk(all, MaxIDs) {
		r.do(t, 0, each(Op{Verb: Acquire, Terms: terms}, some...)...)
	}
	r.notes(t)
	return all
}

// drain calls until nothing is left to do. It returns what the messages said,
// call by call, but for what the head of the queue is told.
func drain(t failer, r *rig, first ...Op) (calls [][]string) {
	t.Helper()
	ops := first
	for range 3 * crowd / chunk {
		reply, _ := r.do(t, 1, ops...)
		lines, heads := withoutHeads(r.notes(t)["s0"])
		if len(lines) > chunk || len(heads) > 1 {
			t.Fatalf("one call ended %d waits or leases, and told %d heads", len(lines), len(heads))
		}
		calls = append(calls, lines)
		if !reply.More {
			return calls
		}
		ops = nil
	}
	t.Fatalf("more is to be done after %d calls", len(calls))
	return nil
}

// overdue moves the deadlines of these ids, or all, into the past, which time does
// for real.
func overdue(t failer, r *rig, some ...string) {
	t.Helper()
	ctx := context.Background()
	d := r.dump(t)
	pipe := r.rdb.Pipeline()
	for member, score := range d.scores {
		if score >= 1<<32 && (some == nil || slices.Contains(some, member)) {
			pipe.Do(ctx, "ZADD", r.key.Order(), int64(1<<33), member)
		}
	}
	if !d.exists() {
		return // all of it has passed already
	}
	parts := strings.Split(d.fields["state"], " ")
	parts[11] = fmt.Sprint(int64(1 << 33))
	pipe.HSet(ctx, r.key.State, "state", strings.Join(parts, " "))
	if _, err := pipe.Exec(ctx); err != nil {
		t.Fatalf("%v", err)
	}
}

// wantEmpty fails if anything is left but the last number, which an embedded
// store keeps while its clock stands still.
func wantEmpty(t failer, r *rig) {
	t.Helper()
	d := r.dump(t)
	s := d.state(t)
	if len(d.scores) > 0 || len(d.fields) > 1 || s.Holders+s.Waiting+s.Others > 0 || r.mr == nil && d.exists() {
		t.Fatalf("left: %.1000s", d)
	}
}

func TestTenThousandLeasesExpireAtOnce(t *testing.T) {
	t.Parallel()
	onBoth(t, false, func(t *testing.T, r *rig) {
		n := r.crowd()
		all := fill(t, r, n, terms(n))
		overdue(t, r)
		calls := drain(t, r, Op{Verb: Acquire, ID: "s1.1", Terms: terms(n)})
		lost := slices.Concat(calls...)
		slices.Sort(lost)
		if lost = slices.Compact(lost); len(lost) != len(all) {
			t.Errorf("%d holders heard of their loss, want %d", len(lost), len(all))
		}
		// On a real server time goes on, and tombstones with it.
		if s := r.dump(t).state(t); s.Used != 1 || s.Holders != 1 || s.Waiting != 0 || s.Others != n && r.mr != nil {
			t.Errorf("after all expired: %+v", s)
		}
		r.do(t, 1, Op{Verb: Release, ID: "s1.1"})
		overdue(t, r)
		drain(t, r)
		wantEmpty(t, r)
	})
}

func TestTenThousandWaitersAndALimitForAll(t *testing.T) {
	t.Parallel()
	onBoth(t, false, func(t *testing.T, r *rig) {
		n := r.crowd()
		all := fill(t, r, n, terms(1, func(t *Terms) { t.TTL, t.Heartbeat = time.Hour, time.Hour })) // a slow machine lets nothing end
		calls := drain(t, r, Op{Verb: Resize, N: n})
		if least := n / chunk; len(calls) < least || len(calls) > least+2 {
			t.Errorf("%d calls, want %d, or hardly more", len(calls), least)
		}
		snap, err := Inspect(context.Background(), r.stores[0], r.key, true)
		if err != nil {
			t.Fatal(err)
		}
		if len(snap.Leases) != n || snap.Used != n || len(snap.Queue) != 0 {
			t.Fatalf("%d leases, %d in the queue", len(snap.Leases), len(snap.Queue))
		}
		for i, lease := range snap.Leases { // by token
			if lease.ID != all[i] || lease.Slot != i {
				t.Fatalf("lease %d is %+v, want %s", i, lease, all[i])
			}
		}
	})
}

// TestWhatHasRunOutIsGoneForEveryOperation: also where more has run out than one call takes
// out, and the id that is named is not among that.
func TestWhatHasRunOutIsGoneForEveryOperation(t *testing.T) {
	t.Parallel()
	for _, op := range []Op{
		{Verb: Renew, TTL: time.Minute},
		{Verb: Heartbeat, TTL: time.Minute},
		{Verb: Release},
		{Verb: Release, Flag: true},
		{Verb: Evict},
		{Verb: Evict, Flag: true},
		{Verb: Move, To: "s1.9"},
		{Verb: Acquire, Terms: terms(1000, func(t *Terms) { t.Wait = false })},
	} {
		r := embedded(t, false)
		all := fill(t, r, 2*chunk+10, terms(2*chunk))
		r.mr.SetTime(start.Add(terms(1).TTL))
		for _, id := range []string{all[0], "s0.99", all[len(all)-1]} { // the last one waits, and has run out, too
			op.ID = id
			_, got := r.do(t, 0, op)
			switch code := got[0].Code; {
			case op.Verb != Acquire && code != Gone, op.Verb == Acquire && code != Granted && code != Busy:
				t.Errorf("%c of %s: %+v", op.Verb, id, got[0])
			case op.Verb == Acquire && code == Granted && got[0].Token < start.Add(terms(1).TTL).UnixMicro():
				t.Errorf("%s has its old lease again: %+v", id, got[0])
			}
			if record := r.raw(t).fields[id]; op.Verb != Acquire && record != "" && record[0] != 'x' {
				t.Errorf("%c of %s: it has %q", op.Verb, id, record)
			}
		}
	}
}

// TestManyWaitersTooHeavy: a call looks at as many waiters as there are free permits.
func TestManyWaitersTooHeavy(t *testing.T) {
	t.Parallel()
	onBoth(t, false, func(t *testing.T, r *rig) {
		const n = 200
		fill(t, r, n, terms(3, func(t *Terms) { t.Weight = 3 }))
		// While all is taken nobody is weighed; they hear when the permits come back.
		calls := drain(t, r, Op{Verb: Resize, N: 2})
		calls = append(calls, drain(t, r, Op{Verb: Release, ID: "s0.1"})...)
		if heard := len(slices.Concat(calls...)); heard != n-1 {
			t.Errorf("%d waiters heard that they are too heavy, want %d", heard, n-1)
		}
		overdue(t, r)
		drain(t, r)
		wantEmpty(t, r)
	})
}

// TestWaiterTooHeavyHearsWhenAPauseEnds: a pin while the semaphore is paused weighs nobody,
// and what is given back later may be long in coming.
func TestWaiterTooHeavyHearsWhenAPauseEnds(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, r *rig) {
		heavy := terms(3, func(t *Terms) { t.Weight = 3 })
		r.do(t, 0, Op{Verb: Acquire, ID: "s0.1", Terms: heavy}, Op{Verb: Acquire, ID: "s0.2", Terms: heavy})
		r.do(t, 0, Op{Verb: Pause, Flag: true}, Op{Verb: Pin, N: 2})
		heard := slices.Concat(drain(t, r, Op{Verb: Pause})...)
		if want := fmt.Sprintf("x s0.2 %d", TooHeavy); !slices.Equal(heard, []string{want}) {
			t.Errorf("heard at the end of the pause: %q, want %q", heard, want)
		}
	})
}

// TestNextDeadlineIsExactAfterOneHasPassed: until then it is a lower bound; if it stayed
// one, every call would look for what is due.
func TestNextDeadlineIsExactAfterOneHasPassed(t *testing.T) {
	t.Parallel()
	for _, keeps := range []bool{false, true} {
		r := embedded(t, keeps)
		for i, ttl := range []time.Duration{40 * time.Second, 30 * time.Second, 50 * time.Second} {
			r.do(t, 0, Op{Verb: Acquire, ID: ids(3)[i], Terms: terms(3, func(t *Terms) { t.TTL = ttl })})
		}
		for _, test := range []struct{ at, next time.Duration }{
			{0, 30 * time.Second},
			{29 * time.Second, 30 * time.Second},
			{30 * time.Second, 40 * time.Second},
			{45 * time.Second, 50 * time.Second},
			{50 * time.Second, 0},
		} {
			r.mr.SetTime(start.Add(test.at))
			want := int64(0)
			if test.next > 0 {
				want = start.Add(test.next).UnixMilli()
			}
			if reply, _ := r.do(t, 0); reply.Next != want {
				t.Errorf("at %v: next at %d, want %d", test.at, reply.Next, want)
			}
		}
		r.do(t, 0, Op{Verb: Pin, N: 3}, Op{Verb: Acquire, ID: "s0.9", Terms: terms(3)})
		if reply, _ := r.do(t, 0, Op{Verb: Release, ID: "s0.9"}); reply.Next != 0 {
			t.Errorf("of nobody: next at %d", reply.Next)
		}
	}
}

// TestInspectCountsOfACrowd: looking at the counts alone does not read the crowd.
func TestInspectCountsOfACrowd(t *testing.T) {
	t.Parallel()
	onBoth(t, false, func(t *testing.T, r *rig) {
		n := r.crowd()
		fill(t, r, n, terms(1))
		snap, err := Inspect(context.Background(), r.stores[0], r.key, false)
		if err != nil {
			t.Fatal(err)
		}
		if snap.Waiting != n-1 || snap.Holders != 1 || len(snap.Queue)+len(snap.Leases) != 0 {
			t.Errorf("snapshot %d waiting, %d holders, %d records", snap.Waiting, snap.Holders, len(snap.Queue)+len(snap.Leases))
		}
	})
}

// TestFullCalls: the largest call of every verb fits Lua's stack, the smaller one of the
// embedded store too.
func TestFullCalls(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, r *rig) {
		const n = 2 * MaxIDs
		all := ids(n)
		held, queued := all[:MaxIDs], all[MaxIDs:]
		want := func(code Code, op Op, ids []string) {
			t.Helper()
			_, got := r.do(t, 0, each(op, ids...)...)
			for i, g := range got {
				if g.Code != code {
					t.Fatalf("%c of %s: %+v, want code %d", op.Verb, ids[i], g, code)
				}
			}
		}
		acquire := Op{Verb: Acquire, Terms: terms(MaxIDs)}
		want(Granted, acquire, held)
		want(Queued, acquire, queued)
		want(Granted, acquire, held) // again
		want(Queued, acquire, queued)
		want(Renewed, Op{Verb: Renew, TTL: time.Minute}, held)
		want(Queued, Op{Verb: Heartbeat, TTL: time.Minute, Flag: true}, queued)
		want(Released, Op{Verb: Release}, held)
		r.notes(t)
		drain(t, r)
		want(Granted, Op{Verb: Heartbeat, TTL: time.Minute}, queued)
		var moves []Op
		for _, id := range queued[:MaxIDs/2] {
			moves = append(moves, Op{Verb: Move, ID: id, To: "moved." + id})
		}
		if _, got := r.do(t, 0, moves...); got[0].Code != Moved || got[len(got)-1].Code != Moved {
			t.Fatalf("moved: %+v", got)
		}
		want(Gone, Op{Verb: Evict, Flag: true}, queued[:MaxIDs/2])
		want(Released, Op{Verb: Release, Flag: true}, queued[MaxIDs/2:])
		if s := r.dump(t).state(t); s.Used != MaxIDs/2 || s.Others != MaxIDs {
			t.Errorf("at the end: %+v", s)
		}
	})
}

// TestManyGroupsInOneCall: the largest call when no two of its operations share their
// parameters, where all are granted and where all but one wait.
func TestManyGroupsInOneCall(t *testing.T) {
	t.Parallel()
	for _, limit := range []int{1000, 1} {
		onBoth(t, true, func(t *testing.T, r *rig) {
			var ops []Op
			for i, id := range ids(MaxIDs) {
				ops = append(ops, Op{Verb: Acquire, ID: id, Terms: terms(limit, func(t *Terms) { t.Label = fmt.Sprint(i) })})
			}
			reply, got := r.do(t, 0, ops...)
			if want := min(limit, len(ops)); reply.Used != want || reply.Waiting != len(ops)-want {
				t.Fatalf("%+v", reply)
			}
			d := r.dump(t)
			for i := range got {
				if record := d.fields[ops[i].ID]; !strings.HasSuffix(record, fmt.Sprint(" ", i)) {
					t.Fatalf("%s = %q", ops[i].ID, record)
				}
			}
		})
	}
}
