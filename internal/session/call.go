package session

import (
	"context"
	"errors"
	"time"

	"github.com/berth-go/berth/internal/claim"
	"github.com/berth-go/berth/internal/clock"
	"github.com/berth-go/berth/internal/commit"
	"github.com/berth-go/berth/internal/protocol"
)

// dispatch starts a call if there is something to send, none is in flight and no
// pause is on, and sets the alarm. s.mu is held.
func (s *Semaphore) dispatch() {
	if call := s.next(); call != nil {
		s.session.workers.do(job{s, call})
	}
	s.rearm()
}

// mostHanging bounds the goroutines that wait for a client which never returns.
const mostHanging = 8

// next returns the next call. Most of the time one is in flight, which is all that it looks at.
func (s *Semaphore) next() *commit.Call[*Claim] {
	if s.stopped || s.hanging == mostHanging || s.queue.Busy() {
		return nil
	}
	return s.queue.Next(clock.Now(), (*Claim).want)
}

// want returns the operation that c wants at now, and how long its call may take.
func (c *Claim) want(now clock.Instant) (protocol.Op, time.Duration, bool) {
	op, ok := c.m.Op(now)
	return op, c.m.Patience(), ok
}

// run makes calls until there is nothing left to send.
func (s *Semaphore) run(call *commit.Call[*Claim]) {
	for call != nil {
		reply, err := s.send(call)
		call = s.complete(call, reply, err)
	}
}

// send makes one call. Until the server's clock has been seen, or when that was long ago, too
// little can be said about the latest time at which a copy may run; so an empty call comes
// first.
func (s *Semaphore) send(call *commit.Call[*Claim]) (protocol.Reply, error) {
	wait := call.Deadline.Sub(call.Sent)
	ctx := &bounded{s.session.ctx, time.Now().Add(wait)}
	if !s.clock.Sharp(call.Deadline) {
		sent := clock.Exact()
		reply, err := s.session.store.Do(ctx, s.key, 0, nil)
		if err != nil {
			return reply, unsent(err)
		}
		s.seeClock(&reply, sent, clock.Exact())
	}
	return s.session.store.Do(ctx, s.key, s.clock.Latest(call.Deadline), call.Wire)
}

// bounded is a context with a deadline for those that ask for one, as go-redis does
// with ContextTimeoutEnabled. It needs no timer of its own: the call is given up at
// its deadline in any case.
type bounded struct {
	context.Context //nolint:containedctx // this is a context
	deadline        time.Time
}

// Deadline implements context.Context.
func (b *bounded) Deadline() (time.Time, bool) { return b.deadline, true }

// unsent turns a failure before any operation was sent into a refusal.
func unsent(err error) error {
	if f, ok := errors.AsType[*protocol.Failure](err); ok && errors.Is(f, protocol.ErrUnknown) {
		return &protocol.Failure{Kind: protocol.ErrRefused, Err: f.Err}
	}
	return err
}

// complete handles the outcome of call and returns the next one, if there is one. The
// outcome of a call that was given up is dropped: its operations have been sent again,
// which is harmless.
func (s *Semaphore) complete(call *commit.Call[*Claim], reply protocol.Reply, err error) *commit.Call[*Claim] {
	got := clock.Exact()
	if reply.Now != 0 {
		s.session.heard.Store(int64(got))
	}
	s.mu.Lock()
	defer s.unlock()
	if s.queue.Return(call) {
		s.take(call, reply, err, got)
	} else {
		s.hanging--
	}
	next := s.next()
	s.rearm()
	return next
}

// take passes on the outcome of a call, which came at got.
func (s *Semaphore) take(call *commit.Call[*Claim], reply protocol.Reply, err error, got clock.Instant) {
	if reply.Now != 0 {
		s.seeClock(&reply, call.Sent, got)
	}
	s.lastErr = err
	if err != nil {
		s.failed(call, err)
	} else {
		s.answered(call, &claim.Answer{Sent: call.Sent, Got: got, Reply: reply})
	}
	s.queue.Reuse(call)
}

// seeClock takes the server's time from a reply, and logs if the server's clock was stepped.
func (s *Semaphore) seeClock(reply *protocol.Reply, sent, got clock.Instant) {
	if step := s.clock.See(reply.Now, sent, got); step.Abs() > time.Second {
		s.session.log.Warn("berth: the server's clock was stepped; leases may end early or late", "by", step)
	}
}

