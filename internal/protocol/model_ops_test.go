package protocol

import (
	"slices"
	"strings"
	"time"
)

// The operations of the model. Each repeats harmlessly: it looks at what its id
// is by now, and at nothing else.

// processOf is the channel that an id names.
func processOf(id string) string {
	process, _, _ := strings.Cut(id, ".")
	return process
}

// apply executes any operation but an acquire, which is the call's i-th.
func (s *step) apply(i int, op *Op) Result {
	p := s.members[op.ID]
	switch op.Verb {
	case Heartbeat:
		return s.heartbeat(i, op, p)
	case Renew:
		return s.renew(op, p)
	case Settle:
		if p == nil || p.state != holding {
			return gone(p)
		}
		s.settle(p, op.Costs)
		return Result{Code: Settled}
	case Release:
		return s.release(op, p)
	case Move:
		return s.move(op, p, s.members[op.To])
	case Evict:
		return s.evict(op, p)
	case Resize:
		s.declare(op.N)
	case Pin:
		s.pin = op.N
	case Pause:
		s.paused, s.weighed, s.ends, s.who = op.Flag, -1, 0, "" // a pin while it was paused has weighed nobody
	case Cool:
		s.cool(s.now+op.TTL.Milliseconds()+1, op.Who) // a millisecond for what the clock is beyond s.now
	case SetRates:
		if s.ratesPinned && !op.Flag {
			break
		}
		was := s.wanted
		s.ratesPinned, s.wanted = op.Flag, op.Rates
		if op.Only {
			s.wanted, _ = only(was, op.Unit, op.Rates)
		}
	case UnpinRates:
		s.ratesPinned = false
	}
	return Result{}
}

