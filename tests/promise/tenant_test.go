package promise_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/berthadmin"
	"github.com/berth-go/berth/internal/testkit/redistest"
	"github.com/berth-go/berth/internal/testkit/testenv"
)

// wantServed gives a lease back, and then those of the requests as they come. Their labels, in the
// order of the tokens, must be want.
func wantServed(e *testenv.Env, want string, first *berth.Lease, requests ...*testenv.Request) {
	e.Helper()
	e.Release(first)
	var leases []*berth.Lease
	var done sync.WaitGroup
	for _, r := range requests {
		done.Go(func() {
			<-r.Done
			if r.Err != nil || e.GiveBack(r.Lease) != nil {
				e.Errorf("a request ended with %v, or was not given back", r.Err)
			}
		})
	}
	for _, r := range requests {
		leases = append(leases, r.Granted())
	}
	done.Wait()
	slices.SortFunc(leases, func(a, b *berth.Lease) int { return int(a.Token() - b.Token()) })
	var labels []string
	for _, l := range leases {
		labels = append(labels, l.Label())
	}
	if got := strings.Join(labels, " "); got != want {
		e.Errorf("served %s, want %s", got, want)
	}
}

// asTenant is a request for a tenant, whose label is what the test calls it.
func asTenant(e *testenv.Env, sem *berth.Semaphore, label string, pace time.Duration, opts ...berth.AcquireOption) *testenv.Request {
	e.Helper()
	key := strings.TrimRight(label, "0123456789")
	return e.Queue(sem, append([]berth.AcquireOption{berth.Tenant(key, pace), berth.Label(label)}, opts...)...)
}

// A tenant that asks for much leaves room between its requests, and others go there. T1: among
// its own, and among those without a tenant, it is first come, first served.
func TestTenantsShare(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		sem := e.Peer().Sem(1)
		first := e.Hold(sem)
		rs := []*testenv.Request{
			asTenant(e, sem, "big1", time.Hour), asTenant(e, sem, "big2", time.Hour), asTenant(e, sem, "big3", time.Hour),
			e.Queue(sem, berth.Label("nobody1")), asTenant(e, sem, "small1", time.Hour), e.Queue(sem, berth.Label("nobody2")),
			asTenant(e, sem, "small2", time.Hour),
		}
		wantServed(e, "big1 nobody1 small1 nobody2 big2 small2 big3", first, rs...)
	})
}

// The room that a request leaves behind it is its weight times the pace.
func TestHeavyRequestOfATenantLeavesMoreRoom(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		sem := e.Peer().Sem(3)
		first := e.Hold(sem, berth.Weight(3))
		rs := []*testenv.Request{
			asTenant(e, sem, "a1", time.Hour, berth.Weight(3)), asTenant(e, sem, "a2", time.Hour, berth.Weight(3)),
			asTenant(e, sem, "b1", time.Hour, berth.Weight(3)), asTenant(e, sem, "c1", 2*time.Hour, berth.Weight(3)),
			asTenant(e, sem, "c2", 2*time.Hour, berth.Weight(3)), asTenant(e, sem, "b2", 30*time.Minute, berth.Weight(3)),
			asTenant(e, sem, "b3", 30*time.Minute, berth.Weight(3)),
		}
		wantServed(e, "a1 b1 c1 a2 b2 b3 c2", first, rs...)
	})
}

// T2: a request is not overtaken by one that comes later than its turn.
func TestTenantIsNotOvertakenAfterItsTurn(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		sem := e.Peer().Sem(1)
		first := e.Hold(sem)
		rs := []*testenv.Request{asTenant(e, sem, "a1", time.Minute), asTenant(e, sem, "a2", time.Minute), asTenant(e, sem, "a3", time.Minute)}
		e.Pass(59 * time.Second)
		rs = append(rs, asTenant(e, sem, "b1", time.Minute))
		e.Pass(2 * time.Second)
		rs = append(rs, e.Queue(sem, berth.Label("late")), asTenant(e, sem, "c1", time.Minute))
		e.Pass(30 * time.Minute) // turns that have passed are forgotten, and nothing changes
		rs = append(rs, asTenant(e, sem, "a4", time.Minute), asTenant(e, sem, "b2", time.Minute))
		wantServed(e, "a1 b1 a2 late c1 a3 a4 b2", first, rs...)
	})
}

// Nothing is idle because of tenants: a head whose turn is far ahead is granted at once.
func TestNothingIsIdleBecauseOfTenants(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		sem := e.Peer().Sem(2)
		first, second := e.Hold(sem), e.Hold(sem)
		rs := []*testenv.Request{}
		for i := range 4 {
			rs = append(rs, asTenant(e, sem, fmt.Sprint("a", i), berth.MaxPace))
		}
		start := time.Now()
		e.Release(first)
		e.Holds(second, rs[0].Granted())
		e.Release(second)
		e.Holds(rs[0].Lease, rs[1].Granted())
		e.Release(rs[0].Lease, rs[1].Lease)
		e.Holds(rs[2].Granted(), rs[3].Granted())
		e.Within(start, 0, 0, "all were granted")
	})
}

// With nobody in the queue a tenant is granted like anybody, and what it asked for before the
// queue was empty is forgotten.
func TestTurnsAreForgottenWhenTheQueueWasEmpty(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		sem := e.Peer().Sem(1)
		for range 3 {
			e.Release(e.Hold(sem, berth.Tenant("a", time.Hour)))
		}
		first := e.Hold(sem)
		a := []*testenv.Request{asTenant(e, sem, "a1", time.Hour), asTenant(e, sem, "a2", time.Hour), asTenant(e, sem, "a3", time.Hour)}
		e.Release(first)
		e.Release(a[0].Granted())
		e.Release(a[1].Granted())
		last := a[2].Granted() // the queue is empty
		rs := []*testenv.Request{asTenant(e, sem, "a4", time.Hour), asTenant(e, sem, "b1", time.Hour)}
		wantServed(e, "a4 b1", last, rs...)
	})
}

