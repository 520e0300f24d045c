package session

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/berth-go/berth/internal/claim"
	"github.com/berth-go/berth/internal/clock"
	"github.com/berth-go/berth/internal/commit"
	"github.com/berth-go/berth/internal/protocol"
)

// dispatch readies a call if there is something to send, none is in flight and no pause is
// on, and sets the alarm. s.mu is held; unlock starts the call.
func (s *Semaphore) dispatch() {
	if call := s.next(); call != nil {
		s.starting, s.doubtAt = call, doubtful(call)
	}
	s.rearm()
}

// next returns the next call. Most of the time one is in flight, which is all that it looks at.
func (s *Semaphore) next() *commit.Call[*Request] {
	if !s.queue.Ready() {
		return nil
	}
	call := s.queue.Next(clock.Now(), (*Request).want)
	if call != nil {
		askPlace(call.Wire)
		s.prepare(call)
	}
	return call
}

// askPlace makes the first heartbeat of a call ask for its place, and so for how long the one in
// front of it keeps its own. It is mostly the foremost of this process. For each it would be dear.
func askPlace(ops []protocol.Op) {
	for i := range ops {
		if op := &ops[i]; op.Verb == protocol.Heartbeat && op.TTL > 0 {
			op.Flag = true
			return
		}
	}
}

// want returns the operation that r wants at now, and how long its call may take.
func (r *Request) want(now clock.Instant) (protocol.Op, time.Duration, bool) {
	op, ok := r.claim.Op(now)
	return op, r.claim.Patience(now), ok
}

// How long after its sending an acquire, or a move, may be executed. What a client that died
// had under way holds permits that nobody uses, so this is little, until Redis says that a call
// came too late: then it doubles, up to the second. The release of what nobody wants any more
// leaves a tombstone, which must last longer than that, even where little is known of the
// server's clock; or this does not compile.
const (
	leastUnderWay = 2 * time.Second
	mostUnderWay  = 8 * time.Second
)

const _ = uint(protocol.Late - mostUnderWay - clock.Vague)

// prepare makes the trip of call. It is bounded only if it has operations of which a late copy
// does harm. Until the server's clock has been seen, or when that was long ago, too little can
// be said about the latest time at which a copy may run; so an empty trip comes first.
func (s *Semaphore) prepare(call *commit.Call[*Request]) {
	ctx := &bounded{s.session.ctx, time.Now().Add(useful(call))}
	run := func(notAfter int64) *protocol.Trip {
		return s.session.store.Trip(ctx, s.key, notAfter, call.Wire, func(reply protocol.Reply, err error) { s.complete(call, reply, err) })
	}
	latest := call.Sent.Add(max(s.underWay, leastUnderWay))
	switch {
	case !slices.ContainsFunc(call.Wire, takes):
		call.Trip = run(0)
	case s.clock.Sharp(latest):
		call.Trip = run(s.clock.Latest(latest))
	default:
		sent := clock.Exact()
		call.Trip = s.session.store.Trip(ctx, s.key, 0, nil, func(reply protocol.Reply, err error) {
			if err != nil {
				s.complete(call, reply, unsent(err))
				return
			}
			s.seeClock(&reply, sent, clock.Exact())
			if !s.follow(call, run(s.clock.Latest(latest))) {
				s.complete(call, reply, protocol.ErrUnsent())
			}
		})
	}
}

// takes reports whether a late copy of op could take what nobody wants any more.
func takes(op protocol.Op) bool { return op.Verb == protocol.Acquire || op.Verb == protocol.Move }

// Bounds of how long a call is worth a connection. One that has to connect waits for several
// answers: with less for a short TTL, a slow Redis could never be reached. It is what go-redis
// gives a dial.
const (
	leastUseful = 5 * time.Second
	mostUseful  = 30 * time.Second
)

// useful is how long an answer to call, which may come late, is likely to be of use.
func useful(call *commit.Call[*Request]) time.Duration {
	return min(max(3*call.Deadline.Sub(call.Sent), leastUseful), mostUseful)
}

