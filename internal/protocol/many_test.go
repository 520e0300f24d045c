package protocol

import (
	"errors"
	"reflect"
	"slices"
	"testing"
	"time"
)

// Stories of many leases: their tokens, and their slots.

// tellBoth tells one story on embedded stores, with and without pauses.
func tellBoth(t *testing.T, calls [][]Op) {
	t.Helper()
	for _, keeps := range []bool{false, true} {
		asIs, unfolded := embedded(t, keeps), embedded(t, keeps)
		for _, pause := range []time.Duration{0, time.Millisecond} {
			tell(t, asIs, unfolded, calls, pause)
		}
	}
}

// TestCrowd is a story in which leases, waiters and hand-offs meet in every call.
func TestCrowd(t *testing.T) {
	t.Parallel()
	all, acquire, release := ids(20), Op{Verb: Acquire, Terms: terms(6)}, Op{Verb: Release}
	narrow := Op{Verb: Acquire, Terms: terms(6, func(t *Terms) { t.QueueLimit = 4 })}
	capped := Op{Verb: Acquire, Terms: terms(6, func(t *Terms) { t.MaxHold = time.Second; t.Weight = 2 })}
	heavy := Op{Verb: Acquire, Terms: terms(6, func(t *Terms) { t.Weight = 6 })}
	tellBoth(t, [][]Op{
		each(acquire, all[:6]...),
		each(acquire, all[6:9]...),            // all wait
		each(release, all[4], all[1], all[2]), // three hand-offs, to slots 1, 2 and 4 in this order
		append(each(release, all[5], all[0], all[3]), each(acquire, all[9:12]...)...), // slots 0, 3 and 5
		each(narrow, all[12:15]...), // all wait
		append(each(narrow, all[15]), each(narrow, all[16])...),
		each(narrow, all[17], all[18]),                           // the queue is full
		append(each(release, all[6]), each(acquire, all[19])...), // one in, one waits
		each(release, all[7:12]...),                              // room for all who wait
		each(release, all[12:16]...),
		each(capped, all[0], all[1]),
		each(release, all[19], all[0]),
		each(release, all[1]), // the last
		each(acquire, all[2]), // in the same microsecond
		each(heavy, all[3]),
		each(acquire, all[4]), // it would fit, and must not overtake
		each(release, all[2]),
		each(release, all[3]),
		each(release, all[4]),
	})
	// Of nobody's free slots, none are kept.
	tellBoth(t, [][]Op{
		each(Op{Verb: Acquire, Terms: terms(3)}, all[:5]...),
		{{Verb: Resize, N: 0}},
		each(release, all[0], all[1]),
		each(release, all[2]),
	})
}

// TestSlotsOfAnyLength: of one, two and three digits, freed in one call or before,
// and given out in order, lowest first.
func TestSlotsOfAnyLength(t *testing.T) {
	t.Parallel()
	all, release := ids(141), Op{Verb: Release}
	ask := func(weight int, names ...string) []Op {
		return each(Op{Verb: Acquire, Terms: terms(130, func(t *Terms) { t.Weight = weight })}, names...)
	}
	tellBoth(t, [][]Op{
		ask(1, all[:130]...),
		each(release, all[7], all[42], all[105], all[3]),
		// Slots 1, 3, 7 and 42; then 5, 77, 105 and 120.
		append(each(release, all[1], all[120], all[77]), ask(1, all[130:134]...)...),
		append(each(release, all[5]), ask(1, all[134:138]...)...),
		// A heavy one waits, and two behind it; the three get slots 10, 12 and 80.
		ask(3, all[138]),
		ask(1, all[139], all[140]),
		each(release, all[12], all[80]),
		each(release, all[85], all[10], all[90]),
		// From the end; then slots 0 and 85.
		each(release, append(all[:0:0], all[125:]...)...),
		append(each(release, all[0], all[119], all[124], all[123]), ask(1, all[1], all[3])...),
		// Slots 11, 90 and 101.
		each(release, all[101], all[11]),
		ask(1, all[5], all[7], all[10]),
	})
	tellBoth(t, [][]Op{ask(1, all[:12]...), each(release, all[:12]...), ask(1, all[12:14]...)})
}

// TestTokensAfterHandOffs: tokens of newcomers go on behind those of the hand-offs and of
// the moves in the same call, and the last of all is what is kept.
func TestTokensAfterHandOffs(t *testing.T) {
	t.Parallel()
	all, acquire, release := ids(120), Op{Verb: Acquire, Terms: terms(110)}, Op{Verb: Release}
	tellBoth(t, [][]Op{
		each(acquire, all[:110]...),
		each(acquire, all[110:112]...),                                       // both wait
		append(each(release, all[:5]...), each(acquire, all[112:115]...)...), // two hand-offs, and three are new
		append(append(each(release, all[5:7]...), Op{Verb: Move, ID: all[9], To: "s2.9"}), each(acquire, all[115:117]...)...),
		each(release, all[7]),
		each(acquire, all[117]),
	})
}

// TestFreeSlotsBeyondAPage: of more free slots than one call reads, the lowest are given out.
func TestFreeSlotsBeyondAPage(t *testing.T) {
	t.Parallel()
	onBoth(t, false, func(t *testing.T, r *rig) {
		all := fill(t, r, 3*chunk, terms(4*chunk))
		for some := range slices.Chunk(all[1:len(all)-1], MaxIDs) {
			r.do(t, 0, each(Op{Verb: Release}, some...)...)
		}
		_, got := r.do(t, 1, each(Op{Verb: Acquire, Terms: terms(4 * chunk)}, "s1.1", "s1.2", "s1.3")...)
		for i := range got {
			if got[i].Slot != i+1 || got[i].Token != got[0].Token+int64(i) {
				t.Errorf("granted %+v as number %d", got[i], i)
			}
		}
		if s := r.dump(t).state(t); s.Holders != 5 || s.Slots != len(all) {
			t.Errorf("state %+v", s)
		}
	})
}

