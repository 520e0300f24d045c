package protocol

import (
	"strconv"
	"strings"
	"time"
)

// Late bounds how long after its sending a copy of a request may still be
// executed: every call carries a latest server time, and tombstones last as
// long. It is LATE in transition/general.lua.
const Late = 10 * time.Second

// Verb is an operation of the state machine.
type Verb string

// The operations. Those of the second block concern the semaphore, not an id.
const (
	Acquire   Verb = "A"
	Heartbeat Verb = "H"
	Renew     Verb = "R"
	Release   Verb = "L" // of a lease, or of a place in the queue: cancel
	Evict     Verb = "E"

	Resize Verb = "D"
	Pin    Verb = "P"
	Pause  Verb = "Z"
)

// Terms are the parameters of an acquire. Acquires with equal terms that stand
// side by side share them on the wire. They must not be changed once used.
type Terms struct {
	Wait       bool
	Weight     int
	TTL        time.Duration
	Heartbeat  time.Duration // how long a waiter counts as alive, and the lease of a hand-off
	HeadStart  time.Duration
	QueueLimit int
	MaxHold    time.Duration // 0: none
	Limit      int           // the declared limit
	Label      string

	MinReplicas int // is not sent: whoever renews puts it into Op.Replicas

	head any // the encoding as an argument, if a store has prepared them for itself
}

func (t *Terms) encode(owner string) string {
	b := make([]byte, 0, 64+len(owner)+len(t.Label))
	b = append(b, 'A', bit(t.Wait))
	for _, n := range [...]int64{
		int64(t.Weight), t.TTL.Milliseconds(), t.HeadStart.Milliseconds(), t.MaxHold.Milliseconds(),
		int64(t.Limit), t.Heartbeat.Milliseconds(), int64(t.QueueLimit),
	} {
		b = strconv.AppendInt(append(b, ' '), n, 10)
	}
	b = append(append(b, ' '), owner...)
	return string(append(append(b, ' '), t.Label...))
}

// owner is whose operations are, as a record names it: session/pid/host, or without
// the session where the record's id says it.
type owner struct {
	session   string
	full, own string
}

// owns reports whether id is of the owner's session. Another's is renewed by who
// has adopted the lease.
func (o *owner) owns(id string) bool {
	n, ok := strings.CutPrefix(id, o.session)
	return ok && strings.HasPrefix(n, ".")
}

func (o *owner) of(id string) string {
	if o.owns(id) {
		return o.own
	}
	return o.full
}

// Op is one operation; Do fills in its Result.
type Op struct {
	Verb  Verb
	ID    string
	Terms *Terms        // Acquire
	TTL   time.Duration // Renew; Heartbeat: the heartbeat's TTL
	Flag  bool          // Heartbeat: the place is wanted; Release: leave a tombstone; Evict: force; Pause: paused
	// Replicas has Do wait until so many replicas have the renewal, and with it
	// what was granted before; Reply tells how many do.
	Replicas int
	N        int // Resize, Pin: the limit; Pin: -1 unpins

	Result Result
}

// Result is what the script answered to an Op. Which fields count depends on Code.
type Result struct {
	Code      Code
	Token     int64         // Granted
	Slot      int           // Granted
	Remaining time.Duration // Granted, Renewed, Evicting: of the lease, from the moment of execution
	Limit     int           // Granted, Queued, Busy, Full, Heavy: in force
	Ahead     int           // Queued: waiters in front; -1 when not asked for
	Used      int           // Queued, Busy, Full
	Waiting   int           // Queued, Busy, Full
	Paused    bool          // Busy, Full
	Reason    Reason        // Gone
}

// Code tells what became of an operation.
type Code int

// The codes, as transition/begin.lua numbers them.
const (
	Done      Code = 0 // operator's operations
	Granted   Code = 1
	Queued    Code = 2
	Busy      Code = 3
	Full      Code = 4
	Heavy     Code = 5
	Gone      Code = 6 // no such lease or waiter (any more)
	Renewed   Code = 7
	Evicting  Code = 8
	Released  Code = 9
	Cancelled Code = 10

	alike Code = 11 // a run of Granted, with one slot after the other
)

// Reason tells why an id is gone.
type Reason int

// The reasons, as transition/begin.lua numbers them.
const (
	Unknown Reason = iota
	WasReleased
	Expired
	Evicted
	TooHeavy
)

// appendOps encodes ops in order. Neighbours of the same verb and parameters
// become one group, and one alone needs no number: an argument costs the server
// more than a byte. by is whose they are.
func appendOps(args []any, ops []Op, by *owner) []any {
	if len(ops) == 1 {
		args = append(args, ops[0].head(by))
		if ops[0].Verb.named() {
			args = append(args, ops[0].ID)
		}
		return args
	}
	for i := 0; i < len(ops); {
		j := i + 1
		for j < len(ops) && ops[i].groups(&ops[j], by) {
			j++
		}
		args = append(args, ops[i].head(by))
		if ops[i].Verb.named() {
			args = append(args, j-i)
			for k := i; k < j; k++ {
				args = append(args, ops[k].ID)
			}
		} else {
			args = append(args, 0)
		}
		i = j
	}
	return args
}

