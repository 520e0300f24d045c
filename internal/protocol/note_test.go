package protocol

import (
	"fmt"
	"testing"
	"time"
)

// TestOrderIsASkipListFromTheStart: by whichever way the sorted set comes to be,
// Redis does not look through it one by one.
func TestOrderIsASkipListFromTheStart(t *testing.T) {
	t.Parallel()
	for name, first := range map[string]Op{
		"by the short way":   {Verb: Acquire, ID: "s0.1", Terms: terms(3, func(t *Terms) { t.Weight = 2 })},
		"by the general way": {Verb: Acquire, ID: "s0.1", Terms: terms(3, func(t *Terms) { t.HeadStart = time.Second })},
		"unfolded":           {Verb: Acquire, ID: "s0.1", Terms: terms(3)},
		"without a lease":    {Verb: Pin, N: 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := onServer(t, form{})
			r.do(t, 0, first)
			r.do(t, 0, Op{Verb: Acquire, ID: "s0.9", Terms: terms(3)})
			got, err := r.rdb.ObjectEncoding(t.Context(), r.keys.Order).Result()
			if err != nil || got != "skiplist" {
				t.Errorf("the sorted set is a %s, %v, want a skiplist", got, err)
			}
		})
	}
}

// TestSortedSetOfNobodyIsLost: keys that are kept for a pin or a pause hold nobody;
// a loss of their sorted set, by eviction for one, costs nothing.
func TestSortedSetOfNobodyIsLost(t *testing.T) {
	t.Parallel()
	for name, keep := range map[string][2]Op{
		"pinned":   {{Verb: Pin, N: 3}, {Verb: Pin, N: 3}},
		"unpinned": {{Verb: Pin, N: 3}, {Verb: Pin, N: -1}},
		"paused":   {{Verb: Pause, Flag: true}, {Verb: Pause}},
	} {
		for _, f := range []form{{}, {keeps: true}, {long: true}} {
			t.Run(fmt.Sprintf("%s,%+v", name, f), func(t *testing.T) {
				onBoth(t, f, func(t *testing.T, r *rig) {
					r.do(t, 0, keep[0])
					r.rdb.Del(t.Context(), r.keys.Order)
					r.do(t, 0, keep[1], Op{Verb: Acquire, ID: "s0.1", Terms: terms(3)})
					if d := r.dump(t); d.scores[note] != place || (d.lapse[0] < 0) != (d.lapse[1] < 0) {
						t.Errorf("stored, with TTLs of %v\n%v", d.lapse, d)
					}
					overdue(t, r)
					r.do(t, 0, Op{Verb: Acquire, ID: "s0.2", Terms: terms(3)}) // takes a look at everything
				})
			})
		}
	}
}

// TestSortedSetIsMadeAgainWithATTL: the keys of nobody that remember the last token,
// while the clock is behind it, lose one of them.
func TestSortedSetIsMadeAgainWithATTL(t *testing.T) {
	t.Parallel()
	for _, f := range []form{{keeps: true}, {keeps: true, long: true}} {
		t.Run(fmt.Sprintf("%+v", f), func(t *testing.T) {
			t.Parallel()
			r := embedded(t, f)
			two := each(Op{Verb: Acquire, Terms: terms(3)}, ids(2)...)
			r.do(t, 0, two...)
			r.mr.SetTime(start.Add(-time.Hour))
			r.do(t, 0, each(Op{Verb: Release}, ids(2)...)...)
			r.rdb.Del(t.Context(), r.keys.Order)
			r.do(t, 0, two...)
			if d := r.dump(t); d.lapse[0] <= 0 || d.lapse[1] <= 0 {
				t.Errorf("TTLs of %v\n%v", d.lapse, d)
			}
		})
	}
}
