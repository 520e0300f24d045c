package protocol

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Late bounds how long after its sending a copy of a request can still be executed:
// every call carries a latest server time, and tombstones last as long. It is LATE in
// transition.lua.
const Late = 10 * time.Second

// MaxIDs bounds the ids of one call, and MostNamed those of one Op. MaxIDs is PAGE in
// transition.lua.
const (
	MaxIDs    = 250
	MostNamed = 2
)

// Verb is an operation of the state machine.
type Verb byte

// The operations. Those of the second block concern the semaphore, not an id.
const (
	Acquire   Verb = 'A'
	Heartbeat Verb = 'H'
	Renew     Verb = 'R'
	Release   Verb = 'L' // of a lease, or of a place in the queue: cancel
	Settle    Verb = 'S' // a lease has cost so much
	Move      Verb = 'M' // a lease to another id, whose owner holds it from then on
	Evict     Verb = 'E'

	Resize     Verb = 'D'
	Pin        Verb = 'P'
	Pause      Verb = 'Z'
	SetRates   Verb = 'Q'
	UnpinRates Verb = 'U'
	Cool       Verb = 'W' // a pause that ends by itself
)

// named reports whether the operation concerns an id.
func (v Verb) named() bool {
	switch v {
	case Resize, Pin, Pause, SetRates, UnpinRates, Cool:
		return false
	}
	return true
}

// Terms are the parameters of an acquire. Neighbouring acquires with equal terms share
// them on the wire. Terms must not be changed once used.
type Terms struct {
	Wait       bool
	Weight     int
	TTL        time.Duration
	Heartbeat  time.Duration // how long a waiter lasts without another heartbeat, and the lease of a hand-off
	HeadStart  time.Duration
	QueueLimit int
	MaxHold    time.Duration // 0: none
	Limit      int           // the declared limit; 0 declares none: the one in force, or 1
	Rates      Rates         // the declared rates, all of them; none leaves those in force
	Costs      Costs         // what the lease costs; in a unit that is not named its weight
	Tenant     string        // whose the lease is; "": nobody's
	Share      int           // of the tenant; 0: 1
	Label      string
	For        Program // whose request it is; the zero Program: this process's own

	MinReplicas int  // is not sent; renewals put it into Op.Replicas
	FailEarly   bool // is not sent; what cannot be granted before its deadline does not wait

	head any // the encoding, if a store has prepared it
}

// Trying returns the terms of the same request that does not wait.
func (t *Terms) Trying() *Terms {
	c := *t
	c.Wait, c.head = false, nil
	return &c
}

// Program is a process for which another one asks.
type Program struct {
	PID  int    // 0: it is not known
	More string // ;key=value... that its owner goes on with
}

// owner is the owner of requests of p that the process of another owner makes.
func (p Program) owner(through string) string {
	slash := strings.IndexByte(through, '/')
	mark := through[:len(through)-len(strings.TrimPrefix(through, ":"))]
	return mark + strconv.Itoa(p.PID) + through[slash:] + p.More
}

// What stands between an owner and the share of the tenant for whom it acquires, and in front of the
// tenant.
const (
	ownsPart = ";share="
	ownsFor  = ";tenant="
)

// encode returns the head of an acquire by owner.
func (t *Terms) encode(owner string) string {
	if t.For != (Program{}) {
		owner = t.For.owner(owner)
	}
	b := make([]byte, 0, 96+len(owner)+len(t.Label))
	if t.Tenant != "" {
		if t.Share > 1 {
			owner += ownsPart + strconv.Itoa(t.Share)
		}
		owner += ownsFor + t.Tenant
	}
	if t.Rates != "" || t.Costs != "" {
		b = fmt.Appendf(b, "B%s %s ", t.Rates.encode(), t.Costs.encode())
	}
	b = append(b, byte(Acquire), bit(t.Wait))
	for _, n := range [...]int64{
		int64(t.Weight), t.MaxHold.Milliseconds(), int64(t.Limit), t.Heartbeat.Milliseconds(),
		t.HeadStart.Milliseconds(), int64(t.QueueLimit), t.TTL.Milliseconds(),
	} {
		b = strconv.AppendInt(append(b, ' '), n, 10)
	}
	b = append(append(b, ' '), owner...)
	return string(append(append(b, ' '), t.Label...))
}

// Op is one operation; Do fills in its Result.
type Op struct {
	Verb  Verb
	ID    string
	To    string        // Move: the new id
	Terms *Terms        // Acquire
	TTL   time.Duration // Renew; Heartbeat: the heartbeat's, 0 only looks; Move: 0 keeps the lease's; Cool: how long
	Flag  bool          // Heartbeat: the place is wanted; Release: leave a tombstone; Evict: force; Pause: paused; SetRates: pin them
	// Replicas makes Do wait until so many replicas have the operation, and with it all
	// earlier ones; Reply tells how many have.
	Replicas int
	N        int    // Resize, Pin: the limit; Pin: -1 unpins
	Costs    Costs  // Settle: what it was; Release: the same, if that is to be corrected
	Rates    Rates  // SetRates: none takes away those that there are
	Unit     string // SetRates: of which alone it is, with Only
	Only     bool
	Who      string // Cool: who wants it

	Result Result
}

