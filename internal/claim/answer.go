package claim

import (
	"time"

	"github.com/berth-go/berth/internal/clock"
	"github.com/berth-go/berth/internal/protocol"
)

// Answer is the reply to a call.
type Answer struct {
	Sent clock.Instant // when the call was sent
	Got  clock.Instant // when the reply came; exact
	protocol.Reply
}

// Answered handles the result of op, which the claim wanted when the call was made. If
// the claim's state has changed meanwhile, the result may be irrelevant.
func (c *Claim) Answered(op *protocol.Op, a *Answer) Effect {
	c.sent = false
	effect := c.take(op, a)
	if c.State == Held && c.settle.wanted() || c.State == Detaching && op.Verb == protocol.Settle {
		effect |= Send
	}
	return effect
}

// take handles the result of op.
func (c *Claim) take(op *protocol.Op, a *Answer) Effect {
	r := &op.Result
	switch {
	case c.State == Doing:
		return c.did(r)
	case op.Verb == protocol.Settle && (c.State == Held || c.State == Detaching):
		return c.answerSettle(op, a)
	case op.Verb == protocol.Acquire && c.State == Asking:
		return c.answerAcquire(op, a)
	case op.Verb == protocol.Acquire && c.State == Queued && r.Code == protocol.Granted && op.ID == c.ID:
		return c.granted(r, a) // the place was told by a late answer to an earlier copy
	case op.Verb == protocol.Heartbeat && c.State == Queued:
		return c.answerHeartbeat(r, a)
	case op.Verb == protocol.Heartbeat && c.State == Held:
		return c.answerLook(op, a)
	case op.Verb == protocol.Renew && (c.State == Held || c.State == Confirming):
		return c.answerRenew(r, a)
	case op.Verb == protocol.Move && c.State == Adopting:
		return c.answerAdopt(r, a)
	case op.Verb == protocol.Move && c.State == Detaching:
		return c.answerDetach(r, a)
	case op.Verb == protocol.Release && c.State == Leaving:
		return c.answerRelease(r, a)
	}
	return 0
}

// AnsweredLate handles the result of op in a call that was given up. The operation has been
// sent again, or will be. What the late answer grants counts like any other: it tells what the
// server did, and the trust in it is counted from when that call was sent. Any other answer
// says less than the one that the repetition will get.
func (c *Claim) AnsweredLate(op *protocol.Op, a *Answer) Effect {
	r, code := &op.Result, op.Result.Code
	switch {
	case c.State == Doing:
		return c.did(r) | TakeBack
	case op.Verb == protocol.Move && op.ID == c.ID && c.State == Detaching && code == protocol.Moved:
		return c.answerDetach(r, a)
	case op.Verb == protocol.Move && op.To == c.ID && c.State == Adopting && code == protocol.Moved:
		return c.answerAdopt(r, a) | TakeBack
	case op.Verb == protocol.Release && op.ID == c.leaves() && c.State == Leaving:
		return c.answerRelease(r, a)
	case op.ID != c.ID: // that of an earlier request
		return 0
	case op.Verb == protocol.Acquire && c.State == Asking && code != protocol.Gone:
		return c.answerAcquire(op, a) | TakeBack
	case c.State == Queued && code == protocol.Granted:
		return c.granted(r, a) | TakeBack
	case op.Verb == protocol.Heartbeat && c.State == Queued && code == protocol.Queued:
		return c.queued(r, a) | TakeBack
	case op.Verb == protocol.Renew && code == protocol.Renewed && c.extends(r, a):
		return c.answerRenew(r, a) | TakeBack
	}
	return 0
}

// extends reports whether a late renewal gives the claim more trust than it has.
func (c *Claim) extends(r *protocol.Result, a *Answer) bool {
	return (c.State == Held || c.State == Confirming) && trust(a.Sent, r.Remaining) > c.Trust &&
		!c.forgotten(r) && !c.renewalOver()
}

// renewalOver reports whether the holder, who renews the lease by hand, was told that its
// renewal failed: then no answer moves the trust deadline.
func (c *Claim) renewalOver() bool { return c.State == Held && c.Manual && !c.renew }

