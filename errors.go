package berth

import (
	"errors"
	"fmt"
	"time"

	"github.com/berth-go/berth/internal/protocol"
)

// Errors for errors.Is; some have a type for errors.As. Those of contexts are wrapped, as in
// errors.Is(err, context.DeadlineExceeded).
var (
	ErrBusy          = errors.New("berth: semaphore is busy") // refused by TryAcquire or FailEarly; nothing was taken
	ErrQueueFull     = errors.New("berth: queue is full")     // the queue has QueueLimit waiters, or the tenant its part of them; nothing was taken
	ErrTooHeavy      = errors.New("berth: weight is above the limit, or cost above the rate")
	ErrLost          = errors.New("berth: lease is lost")          // it is over, or can no longer be relied on
	ErrEvicted       = errors.New("berth: evicted by an operator") // the lease, or the place in the queue
	ErrReleased      = errors.New("berth: lease was already given back")
	ErrDetached      = fmt.Errorf("%w by Detach", ErrReleased)
	ErrClosed        = errors.New("berth: client is closed")
	ErrInvalid       = errors.New("berth: invalid argument")            // nothing was sent
	ErrHandle        = errors.New("berth: not a lease handle")          // of this version and prefix; nothing was sent
	ErrUnreachable   = errors.New("berth: redis is unreachable")        // no answer in time; what may have been done is undone, or expires
	ErrRefused       = errors.New("berth: redis refused")               // nothing was changed
	ErrCorrupt       = errors.New("berth: stored state is not berth's") // a key was lost, or its content is foreign or newer; nothing was changed
	ErrNotReplicated = errors.New("berth: too few replicas have it")    // the grant, which was given back, or a renewal
)

// Status is the state of a semaphore that a request has found.
type Status struct {
	InUse   int  // permits out
	Limit   int  // in force
	Waiting int  // waiters in the queue
	Paused  bool // until RetryAfter has passed or, if that is 0, until an operator resumes it
	Pinned  bool // an operator has set the limit

	// Of several rates the one that keeps the request out for longest; if none does, the first.
	Unit   string        // what it counts; "": calls, or what their Cost says
	Rate   int           // total cost granted per Window, at most; 0: there is no rate
	Window time.Duration // see Rate
	Burst  int           // with it the rate is a bucket: see RateOption.Burst
	Spent  int           // the costs of the grants that count for the rate
	// RetryAfter is how long the rates, or a pause that ends, keep the request out at least; 0: neither does.
	RetryAfter time.Duration
}

// sentence tells how much is used, and what an operator or a program has set.
func (s *Status) sentence() string {
	text := fmt.Sprintf("%d of %d in use", s.InUse, s.Limit)
	if s.Limit == NoLimit {
		text = fmt.Sprintf("%d in use", s.InUse)
	}
	if s.Rate > 0 {
		text += ", " + s.spent()
	}
	text += fmt.Sprintf(", %d waiting", s.Waiting)
	switch {
	case s.Paused && s.RetryAfter > 0:
		text += fmt.Sprintf("; it is paused, for %v", s.RetryAfter)
	case s.Paused:
		text += "; it is paused by an operator"
	case s.Pinned:
		text += "; an operator has pinned the limit"
	}
	return text
}

// spent tells of the rate.
func (s *Status) spent() string {
	return protocol.Budget{Rate: protocol.Rate{Unit: s.Unit, N: s.Rate, Per: s.Window, Burst: s.Burst}, Spent: s.Spent}.String()
}

// BusyError has what a refused request found. It is [ErrBusy] or [ErrQueueFull].
type BusyError struct {
	Status
	Name        string
	NextExpiry  time.Duration // until the next lease or waiter expires unless renewed; 0: none, or unknown
	QueueFull   bool          // refused by QueueLimit, not by TryAcquire
	Tenant      string        // whose part of the queue is full; "": the request has none, or nobody may wait
	FailedEarly bool          // refused by FailEarly: RetryAfter ends after the deadline
}

func (e *BusyError) Error() string {
	what, hint := fmt.Sprintf("semaphore %q is busy", e.Name), "wait for it, or try again later"
	if e.RetryAfter > 0 {
		hint = fmt.Sprintf("wait for it, or try again in %v", e.RetryAfter)
	}
	if e.FailedEarly {
		hint = fmt.Sprintf("its deadline comes before there can be room: try again in %v, or give it more time", e.RetryAfter)
	}
	if e.QueueFull {
		what, hint = fmt.Sprintf("the queue of semaphore %q is full", e.Name), "try again later, or raise the queue limit"
	}
	if e.Tenant != "" {
		what += fmt.Sprintf(" for tenant %q", e.Tenant)
	}
	return fmt.Sprintf("berth: %s: %s: %s", what, e.sentence(), hint)
}

func (e *BusyError) Unwrap() error {
	if e.QueueFull {
		return ErrQueueFull
	}
	return ErrBusy
}

// TooHeavyError has the weight of a request and the Limit below it, or its cost and the Rate below
// that. It is [ErrTooHeavy].
type TooHeavyError struct {
	Status
	Name   string
	Weight int
	Cost   int // in Unit, above Rate or Burst; 0: it is the weight that is above the limit
}

func (e *TooHeavyError) Error() string {
	if e.Cost > 0 {
		return fmt.Sprintf("berth: cost %d is above the rate of %v of semaphore %q: ask for less or raise the rate",
			e.Cost, protocol.Rate{Unit: e.Unit, N: e.Rate, Per: e.Window, Burst: e.Burst}, e.Name)
	}
	return fmt.Sprintf("berth: weight %d is above the limit %d of semaphore %q: ask for less or raise the limit",
		e.Weight, e.Limit, e.Name)
}

