package protocol

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"
)

// What others have written into the keys, or taken out of them, ends in a typed
// error and changes nothing, or is healed; it never ends in a panic, a Lua error
// or half a step. limits_test tells what is noticed and what cannot be.

func TestKeysOfOtherTypes(t *testing.T) {
	t.Parallel()
	var damages []damage
	for _, key := range []string{"STATE", "ORDER"} {
		var want error // the sorted set of a compact lease is not looked at to renew and to release it
		if key == "STATE" {
			want = ErrCorrupt
		}
		gone := command(nil, "DEL", key)
		damages = append(damages,
			both(gone, command(want, "SET", key, "text")),
			both(gone, command(want, "LPUSH", key, "a")),
			both(gone, command(want, "SADD", key, "a")),
			both(gone, command(want, "XADD", key, "1-1", "a", "b")),
		)
	}
	damages = append(damages,
		both(command(nil, "DEL", "STATE"), command(ErrCorrupt, "ZADD", "STATE", 1, "a")),
		both(command(nil, "DEL", "ORDER"), command(nil, "HSET", "ORDER", "a", "b")))
	tryAll(t, damages)
}

func TestKeysDeleted(t *testing.T) {
	t.Parallel()
	tryAll(t, []damage{
		command(nil, "DEL", "STATE"),
		command(nil, "DEL", "ORDER"),
		command(nil, "DEL", "STATE", "ORDER"),
		vanish("STATE"),
		vanish("ORDER"),
		command(nil, "PERSIST", "STATE"),
		command(nil, "PERSIST", "ORDER"),
		command(nil, "HDEL", "STATE", "state"),
		command(nil, "SCRIPT", "FLUSH"),
	})
	tryAll(t, []damage{command(ErrCorrupt, "HDEL", "STATE", "state")}, furnish, plain, lone)
}

// TestForeignMembers: any member more or less than there should be is noticed.
func TestForeignMembers(t *testing.T) {
	t.Parallel()
	var damages []damage
	for _, score := range []any{"+inf", "-inf", 1e308, -1e308, 0.5, 0, 3, int64(1 << 32), 1790000000000.5, float64(1 << 53)} {
		for _, member := range []string{"", "foreign", "#", "7", "#s0.9"} {
			damages = append(damages, command(ErrCorrupt, "ZADD", "ORDER", score, member))
		}
	}
	for _, member := range []string{"s0.2", note} {
		damages = append(damages, command(ErrCorrupt, "ZREM", "ORDER", member))
	}
	tryAll(t, damages, furnish, plain, lone)
	tryAll(t, []damage{command(ErrCorrupt, "ZREM", "ORDER", "#s0.4"), command(ErrCorrupt, "ZREM", "ORDER", "0")}, furnish)
}

func TestForeignScores(t *testing.T) {
	t.Parallel()
	var damages []damage
	for _, score := range []any{"+inf", "-inf", 1e308, -1e308, 0.5, 0, -0.5, 3, int64(1 << 32), 1790000000000.5, float64(1 << 53)} {
		for _, member := range []string{"s0.2", "s0.4", "#s0.4", "0", "s1.1", note} {
			damages = append(damages, command(nil, "ZADD", "ORDER", "XX", score, member))
		}
	}
	tryAll(t, damages, furnish, plain, lone)
}

// TestHugeContent: members and records of 1 MB, with one operation to meet each.
func TestHugeContent(t *testing.T) {
	t.Parallel()
	huge := strings.Repeat("h", 1<<20)
	everywhere(t, func(t *testing.T, r *rig) {
		for d, name := range map[*damage]string{
			new(command(ErrCorrupt, "ZADD", "ORDER", "-inf", huge)):      "acquire, new",
			new(command(ErrCorrupt, "HSET", "STATE", "s0.2", huge)):      "release",
			new(command(ErrCorrupt, "HSET", "STATE", "state", "1"+huge)): "renew",
			new(command(nil, "HSET", "STATE", huge, huge)):               "renew",
		} {
			furnish(t, r)
			d.do(t, r)
			probe(t, r, *d, r.raw(t), name, probes()[name])
			inspectDamaged(t, r, *d, furnish)
		}
	})
}

// foreignRecords are no records, or have numbers that are none.
var foreignRecords = []string{
	"", "x", "x 12", "x 5", "x 5 ", "h", "w", "z 1", "h 1 0 5 0 30000 - o/1/h l", "h 1 0 5 0 1/h l", "h 1x 0 5 0 30000 - 1/h l", "h 1 0 1e3 0 30000 - 1/h l",
	"h -1 0 5 0 30000 - 1/h l", "w 1 5 7 0 30000 15000 1/h l", "w 1 - 5 0 30000 15000 nobody ", "h 1 0 5 0 30000 - ", "w 1 - 5 0 30000 15000  label",
}

