package protocol

import (
	"fmt"
	"testing"
	"time"
)

// Move: a lease gets another id, and with it another holder. Handles are made of this: who
// comes second is told who was first, and never holds.

const first, second, third = "s0.1", "s1.secret", "s2.other"

func moveTo(from, to string, ttl time.Duration) Op { return Op{Verb: Move, ID: from, To: to, TTL: ttl} }

// by runs one operation of a process.
func (r *rig) by(t failer, process int, op Op) Result {
	t.Helper()
	_, got := r.do(t, process, op)
	return got[0]
}

// moved is what the second process is to be answered.
func (r *rig) wantMoved(t *testing.T, got, was Result, terms *Terms) {
	t.Helper()
	want := Result{
		Code: Moved, Slot: was.Slot, Token: got.Token, Remaining: got.Remaining, Weight: terms.Weight, TTL: terms.TTL, Label: terms.Label,
	}
	if got != want || got.Token <= was.Token || got.Remaining <= 0 || got.Remaining > terms.TTL {
		t.Fatalf("moved: %+v, want %+v; it was %+v", got, want, was)
	}
}

// gone is the answer for an id whose lease the process of that number has.
func (r *rig) gone(process int) Result {
	return Result{Code: Gone, Reason: WasMoved, Owner: r.stores[process].owner}
}

// TestMoveKeepsSlotAndWeight: and what else makes the lease, but for its token, which is
// above all, because another one holds now.
func TestMoveKeepsSlotAndWeight(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, r *rig) {
		for name, test := range map[string]struct {
			terms  *Terms
			before []Op
		}{
			"compact": {terms(3, func(t *Terms) { t.Label = "two words" }), nil},
			"heavy":   {terms(9, func(t *Terms) { t.Weight = 4 }), nil},
			"third":   {terms(9), each(Op{Verb: Acquire, Terms: terms(9)}, "s0.8", "s0.9")},
		} {
			r.reset(t)
			if test.before != nil {
				r.do(t, 0, test.before...)
			}
			was := r.by(t, 0, Op{Verb: Acquire, ID: first, Terms: test.terms})
			if r.isCompact(t) != (name == "compact") {
				t.Fatalf("%s: compact %v", name, r.isCompact(t))
			}
			got := r.by(t, 1, moveTo(first, second, 0))
			r.wantMoved(t, got, was, test.terms)
			state := r.dump(t).state(t)
			if state.Last != got.Token || state.Holders != len(test.before)+1 || state.Others != 1 {
				t.Errorf("%s: %+v", name, state)
			}
			if snap, err := Inspect(t.Context(), r.stores[2], r.key, true); err != nil || snap.Leases[len(test.before)].ID != second || snap.Leases[len(test.before)].PID != 101 {
				t.Errorf("%s: %v %+v", name, err, snap.Leases)
			}
		}
	})
}

// TestMovedLeaseIsTheMovers: the new id renews and releases it, the old one does not.
func TestMovedLeaseIsTheMovers(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, r *rig) {
		r.by(t, 0, Op{Verb: Acquire, ID: first, Terms: terms(1)})
		r.by(t, 1, moveTo(first, second, 0))
		for _, op := range []Op{
			{Verb: Renew, ID: first, TTL: time.Minute},
			{Verb: Heartbeat, ID: first, TTL: time.Minute, Flag: true},
			{Verb: Release, ID: first},
			{Verb: Release, ID: first, Flag: true},
			{Verb: Evict, ID: first},
			{Verb: Evict, ID: first, Flag: true},
		} {
			if got := r.by(t, 0, op); got != r.gone(1) {
				t.Errorf("%c of the old id: %+v", op.Verb, got)
			}
		}
		if got := r.by(t, 2, Op{Verb: Acquire, ID: third, Terms: terms(1, func(t *Terms) { t.Wait = false })}); got.Code != Busy {
			t.Errorf("another one: %+v", got)
		}
		wantCodes(t, []Result{r.by(t, 1, Op{Verb: Renew, ID: second, TTL: time.Minute})}, Renewed)
		wantCodes(t, []Result{r.by(t, 1, Op{Verb: Release, ID: second})}, Released)
		wantCodes(t, []Result{r.by(t, 2, Op{Verb: Acquire, ID: third, Terms: terms(1)})}, Granted)
	})
}