func (c *Claim) answerAcquire(op *protocol.Op, a *Answer) Effect {
	r := &op.Result
	switch {
	case r.Code == protocol.Granted:
		return c.granted(r, a)
	case r.Code == protocol.Queued:
		return c.queued(r, a)
	case r.Code == protocol.Gone:
		return c.gone(r, a)
	case (r.Code == protocol.Busy || r.Code == protocol.Full) && a.More:
		return Send // what has run out was not yet taken out to its end: no verdict yet
	case r.Code == protocol.Busy && c.Terms.Wait && !op.Terms.Wait:
		return c.tried(r, a)
	default:
		return c.refuse(r, a)
	}
}

// tried handles the answer that there is no room now for a request that may wait until its Deadline.
// Unless it would wait in vain it asks for a place in the queue.
func (c *Claim) tried(r *protocol.Result, a *Answer) Effect {
	if rest := a.rest(r.Rest); c.trying != nil && c.inVain(rest, a) {
		return c.failEarly(r, a)
	}
	c.trying = nil
	return Send
}

// inVain reports whether what keeps the claim out for so long does so until after its Deadline. It
// is counted from the sending, and without the millisecond by which a time may be rounded up: so
// nothing is refused that might still be granted.
func (c *Claim) inVain(rest time.Duration, a *Answer) bool {
	return c.Deadline > 0 && a.Sent.Add(rest-time.Millisecond) > c.Deadline
}

// failEarly ends a claim that would wait in vain. If it has a place in the queue, that is given up at
// once; what it may have been granted meanwhile is given back, and costs nothing.
func (c *Claim) failEarly(r *protocol.Result, a *Answer) Effect {
	why := c.refusal(r, a)
	why.Early = true
	if c.State == Queued {
		return c.leave(why, a.Got)
	}
	return c.refused(why, a)
}

// refuse ends a claim that the server refused.
func (c *Claim) refuse(r *protocol.Result, a *Answer) Effect { return c.refused(c.refusal(r, a), a) }

// refused ends a claim that has no place in the queue. A copy of the request may still be under
// way and find room when it arrives: the release leaves a tombstone against that.
func (c *Claim) refused(why *Refusal, a *Answer) Effect {
	if a.Got < c.copyUntil {
		return c.leave(why, a.Got)
	}
	return c.end(why)
}

// refusal is the error of a request that the server does not grant.
func (c *Claim) refusal(r *protocol.Result, a *Answer) *Refusal {
	binds, _ := a.Binding(a.Now, c.Terms.Weight, c.Terms.Costs)
	why := &Refusal{
		Name: c.name, Code: r.Code, Weight: c.Terms.Weight, Tenant: c.Terms.Tenant, Limit: a.Limit(), State: a.State, Binds: binds, Rest: a.rest(r.Rest),
	}
	switch r.Code { // of what is idle the state does not tell
	case protocol.Heavy:
		why.Limit = r.Limit
	case protocol.Costly:
		why.Binds = protocol.Budget{Rate: r.Rate, Spent: a.Spent(r.Rate, a.Now)}
	}
	why.Cost = c.Terms.Costs.Of(why.Binds.Unit, c.Terms.Weight)
	if a.Next > 0 && a.Holders+a.Waiting > 0 { // else it is a tombstone's
		why.Next = time.Duration(max(a.Next-a.Now, 1)) * time.Millisecond
	}
	return why
}

// queued handles a place in the queue, from an acquire or a heartbeat. From now on the
// request outlasts every outage.
func (c *Claim) queued(r *protocol.Result, a *Answer) Effect {
	c.State, c.until, c.cause = Queued, clock.Never, nil
	c.heard = max(c.heard, a.Sent)
	c.due = max(a.Sent.Add(c.Terms.Heartbeat/3), a.Got) // the place lasts from when the server set it
	c.opens = c.looks(r, a)
	ahead := c.Place.Ahead
	if r.Ahead >= 0 {
		ahead = r.Ahead
	}
	binds, _ := a.Binding(a.Now, c.Terms.Weight, c.Terms.Costs)
	rates := a.Rest(a.Now, c.Terms.Weight, c.Terms.Costs)
	c.Place = Place{
		Ahead: ahead, Used: a.Used, Limit: a.Limit(), Waiting: a.Waiting, Paused: a.Paused, Pinned: a.Pin >= 0,
		Rates: a.Rates, Binds: binds, Tenant: c.Terms.Tenant, Rest: a.rest(rates),
	}
	vain := c.inVain(c.Place.Rest, a) // a pause has begun, say
	if vain && c.vain {
		return c.failEarly(&protocol.Result{Code: protocol.Busy, Rest: rates}, a)
	}
	var effect Effect
	if c.vain = vain; vain { // or it was granted just after this answer, in the same step, and what is spent is its own cost
		effect = c.sign()
	}
	if c.look { // the grant may have come after this answer was made
		c.look, effect = false, c.sign()
	}
	if c.Places {
		effect |= Wake
	}
	return effect
}

