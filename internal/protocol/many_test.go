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

// TestFreeSlotsAreKeptInRows: neighbours that are free together are one member, the lowest
// are given out, and what is left of a row stays one.
func TestFreeSlotsAreKeptInRows(t *testing.T) {
	t.Parallel()
	onBoth(t, false, func(t *testing.T, r *rig) {
		all, fresh, limit := fill(t, r, 120, terms(120)), ids(140)[120:], terms(120)
		acquire, release := Op{Verb: Acquire, Terms: limit}, Op{Verb: Release}
		for _, step := range []struct {
			ops   []Op
			slots []int // of those that acquire
			rows  []string
		}{
			{each(release, all[6], all[2], all[5], all[3], all[4]), nil, []string{"2-6"}},
			{each(acquire, fresh[:2]...), []int{2, 3}, []string{"4-6"}},
			{each(release, all[98], all[9], all[0], all[8], all[99], all[100]), nil, []string{"0", "4-6", "8-9", "98-100"}},
			{each(acquire, fresh[2]), []int{0}, []string{"4-6", "8-9", "98-100"}},
			{append(each(release, all[7]), each(acquire, fresh[3])...), []int{4}, []string{"5-7", "8-9", "98-100"}},
			{append(each(release, fresh[0], fresh[1]), each(acquire, fresh[4:6]...)...), []int{2, 3}, []string{"5-9", "98-100"}},
			{append(each(release, all[117], all[119]), each(acquire, fresh[6:10]...)...), []int{5, 6, 7, 8}, []string{"117", "9", "98-100"}},
			{each(release, all[118]), nil, []string{"117", "9", "98-100"}}, // the last are forgotten
			{each(acquire, fresh[10:14]...), []int{9, 98, 99, 100}, nil},   // the last row, too
			{each(acquire, fresh[14:16]...), []int{117, 118}, nil},
		} {
			_, got := r.do(t, 0, step.ops...)
			var slots []int
			for i, op := range step.ops {
				if op.Verb == Acquire {
					slots = append(slots, got[i].Slot)
				}
			}
			_, rows := r.dump(t).freeSlots()
			slices.Sort(rows)
			if !slices.Equal(slots, step.slots) || !slices.Equal(rows, step.rows) {
				t.Fatalf("%s\ngave slots %v, left %q, want %v, %q", opsString(step.ops), slots, rows, step.slots, step.rows)
			}
		}
	})
}

// TestForeignRowsGiveNoSlots: rows of free slots that cannot be, or that are not as many slots
// as are free, are damage.
func TestForeignRowsGiveNoSlots(t *testing.T) {
	t.Parallel()
	onBoth(t, false, func(t *testing.T, r *rig) {
		for _, rows := range [][]string{
			{"0", "5-6"}, {"0-3", "5-6"}, {"0-2", "2-3"}, {"0-2", "6-5"}, {"0-2", "5-60"}, {"0-2", "5-"}, {"0-2", "5-x"},
		} {
			r.reset(t)
			all := fill(t, r, 10, terms(20))
			r.do(t, 0, each(Op{Verb: Release}, all[0], all[1], all[2], all[5], all[6])...)
			command(nil, "ZREM", "ORDER", "0-2", "5-6").do(t, r)
			for _, row := range rows {
				command(nil, "ZADD", "ORDER", row[:1], row).do(t, r)
			}
			before := r.raw(t)
			_, err := r.stores[1].Do(t.Context(), r.key, 0, each(Op{Verb: Acquire, Terms: terms(20)}, "s1.1", "s1.2", "s1.3"))
			if !errors.Is(err, ErrCorrupt) || !reflect.DeepEqual(r.raw(t), before) {
				t.Errorf("%q: %v\n%v", rows, err, r.raw(t))
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
		for some := range slices.Chunk(all[:free], chunk) { // the hand-offs wait, and the slots are stored in three rows
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
		if slots, rows := r.dump(t).freeSlots(); len(slots) != free-(waiters-1) {
			t.Errorf("free slots %v, stored as %v", slots, rows)
		}
		drain(t, r, each(Op{Verb: Release}, all[free:free+chunk]...)...)
	})
}
