package gate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/berth-go/berth"
)

// ErrMaxWait: the call has waited in the queue for MaxWait. It is also
// context.DeadlineExceeded to errors.Is.
var ErrMaxWait error = maxWait{}

type maxWait struct{}

// Error implements error.
func (maxWait) Error() string { return "berth: waited for MaxWait" }

// Is reports whether target is context.DeadlineExceeded.
func (maxWait) Is(target error) bool { return target == context.DeadlineExceeded }

// ErrMaxWaiting: MaxWaiting calls of this process already wait, or the part of this one's tenant, and
// no permit was free for this one, or too many others were asking for one.
var ErrMaxWaiting = errors.New("berth: as many wait already as MaxWaiting allows")

// partTaken is ErrMaxWaiting for a tenant of which so many wait already; others can.
type partTaken struct{ tenant string }

// Error implements error.
func (e partTaken) Error() string { return fmt.Sprintf("%v for tenant %q", ErrMaxWaiting, e.tenant) }

// Unwrap returns ErrMaxWaiting.
func (partTaken) Unwrap() error { return ErrMaxWaiting }

// FullForTenant reports whether err is that so many of the call's tenant wait already, in the queue or
// in this process: others can.
func FullForTenant(err error) bool {
	busy, _ := errors.AsType[*berth.BusyError](err)
	_, taken := errors.AsType[partTaken](err)
	return taken || busy != nil && busy.Tenant != ""
}

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

// Refusal tells why a call got no permit. Of several limits it is about the one that refused the
// call, but RetryAfter is not before all may have room.
type Refusal struct {
	Name       string        // of the semaphore
	Limit      int           // declared
	Waited     time.Duration // until now
	Ahead      int           // calls in line in front of it when last heard of; -1: not known
	RetryAfter time.Duration // when another try may succeed, in whole seconds
	Err        error         // the reason
}

// Never reports whether the call asks for what is never granted, or is not valid: a weight above
// the limit declared, and not only above one that an operator has pinned, or a cost above the rate.
func (r *Refusal) Never() bool {
	heavy, _ := errors.AsType[*berth.TooHeavyError](r.Err)
	return errors.Is(r.Err, berth.ErrInvalid) || heavy != nil && (heavy.Cost > 0 || heavy.Weight > r.Limit)
}

// ByRedis reports whether Redis is the reason that there is no permit, or that it could not
// be given back. That a lease was lost is not such a reason, whatever it was lost by.
func ByRedis(err error) bool {
	if errors.Is(err, berth.ErrLost) {
		return false
	}
	return errors.Is(err, berth.ErrUnreachable) || errors.Is(err, berth.ErrRefused) ||
		errors.Is(err, berth.ErrCorrupt) || errors.Is(err, berth.ErrNotReplicated)
}