// follow starts the second trip of a call, unless the call was given up.
func (s *Semaphore) follow(call *commit.Call[*Request], trip *protocol.Trip) bool {
	s.mu.Lock()
	wanted := s.queue.InFlight() == call
	if wanted {
		call.Trip = trip
	}
	s.mu.Unlock()
	if wanted {
		s.start(trip)
	}
	return wanted
}

// start puts a trip on its way. s.mu is free.
func (s *Semaphore) start(trip *protocol.Trip) {
	if flight := trip.Start(); flight != nil {
		s.session.workers.do(flight)
	}
}

// bounded is a context with a deadline for those that ask for one, as go-redis does
// with ContextTimeoutEnabled. It needs no timer of its own: the call is given up
// before its deadline in any case.
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

// complete handles the outcome of call, and starts the next one if there is one.
func (s *Semaphore) complete(call *commit.Call[*Request], reply protocol.Reply, err error) {
	got := clock.Exact()
	if reply.Now != 0 {
		s.session.heard.Store(int64(got))
	}
	s.mu.Lock()
	defer s.unlock()
	if reply.Now != 0 {
		s.seeClock(&reply, call.Sent, got)
	}
	if s.queue.Return(call) {
		s.outcome(call, reply, err, got)
		s.queue.Reuse(call)
	} else {
		s.lateOutcome(call, reply, err, got)
	}
	s.dispatch()
}

// outcome passes on the outcome of a call, which came at got.
func (s *Semaphore) outcome(call *commit.Call[*Request], reply protocol.Reply, err error, got clock.Instant) {
	if err != nil {
		s.failed(call, err)
	} else {
		s.answered(call, &claim.Answer{Sent: call.Sent, Got: got, Reply: reply})
	}
}

// lateOutcome passes on the answer to a call that was given up: its operations were sent again,
// or are about to be, but what the server did is as true as if it had been told in time.
func (s *Semaphore) lateOutcome(call *commit.Call[*Request], reply protocol.Reply, err error, got clock.Instant) {
	if err != nil {
		return
	}
	s.queue.AnsweredLate()
	a := &claim.Answer{Sent: call.Sent, Got: got, Reply: reply}
	for i, op := range call.Ops {
		s.apply(op.Of, op.Of.claim.AnsweredLate(&call.Wire[i], a))
	}
}

// seeClock takes the server's time from a reply, and logs if the server's clock was stepped.
func (s *Semaphore) seeClock(reply *protocol.Reply, sent, got clock.Instant) {
	if step := s.clock.See(reply.Now, sent, got); step.Abs() > time.Second {
		s.session.log.Warn("berth: the server's clock was stepped; leases may end early or late", "by", step)
	}
}

// answered tells the claims what the server did.
func (s *Semaphore) answered(call *commit.Call[*Request], a *claim.Answer) {
	s.queue.Answered()
	s.session.askPolicyAgain(a.Got)
	if a.Got.Sub(a.Sent) < leastUnderWay/2 {
		s.underWay = 0
	}
	if a.More {
		s.queue.Probe()
	}
	for i, op := range call.Ops {
		s.apply(op.Of, op.Of.claim.Answered(&call.Wire[i], a))
	}
	s.warnOfLimit(call, a)
	s.session.warnOfTTL(s.name, call, a.Got.Sub(a.Sent))
	seen := Sighting{Others: max(a.Waiting-s.waiting, 0), Here: s.waiting, Excess: max(a.Used-a.Limit(), 0)}
	if a.Paused {
		seen.Excess = a.Used
	}
	for f := range s.watchers {
		s.later(func() { (*f)(seen) })
	}
}

// warnOfLimit logs that a declaration of this process replaced another limit, or another rate.
func (s *Semaphore) warnOfLimit(call *commit.Call[*Request], a *claim.Answer) {
	const often = time.Minute
	limit := a.Was != 0 && a.Was != a.Declared
	rate := a.WasRate.N != 0 && a.WasRate != a.Rate
	if !limit && !rate || s.warned != 0 && a.Got.Sub(s.warned) < often {
		return
	}
	for i := range call.Wire {
		t := call.Wire[i].Terms
		if t != nil && rate && t.Rate == a.Rate {
			s.warned = a.Got
			s.session.log.Warn("berth: a declaration changed the rate in force", "semaphore", s.name, "from", a.WasRate, "to", a.Rate)
			return
		}
		if t != nil && limit && t.Limit == a.Declared {
			s.warned = a.Got
			s.session.log.Warn("berth: a declaration changed the limit in force", "semaphore", s.name, "from", a.Was, "to", a.Declared)
			return
		}
	}
}

