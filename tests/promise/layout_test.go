package promise_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/internal/testkit/testenv"
)

// TestOlderLayoutIsTold: not as damage, because programs of that version may be at work; when they
// have ended, a purge makes room.
func TestOlderLayoutIsTold(t *testing.T) {
	for name, older := range map[string][]any{
		"before the first": {"settings", "1 5 -1 0 0", "counts", "1 1 0 0 1 0 0 0"},
		"the first":        {"state", "1 3 -1 0 0 1 1 0 0 1 1790000000000123 1790000030000 1790000090000 0"},
		"the second":       {"state", "2 3 -1 0 0 1 1 0 1 1 1790000000000123 1790000030000 1790000090000 0 7 60000 1 1790000000000 1 1 0"},
		"one lease":        {"state", "1 compact a.1 1790000000000123 1790000030000 0 A1 1 0 3 10000 0 9 30000 1/h "},
	} {
		t.Run(name, func(t *testing.T) { tellsOfOlder(t, older) })
	}
}

func tellsOfOlder(t *testing.T, older []any) {
	t.Helper()
	testenv.Each(t, func(e *testenv.Env) {
		e.Must(e.Redis.HSet(e.Ctx, e.Prefix+":{"+testenv.Name+"}", older...).Err())
		sem := e.Peer().Sem(1)
		err := e.Try(sem)
		bad, ok := errors.AsType[*berth.CorruptError](err)
		if !ok || !bad.Older || bad.Newer || !strings.Contains(err.Error(), "older berth: end the programs") || strings.Contains(err.Error(), "not berth's") {
			t.Errorf("error %v", err)
		}
		if _, err := e.Inspector.Show(e.Ctx, testenv.Name); !errors.Is(err, berth.ErrCorrupt) {
			t.Errorf("Show: %v", err)
		}
		e.Must(e.Inspector.Purge(e.Ctx, testenv.Name))
		e.Release(e.Hold(sem))
	})
}

// A newer layout is refused, and not for being foreign: its permits are in use. A purge
// would give them out again.
func TestNewerLayoutIsRefused(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		e.Must(e.Redis.HSet(e.Ctx, e.Prefix+":{"+testenv.Name+"}", "state", "4 whatever comes").Err())
		before := e.Keys()
		_, err := e.Peer().Sem(1).Acquire(e.Ctx)
		for what, err := range map[string]error{"acquire": err, "purge": e.Inspector.Purge(e.Ctx, testenv.Name)} {
			bad, ok := errors.AsType[*berth.CorruptError](err)
			if !ok || !bad.Newer || !strings.Contains(err.Error(), "newer layout: upgrade") || strings.Contains(err.Error(), "not berth's") {
				e.Errorf("%s: told %v", what, err)
			}
		}
		e.Unchanged(before)
	})
}
