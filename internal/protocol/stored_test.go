package protocol

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// What others have written into the keys, or taken out of them, ends in a typed
// error and changes nothing, or is healed; it never ends in a panic, a Lua error
// or half a step.

// damage is something done to the keys behind berth's back.
type damage struct {
	name string
	do   func(t failer, r *rig)
	want error // every operation gives it; nil: those that notice give ErrCorrupt, others pass
}

// furnish leaves three kinds of members: s0.2 and s0.3 hold slots 1 and 2, slot
// 0 is free, s0.4 and s0.5 wait because they are heavy, s1.1 is a tombstone.
func furnish(t failer, r *rig) {
	t.Helper()
	r.reset(t)
	r.do(t, 0, each(Op{Verb: Acquire, Terms: terms(3)}, ids(3)...)...)
	r.do(t, 0, each(Op{Verb: Acquire, Terms: terms(3, func(t *Terms) { t.Weight = 2 })}, "s0.4", "s0.5")...)
	r.do(t, 0, Op{Verb: Release, ID: "s0.1"}, Op{Verb: Release, ID: "s1.1", Flag: true})
}

// plain leaves s0.2 and s0.3 holding, and nothing else: the short way's case.
func plain(t failer, r *rig) {
	t.Helper()
	r.reset(t)
	r.do(t, 0, each(Op{Verb: Acquire, Terms: terms(3)}, "s0.2", "s0.3")...)
}

// lone leaves s0.2 as the only holder, in the common layout.
func lone(t failer, r *rig) {
	t.Helper()
	folds(t, r)
	r.do(t, 0, Op{Verb: Release, ID: "s0.9"}) // unfolds
}

// folds leaves s0.2 as the only holder, folded.
func folds(t failer, r *rig) {
	t.Helper()
	r.reset(t)
	r.do(t, 0, Op{Verb: Acquire, ID: "s0.2", Terms: terms(3)})
}

// probes are all operations, on ids of each kind.
func probes() map[string]Op {
	return map[string]Op{
		"acquire":           {Verb: Acquire, ID: "s0.9", Terms: terms(3)},
		"try":               {Verb: Acquire, ID: "s0.9", Terms: terms(3, func(t *Terms) { t.Wait = false })},
		"acquire again":     {Verb: Acquire, ID: "s0.2", Terms: terms(3)},
		"wait again":        {Verb: Acquire, ID: "s0.4", Terms: terms(3)},
		"acquire, new":      {Verb: Acquire, ID: "s0.9", Terms: terms(5)},
		"release":           {Verb: Release, ID: "s0.2"},
		"release, tomb":     {Verb: Release, ID: "s0.2", Flag: true},
		"cancel":            {Verb: Release, ID: "s0.4"},
		"release, unknown":  {Verb: Release, ID: "s0.9", Flag: true},
		"renew":             {Verb: Renew, ID: "s0.2", TTL: time.Minute},
		"heartbeat":         {Verb: Heartbeat, ID: "s0.4", TTL: time.Minute, Flag: true},
		"heartbeat, holder": {Verb: Heartbeat, ID: "s0.2", TTL: time.Minute},
		"evict":             {Verb: Evict, ID: "s0.2", Flag: true},
		"evict gently":      {Verb: Evict, ID: "s0.2"},
		"resize":            {Verb: Resize, N: 4},
		"pin":               {Verb: Pin, N: 6},
		"pause":             {Verb: Pause, Flag: true},
	}
}

// everyWay runs a test on both servers and by both ways through the script.
func everyWay(t *testing.T, body func(t *testing.T, r *rig)) {
	t.Helper()
	for _, f := range []form{{}, {keeps: true, long: true}} {
		t.Run(fmt.Sprintf("%+v", f), func(t *testing.T) { onBoth(t, f, body) })
	}
}

// full is for a thorough run: go test ./internal/protocol -full.
var full = flag.Bool("full", false, "try every operation on every damage, not every seventh")

