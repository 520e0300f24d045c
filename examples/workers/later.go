package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/berth-go/berth"
)

// later is the error of a job that was not run for lack of a permit. It is no failure of the job.
type later struct {
	after time.Duration // when another try may succeed
	err   error
}

func (l *later) Error() string {
	return fmt.Sprintf("to be tried again in %v: %v", l.after.Round(time.Millisecond), l.err)
}

func (l *later) Unwrap() error { return l.err }

// try runs a job under a permit. If none is free now it does not wait, because a worker that waits
// does no other job: it returns a *later. The job's context also ends when the lease is lost.
func try(ctx context.Context, sem *berth.Semaphore, job func(context.Context) error) error {
	lease, err := sem.TryAcquire(ctx)
	if err != nil {
		if busy, ok := errors.AsType[*berth.BusyError](err); ok {
			// A rate, or a pause, has a time. Holders have none, so this looks again every second
			// or two. The random part has those who came together come apart.
			return &later{busy.RetryAfter + pause/2 + rand.N(pause), err}
		}
		if errors.Is(err, berth.ErrUnreachable) {
			return &later{10 * pause, err}
		}
		return err // bad input, say: the job fails
	}
	defer func() { _ = lease.Release() }() // berth retries what fails here
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(lease.Context(), func() { cancel(context.Cause(lease.Context())) })()
	return job(ctx)
}

// pause is about how long a job that found no permit stays in the queue.
var pause = time.Second