// Named returns how many ids the operation names.
func (op *Op) Named() int {
	switch {
	case !op.Verb.named():
		return 0
	case op.Verb == Move:
		return 2
	default:
		return 1
	}
}

// Result is the script's answer to an Op. Which fields are set depends on Code.
type Result struct {
	Code      Code
	Token     int64         // Granted, Moved, Renewed
	Slot      int           // Granted, Moved, Renewed
	Remaining time.Duration // Granted, Moved, Renewed, Evicting: of the lease, from the moment of execution
	Limit     int           // Heavy: in force
	Rate      Rate          // Costly: the one of which it costs too much
	Rest      time.Duration // Busy, Full: for so long the rates alone would not let it in; 0: they would
	Ahead     int           // Queued: waiters in front; -1 when not asked for
	Front     time.Duration // Queued: for so long the one directly in front keeps its place without a sign of life; 0: not known, or it is of this process
	Reason    Reason        // Gone
	Owner     string        // Gone, if WasMoved: whose the lease is now
	Weight    int           // Moved
	TTL       time.Duration // Moved
	Label     string        // Moved
}

// Code tells the outcome of an operation.
type Code int

// The codes, as transition.lua numbers them.
const (
	Done      Code = 0 // operator's operations
	Granted   Code = 1
	Queued    Code = 2
	Busy      Code = 3
	Full      Code = 4
	Heavy     Code = 5
	Gone      Code = 6 // no such lease or waiter (any more)
	Renewed   Code = 7
	Evicting  Code = 8 // an operator has asked the holder to stop: it is not renewed
	Released  Code = 9
	Cancelled Code = 10
	Moved     Code = 11
	Costly    Code = 13 // it costs more than a rate ever lets in
	Settled   Code = 14

	movedAway Code = 12 // Gone, because it was moved, and to whom
)

// Reason tells why an id is gone.
type Reason int

// The reasons, as transition.lua numbers them.
const (
	Unknown Reason = iota
	WasReleased
	Expired
	Evicted
	TooHeavy
	WasMoved
	AskedToStop // in messages: the lease goes on, but will not be renewed
)

// ErrRequest: the protocol does not allow the call. Nothing was changed.
var ErrRequest = errors.New("invalid request")

// check refuses calls that the script does not expect.
func check(ops []Op) error {
	if len(ops) == 1 && ops[0].Verb != Move && ops[0].ID != "" {
		return nil
	}
	seen := make(map[string]struct{}, len(ops))
	note := func(id string) error {
		_, twice := seen[id]
		seen[id] = struct{}{}
		switch {
		case id == "":
			return fmt.Errorf("%w: an operation names no id", ErrRequest)
		case twice:
			return fmt.Errorf("%w: id %q is named twice", ErrRequest, id)
		case len(seen) > MaxIDs:
			return fmt.Errorf("%w: more than %d ids in one call", ErrRequest, MaxIDs)
		}
		return nil
	}
	for i := range ops {
		op := &ops[i]
		if !op.Verb.named() {
			continue
		}
		if err := note(op.ID); err != nil {
			return err
		}
		if op.Verb == Move {
			if err := note(op.To); err != nil {
				return err
			}
		}
	}
	return nil
}

// inOrder calls f with each operation in the order of the wire: acquires come last.
func inOrder(ops []Op, f func(*Op)) {
	acquires := 0
	for i := range ops {
		if ops[i].Verb == Acquire {
			acquires++
		} else {
			f(&ops[i])
		}
	}
	for i := 0; acquires > 0; i++ {
		if ops[i].Verb == Acquire {
			acquires--
			f(&ops[i])
		}
	}
}

// appendOps encodes ops of owner. Neighbours with the same verb and parameters become one
// group, and a single operation has no numbers, because an argument costs the server more
// than a byte.
func appendOps(args []any, ops []Op, owner string) []any {
	if len(ops) == 1 && ops[0].Verb.named() && ops[0].Verb != Move {
		return append(args, ops[0].head(owner), ops[0].ID)
	}
	if len(ops) == 0 {
		return args
	}
	at, groups, count := len(args), 0, 0
	args = append(args, nil)
	ids := make([]any, 0, len(ops))
	var last *Op
	inOrder(ops, func(op *Op) {
		if last == nil || !last.groups(op) {
			args = append(args, op.head(owner), 0)
			groups, count = groups+1, 0
		}
		last = op
		if op.Verb.named() {
			ids, count = append(ids, op.ID), count+1
		}
		if op.Verb == Move {
			ids, count = append(ids, op.To), count+1
		}
		args[len(args)-1] = count
	})
	args[at] = groups
	return append(args, ids...)
}

