package promise_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/internal/testkit/testenv"
)

// TestRefusalsTellTheState: whoever gets no permit learns the same of the semaphore, in the same
// words, however it was refused.
func TestRefusalsTellTheState(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		sem := e.Peer().Sem(3)
		e.Hold(sem, berth.Weight(2))
		e.Must(e.Inspector.Pin(e.Ctx, testenv.Name, 2))
		found := berth.Status{InUse: 2, Limit: 2, Pinned: true}
		const words = "2 of 2 in use, 0 waiting; an operator has pinned the limit"

		err := e.Try(sem)
		busy, ok := errors.AsType[*berth.BusyError](err)
		if !ok || busy.Status != found || !strings.Contains(err.Error(), words) {
			e.Errorf("busy: %v", err)
		}
		err = e.Try(sem, berth.Weight(3))
		if heavy, ok := errors.AsType[*berth.TooHeavyError](err); !ok || heavy.Status != found {
			e.Errorf("too heavy: %v", err)
		}

		ctx, leave := context.WithCancel(e.Ctx)
		defer leave()
		_, err = sem.Acquire(ctx, berth.OnQueued(func(berth.Place) { leave() }))
		found.Waiting = 1
		wait, ok := errors.AsType[*berth.WaitError](err)
		if !ok || wait.Place != (berth.Place{Status: found}) || !strings.Contains(err.Error(), strings.Replace(words, "0 waiting", "1 waiting", 1)) {
			e.Errorf("left the queue: %v", err)
		}
	})
}
