package protocol

import (
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