// answered tells the claims what the server did.
func (s *Semaphore) answered(call *commit.Call[*Claim], a *claim.Answer) {
	s.queue.Succeeded()
	s.nearest = clock.Never
	if a.Next > 0 {
		// Counted from the reply, the server's clock has certainly reached it by then.
		s.nearest = a.Got.Add(time.Duration(a.Next-a.Now+1) * time.Millisecond)
	}
	if a.More {
		s.queue.Probe()
	}
	for i, op := range call.Ops {
		s.do(op.Of, func() claim.Effect { return op.Of.m.Answered(&call.Wire[i], a) })
	}
	s.warnOfLimit(call, a)
	seen := Sighting{Others: max(a.Waiting-s.waiting, 0), Here: s.waiting, Excess: max(a.Used-a.Limit(), 0)}
	if a.Paused {
		seen.Excess = a.Used
	}
	for f := range s.watchers {
		s.later(func() { (*f)(seen) })
	}
}

// warnOfLimit logs that a declaration of this process replaced another limit.
func (s *Semaphore) warnOfLimit(call *commit.Call[*Claim], a *claim.Answer) {
	const often = time.Minute
	if a.Was == 0 || a.Was == a.Declared || s.warned != 0 && a.Got.Sub(s.warned) < often {
		return
	}
	for i := range call.Wire {
		if t := call.Wire[i].Terms; t != nil && t.Limit == a.Declared {
			s.warned = a.Got
			s.session.log.Warn("berth: a declaration changed the limit in force", "semaphore", s.name, "from", a.Was, "to", a.Declared)
			return
		}
	}
}

// failed tells the claims that nothing happened, or that the outcome is not known.
func (s *Semaphore) failed(call *commit.Call[*Claim], err error) {
	now := clock.Now()
	unknown, rejected := errors.Is(err, protocol.ErrUnknown), errors.Is(err, protocol.ErrRejected)
	// If nothing ever answered, retrying would only hide a wrong address.
	neverConnected := s.session.heard.Load() == 0 && protocol.NoConnection(err)
	for i, op := range call.Ops {
		wire := &call.Wire[i]
		s.do(op.Of, func() claim.Effect {
			if rejected || neverConnected && wire.Verb == protocol.Acquire {
				return op.Of.m.Rejected(wire, err, now)
			}
			return op.Of.m.Failed(wire, err, now)
		})
	}
	s.session.warnOfRenewal(s.name, call, err, now)
	if rejected {
		return
	}
	if s.waiting > 0 { // the call may have been the one that a lease elsewhere had run out for
		s.queue.Probe()
	}
	s.queue.Failed(now, unknown)
}

// warnOfRenewal logs that leases of a semaphore are not renewed, once a minute for all
// semaphores together, because an outage concerns them all.
func (s *Session) warnOfRenewal(name string, call *commit.Call[*Claim], err error, now clock.Instant) {
	renews := false
	for i := range call.Wire { // not a copy: a call that was given up may yet write its Result
		renews = renews || call.Wire[i].Verb == protocol.Renew
	}
	if !renews {
		return
	}
	last := s.unwell.Load()
	if last != 0 && now.Sub(clock.Instant(last)) < time.Minute || !s.unwell.CompareAndSwap(last, int64(now)) {
		return
	}
	s.log.Warn("berth: a renewal failed; it is tried again until the lease cannot be trusted any more", "semaphore", name, "error", err)
}

// tick gives up a call that takes too long, and ticks the claims whose deadlines have come.
func (s *Semaphore) tick() {
	s.mu.Lock()
	defer s.unlock()
	if s.stopped {
		return
	}
	s.alarm.Rang()
	now := clock.Exact()
	if call := s.queue.Overdue(now); call != nil {
		s.queue.Return(call)
		s.hanging++
		s.lastErr = protocol.NoAnswer()
		s.failed(call, s.lastErr)
	}
	for {
		c, at := s.deadlines.First()
		if at > now && (at == clock.Never || !c.m.Soon(now)) {
			break
		}
		s.do(c, func() claim.Effect { return c.m.Tick(now) })
	}
	if s.waiting > 0 && s.nearest <= now {
		s.nearest = clock.Never
		s.queue.Probe()
	}
	s.dispatch()
}

// rearm sets the alarm for what comes next. s.mu is held.
func (s *Semaphore) rearm() {
	_, next := s.deadlines.First()
	if s.hanging < mostHanging { // else the first that returns goes on
		next = min(next, s.queue.Wakeup())
	}
	if s.waiting > 0 {
		next = min(next, s.nearest)
	}
	if !s.stopped {
		s.alarm.Set(next)
	}
}
