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
	testenv.Each(t, func(e *testenv.Env) {
		e.Must(e.Redis.HSet(e.Ctx, e.Prefix+":{"+testenv.Name+"}", "settings", "1 5 -1 0 0", "counts", "1 1 0 0 1 0 0 0").Err())
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
		e.Must(e.Redis.HSet(e.Ctx, e.Prefix+":{"+testenv.Name+"}", "state", "3 whatever comes").Err())
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
