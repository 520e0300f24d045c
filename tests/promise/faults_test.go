package promise_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/berthadmin"
	"github.com/berth-go/berth/internal/testkit/redistest"
	"github.com/berth-go/berth/internal/testkit/testenv"
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
				testenv.Each(t, func(e *testenv.Env) {
					o.run(newFaulty(e, redistest.Rule{Match: testenv.Carries(o.verb), Fault: fault}))
				})
			})
		}
	}
}

// faulty is a process that will meet a fault, beside one that will not.
type faulty struct {
	*testenv.Env
	rule      redistest.Rule
	p         *testenv.Peer
	sem       *berth.Semaphore
	other     *berth.Semaphore
	injection *redistest.Injection
}

func newFaulty(e *testenv.Env, rule redistest.Rule) *faulty {
	ttl := 10 * time.Second
	if e.Exact {
		ttl = e.TTL
	}
	f := &faulty{Env: e, rule: rule, p: e.Peer()}
	f.sem = f.p.Sem(1, berth.TTL(ttl))
	f.other = e.Peer().Sem(1)
	e.Release(e.Hold(f.p.Named("warm", 1))) // connections and script are there
	return f
}

func (f *faulty) inject() { f.injection = f.p.Net.Inject(f.rule) }

func (f *faulty) struck() {
	f.Helper()
	if f.injection.Hits() == 0 {
		f.Error("the fault did not happen")
	}
}

func (f *faulty) acquire() {
	f.inject()
	l := f.Hold(f.sem)
	f.struck()
	f.Holds(l)
	f.release1(l)
}

// release1 gives l back, after which nothing may be out.
func (f *faulty) release1(l *berth.Lease) {
	f.Helper()
	f.Must(l.Release())
	f.Idle()
}

func (f *faulty) queue() {
	first := f.Hold(f.other)
	f.inject()
	r := f.Queue(f.sem)
	f.struck()
	if st := f.Show(); st.Waiting != 1 {
		f.Errorf("%d in line", st.Waiting)
	}
	f.Must(first.Release())
	l := r.Granted()
	f.Holds(l)
	f.release1(l)
}

func (f *faulty) release() {
	l := f.Hold(f.sem)
	f.inject()
	f.release1(l)
	f.struck()
	next := f.Hold(f.other)
	f.WantErr(l.Release(), berth.ErrReleased)
	f.Holds(next)
}

func (f *faulty) cancel() {
	first := f.Hold(f.other)
	r := f.Queue(f.sem)
	f.inject()
	r.Cancel()
	r.Refused(context.Canceled)
	f.Until("cancelled", func(s *berthadmin.State) bool { return s.Waiting == 0 })
	f.struck()
	f.Holds(first)
}

func (f *faulty) renew() {
	l := f.Hold(f.sem)
	f.inject()
	f.Must(f.Renew(l))
	f.struck()
	trusts(f.Env, l, "renewed")
	f.Holds(l)
}

func (f *faulty) heartbeat() {
	first := f.Hold(f.other)
	r := f.Queue(f.sem)
	f.inject()
	<-f.injection.Hit()
	f.Must(first.Release())
	f.Holds(r.Granted())
}

// S5: the copy arrives when its client has long given up and released.
func TestLateCopyOfAnAcquireIsNotGranted(t *testing.T) {
	for what, after := range map[string]time.Duration{
		"before its latest time": time.Second, "after it": 3 * time.Second, "long after it": time.Minute,
	} {
		t.Run(what, func(t *testing.T) {
			testenv.Embedded(t, func(e *testenv.Env) {
				e.Options.ReadTimeout = 100 * time.Millisecond // the client gives up early
				p := e.Peer()
				e.Release(e.Hold(p.Named("warm", 1)))
				late := p.Net.Inject(redistest.Rule{Match: testenv.Carries("A"), Fault: redistest.Delay})
				r := e.Start(p.Sem(1))
				<-late.Hit()
				r.Cancel()
				r.Refused(context.Canceled)
				e.Pass(after)
				late.Release()
				synctest.Wait()
				e.Idle()
			})
		})
	}
}