func TestForeignRecords(t *testing.T) {
	t.Parallel()
	var damages []damage
	for _, id := range []string{"s0.2", "s0.4", "s1.1", "s0.9"} {
		for _, record := range append([]string{
			"h 9223372036854775807 0 5 0 30000 - 1/h l", "h 1 9223372036854775807 5 0 30000 - 1/h l", "h 1 0 9223372036854775807 0 30000 - 1/h l",
			"h 1 0 5 9223372036854775807 30000 - 1/h l", "h 1 0 5 0 9223372036854775807 - 1/h l", "h 1 1 5 1 30000 - 1/h l",
			"w 9223372036854775807 - 5 0 30000 15000 1/h l", "w 2 - 9223372036854775807 0 30000 15000 1/h l", "w 2 - 5 9223372036854775807 30000 15000 1/h l",
		}, foreignRecords...) {
			damages = append(damages, command(nil, "HSET", "STATE", id, record))
		}
		damages = append(damages, command(nil, "HDEL", "STATE", id))
	}
	tryAll(t, damages, furnish, plain, lone)
}

// TestReleaseAmongForeign: records that nobody could have written are found in a call of
// several operations, too, and none of them happens.
func TestReleaseAmongForeign(t *testing.T) {
	t.Parallel()
	damages := []damage{command(ErrCorrupt, "ZREM", "ORDER", "1"), both(command(nil, "ZREM", "ORDER", "1"), command(ErrCorrupt, "ZADD", "ORDER", 1, "x"))}
	for _, record := range []string{
		"h,1 3 5 0 30000 1/h l", "h 1,3 5 0 30000 1/h l", "h 1 x 5 0 30000 - 1/h l", "h 1 - 5 0 30000 - 1/h l", "h 1 / 5 0 30000 - 1/h l",
		"h 1 3/ 5 0 30000 - 1/h l", "h 1 3: 5 0 30000 - 1/h l", "h 1 3",
	} {
		damages = append(damages, command(ErrCorrupt, "HSET", "STATE", "s0.4", record))
	}
	everywhere(t, func(t *testing.T, r *rig) {
		for _, d := range damages {
			r.reset(t)
			acquire := each(Op{Verb: Acquire, Terms: terms(8)}, ids(8)...)
			r.do(t, 0, acquire[:5]...)
			r.do(t, 0, each(Op{Verb: Release}, acquire[1].ID)...)
			d.do(t, r)
			before := r.raw(t)
			_, err := r.stores[0].Do(t.Context(), r.key, 0, append(each(Op{Verb: Release}, acquire[2].ID, "s0.4"), acquire[5:]...))
			wantKind(t, err, ErrRejected, d.want)
			if after := r.raw(t); !reflect.DeepEqual(before, after) {
				t.Errorf("%s: changed\n%v\nto\n%v", d.name, before, after)
			}
		}
	})
}

// TestReleaseOfAnotherLease: a record that would give back less than its lease took, or a
// slot that nobody has, is found when it is released.
func TestReleaseOfAnotherLease(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, r *rig) {
		for _, record := range []string{"h 2 0 5 0 30000 - 1/h;g ", "h 3 1 5 0 30000 - 1/h;g ", "h 3 9 5 0 30000 - 1/h;g "} {
			for _, flag := range []bool{false, true} {
				r.reset(t)
				r.do(t, 0, Op{Verb: Acquire, ID: "s0.2", Terms: terms(9, func(t *Terms) { t.Weight = 3 })})
				if !strings.HasPrefix(record, "h 2") { // another one holds slot 1, or the numbers begin anew
					r.do(t, 0, Op{Verb: Acquire, ID: "s0.1", Terms: terms(9)}, Op{Verb: Acquire, ID: "s0.3", Terms: terms(9)})
					r.do(t, 0, Op{Verb: Release, ID: "s0.1"})
					record = strings.Replace(record, "3 1", "3 3", 1)
				}
				command(nil, "HSET", "STATE", "s0.2", record).do(t, r)
				before := r.raw(t)
				_, err := r.stores[0].Do(t.Context(), r.key, 0, []Op{{Verb: Release, ID: "s0.2", Flag: flag}})
				wantKind(t, err, ErrRejected, ErrCorrupt)
				if after := r.raw(t); !reflect.DeepEqual(before, after) {
					t.Errorf("%s: changed\n%v\nto\n%v", record, before, after)
				}
			}
		}
	})
}