// cool pauses until ends, unless it is paused for longer.
func (s *step) cool(ends int64, who string) {
	if !s.paused || s.ends > 0 && s.ends < ends {
		s.paused, s.ends, s.who = true, ends, who
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

// declares takes over the limit of an acquire.
func (s *step) declares(t *Terms) {
	switch {
	case t.Limit > 0:
		s.declare(t.Limit)
	case s.declared == 0 && t.Rates != "":
		s.declare(1 << 30)
	case s.declared == 0:
		s.declare(1)
	}
	if t.Rates != "" && !s.ratesPinned {
		s.wanted = t.Rates
	}
}

func (s *step) acquire(i int, op *Op) Result {
	t := op.Terms
	p := s.members[op.ID]
	rate, costly := s.tooCostly(t.Costs, t.Weight)
	switch {
	case p != nil:
		return s.again(i, t, p)
	case t.Weight > s.limit() && s.limit() > 0: // a limit of 0 is a freeze, not a size
		return Result{Code: Heavy, Limit: s.limit()}
	case costly:
		return Result{Code: Costly, Rate: rate}
	case len(s.queue) == 0 && !s.paused && s.used()+t.Weight <= s.limit() && s.affords(t.Costs, t.Weight):
		return s.enter(op)
	case !t.Wait:
		return Result{Code: Busy, Rest: s.rest(t.Costs, t.Weight)}
	case s.full(t.Tenant, t.QueueLimit):
		return Result{Code: Full, Rest: s.rest(t.Costs, t.Weight)}
	default:
		return s.enqueue(i, op)
	}
}

// again answers an acquire whose id is known: a repeat, or a copy that is late.
func (s *step) again(i int, t *Terms, p *member) Result {
	switch p.state {
	case holding:
		return s.held(p)
	case waiting:
		p.deadline, p.asked = s.now+t.Heartbeat.Milliseconds(), false
		return s.queued(i, p)
	default:
		return gone(p)
	}
}

func (s *step) enter(op *Op) Result {
	p := s.join(op)
	s.grant(p, op.Terms.MaxHold.Milliseconds())
	s.charge(p, op.Terms.Costs)
	s.lease(p, s.now+op.Terms.TTL.Milliseconds())
	return s.held(p)
}

func (s *step) join(op *Op) *member {
	t := op.Terms
	p := &member{id: op.ID, weight: t.Weight, owner: s.owner, tenant: t.Tenant, share: t.Share, label: t.Label, ttl: t.TTL.Milliseconds()}
	s.members[op.ID] = p
	return p
}

// enqueue puts a waiter behind everybody whose turn is not later.
func (s *step) enqueue(i int, op *Op) Result {
	r, first := Result{Code: Queued, Ahead: len(s.queue)}, len(s.queue) == 0
	p, start := s.join(op), op.Terms.HeadStart.Milliseconds()
	p.state, p.ticket, p.maxHold, p.costs = waiting, s.number(), op.Terms.MaxHold.Milliseconds(), op.Terms.Costs
	p.beat = op.Terms.Heartbeat.Milliseconds()
	p.deadline = s.now + op.Terms.Heartbeat.Milliseconds()
	p.score = s.stand(p, start)
	at := slices.IndexFunc(s.queue, func(w *member) bool { return w.score > p.score || w.score == p.score && w.id > p.id })
	if at < 0 {
		at = len(s.queue)
	}
	s.queue = slices.Insert(s.queue, at, p)
	gone := 0
	switch {
	case s.turns.epoch > 0:
		first = s.head() == p
		s.vague[i] = !first
		r.Ahead = 0
	case start > 0:
		r.Ahead = 0
		for _, w := range s.before {
			if w.score < p.score {
				r.Ahead++
			}
			if !slices.Contains(s.queue, w) { // it may have stood behind
				gone++
			}
		}
		r.Ahead = max(r.Ahead-gone, 0)
		first = r.Ahead == 0
	}
	s.more = s.more || first && s.used()+p.weight <= s.limit() && !s.paused && s.affords(p.costs, p.weight)
	return r
}

func (s *step) held(p *member) Result {
	return Result{Code: Granted, Token: p.token, Slot: p.slot, Remaining: milliseconds(p.deadline - s.now)}
}

// queued tells the place of a waiter in the queue as it was before the call,
// which is good enough for a screen: who gets further in it is told.
func (s *step) queued(i int, p *member) Result {
	ahead := slices.Index(s.before, p)
	s.vague[i] = ahead < 0 || s.turns.epoch > 0
	return Result{Code: Queued, Ahead: ahead}
}

func (s *step) heartbeat(i int, op *Op, p *member) Result {
	switch {
	case p == nil || p.state == dead:
		return gone(p)
	case p.evicting:
		return Result{Code: Evicting, Remaining: milliseconds(p.deadline - s.now)}
	case p.state == holding:
		return s.held(p)
	}
	if op.TTL > 0 {
		s.heard[p.id] = true
		p.deadline, p.asked = s.now+op.TTL.Milliseconds(), false
	}
	if op.Flag {
		r := s.queued(i, p)
		if r.Ahead > 0 && !s.vague[i] && !s.follows(i, r.Ahead) {
			r.Front = milliseconds(max(s.fronts[r.Ahead-1]-s.now, 1))
		}
		return r
	}
	return Result{Code: Queued, Ahead: -1}
}

// follows reports whether the last waiter of which there is a like operation before the i-th is
// the one directly in front of that place.
func (s *step) follows(i, place int) bool {
	for j := i - 1; j >= 0; j-- {
		switch op := &s.ops[j]; {
		case op.Verb == Acquire: // they are sent last
		case !op.groups(&s.ops[i]):
			return false
		case s.members[op.ID] != nil && s.members[op.ID].state == waiting:
			return op.ID == s.before[place-1].id
		}
	}
	return false
}

// renew prolongs a lease that is there. What has expired is lost.
func (s *step) renew(op *Op, p *member) Result {
	switch {
	case p == nil || p.state != holding:
		return gone(p)
	case p.evicting:
		return Result{Code: Evicting, Remaining: milliseconds(p.deadline - s.now)}
	}
	s.lease(p, s.now+op.TTL.Milliseconds())
	r := s.held(p)
	r.Code = Renewed
	return r
}

// move gives the lease p to another id; there is what that id already is.
func (s *step) move(op *Op, p, there *member) Result {
	if there == nil {
		if p == nil || p.state != holding || p.evicting {
			return gone(p)
		}
		heir := *p
		heir.id, heir.owner, heir.token, heir.share = op.To, s.owner, s.number(), 0
		if op.TTL > 0 {
			heir.ttl = op.TTL.Milliseconds()
		}
		s.lease(&heir, s.now+heir.ttl)
		s.members[op.ID] = &member{id: op.ID, state: dead, reason: WasMoved, owner: s.owner, deadline: s.now + told}
		s.members[op.To], there = &heir, &heir
	}
	if there.state != holding || there.evicting {
		return gone(there)
	}
	r := s.held(there)
	r.Code, r.Weight, r.TTL, r.Label = Moved, there.weight, milliseconds(there.ttl), there.label
	return r
}

func (s *step) release(op *Op, p *member) Result {
	until := s.now + Late.Milliseconds()
	if p == nil || p.state == dead {
		switch {
		case p == nil && op.Flag:
			s.bury(op.ID, WasReleased, until)
		case op.Flag:
			p.deadline = max(p.deadline, until)
		}
		return gone(p)
	}
	r := Result{Code: left(p)}
	if p.state == holding && op.Costs != "" {
		s.settle(p, op.Costs)
	}
	if !op.Flag {
		until = 0
	}
	s.leave(p, WasReleased, until)
	return r
}

func (s *step) evict(op *Op, p *member) Result {
	if p == nil || p.state == dead {
		return gone(p)
	}
	if p.state == holding && !op.Flag {
		s.tell(p, "x %s %d", p.id, AskedToStop)
		p.evicting = true
		return Result{Code: Evicting}
	}
	s.tell(p, "x %s %d", p.id, Evicted)
	r := Result{Code: left(p)}
	s.leave(p, Evicted, s.now+told)
	return r
}

func left(p *member) Code {
	if p.state == holding {
		return Released
	}
	return Cancelled
}

// gone answers for an id that neither holds nor waits, or not any more.
func gone(p *member) Result {
	r := Result{Code: Gone}
	switch {
	case p == nil || p.state == waiting:
	case p.state == holding: // and asked to stop
		r.Reason = Evicted
	default:
		r.Reason, r.Owner = p.reason, p.owner
	}
	return r
}

func milliseconds(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
