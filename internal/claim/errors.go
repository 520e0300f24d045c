package claim

import (
	"errors"
	"fmt"
	"time"

	"github.com/berth-go/berth/internal/protocol"
)

// What became of a request, as opposed to what Redis did with a call, which is a
// *protocol.Failure.

// ErrClosed: the client was closed.
var ErrClosed = errors.New("client is closed")

// ErrReleased: the lease was released before.
var ErrReleased = errors.New("the lease was given back")

// ErrDetached: a Detach ended the lease. It is ErrReleased, too.
var ErrDetached = fmt.Errorf("%w by Detach", ErrReleased)

// errUnsettled: the release of a lease that was held until then came so late that it had ended by itself.
// A copy of it may have come before.
var errUnsettled = errors.New("the lease ran out before its release arrived, so it may count for what was asked and not for what was settled")

// Refusal is the error of a request that the server refused. Nothing was taken.
type Refusal struct {
	Name   string
	Code   protocol.Code // Busy, Full, Heavy or Costly
	Weight int
	Tenant string // for whom it asked; "": nobody
	Limit  int    // in force
	protocol.State
	Binds protocol.Budget // the rate that does not let it in, or the first; none: there is no rate
	Cost  int             // in the unit of Binds
	Rest  time.Duration   // for so long the rates or a pause do not let it in
	Next  time.Duration   // until a lease or waiter may run out, at the earliest; 0: there is none
	Early bool            // it was not the server that refused: Rest ends after the Deadline
}

// Error implements error.
func (r *Refusal) Error() string { return fmt.Sprintf("refused with code %d", r.Code) }

// Cause tells how a lease, or a place in the queue, was lost.
type Cause int

// The causes.
const (
	Untrusted   Cause = iota // not renewed until the trust deadline
	Expired                  // the server says that it has run out
	MaxHold                  // it reached its cap
	Evicted                  // an operator took it
	Vanished                 // the server does not know it, although it cannot have run out
	GivenBack                // somebody released it by its id
	AdoptedAway              // somebody adopted it
	Absent                   // the server does not know it, and it may have ended in any way
)

// LostError is the error of a claim that ended before its holder gave it back.
type LostError struct {
	Name, ID string
	Cause    Cause
	By       string // AdoptedAway: the owner
	Err      error  // why renewals failed
}

// Error implements error.
func (l *LostError) Error() string {
	return fmt.Sprintf("lease %s lost (%d): %v", l.ID, l.Cause, l.Err)
}

// Unwrap returns the error of the last renewal, if that is the cause.
func (l *LostError) Unwrap() error { return l.Err }

// LostBy is the error for a lease called id of which the server answers r: it does not have
// it, or is about to take it.
func LostBy(name, id string, r *protocol.Result) *LostError {
	why := &LostError{Name: name, ID: id, Cause: Absent}
	switch {
	case r.Code == protocol.Evicting || r.Reason == protocol.Evicted:
		why.Cause = Evicted
	case r.Reason == protocol.WasMoved:
		why.Cause, why.By = AdoptedAway, r.Owner
	case r.Reason == protocol.WasReleased:
		why.Cause = GivenBack
	case r.Reason == protocol.Expired:
		why.Cause = Expired
	}
	return why
}

// Unreplicated is the error of a grant or renewal that too few replicas have.
type Unreplicated struct {
	Want, Got int
	Err       error // the server refused to count replicas
}

// Error implements error.
func (u *Unreplicated) Error() string { return fmt.Sprintf("%d of %d replicas", u.Got, u.Want) }

// WaitError is the error of a wait whose context ended.
type WaitError struct {
	Name    string
	Err     error // the context's
	Failure error // why Redis had not answered; nil: it had, or there was no time
	Queued  bool
	Place   Place // if Queued
}

// Error implements error.
func (e *WaitError) Error() string { return fmt.Sprintf("semaphore %q: %v", e.Name, e.Err) }

// Unwrap returns the context's error, and that of Redis.
func (e *WaitError) Unwrap() []error {
	if e.Failure == nil {
		return []error{e.Err}
	}
	return []error{e.Err, e.Failure}
}
