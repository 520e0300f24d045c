package berthhttp

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/berth-go/berth"
)

// ErrMaxWait: the request has waited in the queue for MaxWait. It is also
// context.DeadlineExceeded to errors.Is.
var ErrMaxWait error = maxWait{}

type maxWait struct{}

// Error implements error.
func (maxWait) Error() string { return "berthhttp: waited for MaxWait" }

// Is reports whether target is context.DeadlineExceeded.
func (maxWait) Is(target error) bool { return target == context.DeadlineExceeded }

// ErrMaxWaiting: MaxWaiting requests of this process already wait, and no permit was free for
// this one, or too many others were asking for one.
var ErrMaxWaiting = errors.New("berthhttp: MaxWaiting requests wait already")

// errSilence: Redis has not said anything within AnswerWithin, or MaxWait.
var errSilence = fmt.Errorf("%w: no answer in time", berth.ErrUnreachable)

// refusedSoFar is the error of a wait that ended because Redis had given no permit in time, and
// said why. Unlike the cause that ended the wait, it is not berth.ErrUnreachable.
type refusedSoFar struct{ error }

// Is reports whether target is in the error's chain.
func (e refusedSoFar) Is(target error) bool {
	return target != berth.ErrUnreachable && errors.Is(e.error, target)
}

// As finds target in the error's chain.
func (e refusedSoFar) As(target any) bool { return errors.As(e.error, target) }

// RefusedError tells why a request got no permit. The request was not sent, or not
// served, and it holds no permit. Of several limits it is about the one that refused the request,
// but RetryAfter is not before all may have room.
//
// Err is the reason, for errors.Is and errors.As: ErrMaxWait, ErrMaxWaiting,
// berth.ErrQueueFull or berth.ErrBusy (a *berth.BusyError), berth.ErrTooHeavy,
// berth.ErrEvicted (an operator took its place in the queue), berth.ErrLost (the lease was
// lost before it could be used), berth.ErrInvalid (the request's limit or options),
// berth.ErrClosed, the context's error, or, when Redis is the reason,
// berth.ErrUnreachable, berth.ErrRefused, berth.ErrCorrupt or berth.ErrNotReplicated.
type RefusedError struct {
	Name       string        // of the semaphore
	Waited     time.Duration // until now
	Ahead      int           // requests in line in front of it when last heard of; -1: not known
	RetryAfter time.Duration // when another try may succeed, an estimate of 1 s to 1 min, or later if a rate, or a pause, leaves no room before
	Status     int           // what a Handler answers
	Err        error
}

// Error implements error.
func (e *RefusedError) Error() string {
	s := fmt.Sprintf("berthhttp: no permit of %q after %v", e.Name, e.Waited.Round(time.Millisecond))
	if e.Ahead >= 0 {
		s += fmt.Sprintf(", with %d requests ahead", e.Ahead)
	}
	return fmt.Sprintf("%s: %v", s, e.Err)
}

// Unwrap returns Err.
func (e *RefusedError) Unwrap() error { return e.Err }

// Timeout reports whether the wait took too long, as that of a net.Error does; an
// http.Client's error asks it.
func (e *RefusedError) Timeout() bool {
	return errors.Is(e.Err, context.DeadlineExceeded)
}

// byRedis reports whether Redis is the reason that there is no permit, or that it could not
// be given back. That a lease was lost is not such a reason, whatever it was lost by.
func byRedis(err error) bool {
	if errors.Is(err, berth.ErrLost) {
		return false
	}
	return errors.Is(err, berth.ErrUnreachable) || errors.Is(err, berth.ErrRefused) ||
		errors.Is(err, berth.ErrCorrupt) || errors.Is(err, berth.ErrNotReplicated)
}

// statusOf returns the status for a refusal, where limited is that for a limit. A weight above the
// limit declared, and not only above one that an operator has pinned, is never granted; nor is a
// cost above the rate.
func statusOf(err error, declared, limited int) int {
	heavy, _ := errors.AsType[*berth.TooHeavyError](err)
	switch {
	case byRedis(err), errors.Is(err, berth.ErrClosed), errors.Is(err, context.Canceled):
		return http.StatusServiceUnavailable
	case errors.Is(err, berth.ErrInvalid), heavy != nil && (heavy.Cost > 0 || heavy.Weight > declared):
		return http.StatusInternalServerError
	}
	return limited
}