// groups reports whether op and next share verb and parameters.
func (op *Op) groups(next *Op) bool {
	if op.Verb != next.Verb || !op.Verb.named() || op.TTL != next.TTL || op.Flag != next.Flag || op.Costs != next.Costs {
		return false
	}
	return op.Terms == next.Terms || op.Terms != nil && next.Terms != nil && *op.Terms == *next.Terms
}

// head encodes the verb with its parameters.
func (op *Op) head(owner string) any {
	switch op.Verb {
	case Acquire:
		if op.Terms.head != nil {
			return op.Terms.head
		}
		return op.Terms.encode(owner)
	case Heartbeat:
		return "H" + millis(op.TTL) + " " + string(bit(op.Flag))
	case Renew:
		return "R" + millis(op.TTL)
	case Move:
		return "M" + millis(op.TTL) + " " + owner
	case Release:
		if op.Costs != "" {
			return "L" + string(bit(op.Flag)) + " " + string(op.Costs)
		}
		if op.Flag {
			return "L1" // constants need no allocation
		}
		return "L0"
	case Settle:
		return "S" + string(op.Costs)
	case Evict, Pause:
		return string([]byte{byte(op.Verb), bit(op.Flag)})
	case SetRates:
		which := "*"
		if op.Only {
			which = op.Unit + ":"
		}
		return "Q" + string(bit(op.Flag)) + " " + which + " " + op.Rates.encode()
	case UnpinRates:
		return "U"
	case Cool:
		return "W" + millis(op.TTL) + " " + op.Who
	default:
		return string(rune(op.Verb)) + strconv.Itoa(op.N)
	}
}

func millis(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

func bit(b bool) byte {
	if b {
		return '1'
	}
	return '0'
}

// cursor parses a reply: numbers with spaces between them, and texts with their lengths
// before them.
type cursor struct {
	rest string
	bad  bool // it ended too early, or something is no number
}

func (c *cursor) next() int64 {
	field, rest, _ := strings.Cut(c.rest, " ")
	n, err := strconv.ParseInt(field, 10, 64)
	c.rest, c.bad = rest, c.bad || err != nil
	return n
}

func (c *cursor) int() int { return int(c.next()) }

func (c *cursor) text() string {
	n := c.int()
	if n < 0 || n > len(c.rest) || len(c.rest) > n && c.rest[n] != ' ' {
		c.bad = true
		return ""
	}
	text := c.rest[:n]
	c.rest = strings.TrimPrefix(c.rest[n:], " ")
	return text
}

// longest is longer than any lease and fits a time.Duration: a deadline that berth did not
// write may be any number.
const longest = 100 * 365 * 24 * int64(time.Hour/time.Millisecond)

func (c *cursor) duration() time.Duration {
	return time.Duration(max(-longest, min(c.next(), longest))) * time.Millisecond
}

// decode reads the result of op.
func (c *cursor) decode(op *Op) {
	r := &op.Result
	*r = Result{}
	if !op.Verb.named() {
		return
	}
	r.Code = Code(c.int())
	switch r.Code {
	case Granted, Renewed:
		r.Slot, r.Token, r.Remaining = c.int(), c.next(), c.duration()
	case Queued:
		r.Ahead, r.Front = c.int(), c.duration()
	case Heavy:
		r.Limit = c.int()
	case Costly:
		r.Rate = c.rate()
	case Gone:
		r.Reason = Reason(c.int())
	case movedAway:
		r.Code, r.Reason, r.Owner = Gone, WasMoved, c.text()
	case Evicting:
		r.Remaining = c.duration()
	case Moved:
		r.Slot, r.Token, r.Remaining = c.int(), c.next(), c.duration()
		r.Weight, r.TTL, r.Label = c.int(), c.duration(), c.text()
	case Busy, Full:
		r.Rest = c.duration()
	case Released, Cancelled, Settled:
	default:
		c.bad = true
	}
}

// Reply is the part of an answer that does not depend on the operations.
type Reply struct {
	Now   int64 // server time in milliseconds
	More  bool  // the work was bounded: call again at once
	Was   int   // the limit that was declared before the call; 0: none
	State       // after the call

	WasRates Rates // the rates that were in force before the call

	us int64 // Now, in microseconds

	Replicas int   // how many have what the call wrote; 0 unless an Op asked
	Unwaited error // the server refused to count them
}

// decode reads the script's answer to ops. A malformed reply leaves them without results.
func (r *Reply) decode(text string, ops []Op) error {
	c := cursor{rest: text}
	r.us = c.next()
	r.Now = r.us / 1000
	status := c.next()
	r.More = status == 1
	r.Was, r.WasRates = c.int(), c.rates()
	ends := c.next()
	r.State = c.state()
	r.Ends = ends
	if status == -1 && c.rest == "" && !c.bad {
		return &Failure{Kind: ErrRefused, Err: errLate}
	}
	inOrder(ops, c.decode)
	if c.bad || c.rest != "" || status != 0 && status != 1 {
		for i := range ops {
			ops[i].Result = Result{}
		}
		return &Failure{Kind: ErrUnknown, Err: fmt.Errorf("reply of %d bytes does not fit the request", len(text))}
	}
	return nil
}
