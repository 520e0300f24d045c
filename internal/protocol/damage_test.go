package protocol

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// What tests of damaged keys share: kinds of damage, states to be damaged, and
// operations that meet them.

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

// plain leaves s0.2 and s0.3 holding, and nothing else.
func plain(t failer, r *rig) {
	t.Helper()
	r.reset(t)
	r.do(t, 0, each(Op{Verb: Acquire, Terms: terms(3)}, "s0.2", "s0.3")...)
}

// buried leaves s0.2 and s0.3 holding, and s1.1 as a tombstone.
func buried(t failer, r *rig) {
	t.Helper()
	plain(t, r)
	r.do(t, 0, Op{Verb: Release, ID: "s1.1", Flag: true})
}

// lone leaves s0.2 as the only holder, in the general layout.
func lone(t failer, r *rig) {
	t.Helper()
	compact(t, r)
	r.do(t, 0, Op{Verb: Release, ID: "s0.9"}) // unfolds
}

// compact leaves s0.2 as the only holder, in the compact layout.
func compact(t failer, r *rig) {
	t.Helper()
	r.reset(t)
	r.do(t, 0, Op{Verb: Acquire, ID: "s0.2", Terms: terms(3)})
	if !r.isCompact(t) {
		t.Fatalf("not compact:\n%v", r.raw(t))
	}
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
		"move":              {Verb: Move, ID: "s0.2", To: "s2.9"},
		"move, there":       {Verb: Move, ID: "s0.9", To: "s0.2"},
		"evict":             {Verb: Evict, ID: "s0.2", Flag: true},
		"evict gently":      {Verb: Evict, ID: "s0.2"},
		"resize":            {Verb: Resize, N: 4},
		"pin":               {Verb: Pin, N: 6},
		"pause":             {Verb: Pause, Flag: true},
		"settle":            {Verb: Settle, ID: "s0.2", Costs: ":1"},
		"give back":         {Verb: Release, ID: "s0.2", Costs: Nothing},
		"declare":           {Verb: SetRates, Rates: ":1/1000,t:9/60000+2"},
		"pin rates":         {Verb: SetRates, Rates: ":1/1000,t:9/60000+2", Flag: true},
		"unpin rates":       {Verb: UnpinRates},
	}
}

// full is for a thorough run: go test ./internal/protocol -full.
var full = flag.Bool("full", false, "try every operation on every damage, not some")

// setup leaves a semaphore in some state.
type setup func(t failer, r *rig)

// tryAll tries operations on keys with every damage, in every state or those given.
func tryAll(t *testing.T, damages []damage, lays ...setup) {
	t.Helper()
	if lays == nil {
		lays = []setup{furnish, plain, lone, compact}
	}
	everywhere(t, func(t *testing.T, r *rig) { tryOn(t, r, damages, lays...) })
}

// tryOn tries operations on one rig. They take turns, so that each meets each
// kind of damage, but not every single one: every seventh, and on an embedded store,
// which is slow, every thirty-first; with -short, one of ten of those.
func tryOn(t *testing.T, r *rig, damages []damage, lays ...setup) {
	t.Helper()
	turn, step := 0, 7
	if r.mr != nil {
		step = 31
	}
	if testing.Short() {
		step = 10*step + 1
	}
	for i, d := range damages {
		for _, lay := range lays {
			ops := probes()
			for _, name := range slices.Sorted(maps.Keys(ops)) {
				if turn++; !*full && turn%step != 0 {
					continue
				}
				lay(t, r)
				d.do(t, r)
				probe(t, r, d, r.raw(t), name, ops[name])
			}
		}
		if *full || i%(step/7) == 0 {
			inspectDamaged(t, r, d, lays[i%len(lays)])
		}
	}
}

// probe runs one operation and checks that an error is typed, and left all as it
// was.
func probe(t *testing.T, r *rig, d damage, before dump, name string, op Op) {
	t.Helper()
	ops := []Op{op}
	_, err := r.stores[0].Do(context.Background(), r.key, 0, ops)
	after := r.raw(t)
	switch {
	case d.want != nil && !errors.Is(err, d.want):
		t.Errorf("%s, %s: error %v, want %v", d.name, name, err, d.want)
	case d.want != nil && healsIn(err) > 0:
		t.Errorf("%s, %s: takes it for a half: %v", d.name, name, err)
	case err == nil:
		checkPassed(t, r, d, after, name, ops[0])
	case !errors.Is(err, ErrRejected) || !tellsOfLayout(err):
		t.Errorf("%s, %s: untyped error %v", d.name, name, err)
	case !reflect.DeepEqual(after, before):
		t.Errorf("%s, %s: error %v, but changed\n%.2000s\nto\n%.2000s", d.name, name, err, before, after)
	}
}

// tellsOfLayout reports whether an error says what is wrong with the keys.
func tellsOfLayout(err error) bool {
	return errors.Is(err, ErrCorrupt) || errors.Is(err, ErrVersion) || errors.Is(err, ErrOlder)
}

