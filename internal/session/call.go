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

// sending is a call that a worker makes.
type sending struct {
	protocol.Call
	sem    *Semaphore
	of     *commit.Call[*Request]
	latest clock.Instant // at which it may be executed, if it is to be bounded
	asks   clock.Instant // when it asked for the server's time, before it is sent itself; 0: it does not
}

// next returns the next call, which carries all that is wanted by now; nil: nothing is, any more.
func (s *Semaphore) next() *sending {
	s.mu.Lock()
	defer s.unlock()
	if s.woken > 1 {
		s.gather()
	}
	s.lined = false
	call := s.queue.Next(clock.Now(), (*Request).want)
	if call == nil {
		return nil
	}
	askPlace(call.Wire)
	c := &sending{sem: s, of: call, latest: call.Sent.Add(max(s.underWay, leastUnderWay))}
	c.Key = s.key
	c.bound()
	return c
}

// gather lets those whom the last answer has woken put in their next operations first: else the
// first of them, or what came before them, would be a call of its own, and all others would wait for
// its answer. It saves a fifth of the time of 16 goroutines on one semaphore. s.mu is held, and free
// in between.
func (s *Semaphore) gather() {
	for i := 0; i < mostYields && s.queue.Len() < s.woken; i++ {
		s.mu.Unlock()
		s.session.workers.yield()
		s.mu.Lock()
	}
	s.woken = 0
}

// mostYields is how often gather lets others run.
const mostYields = 2

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

// bound makes c ready to be sent. It is bounded only if it has operations of which a late copy does
// harm. Until the server's clock has been seen, or when that was long ago, too little can be said
// about the latest time at which a copy may run; so an empty call comes first.
func (c *sending) bound() {
	c.Ops = c.of.Wire
	if !slices.ContainsFunc(c.of.Ops, harmsLate) {
		return
	}
	if latest, sharp := c.sem.clock.Latest(c.latest); sharp {
		c.NotAfter = latest
	} else {
		c.Ops, c.asks = nil, clock.Exact()
	}
}

// told handles the outcome of an empty call, whose answer tells the server's time, and reports whether
// what was to follow is to be sent now. If not, c.Err says that nothing of that was sent.
func (c *sending) told() bool {
	s := c.sem
	if c.Err == nil {
		got := clock.Exact()
		s.session.hearAt(got)
		s.seeClock(&c.Reply, c.asks, got)
		c.asks, c.Ops = 0, c.of.Wire
		c.NotAfter, _ = s.clock.Latest(c.latest)
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.queue.InFlight() == c.of {
			return true
		}
		c.Err = protocol.NoAnswer()
	}
	c.Err = unsent(c.Err)
	return false
}

// harmsLate reports whether a late copy of the operation that is sent could take, or do, what nobody
// wants any more.
func harmsLate(op *commit.Op[*Request]) bool {
	switch op.Of.claim.State {
	case claim.Asking, claim.Adopting, claim.Detaching, claim.Doing:
		return true
	default:
		return false
	}
}

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

// complete handles the outcome of call.
func (s *Semaphore) complete(call *commit.Call[*Request], reply protocol.Reply, err error) {
	got := clock.Exact()
	if reply.Now != 0 {
		s.session.hearAt(got)
	}
	s.mu.Lock()
	defer s.unlock()
	if reply.Now != 0 {
		s.seeClock(&reply, call.Sent, got)
		s.queue.Took = got.Sub(call.Sent)
	}
	a := &claim.Answer{Sent: call.Sent, Got: got, Reply: reply}
	switch inTime := s.queue.Return(call); {
	case inTime && err != nil:
		s.failed(call, err)
		s.queue.Reuse(call)
	case inTime:
		s.answered(call, a)
		s.queue.Reuse(call)
	case err == nil:
		s.answeredLate(call, a)
	}
}

// answeredLate passes on the answer to a call that was given up: its operations were sent again,
// or are about to be, but what the server did is as true as if it had been told in time.
func (s *Semaphore) answeredLate(call *commit.Call[*Request], a *claim.Answer) {
	s.queue.AnsweredLate()
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
	s.woken = len(call.Ops)
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
	if len(s.watchers) > 0 {
		s.tellWatchers(a)
	}
}

// warnOfLimit logs that a declaration of this process replaced another limit, or another rate.
func (s *Semaphore) warnOfLimit(call *commit.Call[*Request], a *claim.Answer) {
	const often = time.Minute
	limit := a.Was != 0 && a.Was != a.Declared
	rate := a.WasRates != "" && a.WasRates != a.Rates
	if !limit && !rate || s.warned != 0 && a.Got.Sub(s.warned) < often {
		return
	}
	for i := range call.Wire {
		t := call.Wire[i].Terms
		if t != nil && rate && t.Rates != "" && t.Rates == a.Rates {
			s.warned = a.Got
			s.session.log.Warn("berth: a declaration changed the rate in force", "semaphore", s.name, "from", a.WasRates.Text(), "to", a.Rates.Text())
			return
		}
		if t != nil && limit && t.Limit == a.Declared {
			s.warned = a.Got
			s.session.log.Warn("berth: a declaration changed the limit in force", "semaphore", s.name, "from", a.Was, "to", a.Declared)
			return
		}
	}
}

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
		if rejected || hopeless && (wire.Verb == protocol.Acquire || r.claim.State == claim.Doing) {
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
		op := &call.Wire[i]
		renews = renews || op.Verb == protocol.Renew && op.TTL > 0 // a lease of this process, and no handle's
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
	for {
		r, at := s.deadlines.First()
		if at > now && (at == clock.Never || !r.claim.Soon(now)) {
			break
		}
		r.claim.Alive = s.session.alive()
		if r.claim.Unexplained(now) {
			r.claim.Explain(s.noAnswer(nil))
		}
		s.apply(r, r.claim.Tick(now))
	}
}
