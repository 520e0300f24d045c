package session

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/berth-go/berth/internal/clock"
	"github.com/berth-go/berth/internal/protocol"
)

// Group commit: a semaphore has one call to Redis in flight. Operations that come
// meanwhile gather, and the next call carries them all. Nobody waits when nothing
// is in flight. A second call may be under way beside it:
//
//   - with releases, for which somebody else may be waiting: an express;
//   - with everything, where a crowd has gathered for which there is room, so that
//     the server has work while this process looks at the answers to the first.
//
// Two calls may be executed in either order. That makes no difference where all that
// they ask for is granted; and nothing but an express starts beside a release that
// nobody waits for, so that what is asked for after it comes after it. An operation
// whose claim is aboard of a call waits for that one: a release never overtakes the
// renewal before it.

const (
	// mostOps bounds the operations of one call, so that it keeps the server for half
	// a millisecond or so. Of heartbeats and renewals, which do little, eight count as one.
	mostOps = 128
	// crowd is how many operations make a second call worth its while.
	crowd = mostOps / 2
)

// op is an operation on its way.
type op struct {
	protocol.Op
	claim  *Claim
	giveUp clock.Instant // when it is pointless to try on
	answer clock.Instant // when whoever waits for done has waited long enough
	tries  int           // calls that carried it and have an unknown outcome
	done   chan error    // gets the outcome; nil: nobody waits for it
}

// full is the load of a call that takes no more.
const full = 8 * mostOps

// load is what the operation costs the server, in eighths of an acquire.
func (o *op) load() int {
	if o.Verb == protocol.Heartbeat || o.Verb == protocol.Renew {
		return 1
	}
	return 8
}

// finish tells whoever waits for the operation.
func (o *op) finish(err error) {
	if o.done != nil {
		o.done <- err // has room for the one
		o.done = nil
	}
}

// flight is one call to Redis.
type flight struct {
	ops    []*op
	load   int           // what they cost, in eighths of an acquire
	wire   []protocol.Op // copies: an earlier call with an unknown outcome may still write to its own
	sent   clock.Instant
	giveUp clock.Instant
	landed clock.Instant // exact; 0: not yet
	asks   int           // acquires aboard
	silent bool          // it carries a release for which nobody waits
	shared bool          // another was under way at the same time: which the server saw first is not known
}

// clear makes f, which has landed, an empty flight with the room that it had.
func (f *flight) clear() {
	clear(f.ops)
	clear(f.wire)
	*f = flight{ops: f.ops[:0], wire: f.wire[:0]}
}

// line puts o in line. Whoever came in from outside then sees to it that a call
// starts, by kick or depart; what an answer leads to travels together.
func (s *Semaphore) line(o *op) {
	if o.Verb == protocol.Release {
		s.releases = append(s.releases, o)
	} else {
		s.pending = append(s.pending, o)
	}
}

// withdraw takes an operation of c out of the line, if it is still there and no
// earlier call has carried it. s.mu is held.
func (s *Semaphore) withdraw(c *Claim, verb protocol.Verb) bool {
	for i, o := range s.pending {
		if o.claim == c && o.Verb == verb && o.tries == 0 {
			s.pending = append(s.pending[:i], s.pending[i+1:]...)
			o.finish(ErrReleased)
			return true
		}
	}
	return false
}

// kick starts a call if there is work, none is in the way and no pause is on.
// s.mu is held.
func (s *Semaphore) kick() {
	if f := s.next(); f != nil {
		s.session.crew.take(job{s, f})
	}
}

// depart is kick and unlock for the caller who has just asked for c, or given it
// back. If it waits for the answer in any case, it makes the call itself: to wake
// another goroutine, and to be woken by it, takes a quarter of a round trip
// (docs/decisions). That the wait is bounded, although nobody can interrupt the
// client, depends on the client's time-out, and on a connection that is there: on an
// answer a moment ago.
func (s *Semaphore) depart(c *Claim) {
	f := s.next()
	self := f != nil && c.patient && s.session.bounded && f.sent.Sub(s.answered) < fresh
	s.unlock()
	if self {
		reply, err := s.call(f)
		f = s.land(f, reply, err)
	}
	if f != nil {
		s.session.crew.take(job{s, f})
	}
}

// fresh is for how long an answer shows that there is a connection.
const fresh = time.Second

// next returns the next call, if one may start now.
func (s *Semaphore) next() *flight {
	lane, other := s.lane()
	whole := other == nil || s.calm(other)
	switch {
	case lane == nil || s.stopped:
		return nil
	case whole && len(s.releases)+len(s.pending) == 0 && (other != nil || !s.poke):
		return nil
	case !whole && len(s.releases) == 0:
		return nil
	}
	now := clock.Now()
	if now < s.retryAt {
		s.wakeBy(s.retryAt)
		return nil
	}
	f := s.load(now, whole)
	if len(f.ops) == 0 && (other != nil || !s.poke) {
		s.spare = append(s.spare, f)
		return nil
	}
	f.giveUp = now.Add(patienceOf(f.ops))
	*lane = f
	if other != nil {
		f.shared, other.shared = true, true
	} else {
		s.poke = false
	}
	s.wakeBy(f.giveUp)
	return f
}