// healsIn is when an error says that a half heals.
func healsIn(err error) time.Duration {
	if f, ok := errors.AsType[*Failure](err); ok {
		return f.Heals
	}
	return 0
}

// checkPassed checks that an operation that passed gave and left numbers that
// make sense, so that the next one gives no untyped error either.
func checkPassed(t *testing.T, r *rig, d damage, after dump, name string, op Op) {
	t.Helper()
	text := after.fields["state"]
	if !strings.HasPrefix(text, "3 compact ") && strings.ContainsAny(strings.TrimSuffix(strings.NewReplacer(" -1 ", " ", " - ", " ").Replace(text), " -"), "-e.") {
		t.Errorf("%s, %s: wrote %q", d.name, name, text)
	}
	if left := op.Result.Remaining; left.Abs() > 100*365*24*time.Hour {
		t.Errorf("%s, %s: answered %+v", d.name, name, op.Result)
	}
	if _, err := r.stores[0].Do(context.Background(), r.key, 0, []Op{op}); err != nil && !errors.Is(err, ErrCorrupt) {
		t.Errorf("%s, %s twice: untyped error %v", d.name, name, err)
	}
}

// wholeDamage is the error of a call that tells of damage to the whole, and not to a record.
var wholeDamage = regexp.MustCompile(`BERTH(?:CORRUPT (?:state|hash|of an older)|VERSION)|WRONGTYPE`)

// inspectDamaged checks that looking at damaged keys gives a typed error or none, and refuses what
// each call refuses.
func inspectDamaged(t *testing.T, r *rig, d damage, lay setup) {
	t.Helper()
	lay(t, r)
	d.do(t, r)
	seenAsRefused(t, r, d)
	_, err := Delete(context.Background(), r.stores[0], r.key)
	if refused := errors.Is(err, ErrVersion); err != nil && !refused || refused && !errors.Is(d.want, ErrVersion) {
		t.Errorf("%s: delete: %v", d.name, err)
	}
}

// seenAsRefused looks at damaged keys. What is wrong with the whole is to be the same for a call, which
// follows; it returns 1 if the call was refused for that.
func seenAsRefused(t *testing.T, r *rig, d damage) (refused int) {
	t.Helper()
	var seen []error
	for _, records := range []bool{true, false} {
		_, err := Inspect(context.Background(), r.stores[0], r.key, records)
		if err != nil && !tellsOfLayout(err) {
			t.Errorf("%s: inspect, with records: %v: error %v", d.name, records, err)
		}
		seen = append(seen, err)
	}
	_, called := r.stores[0].Do(context.Background(), r.key, 0, nil)
	if healsIn(called) == 0 && !wholeDamage.MatchString(fmt.Sprint(called)) {
		return 0
	}
	for _, err := range seen {
		if !sameDamage(err, called) {
			t.Errorf("%s: seen as %v, refused as %v\n%v", d.name, err, called, r.raw(t))
		}
	}
	return 1
}

// sameDamage reports whether two errors tell of the same layout, or of halves.
func sameDamage(a, b error) bool {
	for _, detail := range []error{ErrCorrupt, ErrOlder, ErrVersion} {
		if errors.Is(a, detail) != errors.Is(b, detail) {
			return false
		}
	}
	return (healsIn(a) > 0) == (healsIn(b) > 0)
}

// raw is what is stored, whatever its types.
func (r *rig) raw(t failer) dump {
	t.Helper()
	ctx := context.Background()
	pipe := r.rdb.Pipeline()
	fields, scores := pipe.HGetAll(ctx, r.key.State), pipe.ZRangeWithScores(ctx, r.key.Order(), 0, -1)
	_, _ = pipe.Exec(ctx) // an error of one says that it has another type
	d := dump{fields: fields.Val(), scores: map[string]float64{}}
	for key, err := range map[string]error{r.key.State: fields.Err(), r.key.Order(): scores.Err()} {
		if err != nil {
			d.fields = map[string]string{"foreign": fmt.Sprint(err, r.rdb.Dump(ctx, key).Val())}
		}
	}
	for _, z := range scores.Val() {
		d.scores[z.Member.(string)] = z.Score
	}
	return d.expanded()
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
		name := map[string]string{"STATE": r.key.State, "ORDER": r.key.Order()}[key]
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
				full[i] = r.key.State
			case "ORDER":
				full[i] = r.key.Order()
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

// field replaces some of the numbers of "state": place, value, place, value ...
func field(want error, changes ...any) damage {
	return damage{name: fmt.Sprintf("state%q", fmt.Sprint(changes...)), want: want, do: func(t failer, r *rig) {
		text, err := r.rdb.HGet(context.Background(), r.key.State, "state").Result()
		if err != nil {
			t.Fatalf("%v", err)
		}
		parts := strings.Split(text, " ")
		for i := 0; i < len(changes); i += 2 {
			parts[changes[i].(int)] = fmt.Sprint(changes[i+1])
		}
		if err := r.rdb.HSet(context.Background(), r.key.State, "state", strings.Join(parts, " ")).Err(); err != nil {
			t.Fatalf("%v", err)
		}
	}}
}