// looks returns when a claim with this place in the queue is to look: the head when time may let it
// in, and any other when the one in front of it has ended, if that shows no sign of life.
func (c *Claim) looks(r *protocol.Result, a *Answer) clock.Instant {
	older := c.told >= a.Sent // a message has come since, which may tell of what the answer does not
	if r.Ahead >= 0 && !older {
		c.first = r.Ahead == 0
	}
	at := clock.Never
	switch { // counted from the reply, the server's clock has certainly reached it by then
	case c.first && a.Next > 0:
		at = a.Got.Add(time.Duration(a.Next-a.Now+1) * time.Millisecond)
	case r.Front > 0:
		at = a.Got.Add(r.Front + time.Millisecond)
	}
	if older {
		at = min(at, c.opens)
	}
	return at
}

// rest is how long nothing that the rates keep out for so long is granted, if a pause ends before that,
// or after it. While it is paused without end there is no such time: 0.
func (a *Answer) rest(rates time.Duration) time.Duration {
	switch {
	case a.Paused && a.Ends == 0:
		return 0
	case a.Ends == 0:
		return rates
	}
	return max(rates, time.Duration(max(a.Ends-a.Now, 1))*time.Millisecond)
}

// granted handles a grant in a reply. The lease has r.Remaining left when the request is
// executed, which is after it was sent. Counted from when it was sent, the lease is never
// trusted for too long, whichever of several copies was granted.
func (c *Claim) granted(r *protocol.Result, a *Answer) Effect {
	c.Lease.Token, c.Lease.Slot, c.Lease.Limit, c.Lease.Rates = r.Token, r.Slot, a.Limit(), a.Rates
	whole := r.Remaining >= c.Terms.TTL || c.Terms.MaxHold > 0 && r.Remaining >= c.Terms.MaxHold
	return c.hold(a.Sent, a.Got, r.Remaining, whole)
}

// hold lets the holder rely on the lease, which lasts this long from an instant on. It
// renews the lease first in three cases: the lease is over before it could be used; its
// holder renews by itself and would get less than the whole TTL; or replicas have to
// confirm the grant, which they have when they have the renewal that follows it.
func (c *Claim) hold(from, now clock.Instant, lasts time.Duration, whole bool) Effect {
	c.Trust = trust(from, lasts)
	if c.Trust <= now || c.Manual && !whole || c.Terms.MinReplicas > 0 {
		c.State, c.due = Confirming, clock.Never
		return Send
	}
	return c.held(now, now.Sub(from))
}

// held lets the holder rely on the lease. Whoever was asked for it, or heard of, has told of it at now,
// and took so long.
func (c *Claim) held(now clock.Instant, took time.Duration) Effect {
	c.State, c.until, c.cause = Held, clock.Never, nil
	c.schedule(now, took)
	return Wake
}

// trust returns the trust deadline of a lease that lasts d from an instant on. Its margin
// is the millisecond in which the server counts, and a hundredth of d, by which two clocks
// may run apart.
func trust(from clock.Instant, d time.Duration) clock.Instant {
	return from.Add(d - time.Millisecond - d.Truncate(time.Millisecond)/100)
}

// schedule sets the next renewal: after a third of what is left, so that there is time for
// failures. What an answer takes is not left: it must come while the lease is trusted.
func (c *Claim) schedule(now clock.Instant, took time.Duration) {
	c.due, c.renew = clock.Never, false
	if !c.Manual && !c.capped {
		c.due = now.Add(max(0, c.Trust.Sub(now)-took) / 3)
	}
}

