package fault_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/berthadmin"
	"github.com/berth-go/berth/internal/testkit/redistest"
	"github.com/berth-go/berth/internal/testkit/testenv"
)

// operation is one of the protocol's, used through the public API while a fault
// strikes the request that carries it. It must have the result that it has
// without the fault, and give back what it took.
type operation struct {
	name string
	verb string
	ttl  time.Duration // on a real machine, which may be slow
	run  func(l *lab, strike func() *redistest.Injection)
}

// Nothing runs out within long. In soon, a renewal and heartbeats come.
const (
	long = 5 * time.Minute
	soon = 15 * time.Second
)

// The longest are the first.
var operations = []operation{
	{"renewal", "R", soon, struckRenewal},
	{"heartbeat", "H", soon, struckHeartbeat},
	{"acquire granted", "A", long, struckGrant},
	{"acquire queued", "A", long, struckQueue},
	{"acquire busy", "A", long, struckBusy},
	{"acquire given up", "A", long, struckGivenUp},
	{"cancel", "L", long, struckCancel},
	{"release", "L", long, struckRelease},
	{"release with a waiter", "L", long, struckHandOff},
	{"renew", "R", long, struckRenew},
	{"adopt", "M", long, struckAdopt},
	{"close", "L", long, struckClose},
}

// faults are what can happen to one request. All of them leave the caller of a
// library that asks once in the dark.
var faults = map[string]redistest.Fault{
	"reply lost, connection hangs":   redistest.SwallowReply,
	"reply lost, connection closed":  redistest.SwallowReplyAndClose,
	"request lost, connection hangs": redistest.SwallowRequest,
	"connection reset":               redistest.Reset,
	"sent twice":                     redistest.Duplicate,
}

// strike is one fault upon one operation.
type strike struct {
	operation
	fault string
}

func strikes(ops []operation) (all []strike) {
	for _, op := range ops {
		for fault := range faults {
			all = append(all, strike{op, fault})
		}
	}
	return all
}

// TestRequestStruck: no fault of a single request takes a second permit, leaks
// one, or tells the caller anything but what happened.
func TestRequestStruck(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	testenv.SideBySide(t, strikes(operations), strike.String, func(t *testing.T, s strike) {
		inBubble(t, s.test)
	})
	testenv.SideBySide(t, strikes(operations), func(s strike) string { return "real: " + s.String() }, func(t *testing.T, s strike) {
		onServer(t, server, s.test)
	})
}

func (s strike) String() string { return s.name + ": " + s.fault }

func (s strike) test(l *lab) {
	if !l.Exact {
		l.TTL = s.ttl
	}
	var injection *redistest.Injection
	s.run(l, func() *redistest.Injection {
		injection = l.net.Inject(redistest.Rule{Match: testenv.Carries(s.verb), Fault: faults[s.fault]})
		return injection
	})
	if injection.Hits() != 1 {
		l.Errorf("the fault struck %d times", injection.Hits())
	}
}

// struckGrant: however the request fares, the caller has one lease and the
// server one holder.
func struckGrant(l *lab, strike func() *redistest.Injection) {
	s := l.sem(l.faulty(), 2)
	strike()
	lease := l.Hold(s)
	st := l.Show()
	if st.InUse != 1 || st.Holders != 1 || st.Leases[0].ID != lease.ID() || st.Leases[0].Token != lease.Token() {
		l.Errorf("the server has %+v, the caller %s with token %d", st, lease.ID(), lease.Token())
	}
	l.checkTrust(lease)
	l.Release(lease)
	l.NothingLeft(2, lease.Token())
}

// checkTrust: the only lease is valid, and its holder believes no longer in it
// than the server does.
func (l *lab) checkTrust(lease *berth.Lease) {
	l.Helper()
	until := lease.ValidUntil()
	left := l.Show().Leases[0].ExpiresIn
	if expires := time.Now().Add(left); !lease.Valid() || until.After(expires) {
		l.Errorf("valid: %v, until %v, on the server until %v", lease.Valid(), until, expires)
	}
}

