package berthhttp

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/internal/gate"
)

var (
	// ErrMaxWait: the request has waited in the queue for MaxWait. It is also
	// context.DeadlineExceeded to errors.Is.
	ErrMaxWait = gate.ErrMaxWait
	// ErrMaxWaiting: MaxWaiting requests of this process already wait, or the part of this one's
	// tenant, and no permit was free for this one, or too many others were asking for one.
	ErrMaxWaiting = gate.ErrMaxWaiting
)

// RefusedError says why a request got no permit. The request was not sent, or not
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

// refused returns the error for a refusal. limited is the status for one by a limit.
func refused(why *gate.Refusal, limited int) *RefusedError {
	e := &RefusedError{Name: why.Name, Waited: why.Waited, Ahead: why.Ahead, RetryAfter: why.RetryAfter, Status: limited, Err: why.Err}
	switch err := why.Err; {
	case gate.ByRedis(err), errors.Is(err, berth.ErrClosed), errors.Is(err, context.Canceled):
		e.Status = http.StatusServiceUnavailable
	case why.Never():
		e.Status = http.StatusInternalServerError
	}
	return e
}
