package session

import (
	"errors"
	"time"

	"github.com/berth-go/berth/internal/clock"
	"github.com/berth-go/berth/internal/protocol"
)

// settle takes the answer to o. s.mu is held, as for everything in this file.
func (s *Semaphore) settle(o *op, f *flight, reply protocol.Reply) {
	switch o.Verb {
	case protocol.Acquire:
		s.settleAcquire(o, f, reply)
	case protocol.Heartbeat:
		s.settleHeartbeat(o, f)
	case protocol.Renew:
		s.settleRenew(o, f, reply)
	case protocol.Release:
		s.settleRelease(o)
	}
}

func (s *Semaphore) settleAcquire(o *op, f *flight, reply protocol.Reply) {
	c, r := o.claim, o.Result
	if c.state != asking {
		return // given up meanwhile, or granted by message; the cancel follows, or is not needed
	}
	switch r.Code {
	case protocol.Granted:
		s.granted(c, r, f)
	case protocol.Queued:
		s.queue(c, f)
		s.placed(c, r)
	case protocol.Gone:
		s.gone(c, r.Reason)
	case protocol.Busy:
		if reply.More {
			// What has run out was not yet reaped to its end: no verdict yet.
			s.sendAcquire(c)
			return
		}
		fallthrough
	default:
		next := int64(0)
		if reply.Next > 0 {
			next = max(reply.Next-reply.Now, 1)
		}
		s.refuse(c, r, next)
	}
}

// refuse ends a claim that the server turned down. An earlier copy of the request
// may be under way and find room when it arrives: the release leaves a tombstone
// for it, in the background.
func (s *Semaphore) refuse(c *Claim, r protocol.Result, next int64) {
	why := &Refusal{Result: r, Name: s.name, Weight: c.Terms.Weight, Next: next}
	if clock.Now() < c.late {
		s.leave(c, why, nil)
		return
	}
	s.end(c, why)
}

func (s *Semaphore) queue(c *Claim, f *flight) {
	s.set(c, queued)
	c.sent = f.sent
	c.due = clock.Now().Add(c.Terms.Heartbeat / 3)
	s.wakeBy(c.due)
	s.wakeBy(s.nearest)
}

// placed notes the place in line for whoever wants to know.
func (s *Semaphore) placed(c *Claim, r protocol.Result) {
	if c.places && r.Ahead >= 0 {
		c.place = Place{Ahead: r.Ahead, Used: r.Used, Limit: r.Limit, Waiting: r.Waiting}
		c.signal()
	}
}

// granted takes a grant by reply: the lease has remaining left at the moment of
// execution, which is after the request was sent. Counted from there it cannot
// be trusted for too long, whichever of several copies made the grant.
func (s *Semaphore) granted(c *Claim, r protocol.Result, f *flight) {
	c.token, c.slot, c.limit = r.Token, r.Slot, r.Limit
	whole := r.Remaining == c.Terms.TTL || c.Terms.MaxHold > 0 && r.Remaining == c.Terms.MaxHold
	s.hold(c, f.sent, f.landed, r.Remaining, whole)
}

// hold makes c held, for lasts from the instant from; now is exact. Where that is over before
// it could be used, it is renewed first; and where its holder, who renews it
// himself, would not get the whole TTL; and where replicas have to confirm it,
// whether it came by reply or by message: they have the grant when they have the
// renewal, which comes after it.
func (s *Semaphore) hold(c *Claim, from, now clock.Instant, lasts time.Duration, whole bool) {
	c.trust = trust(from, lasts)
	if c.trust <= now || c.manual && !whole || c.Terms.MinReplicas > 0 {
		s.set(c, confirming)
		s.sendRenew(c, nil)
		return
	}
	s.set(c, held)
	s.schedule(c, now)
	c.signal()
}

func trust(from clock.Instant, lasts time.Duration) clock.Instant {
	return from.Add(lasts - time.Duration(margin(lasts.Milliseconds()))*time.Millisecond)
}

// schedule sets the next renewal: after a third of what is left, so that there
// is time for failures.
func (s *Semaphore) schedule(c *Claim, now clock.Instant) {
	c.due = clock.Never
	if !c.manual && !c.capped {
		c.due = now.Add(c.trust.Sub(now) / 3)
	}
	s.wakeBy(min(c.due, c.trust))
}

func (s *Semaphore) settleHeartbeat(o *op, f *flight) {
	c, r := o.claim, o.Result
	if c.state != queued {
		return
	}
	switch r.Code {
	case protocol.Queued:
		s.queue(c, f)
		s.placed(c, r)
	case protocol.Granted:
		s.granted(c, r, f)
	default:
		s.gone(c, r.Reason)
	}
}

// gone takes the news that the server does not have a claim that waits, or is
// about to be used. Unless that was meant, it goes to the end of the queue with
// a new id: the old one may have a tombstone.
func (s *Semaphore) gone(c *Claim, why protocol.Reason) {
	switch why {
	case protocol.Evicted:
		s.end(c, &Lost{Name: s.name, ID: c.id, Cause: Evicted})
	default:
		s.set(c, asking)
		delete(s.claims, c.id)
		c.id, c.late = s.session.newID(), 0
		s.claims[c.id] = c
		if c.Terms.Wait {
			s.sendAcquireUntil(c, clock.Never) // it was in line, and outlasts the next outage too
		} else {
			s.sendAcquire(c)
		}
	}
}

