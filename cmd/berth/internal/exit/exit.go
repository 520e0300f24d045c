// Package exit holds berth's exit codes and the errors that carry them.
//
// The codes are those of sysexits.h where it has one for the case, and those of shells for
// the end of a command: a script can tell "no permit" from "no Redis", and both from a
// failure of the command itself.
package exit

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-go/berth"
)

// The exit codes of every command.
const (
	OK            = 0
	Failure       = 1   // the answer is no: for example, no such semaphore
	Usage         = 64  // the command line, or a URL, is wrong
	Unavailable   = 69  // Redis is unreachable, or refuses
	Software      = 70  // the semaphore's keys are damaged, or of a newer berth
	Output        = 74  // the result could not be written
	NotAcquired   = 75  // no permit in time, or evicted from the queue; trying later may help
	Lost          = 76  // the lease was lost
	NoPermission  = 77  // BERTH_READ_ONLY forbids it
	NotExecutable = 126 // the command was found but cannot be executed
	NotFound      = 127 // the command was not found
	signalBase    = 128
)

// Error is an error with the code to exit with. A nil Err prints nothing: the
// code alone is the message, as when a command's own code is passed on.
type Error struct {
	Code    int
	Err     error
	signal  syscall.Signal // what ended it, or 0
	refusal bool           // there was no permit; the user chooses the code for that
}

// Error implements error.
func (e *Error) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit status %d", e.Code)
	}
	return e.Err.Error()
}

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// Code returns an error that exits with code and says nothing.
func Code(code int) error { return &Error{Code: code} }

// Refusal returns an error of a wait without a permit, with the code that the user has chosen.
func Refusal(code int, err error) error { return &Error{Code: code, Err: err, refusal: true} }

// Kind is Of, but NotAcquired for every Refusal: the user's code may be one that means something
// else in another error.
func Kind(err error) int {
	if own, ok := errors.AsType[*Error](err); ok && own.refusal {
		return NotAcquired
	}
	return Of(err)
}

// Signal returns the silent error of something ended by sig: 128+n, as shells do.
func Signal(sig syscall.Signal) error { return &Error{Code: signalBase + int(sig), signal: sig} }

// Die ends this process by the signal of err, and returns if err has none. A shell continues
// its loop after a command that exits with 130, and ends it after one that was ended by INT;
// systemd counts a process that was ended by TERM as stopped, and one that exits with 143 as
// failed.
func Die(err error) {
	own, ok := errors.AsType[*Error](err)
	if !ok {
		return
	}
	switch sig := own.signal; sig {
	case unix.SIGHUP, unix.SIGINT, unix.SIGTERM, unix.SIGKILL: // those of which a Go program dies as others do
		// The first process of a PID namespace cannot end itself by a signal.
		if signal.Ignored(sig) || os.Getpid() == 1 {
			return
		}
		signal.Reset(sig)
		if unix.Kill(os.Getpid(), sig) == nil {
			<-time.After(time.Second) // it is on its way
		}
	}
}

// Usagef returns an error of the user's command line.
func Usagef(format string, args ...any) error { return Errorf(Usage, format, args...) }

// Errorf returns an error with a code.
func Errorf(code int, format string, args ...any) error {
	return &Error{Code: code, Err: fmt.Errorf(format, args...)}
}

// Of returns the code for err: its own, or the one that fits what the library
// reported.
func Of(err error) int {
	if own, ok := errors.AsType[*Error](err); ok {
		return own.Code
	}
	_, network := errors.AsType[*net.OpError](err)
	switch {
	case err == nil:
		return OK
	case errors.Is(err, berth.ErrInvalid), errors.Is(err, berth.ErrHandle):
		return Usage
	case errors.Is(err, berth.ErrUnreachable), errors.Is(err, berth.ErrRefused), network:
		return Unavailable
	case errors.Is(err, berth.ErrLost), errors.Is(err, berth.ErrReleased):
		return Lost
	case errors.Is(err, berth.ErrCorrupt):
		return Software
	case errors.Is(err, berth.ErrBusy), errors.Is(err, berth.ErrQueueFull),
		errors.Is(err, berth.ErrTooHeavy), errors.Is(err, berth.ErrEvicted),
		errors.Is(err, context.DeadlineExceeded):
		return NotAcquired
	default:
		return Failure
	}
}
