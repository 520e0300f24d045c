package protocol

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/berth-go/berth/internal/testkit/redistest"
)

// Messages: where they go, and what they tell.

// TestChannelTellsNoID: a message goes to the part of the id before its first dot, and
// whoever lists channels learns no more.
func TestChannelTellsNoID(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, r *rig) {
		for id, channel := range map[string]string{
			"s1.secret.7": "s1", "s1.s2.s0": "s1", "s1..": "s1", "1.x": "1", "s1x.y": "s1x",
		} {
			for _, how := range []struct {
				op   Op
				line string
			}{
				{Op{Verb: Release, ID: "s0.1"}, "g " + id + " "},
				{Op{Verb: Evict, ID: id, Flag: true}, "x " + id + " 3"},
				{Op{Verb: Resize, N: 1}, "x " + id + " 4"},
			} {
				r.reset(t)
				r.do(t, 0, Op{Verb: Acquire, ID: "s0.1", Terms: terms(2, func(t *Terms) { t.Weight = 2 })})
				r.do(t, 1, Op{Verb: Acquire, ID: id, Terms: terms(2, func(t *Terms) { t.Weight = 2 })})
				r.do(t, 0, how.op)
				r.do(t, 0, Op{Verb: Release, ID: "s0.1"})
				heard := r.notes(t)
				if len(heard) != 1 || len(heard[channel]) != 1 || !strings.HasPrefix(heard[channel][0]+" ", how.line) {
					t.Errorf("%c of %s: heard %q, want %q at %s", how.op.Verb, id, heard, how.line, channel)
				}
			}
		}
	})
}

// TestHandOffIsToldToWhoWaits: to the process whose the waiter is, however many are told.
func TestHandOffIsToldToWhoWaits(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, r *rig) {
		for name, back := range map[string][]Op{"one": back(0), "two": append(back(0), back(1)...)} {
			r.reset(t)
			r.do(t, 0, append(ask(0, 2, 1), ask(1, 2, 1)...)...)
			var want []string
			for i := range back {
				r.do(t, 1-i, Op{Verb: Acquire, ID: fmt.Sprintf("s%d.9", 1-i), Terms: terms(2)})
				want = append(want, fmt.Sprint("s", 1-i))
			}
			r.notes(t)
			r.do(t, 0, back...)
			if heard := slices.Sorted(maps.Keys(r.notes(t))); !slices.Equal(heard, slices.Sorted(slices.Values(want))) {
				t.Errorf("%s: heard by %q, want %q", name, heard, want)
			}
		}
	})
}

// TestGrantTellsTheLimitInForce: pinned or declared, as long as it is.
func TestGrantTellsTheLimitInForce(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, r *rig) {
		for _, limit := range []int{1, 1e9} {
			for _, pin := range []int{-1, 1, 1e9} {
				r.reset(t)
				r.do(t, 0, append(ask(0, 1, 1), ask(1, 1, 1)...)...)
				r.notes(t)
				_, got := r.do(t, 0, Op{Verb: Resize, N: limit}, Op{Verb: Pin, N: pin}, back(0)[0])
				token := r.dump(t).state(t).Last
				want := fmt.Sprintf("g s0.2 0 %d %d", token, max(limit, pin))
				if pin > 0 {
					want = fmt.Sprintf("g s0.2 0 %d %d", token, pin)
				}
				if heard := r.notes(t)["s0"]; len(heard) != 1 || heard[0] != want {
					t.Errorf("limit %d, pin %d, %+v: heard %q, want %q", limit, pin, got, heard, want)
				}
			}
		}
	})
}

// TestPrefixThatBeginsLikeAShard: a colon in front marks shard channels, and prefixes
// may begin with one.
func TestPrefixThatBeginsLikeAShard(t *testing.T) {
	t.Parallel()
	mr, rdb := newEmbedded(t)
	r := newRig(t, rdb, mr, ":x", false)
	r.do(t, 0, each(Op{Verb: Acquire, Terms: terms(2)}, ids(3)...)...)
	mr.SetTime(start.Add(time.Second))
	r.do(t, 0, each(Op{Verb: Release}, ids(1)...)...)
	if heard := r.notes(t)["s0"]; len(heard) != 1 {
		t.Errorf("heard %q, want one grant", heard)
	}
}

// TestUserWhoMayNotPublish: messages are hints; a step does not depend on them.
func TestUserWhoMayNotPublish(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	r := newRig(t, server.Client(t, redistest.Patient), nil, server.Prefix(t), false)
	weak := NewStore(without(t, server, "-publish"), r.prefix, "s0", 100, "host")
	r.do(t, 0, append(ask(0, 1, 1), ask(1, 1, 1)...)...)
	r.notes(t)
	ops := back(0)
	if _, err := weak.Do(t.Context(), r.key, 0, ops); err != nil || ops[0].Result.Code != Released {
		t.Fatalf("%v, %+v", err, ops[0].Result)
	}
	if heard := r.notes(t); len(heard) > 0 {
		t.Errorf("heard %q", heard)
	}
	wantCodes(t, []Result{r.one(t, Op{Verb: Heartbeat, ID: "s0.2", TTL: time.Minute})}, Granted)
}