// layout leaves a semaphore in some state.
type layout func(t failer, r *rig)

// tryAll tries operations on keys with every damage, in every state or those given.
func tryAll(t *testing.T, damages []damage, lays ...layout) {
	t.Helper()
	if lays == nil {
		lays = []layout{furnish, plain, lone, folds}
	}
	everyWay(t, func(t *testing.T, r *rig) { tryOn(t, r, damages, lays...) })
}

// tryOn tries operations on one rig. They take turns, so that each meets each
// kind of damage, but not every single one.
func tryOn(t *testing.T, r *rig, damages []damage, lays ...layout) {
	t.Helper()
	turn := 0
	for _, d := range damages {
		for _, lay := range lays {
			damaged := func() dump {
				lay(t, r)
				d.do(t, r)
				return r.raw(t)
			}
			before, ops := damaged(), probes()
			for _, name := range slices.Sorted(maps.Keys(ops)) {
				if turn++; !*full && turn%7 != 0 {
					continue
				}
				if probe(t, r, d, before, name, ops[name]) {
					before = damaged()
				}
			}
		}
		inspectDamaged(t, r, d, lays[0])
	}
}

// probe runs one operation and checks that an error is typed, and left all as it
// was. It reports whether the operation passed.
func probe(t *testing.T, r *rig, d damage, before dump, name string, op Op) (passed bool) {
	t.Helper()
	ops := []Op{op}
	_, err := r.stores[0].Do(context.Background(), r.keys, 0, ops)
	after := r.raw(t)
	switch {
	case d.want != nil && !errors.Is(err, d.want):
		t.Errorf("%s, %s: error %v, want %v", d.name, name, err, d.want)
	case err == nil:
		checkPassed(t, r, d, after, name, ops[0])
		return true
	case !errors.Is(err, ErrRejected) || !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrVersion):
		t.Errorf("%s, %s: untyped error %v", d.name, name, err)
	case !reflect.DeepEqual(after, before):
		t.Errorf("%s, %s: error %v, but changed\n%.2000s\nto\n%.2000s", d.name, name, err, before, after)
	}
	return false
}

// checkPassed checks that an operation that passed gave and left numbers that
// make sense, so that the next one gives no untyped error either.
func checkPassed(t *testing.T, r *rig, d damage, after dump, name string, op Op) {
	t.Helper()
	for _, text := range []string{after.numerals(), after.fields["counts"]} {
		if strings.Contains(strings.ReplaceAll(text, " -1 ", " "), "-") || strings.Contains(text, "e") {
			t.Errorf("%s, %s: wrote %q", d.name, name, text)
		}
	}
	if left := op.Result.Remaining; left.Abs() > 100*365*24*time.Hour {
		t.Errorf("%s, %s: answered %+v", d.name, name, op.Result)
	}
	if _, err := r.stores[0].Do(context.Background(), r.keys, 0, []Op{op}); err != nil && !errors.Is(err, ErrCorrupt) {
		t.Errorf("%s, %s twice: untyped error %v", d.name, name, err)
	}
}

// numerals are the settings; of those that are folded, the numbers that are not
// copied as they came.
func (d dump) numerals() string {
	settings := d.fields["settings"]
	part := strings.SplitN(settings, " ", 6)
	if _, ok := d.fields["counts"]; ok || len(part) < 6 {
		return settings
	}
	return strings.Join(append(part[:1], part[2:5]...), " ")
}

// inspectDamaged checks that looking at damaged keys gives a typed error or none.
func inspectDamaged(t *testing.T, r *rig, d damage, lay layout) {
	t.Helper()
	lay(t, r)
	d.do(t, r)
	for _, records := range []bool{true, false} {
		_, err := r.stores[0].Inspect(context.Background(), r.keys, records)
		if d.want != nil && !errors.Is(err, d.want) || err != nil && !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrVersion) {
			t.Errorf("%s: inspect, with records: %v: error %v, want %v", d.name, records, err, d.want)
		}
	}
	if _, err := r.stores[0].Delete(context.Background(), r.keys); err != nil {
		t.Errorf("%s: delete: %v", d.name, err)
	}
}