// lane returns where a call may start, and the one that is under way.
func (s *Semaphore) lane() (free **flight, other *flight) {
	for i := range s.air {
		if s.air[i] == nil {
			free = &s.air[i]
		} else {
			other = s.air[i]
		}
	}
	return free, other
}

// calm reports whether a crowd has gathered, and the order of it and what other
// carries makes no difference. That there is room is as the last answer had it, and
// as if all had the terms of the first.
func (s *Semaphore) calm(other *flight) bool {
	if other.silent || len(s.pending)+len(s.releases) < crowd || len(s.pending) == 0 {
		return false
	}
	terms := s.pending[0].claim.Terms
	return s.used+(other.asks+len(s.pending))*terms.Weight <= terms.Limit
}

// load takes the operations of the next call: releases first, for they free what
// the others want, then, if it is no express, the rest in the order in which they came.
func (s *Semaphore) load(now clock.Instant, whole bool) *flight {
	var f *flight
	if n := len(s.spare); n > 0 {
		f, s.spare = s.spare[n-1], s.spare[:n-1]
	} else {
		f = new(flight)
	}
	f.sent = now
	s.releases = f.board(s.releases)
	if whole {
		s.pending = f.board(s.pending)
	}
	return f
}

// board takes operations aboard while there is room, and returns the others.
func (f *flight) board(line []*op) (rest []*op) {
	rest = line[:0]
	for i, o := range line {
		switch {
		case f.load >= full:
			rest = append(rest, line[i:]...)
			clear(line[len(rest):])
			return rest
		case o.pointless():
			o.finish(o.claim.over())
		case o.claim.aboard:
			rest = append(rest, o)
		default:
			f.take(o)
		}
	}
	clear(line[len(rest):])
	return rest
}

func (f *flight) take(o *op) {
	switch o.Verb {
	case protocol.Acquire:
		f.asks++
		if o.claim.sent == 0 {
			o.claim.sent = f.sent
		}
	case protocol.Release:
		o.Flag = f.sent < o.claim.late // a tombstone for the copy that may be under way
		f.silent = f.silent || o.done == nil
	}
	o.claim.aboard = true
	f.load += o.load()
	f.ops = append(f.ops, o)
	f.wire = append(f.wire, o.Op)
}

// retire takes f, which has landed or was given up, from those under way; false:
// it was taken before.
func (s *Semaphore) retire(f *flight) bool {
	for i := range s.air {
		if s.air[i] != f {
			continue
		}
		s.air[i] = nil
		for _, o := range f.ops {
			o.claim.aboard = false
		}
		return true
	}
	return false
}

// patienceOf is how long a call may take: there must be time for a second one,
// with short leases and with short patience.
func patienceOf(ops []*op) time.Duration {
	d := mostAttempt
	for _, o := range ops {
		d = min(d, o.claim.Terms.TTL/3)
		if o.Verb == protocol.Acquire && !o.claim.Terms.Wait {
			d = min(d, TryPatience/2)
		}
	}
	return max(d, leastAttempt)
}

// run makes calls until there is nothing left to send.
func (s *Semaphore) run(f *flight) {
	for f != nil {
		reply, err := s.call(f)
		f = s.land(f, reply, err)
	}
}

// call makes one call. Until the server's clock has been seen, nothing can be
// said about the latest time at which a copy may run; so an empty call comes first.
func (s *Semaphore) call(f *flight) (protocol.Reply, error) {
	wait := f.giveUp.Sub(f.sent)
	ctx := &bounded{s.session.ctx, time.Now().Add(wait)}
	if !s.clock.known() {
		sent := clock.Now()
		reply, err := s.session.store.Do(ctx, s.keys, 0, nil)
		if err != nil {
			return reply, unsent(err)
		}
		s.clock.see(reply.Now, sent, clock.Now())
	}
	return s.session.store.Do(ctx, s.keys, s.clock.latest(f.sent.Add(wait)), f.wire)
}

// bounded is a context with a deadline for those who ask for one, as go-redis does
// with ContextTimeoutEnabled. It needs no timer of its own: the keeper gives the
// call up in any case.
type bounded struct {
	context.Context //nolint:containedctx // this is a context
	deadline        time.Time
}

// Deadline implements context.Context.
func (b *bounded) Deadline() (time.Time, bool) { return b.deadline, true }

// unsent words a failure before anything of the flight was sent.
func unsent(err error) error {
	var f *protocol.Failure
	if errors.As(err, &f) && errors.Is(f, protocol.ErrUnknown) {
		return &protocol.Failure{Kind: protocol.ErrRefused, Err: f.Err}
	}
	return err
}

