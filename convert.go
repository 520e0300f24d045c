package berth

import (
	"errors"
	"fmt"
	"time"

	"github.com/berth-go/berth/internal/protocol"
	"github.com/berth-go/berth/internal/session"
)

// public words an error of the inner packages for users. It is the only place
// that knows both sides.
func public(name string, err error) error {
	if err == nil {
		return nil
	}
	var (
		refusal *session.Refusal
		lost    *session.Lost
		failure *protocol.Failure
		short   *session.Unreplicated
	)
	switch {
	case errors.As(err, &refusal):
		return publicRefusal(refusal)
	case errors.As(err, &lost):
		return publicLost(lost)
	case errors.As(err, &short):
		return &NotReplicatedError{Name: name, Want: short.Want, Got: short.Got, Err: short.Err}
	case errors.Is(err, session.ErrReleased):
		return fmt.Errorf("%w (semaphore %q)", ErrReleased, name)
	case errors.Is(err, session.ErrClosed):
		return ErrClosed
	case errors.As(err, &failure):
		return publicFailure(name, failure, err)
	}
	return fmt.Errorf("berth: %w", err)
}

func publicRefusal(r *session.Refusal) error {
	if r.Code == protocol.Heavy {
		return &TooHeavyError{Name: r.Name, Weight: r.Weight, Limit: r.Limit}
	}
	return &BusyError{
		Name: r.Name, InUse: r.Used, Limit: r.Limit, Waiting: r.Waiting, Paused: r.Paused,
		NextExpiry: time.Duration(r.Next) * time.Millisecond, QueueFull: r.Code == protocol.Full,
	}
}

func publicLost(l *session.Lost) error {
	reasons := map[session.Cause]LostReason{
		session.Untrusted: LostUntrusted, session.Expired: LostExpired, session.MaxHold: LostMaxHold, session.Evicted: LostEvicted,
	}
	e := &LostError{Name: l.Name, ID: l.ID, Reason: reasons[l.Cause]}
	if l.Err != nil {
		e.Err = public(l.Name, l.Err)
	}
	return e
}

// publicFailure words a failure of Redis; err is f, or has it somewhere.
func publicFailure(name string, f *protocol.Failure, err error) error {
	kind := ErrRefused
	switch {
	case f.Detail != nil:
		kind = ErrCorrupt
	case errors.Is(f, protocol.ErrUnknown), f.Unanswered():
		kind = ErrUnreachable
	}
	if name == "" {
		return fmt.Errorf("%w: %w", kind, err)
	}
	return fmt.Errorf("%w: semaphore %q: %w", kind, name, err)
}
