package protocol

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// Whether keys may carry a TTL, and what else of them Redis sees.

// TestKeysFollowThePolicy: whether keys may carry a TTL is for the process to say that
// makes the call.
func TestKeysFollowThePolicy(t *testing.T) {
	t.Parallel()
	for name, then := range map[string]Op{
		"waits":  {Verb: Acquire, ID: "s0.2", Terms: terms(1)},
		"renews": {Verb: Renew, ID: "s0.1", TTL: time.Minute},
		"moves":  {Verb: Move, ID: "s0.1", To: "s0.2"},
	} {
		t.Run(name, func(t *testing.T) {
			onBoth(t, false, func(t *testing.T, r *rig) {
				for _, evicting := range []bool{true, false} {
					r.reset(t)
					r.stores[0].Evicting(evicting)
					r.do(t, 0, Op{Verb: Acquire, ID: "s0.1", Terms: terms(1)})
					r.stores[0].Evicting(!evicting)
					r.do(t, 0, then)
					for _, key := range []string{r.key.State, r.key.Order()} {
						if ttl := r.rdb.PTTL(t.Context(), key).Val(); ttl > 0 != evicting || ttl == -2 {
							t.Errorf("first evicting %v, then not: %s has the TTL %v", evicting, key, ttl)
						}
					}
				}
			})
		})
	}
}

// TestProcessesOfTwoMinds: while one takes the server for one that evicts and the other
// does not, no lease outlives the TTL of its keys.
func TestProcessesOfTwoMinds(t *testing.T) {
	t.Parallel()
	onBoth(t, false, func(t *testing.T, r *rig) {
		r.stores[1].Evicting(false)
		r.do(t, 0, Op{Verb: Acquire, ID: "s0.1", Terms: terms(3)})
		for i := range 6 {
			_, got := r.do(t, i%2, Op{Verb: Renew, ID: "s0.1", TTL: time.Duration(i+1) * time.Hour})
			wantCodes(t, got, Renewed)
			for _, key := range []string{r.key.State, r.key.Order()} {
				if ttl := r.rdb.PTTL(t.Context(), key).Val(); ttl > 0 != (i%2 == 1) || ttl > 0 && ttl < got[0].Remaining {
					t.Errorf("%s has the TTL %v, the lease lasts %v", key, ttl, got[0].Remaining)
				}
			}
		}
	})
}

// TestNewStoreTakesTheServerForOneThatEvicts: until it is told otherwise.
func TestNewStoreTakesTheServerForOneThatEvicts(t *testing.T) {
	t.Parallel()
	onBoth(t, true, func(t *testing.T, r *rig) {
		s := NewStore(r.rdb, r.prefix, "s0", 100, "host")
		if _, err := s.Do(t.Context(), r.key, 0, each(Op{Verb: Acquire, Terms: terms(3)}, "s0.1")); err != nil {
			t.Fatal(err)
		}
		if ttl := r.rdb.PTTL(t.Context(), r.key.State).Val(); ttl != -1 {
			t.Errorf("TTL %v", ttl)
		}
	})
}

// TestOrderIsASkipListFromTheStart: however the sorted set comes to be, Redis does not
// look through it one by one.
func TestOrderIsASkipListFromTheStart(t *testing.T) {
	t.Parallel()
	for name, first := range map[string]Op{
		"heavy":       {Verb: Acquire, ID: "s0.1", Terms: terms(3, func(t *Terms) { t.Weight = 2 })},
		"unfolded":    {Verb: Acquire, ID: "s0.1", Terms: terms(3)},
		"pinned":      {Verb: Pin, N: 3},
		"a tombstone": {Verb: Release, ID: "s0.1", Flag: true},
		"paused":      {Verb: Pause, Flag: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := onServer(t, false)
			r.do(t, 0, first)
			r.do(t, 0, Op{Verb: Acquire, ID: "s0.9", Terms: terms(3)})
			got, err := r.rdb.ObjectEncoding(t.Context(), r.key.Order()).Result()
			if err != nil || got != "skiplist" {
				t.Errorf("the sorted set is a %s, %v, want a skiplist", got, err)
			}
		})
	}
}

