package claim

import (
	"cmp"
	"errors"
	"time"

	"github.com/berth-go/berth/internal/clock"
	"github.com/berth-go/berth/internal/protocol"
)

func (c *Claim) lost(cause Cause) *LostError {
	id := c.ID
	if c.State == Adopting {
		id = c.moving.other
	}
	return &LostError{Name: c.name, ID: id, Cause: cause}
}

// untrusted is the error for a lease that was not renewed in time.
func (c *Claim) untrusted() error {
	if c.capped {
		return c.lost(MaxHold)
	}
	why := c.lost(Untrusted)
	why.Err = c.cause
	return why
}

// lostBy is the error for a loss that the server tells of.
func (c *Claim) lostBy(r *protocol.Result, now clock.Instant) error {
	why := LostBy(c.name, c.lost(Vanished).ID, r)
	switch {
	case why.Cause == Absent && c.Trust != 0 && c.Trust <= now:
		why.Cause = Expired
	case why.Cause == Absent && c.Trust != 0: // else it was never this claim's
		why.Cause = Vanished
	}
	return why
}

// lose ends the holder's reliance on a lease that the server may still have.
func (c *Claim) lose(why error, now clock.Instant) Effect {
	if c.State == Detaching {
		return c.notDetached(why, now)
	}
	c.State, c.Err, c.due, c.until = Lost, why, clock.Never, clock.Never
	return Wake | c.report(why)
}

// leave gives back what the server has, or may have, of the claim.
func (c *Claim) leave(why error, now clock.Instant) Effect {
	if c.heard == 0 || c.State == Doing { // the server never heard of it, or keeps nothing of it
		return c.end(why)
	}
	if c.State == Adopting {
		c.moving.other = "" // that id is for others to adopt, if it has not moved
	}
	c.State, c.due, c.until, c.cause = Leaving, clock.Never, clock.Never, nil
	c.moving.copies, c.leaving.copies = 0, 0
	c.leaving.giveUp = max(c.Trust, now.Add(c.Lease.TTL), c.copyUntil).Add(Timeout)
	if c.Lease.TTL == 0 { // that of a lease to adopt, which the server has not told
		c.leaving.giveUp = clock.Never
	}
	if c.Err == nil {
		c.Err = why
	}
	return Send | Wake
}

// end is the last step of every claim.
func (c *Claim) end(why error) Effect {
	c.State = Ended
	if c.Err == nil {
		c.Err = why
	}
	return Wake | c.report(c.Err)
}

// Failed handles a call with op that was refused for the moment, or whose outcome is not
// known. The claim's operation is tried again until Tick gives it up.
func (c *Claim) Failed(op *protocol.Op, err error, now clock.Instant) Effect {
	c.cause, c.sent = err, false
	if errors.Is(err, protocol.ErrUnknown) {
		if c.State == Doing {
			c.doing.copies++
			return Send
		}
		switch op.Verb {
		case protocol.Acquire:
			c.copyUntil = now.Add(protocol.Late)
		case protocol.Move:
			c.copyUntil = now.Add(protocol.Late)
			c.moving.copies++
		case protocol.Release:
			c.leaving.copies++
		case protocol.Settle:
			c.settle.until = now.Add(protocol.Late)
		}
	}
	return Send
}

// Rejected handles a call with op that did not happen, and that is useless to repeat until
// its cause is mended.
func (c *Claim) Rejected(op *protocol.Op, err error, now clock.Instant) Effect {
	c.sent = false
	switch {
	case c.State == Asking && op.Verb == protocol.Acquire && now >= c.copyUntil, c.State == Adopting && c.moving.copies == 0:
		return c.end(err) // no copy was sent by an earlier call
	case c.State == Adopting, c.State == Asking, c.State == Queued, c.State == Confirming, c.State == Doing:
		return c.leave(c.Unsure(err), now)
	case c.State == Detaching && op.Verb == protocol.Move && c.moving.copies == 0:
		c.moving.other = ""
		return c.held(now, 0) | c.notRenewed(err, now)
	case c.State == Detaching && op.Verb == protocol.Move:
		return c.notDetached(c.Unsure(err), now)
	case c.State == Held && op.Verb == protocol.Renew:
		return c.notRenewed(err, now)
	case op.Verb == protocol.Settle && c.State == Held:
		c.settle.costs = "" // an estimate stays what it was
		return 0
	case op.Verb == protocol.Settle && c.State == Detaching:
		c.settle.costs = ""
		return Send // the move
	case c.State == Leaving && op.Verb == protocol.Release:
		return c.end(c.Err) | c.notReleased(err)
	}
	return 0
}

// Unsure is the error of a move, a release or what a claim does that is Doing, if it failed with err:
// of unknown outcome, if an earlier copy may have been executed. So is the error of what had to follow
// a move that did not fail: the handle is worth nothing then. For requests for permits the last
// refusal is told, because it says what to mend: whatever a copy of theirs may have got is given back.
func (c *Claim) Unsure(err error) error {
	switch {
	case c.adopted && c.State == Confirming:
		return protocol.Unsure("the lease was adopted", err)
	case c.moving.copies+c.leaving.copies+c.doing.copies > 0,
		c.sent && (c.State == Adopting || c.State == Detaching || c.State == Leaving || c.State == Doing):
		return protocol.Unsure(protocol.NoReply, err)
	}
	return err
}