// TestWaitersOfNobody: a waiter whose owner is no owner is not handed anything.
func TestWaitersOfNobody(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, r *rig) {
		for _, record := range []string{"w 1 - 5 0 30000 15000 ", "w 1 - 5 0 30000 15000  label", "w 1 - 5 0 30000 15000 nobody label", "w 1 - 5 0 30000 15000 :label"} {
			for _, back := range [][]string{{"s0.1"}, {"s0.1", "s0.2"}} {
				r.reset(t)
				r.do(t, 0, each(Op{Verb: Acquire, Terms: terms(2)}, ids(4)...)...)
				command(nil, "HSET", "STATE", "s0.3", record).do(t, r)
				_, err := r.stores[0].Do(t.Context(), r.key, 0, each(Op{Verb: Release}, back...))
				wantKind(t, err, ErrRejected, ErrCorrupt)
			}
		}
	})
}

// TestReleaseLeavesForeignFields: the release of a compact lease looks at its own
// field alone, and takes that alone away.
func TestReleaseLeavesForeignFields(t *testing.T) {
	t.Parallel()
	onBoth(t, false, func(t *testing.T, r *rig) {
		compact(t, r)
		command(nil, "HSET", "STATE", "a", "b").do(t, r)
		if r.mr != nil {
			r.mr.SetTime(start.Add(time.Second)) // past the last token
		}
		wantCodes(t, []Result{r.one(t, Op{Verb: Release, ID: "s0.2"})}, Released)
		if got := r.raw(t).fields; len(got) != 1 || got["a"] != "b" {
			t.Errorf("left: %q", got)
		}
	})
}

// TestCompactAmongForeign: where somebody else wrote beside a compact lease, or
// into it, it is not unfolded, and nobody is shown it as if all were well.
func TestCompactAmongForeign(t *testing.T) {
	t.Parallel()
	for _, d := range []damage{
		command(ErrCorrupt, "ZADD", "ORDER", 1, "a"),
		command(ErrCorrupt, "HSET", "STATE", "a", "b"),
		field(ErrCorrupt, 4, "4294967295"),
	} {
		t.Run(d.name, func(t *testing.T) {
			onBoth(t, false, func(t *testing.T, r *rig) {
				compact(t, r)
				d.do(t, r)
				before := r.raw(t)
				for _, name := range []string{"acquire", "try", "pause", "move"} {
					probe(t, r, d, before, name, probes()[name])
				}
				if _, err := Inspect(t.Context(), r.stores[0], r.key, true); !strings.HasPrefix(d.name, "state") {
					wantKind(t, err, ErrRejected, ErrCorrupt)
				}
			})
		})
	}
}

// numberlike are texts that a careless reader takes for a number.
var numberlike = []string{"12x", "", "-5", "1e3", "0x10", "nan", "inf"}

// tooLarge are numbers that doubles do not hold.
var tooLarge = []string{"9007199254740993", "9223372036854775807"}

func TestForeignNumbers(t *testing.T) {
	t.Parallel()
	tryAll(t, foreignNumbers(ErrCorrupt, 0, 1, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13), furnish, plain, lone)
	damages := append(foreignNumbers(nil, 2), command(ErrCorrupt, "HSET", "STATE", "state", ""))
	for place := 1; place < 13; place++ {
		damages = append(damages, field(ErrCorrupt, place, "1"+strings.Repeat("0", 30)))
	}
	tryAll(t, damages, furnish, plain, lone)
}

// TestForeignNumbersCompact: a compact lease is read as carefully, by what reads it. A
// release looks at token and deadline, a renewal also at the limit.
func TestForeignNumbersCompact(t *testing.T) {
	t.Parallel()
	damages := append(foreignNumbers(ErrCorrupt, 3, 4), field(ErrCorrupt, 2, ""), field(ErrCorrupt, 0, "0"), field(ErrCorrupt, 1, "Compact"))
	tryAll(t, append(damages, foreignNumbers(nil, 5, 6, 7)...), compact)
}

// foreignNumbers puts what is no number, or too large, in places of "state".
func foreignNumbers(want error, places ...int) (damages []damage) {
	for _, place := range places {
		for _, value := range numberlike {
			damages = append(damages, field(want, place, value))
		}
		for _, value := range tooLarge {
			if place > 0 { // that would be a newer layout
				damages = append(damages, field(nil, place, value))
			}
		}
	}
	return damages
}