func struckQueue(l *lab, strike func() *redistest.Injection) {
	holder := l.Hold(l.sem(l.healthy(), 1))
	strike()
	waiting := l.queued(l.Ctx, l.sem(l.faulty(), 1), 1)
	// Behind it stands one that a second place of it would keep waiting.
	behind := l.queued(l.Ctx, l.sem(l.healthy(), 1), 2)
	l.Release(holder)
	first := l.granted(waiting)
	if first.Token() <= holder.Token() {
		l.Errorf("token %d after %d", first.Token(), holder.Token())
	}
	l.Release(first)
	second := l.granted(behind)
	l.Release(second)
	l.NothingLeft(1, second.Token())
}

func struckBusy(l *lab, strike func() *redistest.Injection) {
	holder := l.Hold(l.sem(l.healthy(), 1))
	s := l.sem(l.faulty(), 1)
	strike()
	err := l.Timely(func() error {
		_, err := s.TryAcquire(l.Ctx)
		return err
	})
	var busy *berth.BusyError
	if !errors.As(err, &busy) || busy.InUse != 1 || busy.Limit != 1 || busy.Waiting != 0 {
		l.Errorf("TryAcquire: %v", err)
	}
	if st := l.Show(); st.InUse != 1 || st.Waiting != 0 {
		l.Errorf("after a refusal the server has %+v", st)
	}
	l.Release(holder)
	l.NothingLeft(1, holder.Token())
}

// struckGivenUp: the caller gives up at once, when the outcome may be unknown.
// It hears so at once, and what was granted comes back long before its TTL.
func struckGivenUp(l *lab, strike func() *redistest.Injection) {
	c := l.faulty()
	s := l.sem(c, 1, berth.TTL(time.Minute))
	l.Release(l.Hold(s)) // connects, and learns the server's clock
	hit := strike().Hit()
	ctx, cancel := context.WithCancel(l.Ctx)
	ch := acquiring(ctx, s)
	testenv.Receive(l, "request", hit)
	cancel()
	start := time.Now()
	o := testenv.Receive(l, "end", ch)
	if took := time.Since(start); took > 100*time.Millisecond && l.Exact {
		l.Errorf("a cancelled Acquire took %v to return", took)
	}
	switch {
	case o.err == nil: // it was faster
		l.Release(o.lease)
	case !errors.Is(o.err, context.Canceled):
		l.Errorf("Acquire: %v", o.err)
	}
	l.waitFor("given back in the background", func() bool { return l.Show().Holders == 0 })
	if took := time.Since(start); took > 15*time.Second && l.Exact {
		l.Errorf("given back after %v", took)
	}
	_ = c.Close() // what it still asks for and gives back is done with
	l.NothingLeft(1, 0)
}

// TestUnreachableTakesBack: no reply to an acquire ever arrives. The caller is
// told that the outcome is not known, and what was granted comes back long
// before its TTL.
func TestUnreachableTakesBack(t *testing.T) {
	everywhere(t, func(l *lab) {
		l.TTL = 10 * time.Minute // no wait of a test is as long
		asked, tries := 0, 20    // a slow machine may not ask again within the 2 seconds
		if l.Exact {
			tries = 1
		}
		for ; asked < 2 && tries > 0; tries-- {
			asked = l.unanswered()
		}
		if asked < 2 {
			l.Errorf("asked %d times", asked)
		}
		l.NothingLeft(1, 0)
	})
}

// unanswered makes a TryAcquire without a reply, waits until what it was granted is given back, and
// returns how often it asked. It uses a client of its own, in which no call hangs: those are
// bounded, and then it asks less.
func (l *lab) unanswered() (asked int) {
	s := l.sem(l.Client(l.connect(l.net, l.ready)), 1)
	if !l.Exact {
		l.Release(l.Hold(s)) // to get ready alone, a slow machine may need more than the 2 seconds
	}
	lost := l.net.Inject(redistest.Rule{Match: testenv.Carries("A"), Fault: redistest.SwallowReply, Times: -1})
	defer lost.Stop()
	if _, err := s.TryAcquire(l.Ctx); !errors.Is(err, berth.ErrUnreachable) {
		l.Errorf("TryAcquire: %v", err)
	}
	asked = lost.Hits()
	l.waitFor("given back in the background", func() bool { return l.Show().Holders == 0 })
	return asked
}