// TestMoveRepeats: a second copy is answered as the first, and gives no other token.
func TestMoveRepeats(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, r *rig) {
		was := r.by(t, 0, Op{Verb: Acquire, ID: first, Terms: terms(1)})
		got := r.by(t, 1, moveTo(first, second, 0))
		r.wantMoved(t, got, was, terms(1))
		if r.mr != nil {
			r.mr.SetTime(start.Add(time.Second))
			got.Remaining -= time.Second
		}
		again := r.by(t, 1, moveTo(first, second, 0))
		if r.mr == nil && again.Remaining <= got.Remaining {
			again.Remaining = got.Remaining
		}
		if again != got {
			t.Errorf("again: %+v, first %+v", again, got)
		}
		// A copy with another TTL is a repetition, too: it does not renew.
		if longer := r.by(t, 1, moveTo(first, second, time.Hour)); longer.Remaining > got.Remaining || longer.TTL != got.TTL {
			t.Errorf("for longer: %+v, first %+v", longer, got)
		}
		// After the release a copy that comes late makes nothing.
		r.by(t, 1, Op{Verb: Release, ID: second, Flag: true})
		if late := r.by(t, 1, moveTo(first, second, 0)); late != (Result{Code: Gone, Reason: WasReleased}) {
			t.Errorf("late: %+v", late)
		}
		if s := r.dump(t).state(t); s.Used != 0 {
			t.Errorf("somebody holds: %+v", s)
		}
	})
}

// TestSecondMoverIsToldTheOwner: for a minute, to the millisecond; and then that there is
// nothing.
func TestSecondMoverIsToldTheOwner(t *testing.T) {
	t.Parallel()
	for _, keeps := range []bool{false, true} {
		r := embedded(t, keeps)
		r.by(t, 0, Op{Verb: Acquire, ID: first, Terms: terms(1)})
		r.by(t, 1, moveTo(first, second, time.Hour))
		for _, after := range []time.Duration{0, Late + time.Second, told*time.Millisecond - time.Millisecond, told * time.Millisecond} {
			want := r.gone(1)
			if after == told*time.Millisecond {
				want = Result{Code: Gone}
			}
			r.mr.SetTime(start.Add(after))
			if got := r.by(t, 2, moveTo(first, third, 0)); got != want {
				t.Errorf("after %v: %+v, want %+v", after, got, want)
			}
		}
		if got := r.by(t, 1, Op{Verb: Renew, ID: second, TTL: time.Hour}); got.Code != Renewed {
			t.Errorf("the first: %+v", got)
		}
	}
}

// TestMoveOfWhatIsNoLease: nothing is moved, and nothing changed.
func TestMoveOfWhatIsNoLease(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, r *rig) {
		acquire := Op{Verb: Acquire, ID: first, Terms: terms(1)}
		for name, test := range map[string]struct {
			before []Op
			want   Result
		}{
			"unknown":                       {nil, Result{Code: Gone}},
			"unknown, used":                 {each(Op{Verb: Acquire, Terms: terms(1)}, "s0.8"), Result{Code: Gone}},
			"a waiter":                      {append(each(Op{Verb: Acquire, Terms: terms(1)}, "s0.8"), acquire), Result{Code: Gone}},
			"released":                      {[]Op{acquire, {Verb: Release, ID: first}}, Result{Code: Gone}},
			"released, and a copy may come": {[]Op{acquire, {Verb: Release, ID: first, Flag: true}}, Result{Code: Gone, Reason: WasReleased}},
			"to be evicted":                 {[]Op{acquire, {Verb: Evict, ID: first}}, Result{Code: Gone, Reason: Evicted}},
			"evicted":                       {[]Op{acquire, {Verb: Evict, ID: first, Flag: true}}, Result{Code: Gone, Reason: Evicted}},
		} {
			r.reset(t)
			for _, op := range test.before {
				r.by(t, 0, op)
			}
			before := r.raw(t)
			if got := r.by(t, 1, moveTo(first, second, time.Hour)); got != test.want {
				t.Errorf("%s: %+v, want %+v", name, got, test.want)
			}
			if after := r.raw(t); fmt.Sprint(after.fields[first], after.fields[second], after.scores) != fmt.Sprint(before.fields[first], before.fields[second], before.scores) {
				t.Errorf("%s: changed\n%v\nto\n%v", name, before, after)
			}
		}
	})
}

