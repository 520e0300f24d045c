package promise_test

import (
	"errors"
	"testing"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/classic"
	"github.com/berth-go/berth/internal/testkit/testenv"
)

// TestMoveFromClassicNeverExceedsTheLimit takes the steps of docs/chapter.md, while old and new
// programs take whatever they get and keep it for as long as the steps allow.
func TestMoveFromClassicNeverExceedsTheLimit(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		const limit = 5
		m := &move{Env: e, new: e.Peer().Sem(limit)}
		m.grab("before", limit, 0, limit, 0)
		e.Must(e.Inspector.Pin(e.Ctx, testenv.Name, 2))
		m.grab("the old limit is lowered", 3, 0, limit, 0)
		m.end(2) // down to the lower limit
		m.grab("programs are replaced", 3, limit, 3, 2)
		m.end(1)
		m.grab("an old program again", 3, limit, 3, 2)
		m.end(3)
		e.Must(e.Inspector.Unpin(e.Ctx, testenv.Name))
		m.grab("unpinned", 0, limit, 0, limit)
	})
}

// move is a semaphore of the chapter and one of berth, for the same programs.
type move struct {
	*testenv.Env
	new    *berth.Semaphore
	leases int
	old    []func() // releases a permit
}

// grab takes what there is: under the limit of the old code, if that is in use, and under that of
// the new code. Afterwards so many are out.
func (m *move) grab(step string, oldLimit, newLimit, wantOld, wantNew int) {
	m.Helper()
	for ok := oldLimit > 0; ok; {
		s, err := classic.NewFairUnderLock(m.Redis, m.Prefix+"-old", oldLimit, classic.WithTimeout(time.Hour))
		m.Must(err)
		var id string
		if id, ok, err = s.Acquire(m.Ctx); ok {
			m.old = append(m.old, func() { _, err := s.Release(m.Ctx, id); m.Must(err) })
		}
		m.Must(err)
	}
	for newLimit > 0 {
		err := m.Try(m.new)
		if errors.Is(err, berth.ErrBusy) {
			break
		}
		m.Must(err)
		m.leases++
	}
	if len(m.old) != wantOld || m.leases != wantNew {
		m.Errorf("%s: %d and %d permits are out, want %d and %d", step, len(m.old), m.leases, wantOld, wantNew)
	}
}

// end ends permits of old programs.
func (m *move) end(n int) {
	for _, release := range m.old[:n] {
		release()
	}
	m.old = m.old[n:]
}