func TestNewerLayout(t *testing.T) {
	t.Parallel()
	tryAll(t, []damage{
		field(ErrVersion, 0, "4"), // of a compact lease, too
		field(ErrVersion, 0, "10"),
		command(ErrVersion, "HSET", "STATE", "state", "4 a b c"),
		both(command(nil, "DEL", "STATE", "ORDER"), command(ErrVersion, "HSET", "STATE", "state", "4 ")),
		both(command(nil, "DEL", "ORDER"), command(ErrVersion, "HSET", "STATE", "state", "4 compact s0.2 5 1800000000000 0 A")),
	})
	everywhere(t, func(t *testing.T, r *rig) {
		for _, lay := range []setup{furnish, compact} {
			lay(t, r)
			field(nil, 0, "4").do(t, r)
			before := r.exactly(t)
			_, err := Inspect(t.Context(), r.stores[0], r.key, true)
			wantKind(t, err, ErrRejected, ErrVersion)
			_, err = Delete(t.Context(), r.stores[0], r.key)
			wantKind(t, err, ErrRejected, ErrVersion)
			if after := r.exactly(t); !reflect.DeepEqual(before, after) {
				t.Errorf("changed\n%q\nto\n%q", before, after)
			}
		}
	})
}

// TestOlderLayout: layouts 1 and 2 are an older berth's. What says that it is of layout 0 was not
// written by berth.
func TestOlderLayout(t *testing.T) {
	t.Parallel()
	tryAll(t, []damage{
		field(ErrOlder, 0, "1"), field(ErrOlder, 0, "2"), // of a compact lease, too
		command(ErrOlder, "HSET", "STATE", "state", "1 3 -1 0 0 1 1 1 0 1 5 6 7 0"),
	})
	tryAll(t, []damage{field(ErrCorrupt, 0, "0"), command(ErrCorrupt, "HSET", "STATE", "settings", "1 3 -1 0 0", "state", "0")})
}

// TestLayoutBeforeTheFirst: fields that berth had before its keys were told by "state" are an older
// berth's, and others are damage.
func TestLayoutBeforeTheFirst(t *testing.T) {
	t.Parallel()
	empty := func(t failer, r *rig) { r.reset(t) }
	tryAll(t, []damage{
		command(ErrOlder, "HSET", "STATE", "settings", "1 3 -1 0 0", "counts", "1 1 0 0 1 0 0 0"),
		command(ErrCorrupt, "HSET", "STATE", "counts", "1 1 0 0 1 0 0 0"),
	}, empty)
}

// rated has a holder and a waiter, and a rate of which something is spent.
func rated(t failer, r *rig) {
	t.Helper()
	r.reset(t)
	rate := func(t *Terms) { t.Rates, t.Weight = ":3/3600000", 2 }
	r.do(t, 0, Op{Verb: Acquire, ID: "s0.2", Terms: terms(3, rate)})
	r.do(t, 0, Op{Verb: Acquire, ID: "s0.4", Terms: terms(3, rate)})
}

// TestDamagedRate: what cannot be a set of rates, or counts for none, is damage.
func TestDamagedRate(t *testing.T) {
	t.Parallel()
	const epoch, set, spent, fades, since = 14, 15, 16, 17, 18
	tryAll(t, []damage{
		field(ErrCorrupt, set, "-"), field(ErrCorrupt, set, ":0/10"), field(ErrCorrupt, set, ":3"), field(ErrCorrupt, set, "x"), field(ErrCorrupt, set, ":3/3600000,:4/3600000"),
		field(ErrCorrupt, set, ":3/3600000,t:1/10"), field(ErrCorrupt, set, "None:3/3600000"), field(ErrCorrupt, set, ":3/3600000+"), field(ErrCorrupt, epoch, "9"),
		field(ErrCorrupt, spent, "0"), field(ErrCorrupt, spent, "-1"), field(ErrCorrupt, spent, "12345678901234567"), field(ErrCorrupt, fades, "0"),
		field(ErrCorrupt, fades, "9999999999999"), field(ErrCorrupt, since, "x"), field(ErrCorrupt, since, "1 2"),
		field(ErrVersion, 0, "4"), field(ErrOlder, 0, "2"),
	}, rated)
}