func (c *Claim) answerHeartbeat(r *protocol.Result, a *Answer) Effect {
	switch r.Code {
	case protocol.Queued:
		return c.queued(r, a)
	case protocol.Granted:
		return c.granted(r, a)
	case protocol.Evicting: // granted meanwhile, and asked to stop
		return c.leave(c.lost(Evicted), a.Got)
	default:
		return c.gone(r, a)
	}
}

// answerLook handles the server's answer about a lease that its holder renews, after a
// message told of its end.
func (c *Claim) answerLook(op *protocol.Op, a *Answer) Effect {
	r := &op.Result
	switch {
	case r.Code == protocol.Granted && !c.forgotten(r):
		return 0
	case r.Code == protocol.Queued && op.TTL > 0: // a heartbeat, sent before a message told of the grant
		return 0
	case r.Code == protocol.Granted, r.Code == protocol.Queued:
		return c.lose(c.lost(Vanished), a.Got)
	case r.Code == protocol.Evicting:
		return c.lose(c.lost(Evicted), a.Got)
	default:
		return c.end(c.lostBy(r, a.Got))
	}
}

// forgotten reports whether r is of another grant than the holder's. A failover can forget a
// hand-off: then its waiter waits again, and is granted again, maybe with another slot. That
// grant is given back with the claim.
func (c *Claim) forgotten(r *protocol.Result) bool {
	return c.State == Held && (r.Token != c.Lease.Token || r.Slot != c.Lease.Slot)
}

// gone handles the answer that the server does not have a claim that waits, or is about
// to be used. Unless an operator removed it, the claim asks again, at the end of the queue
// and with a new id: the old one may have a tombstone, and a late message may tell of a
// grant to it that is over. A lease that was adopted is lost.
func (c *Claim) gone(r *protocol.Result, a *Answer) Effect {
	switch {
	case r.Reason == protocol.Evicted:
		return c.end(c.lost(Evicted))
	case r.Reason == protocol.TooHeavy:
		if rate, ok := a.TooCostly(c.Terms.Weight, c.Terms.Costs); ok {
			return c.refuse(&protocol.Result{Code: protocol.Costly, Rate: rate}, a)
		}
		return c.refuse(&protocol.Result{Code: protocol.Heavy, Limit: a.Limit()}, a)
	case c.adopted:
		return c.end(c.lostBy(r, a.Got))
	}
	c.ID, c.copyUntil, c.look = c.newID(), 0, false
	c.State, c.heard, c.told, c.first, c.vain, c.due, c.opens = Asking, 0, 0, false, false, clock.Never, clock.Never
	return Send
}

func (c *Claim) answerRenew(r *protocol.Result, a *Answer) Effect {
	switch {
	case r.Code == protocol.Renewed && c.forgotten(r):
		return c.lose(c.lost(Vanished), a.Got)
	case r.Code == protocol.Renewed && a.Replicas < c.Terms.MinReplicas:
		return c.unreplicated(a)
	case r.Code == protocol.Renewed && c.renewalOver():
		return 0
	case r.Code == protocol.Renewed:
		return c.renewed(r, a)
	case c.State == Held && r.Code == protocol.Evicting:
		return c.lose(c.lost(Evicted), a.Got)
	case c.State == Held:
		return c.end(c.lostBy(r, a.Got))
	case r.Code == protocol.Evicting:
		return c.leave(c.lost(Evicted), a.Got)
	default:
		return c.gone(r, a)
	}
}

// answerSettle handles the answer that a lease has been settled. What its holder has said since follows.
func (c *Claim) answerSettle(op *protocol.Op, a *Answer) Effect {
	switch settled := op.Result.Code == protocol.Settled; {
	case !settled && c.State == Held:
		return c.end(c.lostBy(&op.Result, a.Got))
	case settled && op.Costs != c.settle.costs: // more was said meanwhile
	case c.State == Held && a.Got < c.settle.until:
		c.settle.known = true
	default: // that a lease is gone, the move that follows tells
		c.settle.costs = ""
	}
	return 0
}

