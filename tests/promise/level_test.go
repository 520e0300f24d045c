package promise_test

import (
	"errors"
	"testing"
	"time"

	"github.com/berth-go/berth"
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
		if _, err := e.Inspector.Show(e.Ctx, "all"); !errors.Is(err, berth.ErrNotFound) {
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
