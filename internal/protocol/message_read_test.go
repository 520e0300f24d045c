package protocol

import (
	"slices"
	"testing"
	"time"
)

// TestReadMessage: a line that is not known, or has more on it, and numbers that cannot be, say
// no more than the id, and that is a reason to ask the server.
func TestReadMessage(t *testing.T) {
	t.Parallel()
	ask := Note{ID: "a.1"}
	for line, want := range map[string]Note{
		"g a.1 4 1790000000000123 9": {ID: "a.1", Granted: true, Slot: 4, Token: 1_790_000_000_000_123, Limit: 9},
		"g a.1 0 1 1073741824":       {ID: "a.1", Granted: true, Token: 1, Limit: MostPermits},
		"x a.1 2":                    {ID: "a.1", Reason: Expired},
		"x a.1 3":                    {ID: "a.1", Reason: Evicted},
		"x a.1 6":                    {ID: "a.1", Reason: AskedToStop},
		"n a.1 0":                    {ID: "a.1", Next: true},
		"n a.1 250":                  {ID: "a.1", Next: true, Rest: 250 * time.Millisecond},

		"g a.1 4 5 9 more": ask, "g a.1 4 5": ask, "g a.1": ask, "g a.1 4 5 9 ": ask, "g a.1 4  5 9": ask,
		"g a.1 -1 5 9": ask, "g a.1 9 5 9": ask, "g a.1 x 5 9": ask, "g a.1 1e0 5 9": ask,
		"g a.1 4 0 9": ask, "g a.1 4 -5 9": ask, "g a.1 4 9007199254740992 9": ask, "g a.1 4 99999999999999999999 9": ask,
		"g a.1 0 5 0": ask, "g a.1 0 5 1073741825": ask, "g a.1 0 5 99999999999": ask,
		"x a.1 7": ask, "x a.1 -1": ask, "x a.1": ask, "x a.1 2 more": ask, "e a.1 5": ask,
		"n a.1": ask, "n a.1 -1": ask, "n a.1 x": ask, "n a.1 5 more": ask, "n a.1 99999999999999999999": ask,
		"": {}, "x": {}, "x ": {},
	} {
		state, notes := ReadMessage("berth:{n}\n" + line + "\nx b.2 4")
		got := slices.Collect(notes)
		wanted := []Note{want, {ID: "b.2", Reason: TooHeavy}}
		if want == (Note{}) {
			wanted = wanted[1:]
		}
		if state != "berth:{n}" || !slices.Equal(got, wanted) {
			t.Errorf("%q was read as %+v of %q, want %+v", line, got, state, wanted)
		}
	}
	if state, notes := ReadMessage("berth:{n}"); state != "berth:{n}" || len(slices.Collect(notes)) > 0 {
		t.Errorf("a message without lines: %q", state)
	}
}