func (e *TooHeavyError) Unwrap() error { return ErrTooHeavy }

// LostReason says how a lease was lost.
type LostReason int

// Why a lease is lost.
const (
	LostUntrusted LostReason = iota // renewals failed until the trust deadline
	LostExpired                     // the server says that it has expired
	LostMaxHold                     // it reached its MaxHold
	LostEvicted                     // an operator evicted it: errors.Is(err, ErrEvicted)
	LostVanished                    // the server has lost its data, or the keys were deleted
	LostReleased                    // it was released by its id
	LostAdopted                     // another process adopted it: LostError.By
	LostUnknown                     // it ended more than a minute ago, or the server has lost its data
)

var lostReasons = [...]string{
	LostUntrusted: "it was not renewed in time",
	LostExpired:   "it expired on the server",
	LostMaxHold:   "it was held for as long as it may be",
	LostEvicted:   "an operator evicted it",
	LostVanished:  "the server does not know it, although it cannot have expired: has Redis lost its data, or has its clock been set?",
	LostReleased:  "it was released by its id",
	LostAdopted:   "it was adopted",
	LostUnknown:   "the server does not know it: it expired, was released or adopted, or Redis has lost it",
}

func (r LostReason) String() string {
	if r < 0 || int(r) >= len(lostReasons) {
		return fmt.Sprintf("reason %d", int(r))
	}
	return lostReasons[r]
}

// LostError is the cause of a lost lease's context. It is [ErrLost], Err, and [ErrEvicted] if an
// operator evicted it.
type LostError struct {
	Name   string
	ID     string
	Reason LostReason
	By     string // LostAdopted: the process that has it now, as pid/host;client
	Err    error  // the error of the last renewal, if that is the reason
}

func (e *LostError) Error() string {
	s := fmt.Sprintf("berth: lease %s of semaphore %q is lost: %v", e.ID, e.Name, e.Reason)
	if e.By != "" {
		s += " by " + e.By
	}
	if e.Reason <= LostVanished {
		s += ": stop what it protects"
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

func (e *LostError) Unwrap() []error {
	all := []error{ErrLost}
	if e.Reason == LostEvicted {
		all = append(all, ErrEvicted)
	}
	return caused(e.Err, all...)
}

// WaitError is the error of a request whose context ended: to errors.Is the context's error, and
// before it was in the queue also [ErrUnreachable] or [ErrRefused], if that was the reason.
type WaitError struct {
	Name   string
	Queued bool  // it was in the queue, at Place
	Place  Place // as last heard
	Err    error // the context's, and that of Redis if there was one
	// Carried is the lease of the same semaphore that its own context carries; "": none. It may have waited for that.
	Carried string
}

func (e *WaitError) Error() string {
	text := fmt.Sprintf("berth: semaphore %q: %v", e.Name, e.Err)
	if e.Queued {
		text += fmt.Sprintf(" in the queue, %d ahead, %s", e.Place.Ahead, e.Place.sentence())
		if e.Place.Rate > 0 && e.Place.RetryAfter > 0 && !e.Place.Paused {
			text += fmt.Sprintf("; the rate has room for it in %v at the earliest", e.Place.RetryAfter)
		}
	}
	if e.Carried != "" {
		text += fmt.Sprintf("; its own context carries lease %s of it, which may be what it waited for", e.Carried)
	}
	return text
}

func (e *WaitError) Unwrap() error { return e.Err }

// CorruptError is [ErrCorrupt] for one semaphore, and Err.
type CorruptError struct {
	Name  string
	Heals time.Duration // until it heals: one key was lost, and leases may live until then; 0: it does not
	Newer bool          // a later version of berth wrote it: upgrade
	Older bool          // a version before 0.1 wrote it: end its programs, then purge the semaphore
	Err   error
}

func (e *CorruptError) Error() string {
	if e.Newer || e.Older || e.Heals > 0 { // berth wrote it
		return fmt.Sprintf("berth: semaphore %q: %v", e.Name, e.Err)
	}
	return fmt.Sprintf("%v: semaphore %q: %v", ErrCorrupt, e.Name, e.Err)
}

func (e *CorruptError) Unwrap() []error { return caused(e.Err, ErrCorrupt) }

// NotReplicatedError has how many replicas confirmed a grant or renewal.
type NotReplicatedError struct {
	Name string
	Want int   // MinReplicas
	Got  int   // how many confirmed it
	Err  error // the server's error, if it refused WAIT
}

func (e *NotReplicatedError) Error() string {
	s := fmt.Sprintf("berth: semaphore %q: %d replicas of the %d that MinReplicas asks for have it: look after the replicas, or ask for fewer",
		e.Name, e.Got, e.Want)
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

func (e *NotReplicatedError) Unwrap() []error { return caused(e.Err, ErrNotReplicated) }

// InvalidError names the argument that is out of bounds. It is [ErrInvalid].
type InvalidError struct {
	What   string // the argument, in the words of the API
	Reason string // the bound, and what to give instead
}

func (e *InvalidError) Error() string { return "berth: invalid " + e.What + ": " + e.Reason }

func (e *InvalidError) Unwrap() error { return ErrInvalid }

// caused returns what an error is to errors.Is, with its cause if there is one.
func caused(cause error, is ...error) []error {
	if cause != nil {
		is = append(is, cause)
	}
	return is
}

// invalid is the error for an argument that breaks a rule; nil: there is no reason, and it
// breaks none.
func invalid(what, reason string) error {
	if reason == "" {
		return nil
	}
	return &InvalidError{what, reason}
}
