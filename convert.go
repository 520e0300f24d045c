package berth

import (
	"errors"
	"fmt"

	"github.com/berth-go/berth/internal/claim"
	"github.com/berth-go/berth/internal/protocol"
)

// public translates an error of the inner packages for users. It is the only place
// that knows both sides.
func public(name string, err error) error {
	if err == nil {
		return nil
	}
	var (
		refusal *claim.Refusal
		lost    *claim.LostError
		short   *claim.Unreplicated
		ended   *claim.WaitError
		failure *protocol.Failure
	)
	switch {
	case errors.As(err, &ended):
		return publicEnded(ended)
	case errors.As(err, &refusal):
		return publicRefusal(refusal)
	case errors.As(err, &lost):
		return publicLost(lost)
	case errors.As(err, &short):
		return &NotReplicatedError{Name: name, Want: short.Want, Got: short.Got, Err: short.Err}
	case errors.Is(err, claim.ErrDetached):
		return fmt.Errorf("%w (semaphore %q)", ErrDetached, name)
	case errors.Is(err, claim.ErrReleased):
		return fmt.Errorf("%w (semaphore %q)", ErrReleased, name)
	case errors.Is(err, claim.ErrClosed):
		return ErrClosed
	case errors.As(err, &failure):
		return publicFailure(name, failure, err)
	}
	return fmt.Errorf("berth: %w", err)
}

func publicEnded(e *claim.WaitError) error {
	err := e.Err
	if e.Failure != nil {
		err = fmt.Errorf("%w: %w", err, public("", e.Failure))
	}
	return &WaitError{Name: e.Name, Queued: e.Queued, Place: publicPlace(e.Place), Err: err}
}

func publicPlace(p claim.Place) Place {
	place := Place{Ahead: p.Ahead, Tenant: p.Tenant, Status: Status{
		InUse: p.Used, Limit: p.Limit, Waiting: p.Waiting, Paused: p.Paused, Pinned: p.Pinned, RetryAfter: p.Rest,
	}}
	place.setRate(p.Binds)
	return place
}

func (s *Status) setRate(b protocol.Budget) {
	s.Unit, s.Rate, s.Window, s.Burst, s.Spent = b.Unit, b.N, b.Per, b.Burst, b.Spent
}

func publicRefusal(r *claim.Refusal) error {
	found := Status{
		InUse: r.Used, Limit: r.Limit, Waiting: r.Waiting, Paused: r.Paused, Pinned: r.Pin >= 0, RetryAfter: r.Rest,
	}
	found.setRate(r.Binds)
	switch r.Code {
	case protocol.Heavy:
		return &TooHeavyError{Name: r.Name, Weight: r.Weight, Status: found}
	case protocol.Costly:
		return &TooHeavyError{Name: r.Name, Weight: r.Weight, Cost: r.Cost, Status: found}
	}
	busy := &BusyError{Name: r.Name, Status: found, NextExpiry: r.Next, QueueFull: r.Code == protocol.Full, FailedEarly: r.Early}
	if busy.QueueFull {
		busy.Tenant = r.Tenant
	}
	return busy
}

// publicLost translates a loss. LostReason lists the reasons in the order of claim.Cause.
func publicLost(l *claim.LostError) error {
	e := &LostError{Name: l.Name, ID: l.ID, Reason: LostReason(l.Cause), By: l.By}
	if l.Err != nil {
		e.Err = public(l.Name, l.Err)
	}
	return e
}

// publicFailure translates a failure of Redis; err is f, or wraps it.
func publicFailure(name string, f *protocol.Failure, err error) error {
	kind := ErrRefused
	switch f.Means() {
	case protocol.Corrupt:
		return &CorruptError{
			Name: name, Heals: f.Heals, Newer: errors.Is(f, protocol.ErrVersion), Older: errors.Is(f, protocol.ErrOlder), Err: err,
		}
	case protocol.Unreachable:
		kind = ErrUnreachable
	case protocol.Refused:
	}
	if name == "" {
		return fmt.Errorf("%w: %w", kind, err)
	}
	return fmt.Errorf("%w: semaphore %q: %w", kind, name, err)
}
