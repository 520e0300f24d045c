package berthwatch

import (
	"slices"
	"testing"
	"time"

	"github.com/berth-go/berth/internal/testkit/testenv"
)

// shows waits for a row, and returns how long that took.
func shows(e *testenv.Env, s *Sampler, name string) time.Duration {
	e.Helper()
	for begun := time.Now(); ; e.Pass(50 * time.Millisecond) {
		at := slices.IndexFunc(s.Look().Rows, func(r Row) bool { return r.Name == name && !r.Idle })
		if took := time.Since(begun); at >= 0 || took > time.Minute {
			return took
		}
	}
}

// TestNewNamesShowWithinTwoSeconds, also where samples of all are seldom: in a small keyspace by
// the search, in a large one if something is heard of them, or they are looked at.
func TestNewNamesShowWithinTwoSeconds(t *testing.T) {
	for what, c := range map[string]struct {
		steps int64
		use   func(e *testenv.Env, s *Sampler)
	}{
		"a search": {1, func(e *testenv.Env, _ *Sampler) { e.Hold(e.Peer().Sem(1)) }},
		"a message": {1000, func(e *testenv.Env, _ *Sampler) {
			p := e.Peer()
			held := e.Hold(p.Sem(1))
			e.Queue(p.Sem(1))
			e.Release(held)
		}},
		"a look": {1000, func(e *testenv.Env, s *Sampler) {
			e.Hold(e.Peer().Sem(1))
			s.Detail(testenv.Name)
		}},
		"a change": {1000, func(e *testenv.Env, s *Sampler) {
			e.Must(e.Inspector.Pin(e.Ctx, testenv.Name, 2))
			s.Refresh(testenv.Name)
		}},
	} {
		for _, cost := range []time.Duration{0, 200 * time.Millisecond} {
			t.Run(what+" "+cost.String(), func(t *testing.T) {
				testenv.Embedded(t, func(e *testenv.Env) {
					s, m := start(e, 1, nil)
					m.steps.Store(c.steps)
					m.sample.Store(int64(cost))
					lookFor(e, s, 40*time.Second)
					c.use(e, s)
					if took := shows(e, s, testenv.Name); took > 2*time.Second {
						e.Errorf("it shows after %v", took)
					}
				})
			})
		}
	}
}

// TestAgeOfTheNames: it is told how long ago the last complete search began.
func TestAgeOfTheNames(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		s, m := start(e, 1, nil)
		for _, c := range []struct {
			steps int64
			most  time.Duration
		}{{1, lap + time.Second}, {1000, 2*between + time.Second}} {
			m.steps.Store(c.steps)
			m.scan.Store(int64(time.Millisecond))
			lookFor(e, s, 5*time.Minute)
			oldest := time.Duration(0)
			for range 240 {
				v := lookFor(e, s, 500*time.Millisecond)
				oldest = max(oldest, time.Since(v.NamesAt))
			}
			if oldest > max(c.most, time.Duration(2*c.steps)*share*time.Millisecond+between) || oldest < time.Duration(c.steps)*share*time.Millisecond/2 {
				e.Errorf("with %d steps: %v", c.steps, oldest)
			}
		}
	})
}

// TestNamesOutliveAShortRest: a semaphore that is idle for half a minute keeps its row and its
// history.
func TestNamesOutliveAShortRest(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		s, _ := start(e, 0, nil)
		p := e.Peer()
		e.Release(e.Hold(p.Sem(1)))
		l := e.Hold(p.Sem(1))
		begun := time.Now()
		lookFor(e, s, 10*time.Second)
		e.Release(l)
		lookFor(e, s, 30*time.Second)
		e.Hold(p.Sem(1))
		lookFor(e, s, 5*time.Second)
		if n := len(s.History(testenv.Name, begun)); n < 40 {
			e.Errorf("%d points of 45 seconds", n)
		}
	})
}