// A request that is repeated, because its reply was lost, keeps its turn, and its tenant loses
// nothing by that.
func TestRepeatedRequestOfATenantKeepsItsTurn(t *testing.T) {
	for what, fault := range map[string]redistest.Fault{"reply lost": redistest.SwallowReply, "sent twice": redistest.Duplicate} {
		t.Run(what, func(t *testing.T) {
			testenv.Each(t, func(e *testenv.Env) {
				p := e.Peer()
				faulty, other := p.Sem(1), e.Peer().Sem(1)
				e.Release(e.Hold(p.Named("warm", 1)))
				first := e.Hold(other)
				lost := p.Net.Inject(redistest.Rule{Match: testenv.Carries("T"), Fault: fault})
				rs := []*testenv.Request{asTenant(e, faulty, "a1", time.Hour)}
				rs = append(rs, asTenant(e, other, "b1", 90*time.Minute), asTenant(e, other, "b2", 90*time.Minute), asTenant(e, other, "a2", time.Hour))
				if lost.Hits() == 0 {
					e.Error("the fault did not happen")
				}
				wantServed(e, "a1 b1 a2 b2", first, rs...)
			})
		})
	}
}

// HeadStart moves a request forward from its turn, among those of its tenant, too.
func TestHeadStartOfATenant(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		sem := e.Peer().Sem(1)
		first := e.Hold(sem)
		rs := []*testenv.Request{
			asTenant(e, sem, "a1", time.Hour), asTenant(e, sem, "a2", time.Hour), asTenant(e, sem, "b1", time.Hour),
			asTenant(e, sem, "a3", time.Hour, berth.HeadStart(90*time.Minute)), asTenant(e, sem, "b2", time.Hour, berth.HeadStart(45*time.Minute)),
		}
		wantServed(e, "a1 b1 b2 a3 a2", first, rs...)
	})
}

// Operators see whose a lease is, and whose place, also after the lease was handed over; so does
// who waits.
func TestTenantIsShown(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		from, to := e.Peer(), e.Peer()
		key := "Zoë;tenant=<b>" + strings.Repeat("é", 50)
		sem := from.Sem(1, berth.Tenant(key, time.Minute), berth.Label("tenant=x;tenant=y"))
		l := e.Hold(sem)
		ctx, cancel := context.WithCancel(e.Ctx)
		waits := e.QueueUntil(ctx, sem, berth.Tenant("other", time.Hour))
		for range 2 {
			st := e.Show()
			if len(st.Leases) != 1 || st.Leases[0].Tenant != key || st.Leases[0].Extra != "" || len(st.Queue) != 1 || st.Queue[0].Tenant != "other" {
				e.Fatalf("state %+v", st)
			}
			handle, err := l.Detach(e.Ctx)
			e.Must(err)
			l, err = to.Adopt(e.Ctx, handle)
			e.Must(err)
		}
		cancel()
		err := waits.Refused(context.Canceled)
		if ended, ok := errors.AsType[*berth.WaitError](err); !ok || ended.Place.Tenant != "other" {
			e.Errorf("%+v", err)
		}
		e.Until("cancelled", func(s *berthadmin.State) bool { return s.Waiting == 0 })
		e.Holds(l)
	})
}

// A turn that is far ahead keeps no keys for longer than tombstones do.
func TestTurnsKeepNoKeys(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		sem := e.Peer().Sem(1)
		first := e.Hold(sem)
		rs := []*testenv.Request{}
		for i := range 5 {
			rs = append(rs, asTenant(e, sem, fmt.Sprint("a", i), berth.MaxPace))
		}
		e.Release(first)
		for _, r := range rs {
			e.Release(r.Granted())
		}
		synctest.Wait()
		e.Pass(3 * time.Minute)
		e.Unchanged(map[string]string{})
	})
}

func TestBadTenants(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		p := e.Peer()
		s := p.Sem(1)
		bad := map[string]berth.Option{
			"no key": berth.Tenant("", time.Second), "space": berth.Tenant("a b", time.Second), "line": berth.Tenant("a\n", time.Second),
			"wide space": berth.Tenant("a\u2003b", time.Second), "NUL": berth.Tenant("a\x00", time.Second), "UTF-8": berth.Tenant("\xff", time.Second),
			"65": berth.Tenant(strings.Repeat("ü", 65), time.Second), "bidi": berth.Tenant("a\u202eb", time.Second), "1 MB": berth.Tenant(strings.Repeat("x", 1<<20), time.Second),
			"no pace": berth.Tenant("a", 0), "9 ms": berth.Tenant("a", 9*time.Millisecond), "a day and more": berth.Tenant("a", berth.MaxPace+1), "past": berth.Tenant("a", -1),
		}
		for given, option := range bad {
			_, err := p.Semaphore(testenv.Name, 1, option)
			invalid(e, err, "Tenant", given)
			_, err = s.With(option)
			invalid(e, err, "Tenant", given)
			_, err = s.Acquire(e.Ctx, option)
			invalid(e, err, "Tenant", given)
			_, err = s.TryAcquire(e.Ctx, option)
			invalid(e, err, "Tenant", given)
		}
		nothingSent(e, p)
	})
}
