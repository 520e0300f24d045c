package promise_test

import (
	"bytes"
	"errors"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/berthadmin"
	"github.com/berth-go/berth/internal/testkit/testenv"
)

// While AcquireAll waits for a narrow limit, it holds nothing of a wide one with a higher level,
// whatever their names; and each semaphore has its own weight.
func TestWideLimitIsTakenLast(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		p := e.Peer()
		wide, narrow := p.Named("all", 20, berth.Level(1), berth.Weight(3)), p.Named("tenant/7", 1)
		held := e.Hold(narrow)
		type result struct {
			leases berth.Leases
			err    error
		}
		done := make(chan result, 1)
		go func() {
			leases, err := berth.AcquireAll(e.Ctx, wide, narrow)
			done <- result{leases, err}
		}()
		e.Pass(time.Second)
		if _, err := e.Inspector.Show(e.Ctx, "all"); !errors.Is(err, berthadmin.ErrNotFound) {
			e.Errorf("while it waits for the narrow limit, the wide one has %v", err)
		}
		e.Release(held)
		r := <-done
		e.Must(r.err)
		st, err := e.Inspector.Show(e.Ctx, "all")
		if e.Must(err); st.InUse != 3 || r.leases[0].Name() != "all" {
			e.Errorf("%d in use of %s", st.InUse, r.leases[0].Name())
		}
		e.Must(r.leases.Release())
		if _, err := p.Semaphore("all", 20, berth.Level(-1)); !errors.Is(err, berth.ErrInvalid) {
			e.Errorf("level -1: %v", err)
		}
	})
}

// TestTwoLevelsOfANameAreLogged, once: callers that take a semaphore in different orders can wait
// for each other.
func TestTwoLevelsOfANameAreLogged(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		var log bytes.Buffer
		p := e.Peer(berth.Logger(slog.New(slog.NewTextHandler(&log, nil))))
		inUse := []*berth.Semaphore{p.Named("a", 9), p.Named("b", 9)} // what is not in use is forgotten
		for i, levels := range [][2]int{{0, 1}, {0, 1}, {1, 1}, {0, 0}} {
			leases, err := berth.AcquireAll(e.Ctx, p.Named("a", 9, berth.Level(levels[0])), p.Named("b", 9, berth.Level(levels[1])))
			e.Must(err)
			e.Must(leases.Release())
			synctest.Wait() // until what was logged is written
			if got, want := strings.Count(log.String(), "two levels"), min(i/2, 1); got != want {
				e.Errorf("after call %d there are %d warnings, want %d: %s", i, got, want, log.String())
			}
		}
		if !strings.Contains(log.String(), `semaphore=a levels="[0 1]"`) {
			e.Errorf("logged %s", log.String())
		}
		runtime.KeepAlive(inUse)
	})
}
