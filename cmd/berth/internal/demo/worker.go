package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/internal/child"
)

const (
	semaphoreName = "demo"
	// ttl is short, so that the permit of the killed worker is seen to come back.
	ttl = 1500 * time.Millisecond
	// A worker works and rests for a random time in these bounds.
	minWork, maxWork = 150 * time.Millisecond, 500 * time.Millisecond
	minRest, maxRest = 5 * time.Millisecond, 120 * time.Millisecond
	// step is how long it works without a look at its lease.
	step = 20 * time.Millisecond
)

// The kinds of an event.
const (
	queued  = "queued"  // it has to wait
	started = "started" // it has a permit and starts to work
	ended   = "ended"   // it has worked and is about to give the permit back
	killed  = "killed"  // the demo has killed it; from the demo
)

// event is what a worker reports, as JSON.
type event struct {
	Kind string
	At   time.Duration // by the clock that all processes share
	// With started:
	Token int64
	Slot  int
	Asked time.Duration // when it asked for this permit
	Work  time.Duration // how long it means to work

	worker int // whose event it is
}

// clock reads the monotonic clock, which is the same for all processes of a
// machine: reports of different workers can be compared.
func clock() time.Duration {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts) // fails only for a clock that does not exist
	return time.Duration(ts.Nano())
}

// Work is a worker process: until stdin ends, it takes a permit, works, and
// gives the permit back, and reports each step on stdout.
func Work(ctx context.Context, client *berth.Client, limit, number int, stdin io.Reader, stdout io.Writer) error {
	sem, err := client.Semaphore(semaphoreName, limit, berth.TTL(ttl), berth.Label(fmt.Sprintf("worker %d", number)))
	if err != nil {
		return err
	}
	// Standard input ends with the demo, however that ends.
	ctx, stop := child.Until(ctx, stdin)
	defer stop()
	out := json.NewEncoder(stdout)
	for ctx.Err() == nil {
		if err := turn(ctx, sem, out); err != nil && ctx.Err() == nil {
			return err
		}
		pause(ctx, between(minRest, maxRest))
	}
	return nil
}

// turn is one permit taken, used and given back.
func turn(ctx context.Context, sem *berth.Semaphore, out *json.Encoder) error {
	asked := clock()
	report := sync.OnceFunc(func() { _ = out.Encode(event{Kind: queued, At: clock()}) })
	lease, err := sem.Acquire(ctx, berth.OnQueued(func(berth.Place) { report() }))
	if err != nil {
		return err
	}
	work := between(minWork, maxWork)
	err = out.Encode(event{Kind: started, At: clock(), Token: lease.Token(), Slot: lease.Slot(), Asked: asked, Work: work})
	if err == nil {
		until := trusted(ctx, lease, work)
		// Told before the release, so that the next holder's report comes later.
		err = out.Encode(event{Kind: ended, At: until})
	}
	if lost := lease.Release(); !errors.Is(lost, berth.ErrLost) {
		err = errors.Join(err, lost)
	}
	return err
}

// trusted works with a lease and returns until when it could rely on it. On a machine that
// stands still, a lease can be lost before the work is done.
func trusted(ctx context.Context, lease *berth.Lease, work time.Duration) time.Duration {
	end, until := time.Now().Add(work), lease.ValidUntil()
	for ctx.Err() == nil && time.Now().Before(end) && lease.Valid() {
		pause(ctx, min(step, time.Until(end)))
		if renewed := lease.ValidUntil(); !renewed.IsZero() {
			until = renewed
		}
	}
	return clock() - max(0, time.Since(until))
}

func between(least, most time.Duration) time.Duration {
	return least + rand.N(most-least)
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
