package berth_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/internal/redistest"
)

// S5: every operation, with everything that can go wrong on its way.
func TestRepeatedRequestsTakeNothingTwice(t *testing.T) {
	faults := map[string]redistest.Fault{
		"reply lost": redistest.SwallowReply, "reply lost and closed": redistest.SwallowReplyAndClose,
		"request lost": redistest.SwallowRequest, "reset": redistest.Reset, "sent twice": redistest.Duplicate,
	}
	operations := map[string]struct {
		verb string
		run  func(*faulty)
	}{
		"acquire": {"A", (*faulty).acquire}, "queue": {"A", (*faulty).queue}, "release": {"L", (*faulty).release},
		"cancel": {"L", (*faulty).cancel}, "renew": {"R", (*faulty).renew}, "heartbeat": {"H", (*faulty).heartbeat},
	}
	t.Parallel()
	for op, o := range operations {
		for what, fault := range faults {
			t.Run(op+", "+what, func(t *testing.T) {
				each(t, func(_ *testing.T, e *env) {
					o.run(newFaulty(e, redistest.Rule{Match: verb(o.verb), Fault: fault}))
				})
			})
		}
	}
}

// faulty is a process that will meet a fault, beside one that will not.
type faulty struct {
	*env
	rule      redistest.Rule
	p         *peer
	sem       *berth.Semaphore
	other     *berth.Semaphore
	injection *redistest.Injection
}

func newFaulty(e *env, rule redistest.Rule) *faulty {
	ttl := 1200 * time.Millisecond
	if e.exact {
		ttl = e.ttl
	}
	f := &faulty{env: e, rule: rule, p: e.peer()}
	f.sem = f.p.sem(1, berth.TTL(ttl))
	f.other = e.peer().sem(1)
	e.release(e.hold(f.p.named("warm", 1))) // connections and script are there
	return f
}

func (f *faulty) inject() { f.injection = f.p.net.Inject(f.rule) }

func (f *faulty) struck() {
	f.t.Helper()
	if f.injection.Hits() == 0 {
		f.t.Error("the fault did not happen")
	}
}

func (f *faulty) acquire() {
	f.inject()
	l := f.hold(f.sem)
	f.struck()
	f.holds(l)
	f.release1(l)
}

// release1 gives l back, after which nothing may be out.
func (f *faulty) release1(l *berth.Lease) {
	f.t.Helper()
	f.must(l.Release())
	f.idle()
}

func (f *faulty) queue() {
	first := f.hold(f.other)
	f.inject()
	r := f.env.queue(f.sem)
	f.struck()
	if st := f.show(); st.Waiting != 1 {
		f.t.Errorf("%d in line", st.Waiting)
	}
	f.must(first.Release())
	l := r.granted()
	f.holds(l)
	f.release1(l)
}

func (f *faulty) release() {
	l := f.hold(f.sem)
	f.inject()
	f.release1(l)
	f.struck()
	next := f.hold(f.other)
	wantErr(f.t, l.Release(), berth.ErrReleased)
	f.holds(next)
}

func (f *faulty) cancel() {
	first := f.hold(f.other)
	r := f.env.queue(f.sem)
	f.inject()
	r.cancel()
	r.refused(f.canceled())
	f.until("cancelled", func(s *berth.State) bool { return s.Waiting == 0 })
	f.struck()
	f.holds(first)
}

func (f *faulty) renew() {
	l := f.hold(f.sem)
	f.inject()
	f.must(l.Renew(f.ctx))
	f.struck()
	f.trusts(l, "renewed")
	f.holds(l)
}

func (f *faulty) heartbeat() {
	first := f.hold(f.other)
	r := f.env.queue(f.sem)
	f.inject()
	<-f.injection.Hit()
	f.must(first.Release())
	f.holds(r.granted())
}

// S5: the copy arrives when its client has long given up and released.
func TestLateCopyOfAnAcquireIsNotGranted(t *testing.T) {
	for what, after := range map[string]time.Duration{
		"before its latest time": time.Second, "after it": 3 * time.Second, "long after it": time.Minute,
	} {
		t.Run(what, func(t *testing.T) {
			exactly(t, func(_ *testing.T, e *env) {
				e.options.ReadTimeout = 100 * time.Millisecond // the client gives up early
				p := e.peer()
				e.release(e.hold(p.named("warm", 1)))
				late := p.net.Inject(redistest.Rule{Match: verb("A"), Fault: redistest.Delay})
				r := e.start(p.sem(1))
				<-late.Hit()
				r.cancel()
				r.refused(e.canceled())
				e.pass(after)
				late.Release()
				synctest.Wait()
				e.idle()
			})
		})
	}
}

// S5: a renewal that arrives after the release does not bring the lease back.
func TestLateCopyOfARenewalRevivesNothing(t *testing.T) {
	exactly(t, func(_ *testing.T, e *env) {
		p := e.peer()
		l := e.hold(p.sem(1, berth.WithoutRenewal()))
		late := p.net.Inject(redistest.Rule{Match: verb("R"), Fault: redistest.Delay})
		e.must(l.Renew(e.ctx)) // by a second try
		e.release(l)
		late.Release()
		synctest.Wait()
		e.idle()
	})
}

