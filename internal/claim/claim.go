// Package claim is a state machine for one request, mostly for permits, from its first call to
// its end: events in, effects out. It knows the protocol, but has no locks, timers or
// network, which belong to its owner (internal/session).
//
// A claim has at most one operation under way at a time. When a call to Redis is made, Op
// returns the operation that the claim wants in its present state; Answered, Failed and
// Rejected tell it the outcome. Messages are hints (HeardGrant, HeardEnd). Tick must be
// called at the time that Next returns.
//
//	state       means                                        leaves it by
//	Asking      an acquire is under way, outcome unknown     granted → Held (or Confirming), queued,
//	                                                         refused → Ended, given up → Leaving
//	Queued      the server has it in the queue               granted → Held or Confirming, gone → Asking,
//	                                                         evicted → Ended, given up → Leaving
//	Confirming  granted, but for too short a time to be      renewed → Held, gone → Asking, given up or
//	            used yet, or not on enough replicas: a       too few replicas → Leaving
//	            renewal is under way
//	Adopting    a move of a detached lease to this claim's   moved → Held, gone or refused → Ended,
//	            id is under way                              given up → Leaving
//	Detaching   a move of its lease to another id, which     moved → Ended, refused → Held, gone → Lost,
//	            can be adopted, is under way                 given up → Leaving
//	Held        the holder may rely on it until Trust        released → Leaving, lost → Lost or Ended
//	Lost        the holder was told to stop; the server      released → Leaving, or Ended when the
//	            may still have it                            server has long dropped it
//	Leaving     a release or cancel is under way; nobody     answered → Ended
//	            relies on the claim any more
//	Doing       an operation is under way that takes no      answered, refused or given up → Ended
//	            permits: a pause, or one on a lease that
//	            nobody holds, by its id
//	Ended       nothing of it is left, here or in Redis      -
package claim

import (
	"cmp"
	"time"

	"github.com/berth-go/berth/internal/clock"
	"github.com/berth-go/berth/internal/protocol"
)

// Bounds of waiting for Redis, never of waiting in the queue.
const (
	// Timeout is how long Acquire, Release and the like are retried while Redis is silent or
	// refuses for the moment. A Redis of which something is heard, however late, is not silent.
	Timeout = 5 * time.Second
	// TryTimeout is the same for requests that do not wait in the queue.
	TryTimeout = 2 * time.Second
)

// State is the state of a claim.
type State int

// The states.
const (
	Asking State = iota
	Queued
	Confirming
	Adopting
	Detaching
	Held
	Lost
	Leaving
	Doing
	Ended
)

// Effect is what an event asks of the claim's owner; several may be joined.
type Effect int

// The effects.
const (
	Send     Effect = 1 << iota // send Op with the next call
	Wake                        // State, Place or Err has changed: wake the goroutine that waits for that
	Report                      // tell the callers of Renew, Release and Detach the Outcome
	TakeBack                    // Op is not needed any more: take it back, if it has not been sent
)

// Claim is one request for permits.
type Claim struct {
	Terms  *protocol.Terms
	Manual bool // its holder renews it
	Places bool // its place in the queue is wanted
	Unseen bool // nobody has got its lease: to give that back costs nothing

	Alive    clock.Instant // when Redis was last heard of, as its owner knows at a Tick
	Deadline clock.Instant // if a rate or a pause keeps it out until after this, it is refused; 0: it waits in any case

	ID      string
	State   State
	Lease   Lease
	Place   Place
	Trust   clock.Instant // Held: until when the holder may rely on it
	Err     error         // Lost, Leaving, Ended: why
	Outcome error         // with Report

	name  string
	newID func() string

	heard     clock.Instant // when the request was sent that set its deadline as a waiter; 0: nothing was sent
	copyUntil clock.Instant // until when a copy of its acquire, or of its move, may be executed
	due       clock.Instant // when the next sign of life is to be sent; Never while one is under way
	opens     clock.Instant // Queued: when it is to look whether time has let it in; Never: another waiter does
	told      clock.Instant // when a message has set opens, and first
	until     clock.Instant // when the wait for an answer is over
	asked     clock.Instant // when its holder asked for a renewal

	trying *protocol.Terms // Asking: it asks whether there is room, before it asks for a place; nil: that is known

	first   bool // Queued: it is the head of the queue, as last heard
	vain    bool // Queued: the last answer said that it waits in vain
	adopted bool // it never asked for permits
	sent    bool // an operation of it is under way
	look    bool // Asking: once in the queue, it asks again at once, because a message told of a grant
	renew   bool // Held: the operation is a renewal, and not just a look
	peek    bool // Held: the operation is a look, which a message has caused
	capped  bool // renewed up to its MaxHold, which nothing can extend

	settle  settling
	moving  moving
	leaving leaving
	doing   doing

	cause error // of the last failure of an operation that is still wanted
}

// settling is what the server is to be told that a lease has cost.
type settling struct {
	costs protocol.Costs // "": nothing, or it knows all
	known bool           // it knows them, but a copy of an earlier settlement may overrule them: so the end of the lease tells it again
	until clock.Instant  // when no such copy can come any more
}