// raw is what is stored, whatever its types.
func (r *rig) raw(t failer) dump {
	t.Helper()
	ctx := context.Background()
	pipe := r.rdb.Pipeline()
	fields, scores := pipe.HGetAll(ctx, r.keys.State), pipe.ZRangeWithScores(ctx, r.keys.Order, 0, -1)
	_, _ = pipe.Exec(ctx) // an error of one says that it has another type
	d := dump{fields: fields.Val(), scores: map[string]float64{}}
	for key, err := range map[string]error{r.keys.State: fields.Err(), r.keys.Order: scores.Err()} {
		if err != nil {
			d.fields = map[string]string{"foreign": fmt.Sprint(err, r.rdb.Dump(ctx, key).Val())}
		}
	}
	for _, z := range scores.Val() {
		d.scores[z.Member.(string)] = z.Score
	}
	return d.unfolded()
}

// vanish is a damage after which the server itself removes a key.
func vanish(key string) damage {
	d := command(nil, "PEXPIRE", key, 1)
	return damage{name: d.name, do: func(t failer, r *rig) {
		d.do(t, r)
		ctx := context.Background()
		if r.mr != nil {
			r.mr.SetTime(r.rdb.Time(ctx).Val().Add(time.Second))
		}
		name := map[string]string{"STATE": r.keys.State, "ORDER": r.keys.Order}[key]
		for n := int64(1); n > 0; {
			var err error
			if n, err = r.rdb.Exists(ctx, name).Result(); err != nil {
				t.Fatalf("%v", err)
			}
		}
	}}
}

// command is a damage that one Redis command does; STATE and ORDER stand for the keys.
func command(want error, args ...any) damage {
	name := fmt.Sprintf("%.60q", fmt.Sprint(args...))
	return damage{name: name, want: want, do: func(t failer, r *rig) {
		full := append([]any(nil), args...)
		for i, a := range full {
			switch a {
			case "STATE":
				full[i] = r.keys.State
			case "ORDER":
				full[i] = r.keys.Order
			}
		}
		if err := r.rdb.Do(context.Background(), full...).Err(); err != nil && !errors.Is(err, redis.Nil) {
			t.Fatalf("%v: %v", full, err)
		}
	}}
}

// both does one damage after another.
func both(a, b damage) damage {
	return damage{name: a.name + ", " + b.name, want: b.want, do: func(t failer, r *rig) {
		a.do(t, r)
		b.do(t, r)
	}}
}

func TestKeysOfOtherTypes(t *testing.T) {
	t.Parallel()
	var damages []damage
	for _, key := range []string{"STATE", "ORDER"} {
		var want error
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
		command(nil, "HDEL", "STATE", "counts"),
		command(nil, "HDEL", "STATE", "settings"),
		command(nil, "HDEL", "STATE", "settings", "counts"),
		command(nil, "SCRIPT", "FLUSH"),
	})
}

// TestHalfThatWasLeft: what is left of a lost semaphore is not mixed with the new one.
func TestHalfThatWasLeft(t *testing.T) {
	t.Parallel()
	everyWay(t, func(t *testing.T, r *rig) {
		for _, lay := range []layout{furnish, plain, lone, folds} {
			lay(t, r)
			r.rdb.Del(t.Context(), r.keys.State)
			r.do(t, 0, Op{Verb: Acquire, ID: "s0.9", Terms: terms(3)})
			if after := r.raw(t); len(after.fields) != 4 || len(after.scores) != 2 {
				t.Errorf("a first lease after the loss of the hash left\n%s", after)
			}
		}
	})
}