// warnOfTTL logs, once for all semaphores, that a lease lasts for too few round trips to be kept
// when one of them fails.
func (s *Session) warnOfTTL(name string, call *commit.Call[*Request], trip time.Duration) {
	if trip < shortestTrip || s.short.Load() {
		return
	}
	for i := range call.Wire {
		ttl := call.Wire[i].TTL
		if call.Wire[i].Verb == protocol.Renew && ttl < leastTrips*trip && s.short.CompareAndSwap(false, true) {
			s.log.Warn("berth: the TTL is short for the time that Redis takes to answer: leases may be lost", "semaphore", name, "ttl", ttl, "answer_took", trip)
			return
		}
	}
}

// A TTL below leastTrips round trips is worth a warning, unless they are so short that this
// process, and not the network, takes the time. A renewal that needs a new connection takes three
// of them, and begins when one third is over.
const (
	leastTrips   = 5
	shortestTrip = 5 * time.Millisecond
)

// failed tells the claims that nothing happened, or that the outcome is not known.
func (s *Semaphore) failed(call *commit.Call[*Request], err error) {
	now := clock.Now()
	if protocol.TooLate(err) {
		s.underWay = min(2*max(s.underWay, leastUnderWay), mostUnderWay)
	}
	rejected := errors.Is(err, protocol.ErrRejected)
	// If nothing ever answered, retrying would only hide a wrong address. And what the client itself
	// refuses is not for berth to try again; only whoever holds or waits does, as in an outage.
	hopeless := s.session.heard.Load() == 0 && protocol.NoConnection(err) || protocol.ByClient(err)
	for i, op := range call.Ops {
		r, wire := op.Of, &call.Wire[i]
		if rejected || hopeless && wire.Verb == protocol.Acquire {
			s.apply(r, r.claim.Rejected(wire, err, now))
		} else {
			s.apply(r, r.claim.Failed(wire, err, now))
		}
	}
	s.session.warnOfRenewal(s.name, call, err, now)
	s.queue.Failed(now, err)
}

// warnOfRenewal logs that leases of a semaphore are not renewed, once a minute for all
// semaphores together, because an outage concerns them all.
func (s *Session) warnOfRenewal(name string, call *commit.Call[*Request], err error, now clock.Instant) {
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
	s.alarm.Rang()
	now := clock.Exact()
	if call := s.queue.Overdue(now); call != nil {
		s.giveUp(call)
	}
	starved := s.starved()
	if s.inDoubt() <= now {
		s.doubtAt = clock.Never
		s.session.doubt()
	}
	for {
		r, at := s.deadlines.First()
		if at > now && (at == clock.Never || !r.claim.Soon(now)) {
			break
		}
		r.claim.Alive, r.claim.Starved = s.session.alive(), starved
		s.apply(r, r.claim.Tick(now))
	}
	s.dispatch()
}

// giveUp ends the wait for a call. What has not left this process is taken back; else the
// outcome is unknown until it comes.
func (s *Semaphore) giveUp(call *commit.Call[*Request]) {
	dropped := call.Trip.Drop() // it is not used again: another goroutine may be about to start it
	starved := s.starved()
	s.queue.GiveUp(!dropped)
	switch {
	case dropped && starved:
		s.failed(call, unsent(protocol.NoConnectionFree()))
	case dropped:
		s.failed(call, protocol.ErrUnsent())
	case starved:
		s.failed(call, protocol.NoConnectionFree())
	default:
		s.mayBeDead(call)
		s.failed(call, protocol.NoAnswer())
	}
}

// rearm sets the alarm for what comes next. s.mu is held.
func (s *Semaphore) rearm() {
	_, next := s.deadlines.First()
	s.alarm.Set(min(next, s.queue.Wakeup(), s.inDoubt()))
}
