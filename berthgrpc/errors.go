package berthgrpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/internal/gate"
)

var (
	// ErrMaxWait: the call has waited in the queue for MaxWait. It is also
	// context.DeadlineExceeded to errors.Is.
	ErrMaxWait = gate.ErrMaxWait
	// ErrMaxWaiting: MaxWaiting calls of this process already wait, or the part of this one's tenant,
	// and no permit was free for this one, or too many others were asking for one.
	ErrMaxWaiting = gate.ErrMaxWaiting
)

// RefusedError says why a call got no permit. The call was not sent, or not served, and holds no
// permit. Of several limits it is about the one that refused the call, but RetryAfter is not before
// all may have room.
//
// To gRPC it is a status: ResourceExhausted for a limit; Unavailable if Redis is the reason, or the
// berth.Client was closed; both have a RetryInfo. It is Internal if the limit or the options of the
// call are not valid, or it asks for more than the limit or the rate; and Canceled or
// DeadlineExceeded if the call's context ended. What a server sends has no names in it.
//
// Err is the reason, as that of berthhttp.RefusedError.
type RefusedError struct {
	Name       string        // of the semaphore
	Waited     time.Duration // until now
	Ahead      int           // calls in line in front of it when last heard of; -1: not known
	RetryAfter time.Duration // when another try may succeed, an estimate, in whole seconds, of at least 1 s
	Code       codes.Code
	Err        error
}

// refused returns the error for a refusal.
func refused(why *gate.Refusal) *RefusedError {
	e := &RefusedError{Name: why.Name, Waited: why.Waited, Ahead: why.Ahead, RetryAfter: why.RetryAfter, Code: codes.ResourceExhausted, Err: why.Err}
	switch err := why.Err; {
	case gate.ByRedis(err), errors.Is(err, berth.ErrClosed):
		e.Code = codes.Unavailable
	case why.Never():
		e.Code = codes.Internal
	case errors.Is(err, ErrMaxWait):
	case errors.Is(err, context.Canceled):
		e.Code = codes.Canceled
	case errors.Is(err, context.DeadlineExceeded):
		e.Code = codes.DeadlineExceeded
	}
	return e
}

// Error implements error.
func (e *RefusedError) Error() string {
	s := fmt.Sprintf("berthgrpc: no permit of %q after %v", e.Name, e.Waited.Round(time.Millisecond))
	if e.Ahead >= 0 {
		s += fmt.Sprintf(", with %d calls ahead", e.Ahead)
	}
	return fmt.Sprintf("%s: %v", s, e.Err)
}

// Unwrap returns Err.
func (e *RefusedError) Unwrap() error { return e.Err }

// GRPCStatus returns the status, for status.FromError. Its text has no names, which may be those of
// other clients.
func (e *RefusedError) GRPCStatus() *status.Status {
	switch e.Code {
	case codes.Internal:
		return status.New(e.Code, "the limit, the weight or the cost of this call is not valid")
	case codes.Canceled, codes.DeadlineExceeded:
		return status.New(e.Code, "the call ended while it waited for a permit")
	}
	text := "busy"
	switch {
	case e.Code == codes.Unavailable:
		text = "temporarily unavailable"
	case gate.FullForTenant(e.Err):
		text = "busy: the queue is full for the tenant of this call"
	case e.Ahead == 1:
		text = "busy: 1 call is ahead of this one"
	case e.Ahead > 1:
		text = fmt.Sprintf("busy: %d calls are ahead of this one", e.Ahead)
	}
	st := status.New(e.Code, fmt.Sprintf("%s; try again in %v", text, e.RetryAfter))
	if detailed, err := st.WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(e.RetryAfter)}); err == nil {
		return detailed
	}
	return st
}

// lostCall is the error of a call whose lease was lost: berth.ErrLost, and Aborted to gRPC. Unlike
// Unavailable, that asks nobody to send the call again, which may have had effects.
type lostCall struct {
	lost *berth.LostError
	err  error // with which the call ended; nil: none
}

// Error implements error.
func (e *lostCall) Error() string {
	if e.err == nil {
		return "berthgrpc: " + e.lost.Error()
	}
	return fmt.Sprintf("berthgrpc: %v: %v", e.lost, e.err)
}

// Unwrap returns the loss, and the error of the call.
func (e *lostCall) Unwrap() []error { return []error{e.lost, e.err} }

// GRPCStatus returns the status, for status.FromError.
func (e *lostCall) GRPCStatus() *status.Status {
	return status.New(codes.Aborted, "the permit of this call was lost")
}

// explain tells that a lost lease is the reason of an error of the call.
func explain(p *gate.Permit, err error) error {
	if lost := p.Lost(); lost != nil && err != nil && !errors.Is(err, io.EOF) { // which is no failure
		return &lostCall{lost, err}
	}
	return err
}

var errNotMade = &berth.InvalidError{What: "limit", Reason: "it was not made by NewServerLimit or NewClientLimit, or that failed: look at its error"}

func nilOption() error { return &berth.InvalidError{What: "option", Reason: "it is nil"} }