// TestFreeSlots: the lowest are given out, the others are kept, and the highest are forgotten
// by the call that frees them.
func TestFreeSlots(t *testing.T) {
	t.Parallel()
	onBoth(t, false, func(t *testing.T, r *rig) {
		all, fresh, limit := fill(t, r, 20, terms(20)), ids(40)[20:], terms(20)
		acquire, release := Op{Verb: Acquire, Terms: limit}, Op{Verb: Release}
		for _, step := range []struct {
			ops        []Op
			slots      []int // of those that acquire
			free       []int
			heldOrFree int
		}{
			{each(release, all[6], all[2], all[5], all[3], all[4]), nil, []int{2, 3, 4, 5, 6}, 20},
			{each(acquire, fresh[:2]...), []int{2, 3}, []int{4, 5, 6}, 20},
			{append(each(release, all[9], all[0]), each(acquire, fresh[2])...), []int{0}, []int{4, 5, 6, 9}, 20},
			{each(release, all[17], all[19]), nil, []int{4, 5, 6, 9, 17}, 19},
			{each(release, all[18]), nil, []int{4, 5, 6, 9, 17}, 18}, // 17 was freed before
			{append(each(release, all[7]), each(acquire, fresh[3:7]...)...), []int{4, 5, 6, 7}, []int{9, 17}, 18},
			{each(acquire, fresh[7:10]...), []int{9, 17, 18}, nil, 19},
			{each(acquire, fresh[10]), []int{19}, nil, 20},
			{each(release, slices.Concat(all[1:2], all[8:9], all[10:17], fresh[:11])...), nil, nil, 0},
		} {
			_, got := r.do(t, 0, step.ops...)
			var slots []int
			for i, op := range step.ops {
				if op.Verb == Acquire {
					slots = append(slots, got[i].Slot)
				}
			}
			d := r.dump(t)
			if !slices.Equal(slots, step.slots) || !slices.Equal(d.freeSlots(), step.free) || d.state(t).Slots != step.heldOrFree {
				t.Fatalf("%s\ngave slots %v, want %v; want %v and %d free or held\n%v", opsString(step.ops), slots, step.slots, step.free, step.heldOrFree, d)
			}
		}
	})
}

// TestFreeSlotsOfNobody: they are kept beside tombstones, and go with the sorted set.
func TestFreeSlotsOfNobody(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, r *rig) {
		all := fill(t, r, 3, terms(3))
		r.do(t, 0, each(Op{Verb: Release, Flag: true}, all[0])...)
		r.do(t, 0, each(Op{Verb: Release, Flag: true}, all[1:]...)...)
		if d := r.dump(t); d.state(t).Others != 3 || !slices.Equal(d.freeSlots(), []int{0}) {
			t.Fatalf("left\n%v", d)
		}
		if got := r.one(t, Op{Verb: Acquire, ID: "s0.9", Terms: terms(3)}); got.Slot != 0 {
			t.Errorf("granted %+v", got)
		}
		r.do(t, 0, Op{Verb: Release, ID: "s0.9"})
		overdue(t, r)
		r.do(t, 0)
		wantEmpty(t, r)
	})
}

// TestForeignFreeSlots: members that are no free slots, or not as many as are free, are
// damage.
func TestForeignFreeSlots(t *testing.T) {
	t.Parallel()
	onBoth(t, false, func(t *testing.T, r *rig) {
		for _, forged := range [][2]string{{"2", "x"}, {"2", "02"}, {"2", "2.0"}, {"2", "-2"}, {"1", "3"}, {"1", "20"}, {"2", "0-2"}} {
			r.reset(t)
			all := fill(t, r, 10, terms(20))
			r.do(t, 0, each(Op{Verb: Release}, all[:3]...)...)
			command(nil, "ZREM", "ORDER", forged[0]).do(t, r)
			command(nil, "ZADD", "ORDER", forged[0], forged[1]).do(t, r)
			before := r.raw(t)
			_, err := r.stores[1].Do(t.Context(), r.key, 0, each(Op{Verb: Acquire, Terms: terms(20)}, "s1.1", "s1.2", "s1.3"))
			if !errors.Is(err, ErrCorrupt) || !reflect.DeepEqual(r.raw(t), before) {
				t.Errorf("%q: %v\n%v", forged, err, r.raw(t))
			}
		}
	})
}

// TestHandOffsBesideOneWhoLeft: a call in which one leaves the end of the queue reads as many
// free slots as it gives out, however many more are stored.
func TestHandOffsBesideOneWhoLeft(t *testing.T) {
	t.Parallel()
	onBoth(t, false, func(t *testing.T, r *rig) {
		const limit, waiters, free = 1000, 600, 600
		all := fill(t, r, limit+waiters, terms(limit))
		r.do(t, 0, Op{Verb: Pause, Flag: true})
		for some := range slices.Chunk(all[:free], chunk) { // the hand-offs wait, and the slots are stored
			r.do(t, 0, each(Op{Verb: Release}, some...)...)
		}
		lines := drain(t, r, Op{Verb: Pause}, Op{Verb: Release, ID: all[len(all)-1]})
		var granted []string
		for _, l := range lines {
			granted = append(granted, l...)
		}
		if len(granted) != waiters-1 {
			t.Errorf("%d granted, want %d", len(granted), waiters-1)
		}
		if slots := r.dump(t).freeSlots(); len(slots) != free-(waiters-1) {
			t.Errorf("free slots %v", slots)
		}
		drain(t, r, each(Op{Verb: Release}, all[free:free+chunk]...)...)
	})
}