// TestCorruptKeyIsToldAfterALostRequest: what the server says at last counts, not that
// it was silent before.
func TestCorruptKeyIsToldAfterALostRequest(t *testing.T) {
	everywhere(t, func(l *lab) {
		s := l.sem(l.Client(l.connect(l.net, l.ready)), 1)
		l.Release(l.Hold(s)) // its first call of all carries nothing
		l.Must(l.Redis.Del(l.Ctx, l.Prefix+":{s}:order").Err())
		l.Must(l.Redis.Set(l.Ctx, l.Prefix+":{s}", "foreign", 0).Err())
		for what, acquire := range map[string]func(context.Context, ...berth.AcquireOption) (*berth.Lease, error){
			"Acquire": s.Acquire, "TryAcquire": s.TryAcquire,
		} {
			var lost *redistest.Injection
			err := l.Timely(func() error {
				lost = l.net.Inject(redistest.Rule{Match: testenv.Carries("A"), Fault: redistest.SwallowRequest})
				_, err := acquire(l.Ctx)
				lost.Stop() // or it waits for the next attempt
				return err
			})
			if !errors.Is(err, berth.ErrCorrupt) || errors.Is(err, berth.ErrUnreachable) || lost.Hits() != 1 {
				l.Errorf("%s: told %v; requests lost: %d", what, err, lost.Hits())
			}
		}
	})
}

func struckCancel(l *lab, strike func() *redistest.Injection) {
	holder := l.Hold(l.sem(l.healthy(), 1))
	ctx, cancel := context.WithCancel(l.Ctx)
	waiting := l.queued(ctx, l.sem(l.faulty(), 1), 1)
	behind := l.queued(l.Ctx, l.sem(l.healthy(), 1), 2)
	strike()
	cancel()
	if o := testenv.Receive(l, "end of the wait", waiting); !errors.Is(o.err, context.Canceled) {
		l.Errorf("a cancelled Acquire returned %v", o.err)
	}
	l.waitFor("out of the queue", func() bool { return l.Show().Waiting == 1 })
	l.Release(holder)
	lease := l.granted(behind)
	l.Release(lease)
	l.NothingLeft(1, lease.Token())
}

func struckRelease(l *lab, strike func() *redistest.Injection) {
	lease := l.Hold(l.sem(l.faulty(), 1))
	strike()
	l.Release(lease)
	if st := l.Show(); st.Holders != 0 {
		l.Errorf("after Release the server has %+v", st)
	}
	if err := lease.Release(); !errors.Is(err, berth.ErrReleased) {
		l.Errorf("second Release: %v", err)
	}
	l.NothingLeft(1, lease.Token())
}

// struckHandOff: a release that is repeated frees nothing of the next holder.
func struckHandOff(l *lab, strike func() *redistest.Injection) {
	holder := l.Hold(l.sem(l.faulty(), 1))
	waiting := l.queued(l.Ctx, l.sem(l.healthy(), 1), 1)
	behind := l.queued(l.Ctx, l.sem(l.healthy(), 1), 2)
	strike()
	l.Release(holder)
	next := l.granted(waiting)
	st := l.Show()
	if st.Holders != 1 || st.Leases[0].ID != next.ID() || st.Waiting != 1 {
		l.Errorf("the server has %+v, the next holder is %s", st, next.ID())
	}
	l.Release(next)
	last := l.granted(behind)
	l.Release(last)
	l.NothingLeft(1, last.Token())
}

