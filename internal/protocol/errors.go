package protocol

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// The three kinds of failure. To errors.Is, every error of Do is exactly one of them.
var (
	// ErrRefused: it did not happen and will not; repeating it may help.
	ErrRefused = errors.New("redis refused for now")
	// ErrRejected: it did not happen, and repeating it is useless until the cause is
	// mended.
	ErrRejected = errors.New("redis refused")
	// ErrUnknown: it may have happened, and may still happen until Late.
	ErrUnknown = errors.New("redis did not answer")

	// ErrCorrupt, ErrOlder and ErrVersion are rejections by the script itself.
	ErrCorrupt = errors.New("the semaphore's keys hold something that berth did not write: look at them, then `berth purge` the semaphore")
	ErrOlder   = errors.New("the semaphore's keys were written by an older berth: end the programs of that version, then `berth purge` the semaphore")
	ErrVersion = errors.New("the semaphore's keys have a newer layout: upgrade this client")
)

// Failure is an error of Do: its kind, and the client's error.
type Failure struct {
	Kind   error         // ErrRefused, ErrRejected or ErrUnknown
	Detail error         // ErrCorrupt, ErrOlder, ErrVersion, ErrRequest, an *Unfit or nil
	Heals  time.Duration // with ErrCorrupt: one of the two keys was lost, and what it told of ends in so long; 0: it was not that
	Err    error
	// ByClient: the Redis client failed before it sent anything, for a reason of its own: its Limiter,
	// a hook, the provider of its credentials, or a server whose certificate it does not accept.
	// With ErrRefused.
	ByClient bool
}

// Error implements error. It does not name the kind, which the caller puts into words.
func (f *Failure) Error() string {
	switch {
	case f.Heals > 0:
		lost := "one of the semaphore's two keys was lost"
		if errors.Is(f.Kind, ErrRefused) {
			lost += ", or is still on another node while their slot moves"
		}
		return fmt.Sprintf("%s: it heals automatically in %v, when the last lease or waiter in it has ended", lost, f.Heals)
	case f.ByClient && !foreign(f.Err):
		return fmt.Sprintf("the Redis client sent nothing: %v", f.Err)
	case f.Detail != nil:
		return fmt.Sprintf("%v (%s)", f.Detail, plainly(f.Err))
	}
	return advised(f.Err)
}

// Unwrap returns the kind, the detail and the error, but hides a context's error from
// errors.Is: it is of a time-out of ours, and would look like the caller's context.
func (f *Failure) Unwrap() []error {
	err := f.Err
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		err = inner{err}
	}
	if f.Detail != nil {
		return []error{f.Kind, f.Detail, err}
	}
	return []error{f.Kind, err}
}

// inner hides an error from errors.Is, but not from errors.As.
type inner struct{ err error }

// Error implements error.
func (i inner) Error() string { return i.err.Error() }

// As implements the interface of errors.As.
func (i inner) As(target any) bool { return errors.As(i.err, target) }

// NoReply is what comes before many an Unsure error.
const NoReply = "no answer to an earlier request"

// Unsure returns the error of something that failed with err after what has, or may have,
// been executed before: an earlier copy that had no answer (NoReply), or the first of
// several steps. So the result is always ErrUnknown, even if err is a refusal.
func Unsure(before string, err error) error {
	if errors.Is(err, ErrUnknown) {
		return err
	}
	return &Failure{Kind: ErrUnknown, Err: fmt.Errorf("%s, and then: %w", before, inner{err})}
}

// passing are error codes of a server that will be able to answer later. They are searched
// for, and not compared with the start, because Redis 6.2 puts its own text around errors
// from inside a script. A script fails with "non local key", or "undeclared keys" since
// Redis 7.2, while a slot moves and the key that it needs is not there.
var passing = append([]string{
	"LOADING", "TRYAGAIN", "BUSY ", "UNBLOCKED",
	"max number of clients reached", "non local key", "undeclared keys were accessed during rehashing",
}, lasting...)

// lasting are those that pass when somebody has acted, or when a failover is over.
var lasting = []string{
	"READONLY", "NOREPLICAS", "OOM ", "MISCONF", "-READONLY", "-OOM", "command not allowed when used memory",
	"You can't write against a read only replica", "CLUSTERDOWN", "while the cluster is down", "MASTERDOWN",
}

// classify turns a client's error into a Failure.
func classify(err error) *Failure {
	if _, ok := errors.AsType[redis.Error](err); ok && !errors.Is(err, redis.Nil) {
		return classifyReply(err)
	}
	switch {
	case errors.Is(err, redis.ErrClosed):
		return &Failure{Kind: ErrRejected, Err: err}
	case errors.Is(err, redis.ErrPoolTimeout), errors.Is(err, redis.ErrPoolExhausted):
		return &Failure{Kind: ErrRefused, Err: usedUp(err)} // nothing was sent
	case NoConnection(err):
		return &Failure{Kind: ErrRefused, Err: err} // nothing was sent
	}
	return &Failure{Kind: ErrUnknown, Err: err}
}