// TestKeysOfNobody: what operators have set, and the last token while the clock is behind
// it, need no sorted set; it is made anew, with a TTL if the hash has one.
func TestKeysOfNobody(t *testing.T) {
	t.Parallel()
	for name, keep := range map[string][2]Op{
		"pinned":   {{Verb: Pin, N: 3}, {Verb: Pin, N: 3}},
		"unpinned": {{Verb: Pin, N: 3}, {Verb: Pin, N: -1}},
		"paused":   {{Verb: Pause, Flag: true}, {Verb: Pause}},
	} {
		t.Run(name, func(t *testing.T) {
			everywhere(t, func(t *testing.T, r *rig) {
				r.do(t, 0, keep[0])
				if n := r.rdb.Exists(t.Context(), r.key.Order()).Val(); n != 0 {
					t.Error("there is a sorted set of nobody")
				}
				r.do(t, 0, keep[1], Op{Verb: Acquire, ID: "s0.1", Terms: terms(3)}, Op{Verb: Acquire, ID: "s0.2", Terms: terms(3)})
				if d := r.dump(t); d.scores[note] != place || (d.lapse[0] < 0) != (d.lapse[1] < 0) || d.lapse[0] < 0 != (!r.keeps || name == "pinned") {
					t.Errorf("stored, with TTLs of %v\n%v", d.lapse, d)
				}
			})
		})
	}
	for _, keeps := range []bool{false, true} {
		r := embedded(t, keeps)
		two := each(Op{Verb: Acquire, Terms: terms(3)}, ids(2)...)
		r.do(t, 0, two...)
		r.mr.SetTime(start.Add(-time.Hour))
		r.do(t, 0, each(Op{Verb: Release}, ids(2)...)...)
		if d := r.dump(t); len(d.scores) != 0 || d.lapse[0] <= 0 {
			t.Errorf("of nobody, TTLs of %v\n%v", d.lapse, d)
		}
		r.do(t, 0, two...)
		if d := r.dump(t); (d.lapse[0] > 0) != keeps || (d.lapse[1] > 0) != keeps {
			t.Errorf("TTLs of %v\n%v", d.lapse, d)
		}
	}
}

// TestCompactReadsAsUnfolded: whatever the label, Go reads of a compact lease what the
// script makes of it.
func TestCompactReadsAsUnfolded(t *testing.T) {
	t.Parallel()
	for i, label := range []string{
		"", " ", "two words", " A1 1 0 9 15000 0 5 30000 x", "two\nlines\r\n", "\xff\xfe", "nul\x00nul", "\v\f\t", "日本", strings.Repeat("x", 5000),
	} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			everywhere(t, func(t *testing.T, r *rig) {
				r.one(t, Op{Verb: Acquire, ID: "s0.1", Terms: terms(3, func(t *Terms) { t.Label = label })})
				var seen [2]*Seen
				for i := range seen {
					if r.isCompact(t) != (i == 0) {
						t.Fatalf("compact at step %d: %v", i, i != 0)
					}
					snap, err := Inspect(t.Context(), r.stores[0], r.key, true)
					if err != nil {
						t.Fatal(err)
					}
					if len(snap.Leases) != 1 || snap.Leases[0].Label != label || snap.Leases[0].Client != client {
						t.Fatalf("label %.100q: %.500q", label, fmt.Sprint(snap.Leases))
					}
					snap.Now, seen[i] = 0, snap
					r.one(t, Op{Verb: Release, ID: "s0.9"}) // unfolds
				}
				if fmt.Sprintf("%+v", seen[0]) != fmt.Sprintf("%+v", seen[1]) {
					t.Errorf("compact %+v\nunfolded %+v", seen[0], seen[1])
				}
				_, got := r.do(t, 1, Op{Verb: Move, ID: "s0.1", To: "s1.1"})
				if got[0].Label != label {
					t.Errorf("moved with label %.100q", got[0].Label)
				}
			})
		})
	}
}