func (c *Claim) renewed(r *protocol.Result, a *Answer) Effect {
	if c.State == Confirming { // and not Held: a holder reads them without a lock
		c.Lease.Token, c.Lease.Slot = r.Token, r.Slot
	}
	// No renewal shortens a lease, so what an earlier answer told holds, too: near its MaxHold it says
	// more than one that took longer. If it is more than there can be, the server's clock was stepped.
	if at := trust(a.Sent, r.Remaining); at > c.Trust || c.Trust > a.Got.Add(r.Remaining) {
		c.Trust = at
	}
	c.capped = r.Remaining < c.Lease.TTL.Truncate(time.Millisecond)
	switch {
	case c.Trust > a.Got && a.Sent >= c.asked:
		return c.held(a.Got, a.Got.Sub(a.Sent)) | c.report(nil)
	case c.Trust > a.Got: // its holder asked again meanwhile
		c.State, c.cause, c.renew, c.due = Held, nil, true, clock.Never
		return Wake | Send
	case c.capped:
		return c.lose(c.untrusted(), a.Got)
	default:
		return Send // the answer took longer than the lease lasts
	}
}

// unreplicated handles a renewal that too few replicas have: a failover could undo it, and
// the grant. A grant that is not in use yet is given back; a lease in use keeps its trust
// deadline and is renewed again.
func (c *Claim) unreplicated(a *Answer) Effect {
	why := &Unreplicated{Want: c.Terms.MinReplicas, Got: a.Replicas, Err: a.Unwaited}
	if c.State != Held {
		return c.leave(why, a.Got)
	}
	return c.notRenewed(why, a.Got)
}

// notRenewed handles a renewal that was rejected, or that too few replicas have. The
// holder may rely on the lease until Trust, and the renewal is tried again.
func (c *Claim) notRenewed(err error, now clock.Instant) Effect {
	c.cause, c.until, c.renew = err, clock.Never, false
	if !c.Manual {
		c.due = now.Add(min(time.Second, c.Lease.TTL/10))
	}
	return c.report(err)
}

func (c *Claim) answerAdopt(r *protocol.Result, a *Answer) Effect {
	if r.Code != protocol.Moved {
		return c.end(c.lostBy(r, a.Got))
	}
	c.Lease = Lease{Token: r.Token, Slot: r.Slot, Limit: a.Limit(), Weight: r.Weight, TTL: r.TTL, Label: r.Label, Rates: a.Rates}
	// Less than a whole TTL may be due to its MaxHold, or to a move that was answered at
	// the second try: the first renewal will tell.
	c.moving.other, c.copyUntil = "", 0
	return c.hold(a.Sent, a.Got, r.Remaining, true)
}

func (c *Claim) answerDetach(r *protocol.Result, a *Answer) Effect {
	if r.Code != protocol.Moved {
		return c.end(c.lostBy(r, a.Got))
	}
	return c.end(ErrDetached) | c.report(nil)
}

func (c *Claim) answerRelease(r *protocol.Result, a *Answer) Effect {
	if c.moving.other != "" {
		c.moving.other = ""
		return Send // the other id that it may have had
	}
	var out error
	switch {
	case !c.leaving.wasHeld:
		out = c.Err
	case r.Code != protocol.Gone:
	case !c.leaving.live, c.leaving.copies == 0 && !c.ranOut(r, a):
		out = c.lostBy(r, a.Got)
	case c.settle.costs != "" && c.ranOut(r, a):
		out = &protocol.Failure{Kind: protocol.ErrUnknown, Err: errUnsettled}
	}
	return c.end(c.Err) | c.report(out)
}

// ranOut reports whether a lease that was held until its release may have ended by itself
// since: Redis refused for so long.
func (c *Claim) ranOut(r *protocol.Result, a *Answer) bool {
	return c.Trust <= a.Got && (r.Reason == protocol.Expired || r.Reason == protocol.Unknown)
}

// did ends a claim whose operation was executed. A release may have been so by a copy before.
func (c *Claim) did(r *protocol.Result) Effect {
	if c.doing.op.Result = *r; c.doing.op.Verb == protocol.Release && c.doing.copies > 0 && r.Reason == protocol.WasReleased {
		c.doing.op.Result = protocol.Result{Code: protocol.Released}
	}
	return c.end(nil)
}