func struckRenew(l *lab, strike func() *redistest.Injection) {
	lease := l.Hold(l.sem(l.faulty(), 1, berth.WithoutRenewal()))
	before := lease.ValidUntil()
	strike()
	if err := l.Timely(func() error { return lease.Renew(l.Ctx) }); err != nil {
		l.Errorf("Renew: %v", err)
	}
	l.checkTrust(lease)
	if until := lease.ValidUntil(); until.Before(before.Add(-time.Millisecond)) {
		l.Errorf("renewed, it is valid until %v, and was until %v", until, before)
	}
	l.Release(lease)
	l.NothingLeft(1, lease.Token())
}

// struckRenewal: one renewal that fails does not end the renewing. A real machine may stand
// still until the lease is lost: then it is tried with another one.
func struckRenewal(l *lab, strike func() *redistest.Injection) {
	s := l.sem(l.faulty(), 1)
	l.Must(l.InTime(func() error {
		lease := l.Hold(s)
		until := lease.ValidUntil()
		struck := strike()
		defer struck.Stop()
		select {
		case <-struck.Hit():
		case <-lease.Context().Done():
		}
		l.waitFor("renewed nevertheless", func() bool {
			return lease.Context().Err() != nil || lease.ValidUntil().After(until.Add(l.TTL/4))
		})
		if err := context.Cause(lease.Context()); err != nil {
			_ = lease.Release() // it is lost
			return err
		}
		l.Release(lease)
		l.NothingLeft(1, lease.Token())
		return nil
	}))
}

// struckHeartbeat: one heartbeat that fails costs a waiter nothing.
func struckHeartbeat(l *lab, strike func() *redistest.Injection) {
	holder := l.Hold(l.sem(l.healthy(), 1))
	waiting := l.queued(l.Ctx, l.sem(l.faulty(), 1), 1)
	behind := l.queued(l.Ctx, l.sem(l.healthy(), 1), 2)
	id := l.Show().Queue[0].ID
	testenv.Receive(l, "heartbeat", strike().Hit())
	<-time.After(l.TTL) // longer than it lives without heartbeats
	if st := l.Show(); st.Waiting != 2 || st.Queue[0].ID != id {
		l.Errorf("after the heartbeat the server has %+v", st)
	}
	l.Release(holder)
	first := l.granted(waiting)
	l.Release(first)
	second := l.granted(behind)
	l.Release(second)
	l.NothingLeft(1, second.Token())
}

func struckAdopt(l *lab, strike func() *redistest.Injection) {
	var lease *berth.Lease
	l.Must(l.Timely(func() error { // of a handle that may have been adopted there is no other try
		if err := l.Inspector.Purge(l.Ctx, testenv.Name); err != nil && !errors.Is(err, berthadmin.ErrNotFound) {
			return err
		}
		handle, err := l.Hold(l.sem(l.healthy(), 1)).Detach(l.Ctx)
		if err != nil {
			return err
		}
		struck := strike()
		lease, err = l.faulty().Adopt(l.Ctx, handle)
		struck.Stop()
		return err
	}))
	if st := l.Show(); st.Holders != 1 || st.Leases[0].ID != lease.ID() || !lease.Valid() {
		l.Errorf("the server has %+v, adopted is %s, valid: %v", st, lease.ID(), lease.Valid())
	}
	l.Release(lease)
	l.NothingLeft(1, lease.Token())
}

// struckClose: Close gives everything back, although one request is lost.
func struckClose(l *lab, strike func() *redistest.Injection) {
	c := l.faulty()
	lease := l.Hold(l.sem(c, 1))
	waiting := l.queued(l.Ctx, l.sem(c, 1), 1)
	behind := l.queued(l.Ctx, l.sem(l.healthy(), 1), 2)
	held := lease.Context()
	strike()
	_ = c.Close()
	if cause := context.Cause(held); !errors.Is(cause, berth.ErrClosed) {
		l.Errorf("the lease ended with %v", cause)
	}
	if o := testenv.Receive(l, "end of the wait", waiting); !errors.Is(o.err, berth.ErrClosed) {
		l.Errorf("Acquire returned %v", o.err)
	}
	next := l.granted(behind)
	l.Release(next)
	l.NothingLeft(1, next.Token())
}
