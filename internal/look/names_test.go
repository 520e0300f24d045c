package look

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth/internal/protocol"
	"github.com/berth-go/berth/internal/testkit/redistest"
)

func TestNamesAndDelete(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, r *rig) {
		ctx, s := t.Context(), r.store
		names := []string{"a", "a:order", "a b", "x*[y]", "{", "漢"}
		for _, name := range names {
			if _, err := s.Do(ctx, s.Key(name), 0, acquire(1, "s0.1")); err != nil {
				t.Fatal(err)
			}
		}
		got, err := New(s).Names(ctx)
		if slices.Sort(names); err != nil || !slices.Equal(got, names) {
			t.Fatalf("names %q, %v, want %q", got, err, names)
		}
		for _, name := range names {
			if there, err := Delete(ctx, s, s.Key(name)); err != nil || !there {
				t.Errorf("delete %q: %v, %v", name, there, err)
			}
		}
		if there, err := Delete(ctx, s, s.Key("a")); err != nil || there {
			t.Errorf("delete again: %v, %v", there, err)
		}
		if got, err = New(s).Names(ctx); err != nil || len(got) != 0 {
			t.Errorf("names %q, %v, want none", got, err)
		}
	})
}

// TestTimedReadingReadsTheSame, and tells the server's time, if the server does.
func TestTimedReadingReadsTheSame(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, r *rig) {
		reader := New(r.store)
		r.do(t, acquire(2, ids(2)...)...)
		for _, timed := range []bool{false, true} {
			step, err := reader.NamesFrom(t.Context(), "", 1_000_000, timed)
			if err != nil || !slices.Contains(step.Names, "name") || step.Told != timed {
				t.Errorf("timed %v: %+v, %v", timed, step, err)
			}
			in := reader.Inspection([]protocol.Key{r.key}, true)
			in.Timed = timed
			if more := in.Next(t.Context()); more || in.Told != timed {
				t.Errorf("timed %v: more %v, told %v", timed, more, in.Told)
			}
			if found := in.Found()[0]; found.Err != nil || len(found.Leases) != 2 {
				t.Errorf("timed %v: %+v", timed, found)
			}
		}
		away := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1})
		defer away.Close()
		if _, told := inPipeline(t.Context(), away, true, func(redis.Pipeliner) {}); told {
			t.Error("a server that is away tells its time")
		}
	})
}

// TestCursors that NamesFrom did not make are refused, and nothing is read.
func TestCursors(t *testing.T) {
	t.Parallel()
	for cursor, ok := range map[string]bool{
		"": true, "17 2 0badcafe": true,
		"17": false, "17 2": false, "17 2 0badcafe ": false, "17 2 BADCAFE0": false, "17 -1 0badcafe": false, "x 2 0badcafe": false,
	} {
		_, err := parseWalk(cursor)
		if ok != (err == nil) || !ok && !errors.Is(err, protocol.ErrRequest) {
			t.Errorf("%q: %v", cursor, err)
		}
	}
}

// TestWalkOfOtherMastersBeginsAgain: the one it came to may not be the one it would have come to.
func TestWalkOfOtherMastersBeginsAgain(t *testing.T) {
	t.Parallel()
	c := redistest.StartMasters(t, 2)
	s := protocol.NewStore(c.Client(t), "berth", "s0", 1, "host")
	var names []string
	for i := range 20 {
		names = append(names, fmt.Sprint("name", i))
		if _, err := s.Do(t.Context(), s.Key(names[i]), 0, acquire(1, "s0.a")); err != nil {
			t.Fatal(err)
		}
	}
	slices.Sort(names)
	for _, cursor := range []string{"", "0 1 00000000", "0 5 00000000"} {
		var all []string
		for {
			step, err := New(s).NamesFrom(t.Context(), cursor, 1000, false)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, step.Names...)
			if cursor = step.Next; cursor == "" {
				break
			}
		}
		slices.Sort(all)
		if got := slices.Compact(all); !slices.Equal(got, names) {
			t.Errorf("found %v", got)
		}
	}
}
