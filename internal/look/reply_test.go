package look

import (
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth/internal/protocol"
)

// canned returns a store whose every command has this answer.
func canned(t testing.TB, reply any) *protocol.Store {
	t.Helper()
	return answered(t, func(cmd redis.Cmder) { cmd.(*redis.Cmd).SetVal(reply) })
}

// head is what an answer has in front of its page: of nobody.
func head() []any { return []any{int64(1), "", "", int64(0), int64(0), int64(0), ""} }

// TestSnapshotsThatAreNone: what the script never answers to a look is not taken for a state.
func TestSnapshotsThatAreNone(t *testing.T) {
	t.Parallel()
	none := []any{nil, "text", int64(1), 1.5, true, []any{}, []any{nil}, head()[:6], append(head(), int64(0)), append(head(), []any{})}
	for k := range head() {
		strange := head()
		if strange[k] = any("0"); k == 1 || k == 2 || k == 6 {
			strange[k] = int64(0)
		}
		none = append(none, strange)
	}
	for _, reply := range none {
		s := canned(t, reply)
		if _, err := New(s).Inspect(t.Context(), s.Key("name"), true); err == nil {
			t.Errorf("%v was taken for a state", reply)
		} else {
			wantKind(t, err, protocol.ErrUnknown, nil)
		}
	}
	s := canned(t, head())
	if snap, err := New(s).Inspect(t.Context(), s.Key("name"), true); err != nil || snap.Exists {
		t.Errorf("of nobody: %+v, %v", snap, err)
	}
}

// FuzzInspect feeds foreign content to what reads it for operators.
func FuzzInspect(f *testing.F) {
	const numbers = "3 9 -1 0 2 6 5 4 3 7 88 99 111 1 0 -"
	f.Add(numbers, int64(19), int64(2), "", "s0.1", "1790000000000", "h 1 0 5 0 30000 - 1/h;g label")
	f.Add("2 3", int64(2), int64(0), "", "#s0.1", "-5", "w 1 0 5 0 30000 1/h;g ")
	f.Add("2 9 -1 2 0 0 0 0 1 0 0 0 1 0 0 0 0 0 0 0 0", int64(2), int64(0), "", "!p", "1790000000000", "p ann")
	f.Add("3 compact s0.2 5 1790000030000 0 3 30000 1/h ", int64(0), int64(0), "", "", "", "")
	f.Add(numbers, int64(0), int64(0), "", "", "inf", "x 1")
	f.Add("", int64(3), int64(0), "nan", "s0.1", "1790000000000", "x 5 1/h;g")
	f.Add("", int64(3), int64(0), "5", "!r1", "1790000000000", "r 5 9")
	f.Fuzz(func(t *testing.T, state string, members, free int64, ends, member, score, record string) {
		s := canned(t, []any{int64(1), state, "", int64(1), members, free, ends, member, score, record})
		if _, err := New(s).Inspect(t.Context(), s.Key("name"), true); err != nil {
			wantKind(t, err, protocol.ErrRejected, nil)
		}
	})
}