func (s *Semaphore) settleRenew(o *op, f *flight, reply protocol.Reply) {
	c, r := o.claim, o.Result
	if c.state != held && c.state != confirming && c.state != adopting {
		o.finish(c.over())
		return
	}
	switch r.Code {
	case protocol.Renewed:
		if reply.Replicas < c.Terms.MinReplicas {
			s.unreplicated(c, o, reply)
		} else {
			s.renewed(c, o, f)
		}
	case protocol.Evicting:
		if c.state == adopting {
			o.finish(nil) // it is ours, to be given back
		}
		s.notRenewed(c, protocol.Evicted, false)
	default:
		s.notRenewed(c, r.Reason, true)
	}
	switch c.state {
	case held:
		o.finish(nil)
	case confirming, adopting, asking: // not decided yet
	default:
		o.finish(c.over())
	}
}

func (s *Semaphore) renewed(c *Claim, o *op, f *flight) {
	c.last = nil
	c.trust = trust(f.sent, o.Result.Remaining)
	c.capped = o.Result.Remaining < c.Terms.TTL
	now := f.landed
	switch {
	case c.trust > now:
		s.set(c, held)
		s.schedule(c, now)
		c.signal()
	case c.capped:
		s.lose(c, MaxHold, false)
	default:
		s.sendRenew(c, o.done) // the answer took longer than the lease lasts
	}
}

// unreplicated takes the news that too few replicas have a renewal: a failover
// could undo it, and the grant. A grant that nobody relies on yet is given back;
// a lease is trusted for as long as before, and tries again.
func (s *Semaphore) unreplicated(c *Claim, o *op, reply protocol.Reply) {
	why := &Unreplicated{Want: c.Terms.MinReplicas, Got: reply.Replicas, Err: reply.Unwaited}
	if c.state != held {
		s.leave(c, why, nil)
		return
	}
	c.last = why
	o.finish(why)
	if !c.manual {
		c.due = clock.Now().Add(min(mostPause, c.Terms.TTL/10))
		s.wakeBy(c.due)
	}
}

// notRenewed takes the news that the lease cannot be renewed; gone tells that
// the server no longer has it. A lease that its holder relies on is lost; a
// grant that was not yet used is asked for again.
func (s *Semaphore) notRenewed(c *Claim, why protocol.Reason, gone bool) {
	cause := Expired
	if why == protocol.Evicted {
		cause = Evicted
	}
	switch {
	case c.state == held, c.state == adopting && !gone:
		s.lose(c, cause, gone)
	case c.state == adopting:
		s.end(c, &Lost{Name: s.name, ID: c.id, Cause: cause})
	case gone:
		s.gone(c, why)
	default:
		s.leave(c, &Lost{Name: s.name, ID: c.id, Cause: cause}, nil)
	}
}

func (s *Semaphore) settleRelease(o *op) {
	c := o.claim
	var err error
	if o.Result.Code == protocol.Gone && o.tries == 0 && c.trust != 0 {
		cause := Expired
		if o.Result.Reason == protocol.Evicted {
			cause = Evicted
		}
		err = &Lost{Name: s.name, ID: c.id, Cause: cause}
	}
	o.finish(err)
	if c.state == leaving {
		s.end(c, ErrReleased)
	}
}

// verdict is what err, a call's failure, means for the operation: that the last
// call did not happen says nothing about the calls before it.
func (o *op) verdict(err error) error {
	f, ok := errors.AsType[*protocol.Failure](err)
	if !ok || o.tries == 0 {
		return err
	}
	return &protocol.Failure{Kind: protocol.ErrUnknown, Err: f.Err}
}

// abort ends an operation that cannot succeed, with err for a reason.
func (s *Semaphore) abort(o *op, err error) {
	c, err := o.claim, o.verdict(err)
	o.finish(err)
	switch {
	case o.Verb == protocol.Release:
		if c.state == leaving {
			s.end(c, ErrReleased)
		}
	case c.state == asking && o.Verb == protocol.Acquire:
		s.fail(c, err, o.tries > 0)
	case c.state == queued && o.Verb == protocol.Heartbeat:
		s.fail(c, err, true)
	case c.state == confirming && o.Verb == protocol.Renew:
		s.fail(c, err, true)
	case c.state == adopting:
		s.end(c, err) // the lease stays as it was
	case c.state == held && o.Verb == protocol.Renew:
		c.last = err
		c.due = clock.Now().Add(min(mostPause, c.Terms.TTL/10))
		s.wakeBy(c.due)
	}
}

// fail ends a claim that never was held. Where the server may have it, it is
// given back in the background.
func (s *Semaphore) fail(c *Claim, err error, mayExist bool) {
	if !mayExist || errors.Is(err, protocol.ErrRejected) && c.late == 0 && c.state == asking {
		s.end(c, err)
		return
	}
	s.leave(c, err, nil)
}