// moving is what a claim knows that moves a lease from one id to another.
type moving struct {
	other  string // Adopting: the id that it has until then; Detaching, and Leaving after that: the one that it may have
	copies int    // moves of unknown outcome
	hasty  bool   // Detaching: a Release waits for the outcome
}

// leaving is what a claim knows that is Leaving.
type leaving struct {
	giveUp  clock.Instant // when it has expired by itself
	copies  int           // releases of unknown outcome
	wasHeld bool          // its holder had not been told of a loss when it gave it back,
	live    bool          // and could rely on it until then
}

// doing is what a claim knows that is Doing.
type doing struct {
	op     *protocol.Op // at the end it has its Result
	copies int          // of unknown outcome
}

// Lease is the content of a grant.
type Lease struct {
	Token  int64
	Slot   int
	Limit  int // in force at the grant
	Weight int
	TTL    time.Duration
	Label  string
	Rates  protocol.Rates // in force at the grant, or as last heard before
}

// Place is a waiter's place in the queue, as last heard.
type Place struct {
	Ahead, Used, Limit, Waiting int
	Paused, Pinned              bool
	Tenant                      string
	Rates                       protocol.Rates  // in force
	Binds                       protocol.Budget // the rate that does not let it in, or the first
	Rest                        time.Duration   // for so long, at the least, a rate or a pause does not let it in
}

// Make returns a claim that asks for a lease of the semaphore called name on terms.
// newID makes the ids that it needs.
func Make(name string, terms *protocol.Terms, newID func() string) Claim {
	return Claim{
		Terms: terms, ID: newID(), State: Asking, Unseen: true, name: name, newID: newID,
		due: clock.Never, opens: clock.Never, until: clock.Never, Lease: Lease{Weight: terms.Weight, TTL: terms.TTL, Label: terms.Label},
	}
}

// Ask begins the acquire of a request made at start. Redis must not be silent for Timeout; a
// request that does not wait must be answered within TryTimeout.
//
// A request with a Deadline asks for a permit without waiting first: only a refusal tells exactly for
// how long the rates keep it out, and so it keeps nobody waiting who could be granted before.
func (c *Claim) Ask(start clock.Instant) Effect {
	if c.Terms.Wait && c.Deadline > 0 {
		c.trying = c.Terms.Trying()
	}
	c.until = start.Add(Timeout)
	if !c.Terms.Wait {
		c.until = start.Add(TryTimeout)
	}
	return Send
}

// Adopt begins to move the lease called id to this claim.
func (c *Claim) Adopt(id string, start clock.Instant) Effect {
	c.State, c.adopted, c.Unseen, c.moving.other, c.until = Adopting, true, false, id, start.Add(Timeout)
	return Send
}

// Do begins op, which is harmless to repeat. At the end without an error it has its Result.
func (c *Claim) Do(op *protocol.Op, start clock.Instant) Effect {
	c.State, c.doing.op, c.until = Doing, op, start.Add(Timeout)
	return Send
}

// Patience is how long a call made at now that carries the claim's operation may take until
// another copy is sent, on another connection, unless answers are known to take longer: half of
// the time that there is, or less. The answer to the first copy counts when it comes all the same.
func (c *Claim) Patience(now clock.Instant) time.Duration {
	switch {
	case c.State == Held && c.renew && c.until == clock.Never: // else somebody waits for it
		return c.Trust.Sub(now) / 2
	case c.State == Queued:
		return c.Terms.Heartbeat / 3
	case c.State == Doing:
		return TryTimeout
	}
	most := Timeout / 2
	if c.State == Asking && !c.Terms.Wait {
		most = TryTimeout / 2
	}
	if c.Lease.TTL > 0 { // else it is a lease to adopt, whose TTL the server has not told
		most = min(most, c.Lease.TTL/3)
	}
	return most
}

// Op returns the operation that the claim wants in a call made at now; false: none.
func (c *Claim) Op(now clock.Instant) (op protocol.Op, ok bool) {
	op.ID = c.ID
	switch c.State {
	case Asking:
		op.Verb, op.Terms = protocol.Acquire, cmp.Or(c.trying, c.Terms)
	case Queued:
		op.Verb, op.TTL, op.Flag = protocol.Heartbeat, c.Terms.Heartbeat, c.Places || c.first
	case Confirming:
		op.Verb, op.TTL, op.Replicas = protocol.Renew, c.Lease.TTL, c.Terms.MinReplicas
	case Adopting:
		op.Verb, op.ID, op.To, op.TTL = protocol.Move, c.moving.other, c.ID, c.Terms.TTL
	case Detaching:
		if op.Verb, op.Costs = protocol.Settle, c.settle.costs; op.Costs == "" { // a handle has nobody who settles it
			op.Verb, op.To, op.TTL = protocol.Move, c.moving.other, c.Lease.TTL
		}
	case Held:
		c.askHeld(&op)
	case Leaving:
		op.Verb, op.ID, op.Flag = protocol.Release, c.leaves(), now < c.copyUntil // a tombstone for the copy that may be under way
		if op.Costs = c.settle.costs; c.Unseen {
			op.Costs = protocol.Nothing
		}
	case Doing:
		op = *c.doing.op
	default:
		return op, false
	}
	if c.sent = true; c.heard == 0 {
		c.heard = now
	}
	return op, true
}