// S5: a renewal that arrives after the release does not bring the lease back.
func TestLateCopyOfARenewalRevivesNothing(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		p := e.Peer()
		l := e.Hold(p.Sem(1, berth.WithoutRenewal()))
		late := p.Net.Inject(redistest.Rule{Match: testenv.Carries("R"), Fault: redistest.Delay})
		e.Must(e.Renew(l)) // by a second try
		e.Release(l)
		late.Release()
		synctest.Wait()
		e.Idle()
	})
}

// A renewal under way when the lease is given back has not worked out.
func TestRenewalOfALeaseGivenBackMeanwhile(t *testing.T) {
	for what, giveBack := range map[string]func(context.Context, *berth.Lease) error{
		"released": func(_ context.Context, l *berth.Lease) error { return l.Release() },
		"detached": func(ctx context.Context, l *berth.Lease) error { _, err := l.Detach(ctx); return err },
	} {
		t.Run(what, func(t *testing.T) {
			testenv.Embedded(t, func(e *testenv.Env) {
				p := e.Peer()
				l := e.Hold(p.Sem(1, berth.WithoutRenewal()))
				late := p.Net.Inject(redistest.Rule{Match: testenv.Carries("R"), Fault: redistest.Delay})
				renewed := make(chan error, 1)
				go func() { renewed <- l.Renew(e.Ctx) }()
				testenv.Receive(e, "renewal", late.Hit())
				e.Must(giveBack(e.Ctx, l))
				e.WantErr(testenv.Receive(e, "answer to Renew", renewed), berth.ErrReleased)
				late.Release()
			})
		})
	}
}

// A message about a grant may be older than everything that happened since.
func TestLateMessageDoesNotTakeADetachedLease(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		p, q := e.Peer(), e.Peer()
		first := e.Hold(q.Sem(1))
		late := p.Net.Inject(redistest.Rule{Match: testenv.IsMessage, Fault: redistest.DelayMessage})
		r := e.Queue(p.Sem(1))
		e.Release(first)
		handle, err := r.Granted().Detach(e.Ctx) // it heard of the grant by heartbeat
		e.Must(err)
		l, err := q.Adopt(e.Ctx, handle)
		e.Must(err)
		late.Release()
		synctest.Wait()
		if late.Hits() == 0 {
			e.Error("there was no message to delay")
		}
		e.Holds(l)
	})
}

func TestScriptFlushIsNotNoticed(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		s := e.Peer().Sem(2)
		for range 10 {
			e.Must(e.Redis.ScriptFlush(e.Ctx).Err())
			l := e.Hold(s)
			e.Must(e.Redis.ScriptFlush(e.Ctx).Err())
			e.Must(e.Renew(l))
			e.Must(e.Redis.ScriptFlush(e.Ctx).Err())
			e.Release(l)
		}
		e.Idle()
	})
}

// Every connection is closed again and again; leases and places survive.
func TestClosedConnectionsAreSurvived(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		p := e.Peer()
		s := p.Sem(1, berth.TTL(3*time.Second))
		l := e.Hold(s)
		r := e.Queue(s)
		for range 5 {
			p.Net.CutAll()
			e.Must(e.Renew(l))
		}
		p.Net.CutAll()
		e.Release(l)
		p.Net.CutAll()
		e.Release(r.Granted())
		e.Idle()
	})
}

// Redis is away for longer than the TTL: the holder hears of it in time, the
// waiter stays and has its turn afterwards.
func TestOutageLongerThanTheTTL(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		e.TTL = max(e.TTL, 6*time.Second) // for the lease to last until the outage
		p, q := e.Peer(), e.Peer()
		l := e.Hold(p.Sem(1, berth.TTL(e.TTL)))
		r := e.Queue(q.Sem(1, berth.TTL(e.TTL)))
		p.Net.Down()
		q.Net.Down()
		until := l.ValidUntil()
		lost := e.Lost(l)
		if now := time.Now(); lost.Reason != berth.LostUntrusted || now.After(until.Add(e.Slack())) {
			e.Errorf("told %q %v after the trust deadline", lost.Reason, now.Sub(until))
		}
		if l.Valid() {
			e.Error("still valid")
		}
		e.WantErr(lost, berth.ErrUnreachable)
		e.Until("expired", func(s *berthadmin.State) bool { return s.Holders+s.Waiting == 0 })
		p.Net.Up()
		q.Net.Up()
		r.Served()
	})
}

