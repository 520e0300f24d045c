package promise_test

import (
	"errors"
	"testing"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/classic"
	"github.com/berth-go/berth/internal/testkit/testenv"
)

// TestMoveFromClassicNeverExceedsTheLimit takes the steps of classic/README.md, while programs of
// both kinds take whatever they get. The old semaphore is the one that keeps its limit.
func TestMoveFromClassicNeverExceedsTheLimit(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		for _, limit := range []int{1, 5} {
			old, err := classic.NewFairUnderLock(e.Redis, e.Prefix+"-old", limit, classic.WithTimeout(time.Hour))
			e.Must(err)
			m := &move{Env: e, old: old.Driver(), new: e.Peer().Sem(limit)}
			m.grab("before", limit, m.takesOld)
			m.end(1)
			m.grab("the first release comes", limit, m.takesBoth, m.takesOld)
			m.end(limit)
			m.grab("some have it", limit, m.takesOld, m.takesBoth)
			m.end(limit)
			m.grab("all have it", limit, m.takesBoth)
			m.end(limit/2 + 1)
			m.grab("the second release comes", limit, m.takesBerth, m.takesBoth)
			m.end(limit)
			m.grab("all have that", limit, m.takesBerth)
			m.end(limit)
		}
	})
}

// TestMoveKeepsTheLimitOnceAllTakeBoth also where the old semaphore does not: each try of this
// one, by a clock far ahead, drops all others.
func TestMoveKeepsTheLimitOnceAllTakeBoth(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		const limit = 5
		clock := time.Unix(1e9, 0)
		old, err := classic.NewFair(e.Redis, e.Prefix+"-old", limit, classic.WithClock(func() time.Time {
			clock = clock.Add(time.Hour)
			return clock
		}))
		e.Must(err)
		m := &move{Env: e, old: old.Driver(), new: e.Peer().Sem(limit)}
		for range 2 * limit {
			if m.takesOld() == nil {
				e.Fatal("the old semaphore keeps its limit: this test shows nothing")
			}
		}
		m.grab("all take both", limit, m.takesBoth)
		m.end(2)
		m.grab("the second release comes", limit, m.takesBerth, m.takesBoth)
		m.end(limit)
	})
}

// move is a semaphore of the chapter and one of berth, for the same work.
type move struct {
	*testenv.Env
	old     classic.Driver
	new     *berth.Semaphore
	working []func() // ends what has been begun
}

// takesOld begins work as an old program does. It returns what ends it, or nil if there is no
// permit, as do the others.
func (m *move) takesOld() (end func()) {
	m.Helper()
	release, ok, err := m.old.Acquire(m.Ctx)
	m.Must(err)
	if !ok {
		return nil
	}
	return func() {
		_, err := release(m.Ctx)
		m.Must(err)
	}
}

// takesBerth begins work as a program does in the end.
func (m *move) takesBerth() (end func()) {
	m.Helper()
	var lease *berth.Lease
	err := m.Timely(func() (err error) {
		lease, err = m.new.TryAcquire(m.Ctx)
		return err
	})
	if errors.Is(err, berth.ErrBusy) {
		return nil
	}
	m.Must(err)
	return func() { m.Release(lease) }
}

// takesBoth begins work as a program does meanwhile.
func (m *move) takesBoth() (end func()) {
	m.Helper()
	release := m.takesBerth()
	if release == nil {
		return nil
	}
	old := m.takesOld()
	if old == nil {
		release()
		return nil
	}
	return func() {
		old()
		release()
	}
}

// grab lets programs of some kinds begin work in turn until none of them gets a permit. Then so
// many must be at work.
func (m *move) grab(step string, want int, kinds ...func() (end func())) {
	m.Helper()
	for refused := 0; refused < len(kinds); {
		begin := kinds[0]
		kinds = append(kinds[1:], begin)
		if end := begin(); end != nil {
			m.working, refused = append(m.working, end), 0
		} else {
			refused++
		}
	}
	if len(m.working) != want {
		m.Errorf("limit %d, %s: %d are at work", want, step, len(m.working))
	}
}

// end ends the work that has lasted longest.
func (m *move) end(n int) {
	for _, end := range m.working[:n] {
		end()
	}
	m.working = m.working[n:]
}