// TestDamagedRow: what counts for a rate is read when somebody is granted, or has to wait for it.
func TestDamagedRow(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, r *rig) {
		for _, row := range []string{
			"", "r", "r |", "x 1", "r ||", "r |1 2 3|", "r |0 1 1 2|", "r |36000 5 4 2|", "r |36000 1 1 x|", "r |36000 1 1 2|3 3 3 3|", "r |1 1790000000000 1790000009999 2|",
			"r |36000 99999999999999 99999999999999 2|", "r |36000  1 1 2|",
		} {
			rated(t, r)
			command(nil, "HSET", "STATE", "!r", row).do(t, r)
			before := r.exactly(t)
			ops := []Op{{Verb: Acquire, ID: "s0.9", Terms: terms(9, func(t *Terms) { t.Wait, t.Weight = false, 2 })}}
			_, err := r.stores[0].Do(t.Context(), r.key, 0, ops)
			if !errors.Is(err, ErrCorrupt) {
				t.Errorf("%q: %v, %+v", row, err, ops[0].Result)
			}
			if after := r.exactly(t); !reflect.DeepEqual(before, after) {
				t.Errorf("%q: changed\n%q\nto\n%q", row, before, after)
			}
		}
	})
}

// cooled has a holder and a waiter, and a pause that ends.
func cooled(t failer, r *rig) {
	t.Helper()
	r.reset(t)
	r.do(t, 0, Op{Verb: Acquire, ID: "s0.2", Terms: terms(3)})
	r.do(t, 0, Op{Verb: Cool, TTL: time.Hour, Who: "ann"})
	r.do(t, 0, Op{Verb: Acquire, ID: "s0.4", Terms: terms(3)})
}

// TestDamagedPause: a pause that ends has a record of its own.
func TestDamagedPause(t *testing.T) {
	t.Parallel()
	const paused = 3
	tryAll(t, []damage{
		field(ErrCorrupt, paused, "3"), field(nil, paused, "0"), field(ErrVersion, 0, "4"),
	}, cooled)
	tryAll(t, []damage{field(ErrCorrupt, paused, "2")}, furnish, plain, lone)
}

// TestFlush: a database that was emptied in the middle is a new beginning, with tokens
// above all that were given.
func TestFlush(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, r *rig) {
		furnish(t, r)
		last := r.dump(t).state(t).Last
		if r.mr != nil {
			r.mr.SetTime(start.Add(time.Second))
		}
		r.reset(t)
		wantCodes(t, []Result{r.one(t, Op{Verb: Renew, ID: "s0.2", TTL: time.Minute})}, Gone)
		got := r.one(t, Op{Verb: Acquire, ID: "s0.9", Terms: terms(3)})
		if got.Code != Granted || got.Token <= last || got.Slot != 0 {
			t.Fatalf("granted %+v after token %d", got, last)
		}
	})
}

// TestLookRefusesWhatCallsRefuse: whatever in "state" a call takes for damage, or for half of a
// semaphore, whoever looks hears of, too.
func TestLookRefusesWhatCallsRefuse(t *testing.T) {
	t.Parallel()
	const declared, pin, used, holders, waiting, others, slots, last, nearest, till = 1, 2, 5, 6, 7, 8, 9, 10, 11, 12
	numbers := []damage{
		field(nil, pin, "-2"), field(nil, holders, "0"), field(nil, used, "0"), field(nil, used, "9999999999999"), field(nil, declared, "1234567890123"),
		field(nil, holders, "99"), field(nil, slots, "0"), field(nil, slots, "9"), field(nil, waiting, "9"), field(nil, others, "9"),
		field(nil, last, "9007199254740992"), field(nil, nearest, "9999999999999"), field(nil, till, "123456789012345"),
		field(nil, used, "0", holders, "0", waiting, "0", others, "0"),
		command(nil, "DEL", "ORDER"), command(nil, "DEL", "STATE"), command(nil, "ZADD", "ORDER", 1, "1"), command(nil, "ZADD", "ORDER", "XX", 5e9, "0"), command(nil, "ZADD", "ORDER", "XX", 5e9, "1"), command(nil, "ZADD", "ORDER", 5, "foreign"),
		command(nil, "ZREM", "ORDER", note), both(command(nil, "DEL", "STATE"), command(nil, "ZREM", "ORDER", note)),
		command(nil, "HSET", "STATE", "state", ""), command(nil, "HDEL", "STATE", "state"), command(nil, "SET", "STATE", "a"), command(nil, "SET", "ORDER", "a"),
	}
	pausing := func(t failer, r *rig) {
		r.reset(t)
		r.do(t, 0, Op{Verb: Cool, TTL: time.Hour, Who: "ann"})
	}
	onBoth(t, false, func(t *testing.T, r *rig) {
		refused := 0
		for _, lay := range []setup{furnish, plain, lone, buried, rated, cooled, pausing} {
			for _, d := range numbers {
				lay(t, r)
				d.do(t, r)
				refused += seenAsRefused(t, r, d)
			}
		}
		if refused < 100 {
			t.Errorf("only %d were refused", refused)
		}
	})
}