// HeardGrant handles a message that tells of a hand-off. The message may have been under
// way for long, so its arrival says nothing about the lease's deadline. But the grant came
// after the last heartbeat that the server acknowledged, and kept the deadline which that
// heartbeat set: so the lease lasts for at least one heartbeat TTL from when that was sent.
// latest is the latest time that the server's clock can show, in milliseconds; a message
// that cannot be true makes the claim ask.
func (c *Claim) HeardGrant(token int64, slot, limit int, now clock.Instant, latest int64) Effect {
	if c.State != Queued && c.State != Asking || c.heard == 0 {
		return 0
	}
	// Where the outcome of a copy is unknown, the grant may be that copy's, on a server that has
	// since lost its data and has executed another one: with another token and slot.
	if c.copyUntil > 0 {
		c.look = c.State == Asking
		return c.HeardEnd()
	}
	if slot < 0 || slot >= limit || limit < c.Terms.Weight || token <= 0 || token/1000 > latest {
		return c.HeardEnd()
	}
	lasts := c.Terms.Heartbeat
	if c.Terms.MaxHold > 0 {
		lasts = min(lasts, c.Terms.MaxHold)
	}
	c.Lease.Token, c.Lease.Slot, c.Lease.Limit, c.Lease.Rates = token, slot, limit, cmp.Or(c.Place.Rates, c.Terms.Rates) // the message may overtake the place
	return c.hold(c.heard, now, lasts, false)
}

// HeardNext handles a message that it is the head of the queue, which time alone may let in when
// rest has passed. Nobody else looks then.
func (c *Claim) HeardNext(rest time.Duration, now clock.Instant) Effect {
	if c.State == Queued || c.State == Asking {
		c.first, c.told, c.opens = true, now, now.Add(rest+time.Millisecond)
	}
	return 0
}

// HeardEnd handles a message that tells of the claim's end, or a hint that messages may
// have been lost. Both are only reasons to ask the server at once.
func (c *Claim) HeardEnd() Effect {
	switch c.State {
	case Queued, Confirming:
		c.due, c.opens = clock.Never, clock.Never
	case Held:
		c.due, c.renew, c.peek = clock.Never, c.renew || !c.Manual, c.Manual
	default:
		return 0
	}
	return Send
}

// wanted reports whether there is something that the server does not know.
func (s *settling) wanted() bool { return s.costs != "" && !s.known }

// Settle notes what the lease has cost, in some units; what was said last counts. The server is told
// at once, by an operation of its own or by the release that follows.
func (c *Claim) Settle(costs protocol.Costs) (Effect, error) {
	all, err := c.settle.costs.With(costs)
	if err != nil {
		return 0, err
	}
	c.settle.costs, c.settle.known = all, false
	return Send, nil
}

// Renew begins a renewal of the lease; Report tells its outcome.
func (c *Claim) Renew(now clock.Instant) Effect {
	c.asked, c.renew, c.due = now, true, clock.Never
	c.until = min(c.until, now.Add(Timeout))
	return Send
}

// Release begins to give the lease back; Report tells the outcome. now must be exact: the
// lease was held until the end if that is before the trust deadline.
func (c *Claim) Release(now clock.Instant) Effect {
	if c.State == Held {
		c.leaving.wasHeld, c.leaving.live, c.Err = true, now < c.Trust, ErrReleased
		if !c.leaving.live {
			c.Err = c.untrusted()
		}
	}
	effect := c.leave(c.Err, now)
	c.until = now.Add(Timeout)
	return effect
}

// notReleased reports that Redis did not take a lease back, or, if it was lost before,
// that.
func (c *Claim) notReleased(err error) Effect {
	if !c.leaving.live {
		return c.report(c.Err)
	}
	return c.report(c.Unsure(err))
}

// Detach begins to move the lease to id, which can be adopted; Report tells the outcome.
func (c *Claim) Detach(id string, now clock.Instant) Effect {
	c.State, c.moving, c.due, c.until = Detaching, moving{other: id}, clock.Never, now.Add(Timeout)
	return Send
}

// Hasten bounds a Detach for whose outcome a Release waits, however late Redis answers.
func (c *Claim) Hasten(now clock.Instant) Effect {
	c.moving.hasty, c.until = true, min(c.until, now.Add(Timeout))
	return 0
}

// notDetached ends a lease that may or may not have moved: both ids are released.
func (c *Claim) notDetached(err error, now clock.Instant) Effect {
	c.Err = c.untrusted()
	effect := c.leave(c.Err, now)
	return effect | c.report(err)
}

// Cancel gives the claim back, in whatever state it is. Who waits for an outcome is told at
// once: nothing bounds the wait for the answer.
func (c *Claim) Cancel(why error, now clock.Instant) Effect {
	if c.State == Leaving || c.State == Ended {
		return 0
	}
	effect := c.leave(why, now)
	return effect | c.report(c.Err)
}

// Drop ends the claim without telling the server, after the last call.
func (c *Claim) Drop(why error) Effect {
	if c.State == Doing {
		why = c.Unsure(why)
	}
	return c.end(why) | c.report(why)
}