// A message about a grant may be older than everything that happened since.
func TestLateMessageDoesNotTakeADetachedLease(t *testing.T) {
	exactly(t, func(_ *testing.T, e *env) {
		p, q := e.peer(), e.peer()
		first := e.hold(q.sem(1))
		late := p.net.Inject(redistest.Rule{Match: messages, Fault: redistest.DelayMessage})
		r := e.queue(p.sem(1))
		e.release(first)
		handle, err := r.granted().Detach(e.ctx) // it heard of the grant by heartbeat
		e.must(err)
		l, err := q.Adopt(e.ctx, handle)
		e.must(err)
		late.Release()
		synctest.Wait()
		if late.Hits() == 0 {
			e.t.Error("there was no message to delay")
		}
		e.holds(l)
	})
}

func TestScriptFlushIsNotNoticed(t *testing.T) {
	each(t, func(_ *testing.T, e *env) {
		s := e.peer().sem(2)
		for range 10 {
			e.must(e.raw.ScriptFlush(e.ctx).Err())
			l := e.hold(s)
			e.must(e.raw.ScriptFlush(e.ctx).Err())
			e.must(l.Renew(e.ctx))
			e.must(e.raw.ScriptFlush(e.ctx).Err())
			e.release(l)
		}
		e.idle()
	})
}

// Every connection is closed again and again; leases and places survive.
func TestClosedConnectionsAreSurvived(t *testing.T) {
	each(t, func(_ *testing.T, e *env) {
		p := e.peer()
		s := p.sem(1, berth.TTL(3*time.Second))
		l := e.hold(s)
		r := e.queue(s)
		for range 5 {
			p.net.CutAll()
			e.must(l.Renew(e.ctx))
		}
		p.net.CutAll()
		e.release(l)
		p.net.CutAll()
		e.release(r.granted())
		e.idle()
	})
}

// Redis is away for longer than the TTL: the holder hears of it in time, the
// waiter stays and has its turn afterwards.
func TestOutageLongerThanTheTTL(t *testing.T) {
	each(t, func(_ *testing.T, e *env) {
		p, q := e.peer(), e.peer()
		l := e.hold(p.sem(1, berth.TTL(e.ttl)))
		r := e.queue(q.sem(1, berth.TTL(e.ttl)))
		p.net.Down()
		q.net.Down()
		until := l.ValidUntil()
		lost := e.lost(l)
		if now := time.Now(); lost.Reason != berth.LostUntrusted || now.After(until.Add(e.slack())) {
			e.t.Errorf("told %q %v after the trust deadline", lost.Reason, now.Sub(until))
		}
		if l.Valid() {
			e.t.Error("still valid")
		}
		wantErr(e.t, lost, berth.ErrUnreachable)
		e.until("expired", func(s *berth.State) bool { return s.Holders+s.Waiting == 0 })
		p.net.Up()
		q.net.Up()
		e.release(r.granted())
	})
}

func TestServerStoppedLongerThanTheTTL(t *testing.T) {
	alone(t, nil, func(_ *testing.T, e *env, s *redistest.Server) {
		l := e.hold(e.peer().sem(1, berth.TTL(e.ttl)))
		r := e.queue(e.peer().sem(1, berth.TTL(e.ttl)))
		s.Stop()
		lost := e.lost(l)
		s.Cont()
		if lost.Reason != berth.LostUntrusted {
			e.t.Errorf("told %q", lost.Reason)
		}
		second := r.granted()
		wantErr(e.t, l.Release(), berth.ErrLost)
		e.holds(second)
	})
}

func TestClientPauseLongerThanTheTTL(t *testing.T) {
	alone(t, nil, func(_ *testing.T, e *env, _ *redistest.Server) {
		l := e.hold(e.peer().sem(1, berth.TTL(e.ttl)))
		r := e.queue(e.peer().sem(1, berth.TTL(e.ttl)))
		e.must(e.raw.Do(e.ctx, "CLIENT", "PAUSE", "900", "ALL").Err())
		e.lost(l)
		second := r.granted()
		if l.Valid() {
			e.t.Error("two holders believe at once")
		}
		e.release(second)
	})
}

// Redis forgets everything: holders hear of it, waiters queue again.
func TestRestartWithoutPersistence(t *testing.T) {
	alone(t, nil, func(_ *testing.T, e *env, s *redistest.Server) {
		l := e.hold(e.peer().sem(1, berth.TTL(3*e.ttl)))
		r := e.queue(e.peer().sem(1, berth.TTL(e.ttl)))
		s.Kill()
		s.Restart(e.t)
		e.lost(l)
		e.release(r.granted())
	})
}

// A lease with a cap that is lost for another reason is told the other reason.
func TestOutageIsNotMistakenForMaxHold(t *testing.T) {
	each(t, func(_ *testing.T, e *env) {
		p := e.peer()
		l := e.hold(p.sem(1, berth.TTL(e.ttl), berth.MaxHold(time.Hour)))
		p.net.Down()
		if lost := e.lost(l); lost.Reason != berth.LostUntrusted {
			e.t.Errorf("told %q", lost.Reason)
		}
		p.net.Up()
	})
}
