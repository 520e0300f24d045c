package reach_test

import (
	"errors"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/berth-go/berth/internal/reach"
	"github.com/berth-go/berth/internal/testkit/redistest"
)

// TestBusyProcessDoesNotTakeRedisForAway: six hundred goroutines that compute for a millisecond
// each, and wake one another, keep whoever reads the answer waiting for longer than a silence may
// last, however fast the machine is. Timers are on time.
//
// It does not run in parallel: nothing else would get on.
func TestBusyProcessDoesNotTakeRedisForAway(t *testing.T) { //nolint:paralleltest // see above
	if testing.Short() {
		t.Skip("-short: it takes both CPUs, and for seconds on purpose")
	}
	rdb := redistest.Start(t).Client(t)
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range 600 {
		wg.Go(func() { computes(stop) })
	}
	defer wg.Wait()
	defer close(stop)
	for took := time.Duration(0); took < 3*time.Second; {
		start := time.Now()
		err := reach.Redis(t.Context(), rdb)
		took = time.Since(start)
		if errors.Is(err, reach.ErrAway) {
			t.Errorf("after %v: %v, and Redis answers", took, err)
		}
	}
}

// computes until stop is closed, in turn with a goroutine of its own.
func computes(stop <-chan struct{}) {
	for {
		select {
		case <-stop:
			return
		default:
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			computeFor(time.Millisecond)
		}()
		computeFor(time.Millisecond)
		<-done
	}
}

func computeFor(d time.Duration) {
	for start := time.Now(); time.Since(start) < d; {
	}
}
