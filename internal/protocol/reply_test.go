package protocol

import (
	"fmt"
	"reflect"
	"testing"
	"time"
)

// The short forms of a reply: a run of grants, and "all as it was asked for".

// asked are an acquire for each verb A, a renewal for each R, and so on.
func asked(verbs string) (ops []Op) {
	for i, v := range verbs {
		ops = append(ops, Op{Verb: Verb(v), ID: fmt.Sprint("s0.", i), Terms: terms(3), TTL: time.Minute})
	}
	return ops
}

// TestRepliesThatFit: what they are read as.
func TestRepliesThatFit(t *testing.T) {
	t.Parallel()
	grant := func(token int64, slot int) Result {
		return Result{Code: Granted, Token: token, Slot: slot, Remaining: 7 * time.Millisecond, Limit: 9}
	}
	released := Result{Code: Released}
	for _, test := range []struct {
		verbs, reply string
		want         []Result
		head         Reply
	}{
		{"A", "3 5001 2", []Result{{Code: Granted, Token: 3005001, Remaining: 30 * time.Second, Limit: 3}}, Reply{Now: 3005, Next: 33005, Used: 1}},
		{"R", "3 5001 2", []Result{{Code: Renewed, Remaining: time.Minute}}, Reply{Now: 3005, Next: 63005, Used: 1}},
		{"A", "3 5001 0 6 5 4 3 2 1 8 0 11 1 99 7 9 0", []Result{grant(99, 0)}, Reply{Now: 3005, Next: 8, Used: 6, Waiting: 4}},
		{"AAA", "3 5001 0 6 5 4 3 2 1 8 0 11 3 99 7 9 4 0 2", []Result{grant(99, 4), grant(100, 0), grant(101, 2)}, Reply{Now: 3005, Next: 8, Used: 6, Waiting: 4}},
		{
			"LAAAAL", "3 5001 1 6 5 4 3 2 1 8 0 9 11 2 99 7 9 4 0 11 2 101 7 9 1 2 9",
			[]Result{released, grant(99, 4), grant(100, 0), grant(101, 1), grant(102, 2), released},
			Reply{Now: 3005, Next: 8, Used: 6, Waiting: 4, More: true},
		},
	} {
		s, ops := canned(t, test.reply, nil), asked(test.verbs)
		head, err := s.Do(t.Context(), s.Keys("name"), 0, ops)
		if err != nil || head != test.head || !reflect.DeepEqual(resultsOf(ops), test.want) {
			t.Errorf("%s, %q: %v, %+v %+v, want %+v %+v", test.verbs, test.reply, err, head, resultsOf(ops), test.head, test.want)
		}
	}
}

// TestRepliesThatDoNotFit: one thing is wrong with each.
func TestRepliesThatDoNotFit(t *testing.T) {
	t.Parallel()
	const state = "3 5001 0 6 5 4 3 2 1 8 0"
	for _, test := range []struct{ name, verbs, reply string }{
		{"a status that is none", "L", "3 5001 3 6 5 4 3 2 1 8 0 9"},
		{"the status of a folded one, and counts", "L", "3 5001 2 6 5 4 3 2 1 8 0 9"},
		{"all granted, of two", "AA", "3 5001 2"},
		{"all granted, of none", "", "3 5001 2"},
		{"all granted, of a release", "L", "3 5001 2"},
		{"all granted, of a heartbeat", "H", "3 5001 2"},
		{"all granted, of an operator's", "Z", "3 5001 2"},
		{"all granted, and more", "A", "3 5001 2 0"},
		{"all granted, at no time", "A", "3 x 2"},
		{"a run that ends early", "AA", state + " 11 2 99 7 9 0"},
		{"a run beyond the operations", "AA", state + " 11 3 99 7 9 0 1"},
		{"a run that leaves one out", "AA", state + " 11 1 99 7 9 0"},
		{"a run over a renewal", "AR", state + " 11 2 99 7 9 0 1"},
		{"a run over a release", "AL", state + " 11 2 99 7 9 0 9"},
		{"a run of none", "A", state + " 11 0 99 7 9 0"},
		{"a run of less than none", "A", state + " 11 -5 99 7 9 0"},
		{"a run of renewals", "R", state + " 11 1 99 7 9 0"},
		{"a run over an operator's", "AZA", state + " 11 2 99 7 9 0 1"},
		{"a run without end", "AA", state + " 11 9223372036854775807 99 7 9 0 1"},
		{"a run of less than all numbers", "AA", state + " 11 -9223372036854775808 99 7 9 0 1"},
		{"a slot that is none", "AA", state + " 11 2 99 7 9 0 x"},
		{"late, and more", "A", "3 5001 -1 0 0 0 0 0 0 0 0 1"},
		{"late, with a count that is none", "A", "3 5001 -1 0 0 0 x 0 0 0 0"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s, ops := canned(t, test.reply, nil), asked(test.verbs)
			_, err := s.Do(t.Context(), s.Keys("name"), 0, ops)
			wantKind(t, err, ErrUnknown, nil)
			for i := range ops {
				if ops[i].Result != (Result{}) {
					t.Errorf("operation %d has a result: %+v", i, ops[i].Result)
				}
			}
		})
	}
}