// land takes the outcome of f and returns the next flight, if there is one. An
// outcome that comes after the keeper gave f up is dropped: the operations are
// on their way again, and are harmless to repeat.
func (s *Semaphore) land(f *flight, reply protocol.Reply, err error) *flight {
	f.landed = clock.Exact()
	if reply.Now != 0 {
		if step := s.clock.see(reply.Now, f.sent, f.landed); step.Abs() > time.Second {
			s.session.log.Warn("berth: the server's clock was stepped; leases may end early or late", "by", step)
		}
	}
	s.mu.Lock()
	defer s.unlock()
	if !s.retire(f) {
		return nil
	}
	if err != nil {
		s.failed(f, err)
	} else {
		s.pause, s.retryAt, s.lastErr, s.answered = 0, 0, nil, f.landed
		s.used = reply.Used
		s.foresee(f, reply)
		for i, o := range f.ops {
			o.Result = f.wire[i].Result
			s.settle(o, f, reply)
		}
		s.tell(reply.Waiting)
	}
	f.clear()
	s.spare = append(s.spare, f)
	return s.next()
}

// foresee notes when something may run out, so that a waiter asks then.
func (s *Semaphore) foresee(f *flight, reply protocol.Reply) {
	nearest := clock.Never
	if reply.Next > 0 {
		// Counted from the reply, the server has surely got there by then.
		nearest = f.landed.Add(time.Duration(reply.Next-reply.Now+1) * time.Millisecond)
	}
	if f.shared { // the other may know of something later, or have brought something nearer
		nearest = min(nearest, s.nearest)
	}
	s.nearest = nearest
	if reply.More {
		s.poke = true
	}
	if s.waiters > 0 {
		s.wakeBy(s.nearest)
	}
}

// failed puts the operations of f back in line, in front, or ends those for
// which it is pointless. s.mu is held.
func (s *Semaphore) failed(f *flight, err error) {
	unknown, rejected := errors.Is(err, protocol.ErrUnknown), errors.Is(err, protocol.ErrRejected)
	// Where nothing ever answered, insisting would only hide a wrong address.
	stranger := !s.clock.known() && protocol.NoConnection(err)
	s.lastErr = err
	now := clock.Now()
	for _, o := range f.ops {
		if o.Verb == protocol.Renew {
			o.claim.last = err // why the lease will have been lost, if no other try succeeds
		}
		if unknown {
			o.tries++
			if o.Verb == protocol.Acquire {
				o.claim.late = now.Add(protocol.Late)
			}
		}
	}
	releases, pending := s.releases, s.pending
	s.releases, s.pending = nil, nil
	for i, o := range slices.Concat(f.ops, releases, pending) {
		if rejected && i < len(f.ops) || stranger && o.Verb == protocol.Acquire {
			s.abort(o, err)
		} else {
			s.insist(o, now, err)
		}
	}
	if rejected {
		return
	}
	// A connection that broke while idle says nothing about Redis: once, at once.
	if s.pause > 0 || !unknown {
		s.retryAt = now.Add(s.pause/2 + rand.N(max(s.pause, leastPause)))
	}
	s.pause = min(max(2*s.pause, leastPause), mostPause)
	s.wakeBy(s.patience())
}

// insist puts o back in line, or ends it for want of time, err being why there is
// no answer. Whoever has waited long enough is told so meanwhile.
func (s *Semaphore) insist(o *op, now clock.Instant, err error) {
	if now >= o.giveUp || o.pointless() {
		s.abort(o, err)
		return
	}
	if now >= o.answer {
		o.finish(o.verdict(err)) // it goes on in the background
	}
	s.line(o)
}

// endure ends what has no time to wait for the next call. s.mu is held.
func (s *Semaphore) endure(now clock.Instant) {
	if now >= s.retryAt {
		return // that call is about to start, or under way
	}
	releases, pending := s.releases, s.pending
	s.releases, s.pending = nil, nil
	for _, o := range slices.Concat(releases, pending) {
		s.insist(o, now, s.lastErr)
	}
}

// patience is when the first of those in line, or who waits for it, gives up if
// nothing answers.
func (s *Semaphore) patience() clock.Instant {
	first := clock.Never
	for _, o := range slices.Concat(s.releases, s.pending) {
		first = min(first, o.giveUp)
		if o.done != nil {
			first = min(first, o.answer)
		}
	}
	return first
}

// pointless reports whether nobody needs the operation any more.
func (o *op) pointless() bool {
	switch o.Verb {
	case protocol.Acquire:
		return o.claim.state != asking
	case protocol.Renew:
		return o.claim.state != held && o.claim.state != confirming && o.claim.state != adopting
	case protocol.Heartbeat:
		return o.claim.state != queued
	default:
		return false
	}
}
