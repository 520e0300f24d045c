package protocol

import (
	"slices"
	"time"
)

// The operations of the model. Each repeats harmlessly: it looks at what its id
// is by now, and at nothing else.

func (s *step) apply(op *Op) {
	s.results = append(s.results, Result{})
	r := &s.results[len(s.results)-1]
	p := s.members[op.ID]
	switch op.Verb {
	case Acquire:
		s.declare(op.Terms.Limit)
		s.pump() // nobody may overtake those who have room by now
		*r = s.acquire(op, s.members[op.ID])
	case Heartbeat:
		*r = s.heartbeat(op, p)
	case Renew:
		*r = s.renew(op, p)
	case Release:
		*r = s.release(op, p)
	case Evict:
		*r = s.evict(op, p)
	case Resize:
		s.declare(op.N)
	case Pin:
		s.pin = op.N
	case Pause:
		s.paused = op.Flag
	}
}

// declare takes over a limit that code declares, for what follows in the call too.
func (s *step) declare(limit int) {
	if limit == s.declared {
		return
	}
	if s.declared > 0 {
		s.changes++
	}
	s.declared = limit
}

func (s *step) acquire(op *Op, p *member) Result {
	t := op.Terms
	refusal := Result{Used: s.used(), Limit: s.limit(), Waiting: len(s.queue), Paused: s.paused}
	switch {
	case p != nil:
		return s.again(t, p)
	case t.Weight > s.limit() && s.limit() > 0: // a limit of 0 is a freeze, not a size
		return Result{Code: Heavy, Limit: s.limit()}
	case len(s.queue) == 0 && !s.paused && s.used()+t.Weight <= s.limit():
		return s.enter(op)
	case !t.Wait:
		refusal.Code = Busy
		return refusal
	case len(s.queue) >= t.QueueLimit:
		refusal.Code = Full
		return refusal
	default:
		return s.enqueue(op)
	}
}

// again answers an acquire whose id is known: a repeat, or a copy that is late.
func (s *step) again(t *Terms, p *member) Result {
	switch p.state {
	case holding:
		return s.held(p)
	case waiting:
		p.deadline = s.now + t.Heartbeat.Milliseconds()
		return s.queued(p)
	default:
		return Result{Code: Gone}
	}
}

func (s *step) enter(op *Op) Result {
	p := s.join(op)
	s.grant(p, op.Terms.MaxHold.Milliseconds())
	s.lease(p, s.now+op.Terms.TTL.Milliseconds())
	return s.held(p)
}

func (s *step) join(op *Op) *member {
	p := &member{id: op.ID, weight: op.Terms.Weight, owner: s.owner, label: op.Terms.Label}
	s.members[op.ID] = p
	return p
}

// enqueue puts a waiter behind everybody whose ticket, less its head start, is
// not later.
func (s *step) enqueue(op *Op) Result {
	r := Result{Code: Queued, Ahead: len(s.queue), Used: s.used(), Limit: s.limit(), Waiting: len(s.queue) + 1}
	p, start := s.join(op), op.Terms.HeadStart.Milliseconds()
	p.state, p.since, p.maxHold = waiting, s.now, op.Terms.MaxHold.Milliseconds()
	p.deadline = s.now + op.Terms.Heartbeat.Milliseconds()
	p.score = s.number() - start*1000 - front
	at := slices.IndexFunc(s.queue, func(w *member) bool { return w.score > p.score })
	if at < 0 {
		at = len(s.queue)
	}
	s.queue = slices.Insert(s.queue, at, p)
	s.vague[len(s.results)-1] = start > 0 // until the end of the call, and if it is there then
	s.arrivals[p.id] = &arrival{ttl: op.Terms.TTL.Milliseconds(), start: start, result: len(s.results) - 1}
	return r
}

func (s *step) held(p *member) Result {
	return Result{Code: Granted, Token: p.token, Slot: p.slot, Remaining: milliseconds(p.deadline - s.now), Limit: s.limit()}
}

// queued tells the place of a waiter in the queue as it was before the call,
// which is good enough for a screen. One that came in this call had none.
func (s *step) queued(p *member) Result {
	ahead := slices.Index(s.before, p)
	s.vague[len(s.results)-1] = ahead < 0
	return Result{Code: Queued, Ahead: ahead, Used: s.used(), Limit: s.limit(), Waiting: len(s.queue)}
}

func (s *step) heartbeat(op *Op, p *member) Result {
	if p == nil || p.state == dead {
		return gone(p)
	}
	if p.state == holding {
		return s.held(p)
	}
	p.deadline = s.now + op.TTL.Milliseconds()
	if op.Flag {
		return s.queued(p)
	}
	return Result{Code: Queued, Ahead: -1}
}

// renew prolongs a lease that is there. What has expired is lost.
func (s *step) renew(op *Op, p *member) Result {
	switch {
	case p == nil || p.state != holding:
		if p != nil && p.state == waiting {
			return Result{Code: Gone}
		}
		return gone(p)
	case p.evicting:
		return Result{Code: Evicting, Remaining: milliseconds(p.deadline - s.now)}
	}
	s.lease(p, s.now+op.TTL.Milliseconds())
	p.owner = s.owner // a lease that was adopted
	return Result{Code: Renewed, Remaining: milliseconds(p.deadline - s.now)}
}

func (s *step) release(op *Op, p *member) Result {
	until := s.now + Late.Milliseconds()
	if p == nil || p.state == dead {
		if p == nil && op.Flag {
			s.bury(op.ID, WasReleased, until)
		}
		return gone(p)
	}
	r := Result{Code: left(p)}
	if !op.Flag {
		until = 0
	}
	s.leave(p, WasReleased, float64(until))
	return r
}

func (s *step) evict(op *Op, p *member) Result {
	if p == nil || p.state == dead {
		return gone(p)
	}
	s.tell(p, "x %s %d", p.id, Evicted)
	if p.state == holding && !op.Flag {
		p.evicting = true
		return Result{Code: Evicting}
	}
	r := Result{Code: left(p)}
	s.leave(p, Evicted, float64(s.now+60000))
	return r
}

func left(p *member) Code {
	if p.state == holding {
		return Released
	}
	return Cancelled
}

func gone(p *member) Result {
	if p == nil {
		return Result{Code: Gone}
	}
	return Result{Code: Gone, Reason: p.reason}
}

func milliseconds(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
