package promise_test

import (
	"errors"
	"testing"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/classic"
	"github.com/berth-go/berth/internal/testenv"
)

// TestMoveFromClassicNeverExceedsTheLimit takes the steps of docs/chapter.md, and after
// each of them has old and new programs take whatever they get.
func TestMoveFromClassicNeverExceedsTheLimit(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		const limit, name = 5, testenv.Name
		old := func(limit int) *classic.FairUnderLock {
			s, err := classic.NewFairUnderLock(e.Redis, e.Prefix+"-old", limit)
			e.Must(err)
			return s
		}
		p := e.Peer()
		grab := func(step string, olds []*classic.FairUnderLock, moved bool, want int) {
			e.Helper()
			permits := 0
			for _, s := range olds {
				for {
					id, ok, err := s.Acquire(e.Ctx)
					e.Must(err)
					if !ok {
						break
					}
					permits++
					defer func() { _, _ = s.Release(e.Ctx, id) }()
				}
			}
			for moved {
				lease, err := p.Sem(limit).TryAcquire(e.Ctx)
				if errors.Is(err, berth.ErrBusy) {
					break
				}
				e.Must(err)
				permits++
				defer func() { e.Must(lease.Release()) }()
			}
			if permits != want {
				e.Errorf("%s: %d permits are out, want %d", step, permits, want)
			}
		}
		five, three := old(limit), old(3)
		grab("before", []*classic.FairUnderLock{five}, false, limit)
		e.Must(e.Inspector.Pin(e.Ctx, name, 2))
		grab("pinned", []*classic.FairUnderLock{five}, false, limit)
		grab("while the old limit is lowered", []*classic.FairUnderLock{three, five}, false, limit)
		grab("while programs are replaced", []*classic.FairUnderLock{three}, true, limit)
		e.Must(e.Inspector.Unpin(e.Ctx, name))
		grab("unpinned", nil, true, limit)
		grab("without the pin", []*classic.FairUnderLock{three}, true, 3+limit) // it was needed
	})
}