// TestMoveAndTTL: 0 keeps the lease's, any other is the lease's from then on; from the
// move, and never beyond MaxHold from the grant.
func TestMoveAndTTL(t *testing.T) {
	t.Parallel()
	const after = 10 * time.Second
	for _, keeps := range []bool{false, true} {
		for _, test := range []struct{ ttl, maxHold, moved, remaining, want time.Duration }{
			{30 * time.Second, 0, 0, 30 * time.Second, 30 * time.Second},
			{30 * time.Second, 0, time.Minute, time.Minute, time.Minute},
			{30 * time.Second, 0, time.Second, time.Second, time.Second},
			{30 * time.Second, 25 * time.Second, 0, 15 * time.Second, 30 * time.Second},
			{30 * time.Second, 25 * time.Second, time.Hour, 15 * time.Second, time.Hour},
			{30 * time.Second, 25 * time.Second, time.Second, time.Second, time.Second},
			{30 * time.Second, time.Hour, 0, 30 * time.Second, 30 * time.Second},
		} {
			r := embedded(t, keeps)
			r.by(t, 0, Op{Verb: Acquire, ID: first, Terms: terms(1, func(t *Terms) { t.TTL, t.MaxHold = test.ttl, test.maxHold })})
			r.mr.SetTime(start.Add(after))
			if got := r.by(t, 1, moveTo(first, second, test.moved)); got.Remaining != test.remaining || got.TTL != test.want {
				t.Errorf("%+v: %+v", test, got)
			}
			// The next mover keeps what this one has, and the ceiling stays.
			if got := r.by(t, 2, moveTo(second, third, 0)); got.Remaining != test.remaining || got.TTL != test.want {
				t.Errorf("%+v, moved on: %+v", test, got)
			}
			r.mr.SetTime(start.Add(after + test.remaining))
			if got := r.by(t, 2, Op{Verb: Renew, ID: third, TTL: time.Hour}); got.Code != Gone {
				t.Errorf("%+v, renewed too late: %+v", test, got)
			}
		}
	}
}

// TestLateCopyOfAMovedAcquire: whatever became of the lease since, no copy of the acquire
// that its first holder sent is granted while one may be executed.
func TestLateCopyOfAMovedAcquire(t *testing.T) {
	t.Parallel()
	acquire := Op{Verb: Acquire, ID: first, Terms: terms(1)}
	for _, keeps := range []bool{false, true} {
		for name, then := range map[string][]Op{
			"held": nil, "released": {{Verb: Release, ID: second}}, "moved on, and released": {moveTo(second, third, 0), {Verb: Release, ID: third}},
			"expired": {{Verb: Renew, ID: second, TTL: time.Millisecond}},
		} {
			r := embedded(t, keeps)
			r.by(t, 0, acquire)
			r.by(t, 1, moveTo(first, second, 0))
			for _, op := range then {
				r.by(t, 1, op)
			}
			for _, after := range []time.Duration{0, time.Second, Late - time.Millisecond, Late} {
				r.mr.SetTime(start.Add(after))
				if got := r.by(t, 0, acquire); got.Code != Gone || got.Reason != WasMoved {
					t.Errorf("%s, after %v: %+v", name, after, got)
				}
			}
		}
	}
}

// TestMovedLeaseExpires: its process is told under the new id, and the tombstone of the
// old one stays as long as it should.
func TestMovedLeaseExpires(t *testing.T) {
	t.Parallel()
	for _, keeps := range []bool{false, true} {
		r := embedded(t, keeps)
		r.by(t, 0, Op{Verb: Acquire, ID: first, Terms: terms(1)})
		r.by(t, 1, moveTo(first, second, 0))
		r.notes(t)
		r.mr.SetTime(start.Add(terms(1).TTL))
		r.do(t, 2)
		if heard := r.notes(t); fmt.Sprint(heard) != fmt.Sprintf("map[s1:[x %s 2]]", second) {
			t.Errorf("heard %q", heard)
		}
		if got := r.by(t, 0, Op{Verb: Release, ID: first}); got != r.gone(1) {
			t.Errorf("the old id: %+v", got)
		}
	}
}

// TestNoLimitDeclaresNone: who names no limit takes the one in force, and on a new
// semaphore 1.
func TestNoLimitDeclaresNone(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, r *rig) {
		none := Op{Verb: Acquire, Terms: terms(0, func(t *Terms) { t.Wait = false })}
		reply, got := r.do(t, 0, each(none, "s0.1", "s0.2")...)
		if wantCodes(t, got, Granted, Busy); reply.Declared != 1 || reply.Was != 0 || reply.Changes != 0 {
			t.Errorf("of a new one: %+v", reply)
		}
		r.do(t, 0, Op{Verb: Acquire, ID: "s0.3", Terms: terms(3)})
		reply, got = r.do(t, 0, each(none, "s0.4", "s0.5")...)
		if wantCodes(t, got, Granted, Busy); reply.Declared != 3 || reply.Was != 3 || reply.Changes != 1 {
			t.Errorf("of three: %+v", reply)
		}
		// Alone, too: a lease that could be compact, and one beside it.
		r.reset(t)
		wantCodes(t, []Result{r.by(t, 0, Op{Verb: Acquire, ID: "s0.1", Terms: terms(2)})}, Granted)
		none.ID = "s0.2"
		if got := r.by(t, 0, none); got.Code != Granted || got.Slot != 1 {
			t.Errorf("beside one: %+v", got)
		}
		none.ID, none.Terms = "s0.3", terms(0, func(t *Terms) { t.Wait, t.Weight = false, 3 })
		if got := r.by(t, 0, none); got != (Result{Code: Heavy, Limit: 2}) {
			t.Errorf("too heavy: %+v", got)
		}
	})
}
