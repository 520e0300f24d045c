package protocol

import (
	"context"
	"slices"
	"strconv"
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

// fill makes n acquires, 1000 in a call.
func fill(t failer, r *rig, n int, terms *Terms) []string {
	t.Helper()
	all := ids(n)
	for some := range slices.Chunk(all, 1000) {
		r.do(t, 0, each(Op{Verb: Acquire, Terms: terms}, some...)...)
	}
	r.notes(t)
	return all
}

// drain calls until nothing is left to do. It returns what the messages said,
// call by call.
func drain(t failer, r *rig, first ...Op) (calls [][]string) {
	t.Helper()
	ops := first
	for range 3 * crowd / chunk {
		reply, _ := r.do(t, 1, ops...)
		lines := r.notes(t)[ownerOf(r.stores[0])]
		if len(lines) > chunk {
			t.Fatalf("one call ended %d waits or leases", len(lines))
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

// TestManyIDsInOneCall: more than Lua's stack has room for.
func TestManyIDsInOneCall(t *testing.T) {
	t.Parallel()
	onBoth(t, form{keeps: true}, func(t *testing.T, r *rig) {
		all := ids(r.crowd())
		for _, step := range []struct {
			op   Op
			want Code
		}{
			{Op{Verb: Acquire, Terms: terms(len(all))}, Granted},
			{Op{Verb: Acquire, Terms: terms(len(all))}, Granted}, // again
			{Op{Verb: Renew, TTL: time.Minute}, Renewed},
			{Op{Verb: Release}, Released},
		} {
			_, got := r.do(t, 0, each(step.op, all...)...)
			for i := range got {
				if got[i].Code != step.want || step.want == Granted && got[i].Slot != i {
					t.Fatalf("%s %d of %d: %+v", step.op.Verb, i, len(all), got[i])
				}
			}
		}
		if d := r.dump(t); d.counts(t).holders > 0 {
			t.Errorf("left over:\n%.500s", d)
		}
	})
}

// overdue moves all deadlines into the past, which time does for real.
func overdue(t failer, r *rig) {
	t.Helper()
	ctx := context.Background()
	d := r.dump(t)
	c := d.counts(t)
	pipe := r.rdb.Pipeline()
	for member, score := range d.scores {
		if score >= 1<<32 {
			pipe.Do(ctx, "ZADD", r.keys.Order, 1<<33, member)
		}
	}
	parts := strings.Split(d.fields["counts"], " ")
	parts[6] = strconv.Itoa(1 << 33)
	pipe.HSet(ctx, r.keys.State, "counts", strings.Join(parts, " "))
	if _, err := pipe.Exec(ctx); err != nil {
		t.Fatalf("%v after %+v", err, c)
	}
}

// wantEmpty fails if anything is left but the last number, which an embedded
// store keeps while its clock stands still.
func wantEmpty(t failer, r *rig) {
	t.Helper()
	d := r.dump(t)
	if c := d.counts(t); len(d.scores) > 1 || len(d.fields) > 3 || c.holders+c.waiting+c.tombs > 0 || r.mr == nil && d.exists() {
		t.Fatalf("left: %.1000s", d)
	}
}

func TestTenThousandLeasesExpireAtOnce(t *testing.T) {
	t.Parallel()
	onBoth(t, form{}, func(t *testing.T, r *rig) {
		all := fill(t, r, crowd, terms(crowd))
		overdue(t, r)
		calls := drain(t, r, Op{Verb: Acquire, ID: "s1.1", Terms: terms(crowd)})
		lost := slices.Concat(calls...)
		slices.Sort(lost)
		if lost = slices.Compact(lost); len(lost) != len(all) {
			t.Errorf("%d holders heard of their loss, want %d", len(lost), len(all))
		}
		if c := r.dump(t).counts(t); c.used != 1 || c.holders != 1 || c.waiting != 0 || c.tombs != crowd {
			t.Errorf("counts after all expired: %+v", c)
		}
		r.do(t, 1, Op{Verb: Release, ID: "s1.1"})
		overdue(t, r)
		drain(t, r)
		wantEmpty(t, r)
	})
}

func TestTenThousandWaitersAndALimitForAll(t *testing.T) {
	t.Parallel()
	onBoth(t, form{}, func(t *testing.T, r *rig) {
		all := fill(t, r, crowd, terms(1))
		calls := drain(t, r, Op{Verb: Resize, N: crowd})
		if least := crowd / chunk; len(calls) < least {
			t.Errorf("%d calls, want %d or more", len(calls), least)
		}
		snap, err := r.stores[0].Inspect(context.Background(), r.keys, true)
		if err != nil {
			t.Fatal(err)
		}
		if len(snap.Leases) != crowd || snap.Used != crowd || len(snap.Queue) != 0 {
			t.Fatalf("%d leases, %d in the queue", len(snap.Leases), len(snap.Queue))
		}
		for i, lease := range snap.Leases { // by token
			if lease.ID != all[i] || lease.Slot != i {
				t.Fatalf("lease %d is %+v, want %s", i, lease, all[i])
			}
		}
	})
}

func TestTenThousandWaitersTooHeavy(t *testing.T) {
	t.Parallel()
	onBoth(t, form{}, func(t *testing.T, r *rig) {
		n := r.crowd()
		fill(t, r, n, terms(3, func(t *Terms) { t.Weight = 3 }))
		// While all is taken the head is only weighed when the limit changes; the
		// others hear when the permit comes back.
		calls := drain(t, r, Op{Verb: Resize, N: 2})
		calls = append(calls, drain(t, r, Op{Verb: Release, ID: "s0.1"})...)
		if heard := len(slices.Concat(calls...)); heard != n-1 {
			t.Errorf("%d waiters heard that they are too heavy, want %d", heard, n-1)
		}
		wantEmpty(t, r)
	})
}

// Looking at the counts alone must not read the crowd.
func TestInspectCountsOfACrowd(t *testing.T) {
	t.Parallel()
	onBoth(t, form{}, func(t *testing.T, r *rig) {
		n := r.crowd()
		fill(t, r, n, terms(1))
		snap, err := r.stores[0].Inspect(context.Background(), r.keys, false)
		if err != nil {
			t.Fatal(err)
		}
		if snap.Waiting != n-1 || snap.Holders != 1 || len(snap.Queue)+len(snap.Leases) != 0 {
			t.Errorf("snapshot %d waiting, %d holders, %d records", snap.Waiting, snap.Holders, len(snap.Queue)+len(snap.Leases))
		}
	})
}

// Big batches must fit Lua's stack, the smaller one of the embedded store too.
func TestBigBatches(t *testing.T) {
	t.Parallel()
	for _, long := range []bool{false, true} {
		onBoth(t, form{long: long}, func(t *testing.T, r *rig) {
			bigBatch(t, r, 256)
			bigBatch(t, r, 1000)
			if r.mr == nil {
				bigBatch(t, r, 3000)
			}
		})
	}
}

func bigBatch(t *testing.T, r *rig, n int) {
	t.Helper()
	r.reset(t)
	all := ids(n)
	want := func(code Code, op Op, ids []string) {
		t.Helper()
		_, got := r.do(t, 0, each(op, ids...)...)
		for i, g := range got {
			if g.Code != code {
				t.Fatalf("%s of %s: %+v, want code %d", op.Verb, ids[i], g, code)
			}
		}
	}
	acquire := Op{Verb: Acquire, Terms: terms(n / 2)}
	want(Granted, acquire, all[:n/2])
	want(Queued, acquire, all[n/2:])
	want(Granted, acquire, all[:n/2])
	want(Queued, acquire, all[n/2:])
	want(Renewed, Op{Verb: Renew, TTL: time.Minute}, all[:n/2])
	want(Queued, Op{Verb: Heartbeat, TTL: time.Minute, Flag: true}, all[n/2:])
	want(Released, Op{Verb: Release}, all[:n/2])
	r.notes(t)
	drain(t, r)
	want(Granted, Op{Verb: Heartbeat, TTL: time.Minute}, all[n/2:])
	want(Released, Op{Verb: Evict, Flag: true}, all[n/2:n/2+n/4])
	want(Released, Op{Verb: Release, Flag: true}, all[n/2+n/4:])
	if c := r.dump(t).counts(t); c.used != 0 || c.tombs != n-n/2 {
		t.Errorf("counts at the end: %+v", c)
	}
}