// askHeld sets the operation of a lease that is held: that it goes on comes first.
func (c *Claim) askHeld(op *protocol.Op) {
	switch {
	case c.renew:
		op.Verb, op.TTL, op.Replicas = protocol.Renew, c.Lease.TTL, c.Terms.MinReplicas
	case c.settle.wanted() && !c.peek:
		op.Verb, op.Costs = protocol.Settle, c.settle.costs
	default:
		op.Verb, c.peek = protocol.Heartbeat, false
	}
}

// leaves returns the id that is released next while the claim is Leaving.
func (c *Claim) leaves() string {
	if c.moving.other != "" {
		return c.moving.other
	}
	return c.ID
}

// Next returns when Tick must be called next, or Never.
func (c *Claim) Next() clock.Instant {
	switch c.State {
	case Queued:
		return min(c.due, c.opens, c.until)
	case Held, Detaching:
		return min(c.due, c.Trust, c.until)
	case Lost:
		return c.dropped()
	case Leaving:
		return min(c.leaving.giveUp, c.until)
	case Ended:
		return clock.Never
	default:
		return min(c.due, c.until)
	}
}

// dropped is when the server has certainly removed a lease that is not renewed.
func (c *Claim) dropped() clock.Instant { return c.Trust.Add(c.Lease.TTL + Timeout) }

// Soon reports whether a sign of life is due at now or shortly after. Then it is sent
// early, so that one call carries those of many claims. A look is not: it would see nothing.
func (c *Claim) Soon(now clock.Instant) bool {
	switch c.State {
	case Queued:
		return c.due <= now.Add(c.Terms.Heartbeat/12) || c.opens <= now
	case Held:
		return c.due <= now.Add(c.Trust.Sub(now)/12)
	default:
		return false
	}
}

// Tick does what is due at now, an exact instant.
func (c *Claim) Tick(now clock.Instant) Effect {
	switch {
	case (c.State == Held || c.State == Detaching) && c.Trust <= now:
		return c.lose(c.untrusted(), now)
	case c.until <= now: // before the end: after a stop of this process both may have come
		return c.expire(now)
	case c.State == Lost && c.dropped() <= now, c.State == Leaving && c.leaving.giveUp <= now:
		return c.end(c.Err)
	case c.Soon(now):
		return c.sign()
	}
	return 0
}

// sign sends a sign of life: a heartbeat, which is a look, too, or a renewal.
func (c *Claim) sign() Effect {
	c.due, c.opens, c.renew = clock.Never, clock.Never, true
	return Send
}

// Unexplained reports whether Tick would tell, at now, of the lack of an answer without a reason:
// no call that carried the operation has failed, and there may not have been one.
func (c *Claim) Unexplained(now clock.Instant) bool { return c.until <= now && c.cause == nil }

// Explain gives a reason for the lack of an answer, which Tick tells next; nil: none is known.
func (c *Claim) Explain(err error) { c.cause = err }

// expire handles the lack of an answer. A request is given up, unless Redis only answers
// late; a release goes on, and the renewals that are due, but callers are told.
func (c *Claim) expire(now clock.Instant) Effect {
	if more := c.Alive.Add(Timeout); more > now && c.mayGoOn() {
		c.until = more
		return 0
	}
	c.until = clock.Never
	err := c.cause
	if err == nil {
		err = protocol.NoAnswer()
	}
	switch c.State {
	case Asking, Confirming, Adopting, Doing:
		return c.leave(c.Unsure(err), now)
	case Detaching:
		return c.notDetached(c.Unsure(err), now)
	case Held:
		return c.renewalFailed(err)
	case Leaving:
		return c.notReleased(err)
	default:
		return 0
	}
}

// mayGoOn reports whether a request goes on for as long as Redis is heard of: it waits for an
// answer, and whoever made it can end it. A release cannot be ended, nor can what it waits for, and
// what does not wait has its own bound.
func (c *Claim) mayGoOn() bool {
	switch {
	case c.State == Leaving, c.State == Doing, c.State == Detaching && c.moving.hasty:
		return false
	case !c.Terms.Wait && (c.State == Asking || c.State == Confirming && !c.adopted):
		return false
	}
	return c.cause == nil || protocol.Silent(c.cause) || protocol.TooLate(c.cause)
}

// renewalFailed tells the callers of Renew why. For a lease that its holder renews it is
// over: what the server may yet answer moves nothing.
func (c *Claim) renewalFailed(err error) Effect {
	effect := c.report(err)
	if c.Manual {
		c.renew = false
		effect |= TakeBack
	}
	return effect
}

func (c *Claim) report(err error) Effect {
	c.Outcome = err
	return Report
}