// Meaning is what a Failure means to whoever asked.
type Meaning int

// The meanings of a Failure.
const (
	Unreachable Meaning = iota // Redis gave no answer, none in time or none that could be understood; or the outcome is unknown
	Refused                    // nothing was changed
	Corrupt                    // nothing was changed: the keys hold something that this client does not understand
)

// Means returns what f means to whoever asked.
func (f *Failure) Means() Meaning {
	if f.Detail != nil {
		return Corrupt
	}
	_, said := errors.AsType[redis.Error](f.Err)
	said = said || f.ByClient && !foreign(f.Err) || errors.Is(f.Err, redis.ErrClosed)
	if errors.Is(f.Kind, ErrUnknown) || !said {
		return Unreachable
	}
	return Refused
}

// ByClient reports whether err is a Failure for which the Redis client alone is the reason.
func ByClient(err error) bool {
	f, ok := errors.AsType[*Failure](err)
	return ok && f.ByClient
}

// NoConnection reports whether err is that no connection could be made.
func NoConnection(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "dial"
}

func classifyReply(err error) *Failure {
	text := err.Error()
	switch {
	case strings.Contains(text, "BERTHCORRUPT of an older berth"):
		return &Failure{Kind: ErrRejected, Detail: ErrOlder, Err: err}
	case strings.Contains(text, "BERTHCORRUPT"), strings.Contains(text, "WRONGTYPE"):
		return &Failure{Kind: ErrRejected, Detail: ErrCorrupt, Err: err}
	case strings.Contains(text, "BERTHVERSION"):
		return &Failure{Kind: ErrRejected, Detail: ErrVersion, Err: err}
	case strings.Contains(text, "BERTHREQUEST"):
		return &Failure{Kind: ErrRejected, Detail: ErrRequest, Err: err}
	case strings.Contains(text, "BERTHHALF"):
		return &Failure{Kind: ErrRejected, Detail: ErrCorrupt, Heals: heals(text), Err: err}
	}
	if u := unfitness(text); u != nil {
		return &Failure{Kind: ErrRejected, Detail: u, Err: err}
	}
	if hasOne(text, passing) {
		return &Failure{Kind: ErrRefused, Err: err}
	}
	return &Failure{Kind: ErrRejected, Err: err}
}

func hasOne(text string, codes []string) bool {
	return slices.ContainsFunc(codes, func(code string) bool { return strings.Contains(text, code) })
}

// Lasting returns the Failure of a client's error with which the server refuses all requests until
// somebody acts; nil: err is no such error.
func Lasting(err error) *Failure {
	if f := classify(err); errors.Is(f.Kind, ErrRefused) && f.Means() == Refused && hasOne(err.Error(), lasting) {
		return f
	}
	return nil
}

// denials are the words of servers that deny a user a command, or a key: of all, and of Redis 6.2
// and of later ones in a script.
var denials = []string{"NOPERM", "user executing the script can't", "ACL failure in script"}

// Denied reports whether err is that the user lacks a right.
func Denied(err error) bool { return err != nil && hasOne(err.Error(), denials) }

// heals parses the milliseconds in the script's error.
func heals(text string) time.Duration {
	_, text, _ = strings.Cut(text, "BERTHHALF ")
	ms, _ := strconv.ParseInt(text[:len(text)-len(strings.TrimLeft(text, "0123456789"))], 10, 64)
	return time.Duration(max(1, min(ms, longest))) * time.Millisecond
}

// errLate: the call reached the server after the latest time at which it may run.
var errLate = errors.New("the request was under way for too long")

// TooLate reports whether err is that a call reached the server after the latest time at which
// it may run: nothing of it happened, and Redis, or the way to it, is slow. Whoever asked is told
// what all are told for whom Redis was too slow, whichever way its slowness showed.
func TooLate(err error) bool { return errors.Is(err, errLate) }

// NoAnswer is the failure of a call that was given up.
func NoAnswer() *Failure { return &Failure{Kind: ErrUnknown, Err: errNoAnswer} }

// GivenUp reports whether err is NoAnswer.
func GivenUp(err error) bool { return errors.Is(err, errNoAnswer) }

// NoConnectionFree is the failure of a call that was given up while Redis answers, but the
// client's pool has no connection to spare. It may be sent when there is one.
func NoConnectionFree() *Failure {
	return &Failure{Kind: ErrUnknown, Err: usedUp(redis.ErrPoolTimeout)}
}

func usedUp(err error) error {
	return fmt.Errorf("the Redis client's pool has no free connection: give berth a separate client, or raise PoolSize (%w)", err)
}

var errNoAnswer = errors.New("no answer in time")

// Silent reports whether err is only that nothing has been heard in time, as opposed to a
// connection that broke or a server that refused: Redis, or this process, may be slow.
func Silent(err error) bool {
	if GivenUp(err) || errors.Is(err, redis.ErrPoolTimeout) || errors.Is(err, redis.ErrPoolExhausted) {
		return true
	}
	timeout, ok := errors.AsType[net.Error](err)
	return ok && timeout.Timeout()
}