// named reports whether the operation concerns an id.
func (v Verb) named() bool { return v != Resize && v != Pin && v != Pause }

func (op *Op) groups(next *Op, by *owner) bool {
	if op.Verb != next.Verb || !op.Verb.named() || op.TTL != next.TTL || op.Flag != next.Flag {
		return false
	}
	if (op.Verb == Acquire || op.Verb == Renew) && by.owns(op.ID) != by.owns(next.ID) {
		return false
	}
	return op.Terms == next.Terms || op.Terms != nil && next.Terms != nil && *op.Terms == *next.Terms
}

// head encodes the verb with its parameters.
func (op *Op) head(by *owner) any {
	switch op.Verb {
	case Acquire:
		if op.Terms.head != nil && by.owns(op.ID) {
			return op.Terms.head
		}
		return op.Terms.encode(by.of(op.ID))
	case Heartbeat:
		return "H" + strconv.FormatInt(op.TTL.Milliseconds(), 10) + " " + string(bit(op.Flag))
	case Renew:
		return "R" + strconv.FormatInt(op.TTL.Milliseconds(), 10) + " " + by.of(op.ID)
	case Release:
		if op.Flag {
			return "L1" // constants need no allocation
		}
		return "L0"
	case Evict, Pause:
		return string(op.Verb) + string(bit(op.Flag))
	default:
		return string(op.Verb) + strconv.Itoa(op.N)
	}
}

func bit(b bool) byte {
	if b {
		return '1'
	}
	return '0'
}

// granted fills in the result of an acquire or a renewal that got at us (server
// time in microseconds) all it asked for, on a semaphore that nobody else uses.
// Of another operation it reports false.
func (op *Op) granted(us int64) bool {
	switch op.Verb {
	case Acquire:
		op.Result = Result{Code: Granted, Token: us, Remaining: op.Terms.TTL.Truncate(time.Millisecond), Limit: op.Terms.Limit}
	case Renew:
		op.Result = Result{Code: Renewed, Remaining: op.TTL.Truncate(time.Millisecond)}
	default:
		return false
	}
	return true
}

// cursor walks over the reply: numbers with a space in between.
type cursor struct {
	rest string
	bad  bool // it ended too early, something is no number, or does not fit the operations

	run  int // how many of the next acquires were granted like the last,
	last Result
}

func (c *cursor) next() int64 {
	field, rest, _ := strings.Cut(c.rest, " ")
	n, err := strconv.ParseInt(field, 10, 64)
	c.rest, c.bad = rest, c.bad || err != nil
	return n
}

func (c *cursor) int() int { return int(c.next()) }

// longest is more than any lease lasts, and still a time.Duration: a deadline
// that somebody else has written may be anything.
const longest = 100 * 365 * 24 * int64(time.Hour/time.Millisecond)

func (c *cursor) remaining() time.Duration {
	return time.Duration(max(-longest, min(c.next(), longest))) * time.Millisecond
}

// decode reads the result of op.
func (c *cursor) decode(op *Op) {
	r := &op.Result
	*r = Result{}
	if !op.Verb.named() {
		c.bad = c.bad || c.run > 0
		return
	}
	if c.run > 0 {
		c.run--
		c.last.Token++
		c.last.Slot = c.int()
		*r, c.bad = c.last, c.bad || op.Verb != Acquire
		return
	}
	r.Code = Code(c.int())
	switch r.Code {
	case Granted:
		r.Token, r.Slot, r.Remaining, r.Limit = c.next(), c.int(), c.remaining(), c.int()
	case alike:
		c.run = c.int() - 1
		c.bad = c.bad || c.run < 0 || op.Verb != Acquire
		r.Code, r.Token, r.Remaining, r.Limit, r.Slot = Granted, c.next(), c.remaining(), c.int(), c.int()
		c.last = *r
	case Queued:
		if r.Ahead = c.int(); r.Ahead >= 0 {
			r.Used, r.Limit, r.Waiting = c.int(), c.int(), c.int()
		}
	case Busy, Full:
		r.Used, r.Limit, r.Waiting, r.Paused = c.int(), c.int(), c.int(), c.next() == 1
	case Heavy:
		r.Limit = c.int()
		c.skip(3)
	case Gone:
		if op.Verb == Acquire {
			c.skip(4)
		} else {
			r.Reason = Reason(c.int())
		}
	case Renewed:
		r.Remaining = c.remaining()
	case Evicting:
		if op.Verb == Renew {
			r.Remaining = c.remaining()
		}
	case Released, Cancelled:
	default:
		c.bad = true
	}
}

func (c *cursor) skip(n int) {
	for range n {
		c.next()
	}
}
