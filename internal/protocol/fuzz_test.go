package protocol

import (
	"context"
	"maps"
	"math"
	"slices"
	"testing"

	"github.com/redis/go-redis/v9"
)

// FuzzStored writes foreign bytes into a field of the hash and a member of the
// sorted set, and then runs an operation. It ends in a typed error that changed
// nothing, or passes and leaves what makes sense; the keys of others stay as
// they are, whatever happens.
func FuzzStored(f *testing.F) {
	for i, value := range []string{
		"", numbers, "3 3 -1 0 0 2 2 2 1 3 1790000000000123 1790000030000 1790000090000 0 0 -", "3 3 -1 0 0 0 0 2 1 3 1790000000000123 1790000030000 0 0 0 :9/1000 4 1790000000001 5",
		"2 3 -1 0 0", "3 -3 -1 0 0 0 0 0 0 0 0 0 0 0 0 -", "3 3 -1 0 0 2 2 2 1 3 9007199254740991 1 1 0 0 -", "2 compact s0.2 5 1790000030000 0 3 30000 1/h ", "r |10 179000000000 179000000000 4|",
		"3 compact s0.2 5 1790000030000 0 3 30000 1/h l", "3 compact s0.2 5 1790000030000 1790000000001 3 30000 1/h ",
		"3 compact s0.2 5 9007199254740991 0 3 30000 1/h ", "3 compact  5 1790000030000 0 3 30000 1/h ",
		"h 1 0 5 0 30000 - 1/h;g label", "h 1 0 5 0 30000 - 1/h", "w 2 - 5 0 30000 15000 1/h;g \x1b[2J", "w 0x10 - 5 0 30000 15000 1/h ", "x 1", "x 9", "x", "x 5", "x 5 1/h;g",
		"h 9007199254740993 0 5 0 30000 - 1/h ", "\x00\xff", "h 1 0 5 9e15 30000 - 1/h ", "h 1 7 5 0 30000 - 1/h ", "h 1 1 5 1 30000 - 1/h ",
		"h 1 1 5 0 30000 - {foreign}key/1/h ", "h 1 1 5 0 30000 - berth:{name}/1/h ", "e 1 1 5 0 30000 - :1/h ",
	} {
		f.Add(uint8(i), value, "s0.2", float64(1_790_000_000_000), uint8(i*5)) //nolint:gosec // small
		f.Add(uint8(i+1), value, "#"+value, -float64(1<<52), uint8(i*3+1))     //nolint:gosec // small
		f.Add(uint8(i+2), "x "+value, "0", float64(i)/2, uint8(i*7+2))         //nolint:gosec // small
		f.Add(uint8(i+3), value+" 1/h", value, math.Inf(i%2*2-1), uint8(i*11)) //nolint:gosec // small
	}
	f.Add(uint8(5), "x 9", "s0.2", 5.37e12, uint8(11)) // a deadline that is no time.Duration
	rigs := []*rig{embedded(f, false), embedded(f, true)}
	f.Fuzz(func(t *testing.T, field uint8, value, member string, score float64, op uint8) {
		if math.IsNaN(score) || len(value)+len(member) > 10_000 {
			return
		}
		r := rigs[op%2]
		r.mr.SetTime(start)
		[]setup{plain, furnish, compact, buried}[op/2%4](t, r)
		d := damage{name: "foreign bytes", do: func(failer, *rig) {}}
		if op&8 == 0 {
			r.set(t, field, value)
		}
		if op&16 == 0 || op&8 != 0 {
			r.rdb.ZAddArgs(context.Background(), r.key.Order(), redis.ZAddArgs{XX: op&32 != 0, Members: []redis.Z{{Score: score, Member: member}}})
		}
		r.neighbours(t)
		ops := probes()
		name := slices.Sorted(maps.Keys(ops))[int(op>>3)%len(ops)]
		probe(t, r, d, r.raw(t), name, ops[name])
		r.neighboursAreWell(t)
		if _, err := Inspect(context.Background(), r.stores[0], r.key, true); err != nil {
			wantKind(t, err, ErrRejected, nil)
		}
	})
}

// set overwrites one of the fields that the layouts know, or makes one.
func (r *rig) set(t *testing.T, field uint8, value string) {
	t.Helper()
	names := []string{"state", "s0.2", "s0.3", "s0.4", "s1.1", "s0.9", "s2.9", "foreign"}
	if err := r.rdb.HSet(context.Background(), r.key.State, names[int(field)%len(names)], value).Err(); err != nil {
		t.Fatal(err)
	}
}

// neighbours are keys that a step must never touch: another semaphore's, and
// one that foreign bytes may name.
func (r *rig) neighbours(t *testing.T) {
	t.Helper()
	if err := r.rdb.MSet(context.Background(), r.stores[0].Key("other").State, "theirs", "{foreign}key", "theirs").Err(); err != nil {
		t.Fatal(err)
	}
}

func (r *rig) neighboursAreWell(t *testing.T) {
	t.Helper()
	ours := []string{r.key.State, r.key.Order()}
	for _, key := range r.mr.Keys() {
		if value, err := r.mr.Get(key); !slices.Contains(ours, key) && (err != nil || value != "theirs") {
			t.Fatalf("%q holds %q, error %v", key, value, err)
		}
	}
	if n := len(r.mr.Keys()); n < 2 {
		t.Fatalf("%d keys are left", n)
	}
}