// TestRepeatAfterTheSetWasLost: a lease of which only the record is left is not
// given anew, alone or among others, where there is room and where there is none.
func TestRepeatAfterTheSetWasLost(t *testing.T) {
	t.Parallel()
	everyWay(t, func(t *testing.T, r *rig) {
		for limit, all := range map[int][]string{2: {"s0.2"}, 3: {"s0.2"}, 9: {"s0.9", "s0.2"}} {
			r.reset(t)
			r.do(t, 0, each(Op{Verb: Acquire, Terms: terms(limit)}, "s0.2", "s0.3")...)
			r.rdb.Del(t.Context(), r.keys.Order)
			before := r.raw(t)
			_, err := r.stores[0].Do(t.Context(), r.keys, 0, each(Op{Verb: Acquire, Terms: terms(limit)}, all...))
			wantKind(t, err, ErrRejected, ErrCorrupt)
			if after := r.raw(t); !reflect.DeepEqual(after, before) {
				t.Errorf("limit %d: changed\n%s\nto\n%s", limit, before, after)
			}
		}
	})
}

// TestWaitersOfNobody: who waits without an owner that could be told is not handed
// anything, and what is told goes to the owner's channel and nowhere else.
func TestWaitersOfNobody(t *testing.T) {
	t.Parallel()
	everyWay(t, func(t *testing.T, r *rig) {
		for _, record := range []string{"w 1 5 0 ", "w 1 5 0  label", "w 1 5 0 SESSION and/label"} {
			for _, back := range [][]string{{"s0.1"}, {"s0.1", "s0.2"}} {
				r.reset(t)
				r.do(t, 0, each(Op{Verb: Acquire, Terms: terms(2)}, ids(4)...)...)
				session := r.stores[1].owner.session
				r.rdb.HSet(t.Context(), r.keys.State, "s0.3", strings.Replace(record, "SESSION", session, 1))
				_, err := r.stores[0].Do(t.Context(), r.keys, 0, each(Op{Verb: Release}, back...))
				heard := r.notes(t)
				switch named := strings.Contains(record, "SESSION"); {
				case !named && !errors.Is(err, ErrCorrupt):
					t.Errorf("%q: %v", record, err)
				case named && (err != nil || len(heard[ownerOf(r.stores[1])]) != 1):
					t.Errorf("%q: %v, heard %v", record, err, heard)
				}
			}
		}
	})
}

func TestForeignScores(t *testing.T) {
	t.Parallel()
	var damages []damage
	for _, score := range []any{"+inf", "-inf", 1e308, -1e308, 0.5, 0, -0.5, 3, 1 << 32, 1790000000000.5, float64(1 << 53)} {
		for _, member := range []string{"s0.2", "s0.4", "qs0.4", "s0", "s1.1", "", "foreign", "q"} {
			damages = append(damages, command(nil, "ZADD", "ORDER", score, member))
		}
	}
	tryAll(t, damages)
}

// Members and records of 1 MB, with one operation to meet each.
func TestHugeContent(t *testing.T) {
	t.Parallel()
	huge := strings.Repeat("h", 1<<20)
	everyWay(t, func(t *testing.T, r *rig) {
		for d, name := range map[*damage]string{
			new(command(nil, "ZADD", "ORDER", "-inf", huge)): "acquire, new",
			new(command(nil, "ZADD", "ORDER", 1<<32, huge)):  "acquire",
			new(command(nil, "HSET", "STATE", "s0.2", huge)): "release",
		} {
			furnish(t, r)
			d.do(t, r)
			probe(t, r, *d, r.raw(t), name, probes()[name])
			inspectDamaged(t, r, *d, furnish)
		}
	})
}

func TestForeignRecords(t *testing.T) {
	t.Parallel()
	var damages []damage
	for _, id := range []string{"s0.2", "s0.4", "s1.1", "s0.9"} {
		for _, record := range []string{
			"", "x", "x 12", "h", "w", "h 1 0 5 0 0 o/1/h l", "w 1 5 0 o/1/h l", "h 1x 0 5 0 0 o/1/h l", "h 1 0 1e3 0 0 o/1/h l",
			"h -1 0 5 0 0 o/1/h l", "h 9223372036854775807 0 5 0 0 o/1/h l", "z 1", "w 1 5 0 nobody ",
		} {
			damages = append(damages, command(nil, "HSET", "STATE", id, record))
		}
		damages = append(damages, command(nil, "HDEL", "STATE", id), command(nil, "ZREM", "ORDER", id), command(nil, "ZREM", "ORDER", "q"+id))
	}
	tryAll(t, damages)
}