func TestServerStoppedLongerThanTheTTL(t *testing.T) {
	testenv.OwnServer(t, nil, func(e *testenv.Env) {
		holder, waiter := e.Peer().Sem(1, berth.TTL(e.TTL)), e.Peer().Sem(1)
		var r *testenv.Request
		l := e.Struck(holder, func() {
			r = e.Follow(waiter)
			e.Server.Stop()
		}, func() {
			e.Server.Cont()
			e.Release(r.Granted())
		})
		lost := e.Lost(l)
		e.Server.Cont()
		if lost.Reason != berth.LostUntrusted {
			e.Errorf("told %q", lost.Reason)
		}
		second := r.Granted()
		e.WantErr(l.Release(), berth.ErrLost)
		e.Holds(second)
	})
}

func TestClientPauseLongerThanTheTTL(t *testing.T) {
	testenv.OwnServer(t, nil, func(e *testenv.Env) {
		e.TTL = max(e.TTL, 6*time.Second) // for the lease to last until the pause
		l := e.Hold(e.Peer().Sem(1, berth.TTL(e.TTL)))
		r := e.Queue(e.Peer().Sem(1, berth.TTL(e.TTL)))
		e.Must(e.Redis.Do(e.Ctx, "CLIENT", "PAUSE", (2 * e.TTL).Milliseconds(), "ALL").Err())
		e.Lost(l)
		r.Granted()
		if l.Valid() {
			e.Error("two holders believe at once")
		}
		r.Served()
	})
}

// Redis forgets everything: holders hear of it, waiters queue again.
func TestRestartWithoutPersistence(t *testing.T) {
	testenv.OwnServer(t, nil, func(e *testenv.Env) {
		l := e.Hold(e.Peer().Sem(1, berth.TTL(3*e.TTL)))
		r := e.Queue(e.Peer().Sem(1, berth.TTL(e.TTL)))
		e.Server.Kill()
		e.Server.Restart(e)
		e.Lost(l)
		r.Served()
	})
}

// A lease with a cap that is lost for another reason is told the other reason.
func TestOutageIsNotMistakenForMaxHold(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		p := e.Peer()
		l := e.Struck(p.Sem(1, berth.TTL(e.TTL), berth.MaxHold(time.Hour)), p.Net.Down, p.Net.Up)
		if lost := e.Lost(l); lost.Reason != berth.LostUntrusted {
			e.Errorf("told %q", lost.Reason)
		}
		p.Net.Up()
	})
}

// besideACrashedHolder returns a process with a waiter, and when the lease of the holder, which
// has crashed elsewhere, runs out: not when a heartbeat is due.
func besideACrashedHolder(e *testenv.Env) (p *testenv.Peer, waiting *testenv.Request, end time.Time) {
	e.Helper()
	const ttl = 31 * time.Second
	p, q := e.Peer(), e.Peer()
	end = time.Now().Add(ttl)
	e.Hold(q.Sem(1, berth.TTL(ttl)))
	q.Crash()
	return p, e.Queue(p.Sem(1, berth.TTL(ttl))), end
}

// TestLostLookIsRepeated: the look for a lease that ran out elsewhere is repeated at once, and
// not only when the next heartbeat is due.
func TestLostLookIsRepeated(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		p, waiting, end := besideACrashedHolder(e)
		lost := p.Net.Inject(redistest.Rule{Fault: redistest.Reset, Match: func(c redistest.Command) bool {
			return redistest.IsScript(c) && !time.Now().Before(end)
		}})
		e.Release(waiting.Granted())
		e.Within(end, 0, 100*time.Millisecond, "granted")
		if lost.Hits() != 1 {
			e.Errorf("%d looks were lost, want 1", lost.Hits())
		}
	})
}

// TestRejectedLookIsNotRepeated: where Redis rejects the look for a lease that ran out, the waiter
// hears of it, and nothing turns in circles: in the bubble that would never end.
func TestRejectedLookIsNotRepeated(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		p, waiting, end := besideACrashedHolder(e)
		e.Pass(time.Until(end.Add(-time.Millisecond)))
		e.Must(p.Redis.Close())
		waiting.Refused(berth.ErrRefused)
		e.Within(end, 0, 10*time.Second/3, "told")
	})
}