// numberlike are texts that a careless reader takes for a number.
var numberlike = []string{"12x", "", "-5", "1e3", "0x10", "nan", "inf"}

// tooLarge are numbers that doubles do not hold.
var tooLarge = []string{"9007199254740993", "9223372036854775807"}

// field replaces one of the numbers of a hash field.
func field(name string, place int, value string, want error) damage {
	return damage{name: fmt.Sprintf("%s[%d]=%q", name, place, value), want: want, do: func(t failer, r *rig) {
		text, err := r.rdb.HGet(context.Background(), r.keys.State, name).Result()
		if err != nil {
			t.Fatalf("%v", err)
		}
		parts := strings.Split(text, " ")
		parts[place] = value
		if err := r.rdb.HSet(context.Background(), r.keys.State, name, strings.Join(parts, " ")).Err(); err != nil {
			t.Fatalf("%v", err)
		}
	}}
}

func TestForeignNumbers(t *testing.T) {
	t.Parallel()
	damages := append(foreignNumbers(ErrCorrupt, "settings", 0, 1, 2, 3, 4), foreignNumbers(ErrCorrupt, "counts", 0, 1, 2, 3, 4, 5, 6, 7)...)
	damages = append(damages, command(ErrCorrupt, "HSET", "STATE", "counts", ""), command(ErrCorrupt, "HSET", "STATE", "settings", ""))
	tryAll(t, damages, furnish, plain, lone)
}

// TestForeignNumbersFolded: the one field of a folded semaphore is read as carefully.
func TestForeignNumbersFolded(t *testing.T) {
	t.Parallel()
	damages := append(foreignNumbers(ErrCorrupt, "settings", 0, 2, 3), field("settings", 1, "", ErrCorrupt), field("settings", 5, "", nil))
	damages = append(damages, foreignNumbers(nil, "settings", 4, 7, 8, 9, 10, 11, 12, 13)...) // a release does not look at them
	for _, keeps := range []bool{false, true} {
		t.Run(fmt.Sprintf("keeps=%v", keeps), func(t *testing.T) {
			onBoth(t, form{keeps: keeps}, func(t *testing.T, r *rig) { tryOn(t, r, damages, folds) })
		})
	}
}

// foreignNumbers puts what is no number, or too large, in places of a field.
func foreignNumbers(want error, name string, places ...int) (damages []damage) {
	for _, place := range places {
		for _, value := range numberlike {
			damages = append(damages, field(name, place, value, want))
		}
		for _, value := range tooLarge {
			if name+fmt.Sprint(place) != "settings0" { // that would be a newer layout
				damages = append(damages, field(name, place, value, nil))
			}
		}
	}
	return damages
}

func TestNewerLayout(t *testing.T) {
	t.Parallel()
	tryAll(t, []damage{
		field("settings", 0, "2", ErrVersion),
		field("settings", 0, "10", ErrVersion),
		command(ErrVersion, "HSET", "STATE", "settings", "2 a b c"),
		both(command(nil, "HDEL", "STATE", "counts"), command(ErrVersion, "HSET", "STATE", "settings", "2 a b c")),
		command(ErrCorrupt, "HSET", "STATE", "settings", "0 3 -1 0 0"),
	})
}

// A database that was emptied in the middle is a new beginning, with tokens
// above all that were given.
func TestFlush(t *testing.T) {
	t.Parallel()
	everyWay(t, func(t *testing.T, r *rig) {
		furnish(t, r)
		last := r.dump(t).counts(t).last
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
