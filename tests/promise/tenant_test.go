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
func asTenant(e *testenv.Env, sem *berth.Semaphore, label string, opts ...berth.AcquireOption) *testenv.Request {
	e.Helper()
	key := strings.TrimRight(label, "0123456789")
	return e.Queue(sem, append([]berth.AcquireOption{berth.Tenant(key), berth.Label(label)}, opts...)...)
}

// T2, T5: the lines of tenants take turns, and those without a tenant are one line. T1: within a line
// it is first come, first served.
func TestTenantsTakeTurns(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		sem := e.Peer().Sem(1)
		first := e.Hold(sem)
		rs := []*testenv.Request{
			asTenant(e, sem, "big1"), asTenant(e, sem, "big2"), asTenant(e, sem, "big3"),
			e.Queue(sem, berth.Label("nobody1")), asTenant(e, sem, "small1"), e.Queue(sem, berth.Label("nobody2")), asTenant(e, sem, "small2"),
		}
		wantServed(e, "big1 nobody1 big2 small1 nobody2 big3 small2", first, rs...)
	})
}

// T2: two with a share of 2 are served for each one with a share of 1.
func TestTenantGetsItsShare(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		sem := e.Peer().Sem(1)
		first := e.Hold(sem)
		var rs []*testenv.Request
		for i := range 4 {
			rs = append(rs, asTenant(e, sem, fmt.Sprint("a", i), berth.Share(2)))
		}
		rs = append(rs, asTenant(e, sem, "b0"), asTenant(e, sem, "b1"))
		wantServed(e, "a0 a1 b0 a2 a3 b1", first, rs...)
	})
}

// T2: what counts is how much of the limit a request takes.
func TestHeavyRequestTakesMoreOfATurn(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		sem := e.Peer().Sem(3)
		first := e.Hold(sem, berth.Weight(3))
		var rs []*testenv.Request
		for i := range 3 {
			rs = append(rs, asTenant(e, sem, fmt.Sprint("a", i), berth.Weight(3)))
		}
		for i := range 4 {
			rs = append(rs, asTenant(e, sem, fmt.Sprint("b", i)))
		}
		wantServed(e, "a0 a1 b0 b1 b2 a2 b3", first, rs...)
	})
}

// T2: and how much of a rate.
func TestCostlyRequestTakesMoreOfATurn(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		sem := e.Peer().Sem(100, berth.Rate(20_000, time.Hour))
		first := e.Hold(sem, berth.Weight(100), berth.Cost(1))
		var rs []*testenv.Request
		for i := range 3 {
			rs = append(rs, asTenant(e, sem, fmt.Sprint("a", i), berth.Cost(4000)))
		}
		for i := range 5 {
			rs = append(rs, asTenant(e, sem, fmt.Sprint("b", i), berth.Cost(1000)))
		}
		wantServed(e, "a0 a1 b0 b1 b2 b3 a2 b4", first, rs...)
	})
}

// T6: nothing is idle because of tenants: all that fit are granted at once.
func TestNothingIsIdleBecauseOfTenants(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		sem := e.Peer().Sem(2)
		first, second := e.Hold(sem), e.Hold(sem)
		rs := []*testenv.Request{}
		for i := range 4 {
			rs = append(rs, asTenant(e, sem, fmt.Sprint("a", i)))
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

// T4: what a tenant was granted while nobody else waited does not count against it, and T3: who comes
// then is next.
func TestUseOfIdleCapacityDoesNotCount(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		sem := e.Peer().Sem(1)
		last := e.Hold(sem, berth.Tenant("a"))
		var rs []*testenv.Request
		for i := range 10 {
			rs = append(rs, asTenant(e, sem, fmt.Sprint("a", i)))
		}
		for i := range 7 {
			e.Release(last)
			last = rs[i].Granted()
		}
		rs = append(rs[7:], asTenant(e, sem, "b0"), asTenant(e, sem, "b1"), asTenant(e, sem, "b2"))
		wantServed(e, "b0 a7 b1 a8 b2 a9", last, rs...)
	})
}

// T4: nor does what it has asked for in vain.
func TestRequestsInVainDoNotCount(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		sem := e.Peer().Sem(1)
		first := e.Hold(sem)
		rs := []*testenv.Request{asTenant(e, sem, "c0"), asTenant(e, sem, "c1"), asTenant(e, sem, "c2")}
		for range 20 {
			ctx, cancel := context.WithCancel(e.Ctx)
			r := e.QueueUntil(ctx, sem, berth.Tenant("a"))
			cancel()
			_ = r.Refused(context.Canceled)
			e.Until("it has left", func(s *berthadmin.State) bool { return s.Waiting == 3 })
		}
		wantServed(e, "c0 a0 c1 c2", first, append(rs, asTenant(e, sem, "a0"))...)
	})
}

// T6: who waits is served although new tenants come for each permit that is freed.
func TestNewTenantsDoNotKeepOthersWaiting(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		sem := e.Peer().Sem(1)
		last := e.Hold(sem)
		a := []*testenv.Request{asTenant(e, sem, "a0"), asTenant(e, sem, "a1"), asTenant(e, sem, "a2")}
		waiting := []*testenv.Request{}
		done := func() bool { return len(a) == 0 }
		for i := 0; !done() && i < 20; i++ {
			waiting = append(waiting, asTenant(e, sem, fmt.Sprintf("new%d-", i)))
			e.Release(last)
			last = firstOf(e, &a, &waiting)
		}
		if !done() {
			e.Errorf("%d of 3 requests of a wait after 20 grants", len(a))
		}
		e.Release(last)
		for _, r := range waiting {
			e.Release(r.Granted())
		}
	})
}

// firstOf returns the lease of the first of some requests, of which one is granted, and takes it out.
func firstOf(e *testenv.Env, of ...*[]*testenv.Request) (l *berth.Lease) {
	e.Helper()
	for l == nil {
		for _, rs := range of {
			for i, r := range *rs {
				select {
				case <-r.Done:
					l, *rs = r.Granted(), slices.Delete(*rs, i, i+1)
					return l
				case <-e.Ctx.Done():
					e.Fatal("none was granted")
				default:
				}
			}
		}
		e.Pass(time.Millisecond)
	}
	return l
}

// A queue that one tenant has filled takes requests of others.
func TestFullQueueTakesOtherTenants(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		sem := e.Peer().Sem(1, berth.QueueLimit(4))
		first := e.Hold(sem)
		var rs []*testenv.Request
		for i := range 4 {
			rs = append(rs, asTenant(e, sem, fmt.Sprint("a", i)))
		}
		full := func(tenant string) {
			_, err := sem.Acquire(e.Ctx, berth.Tenant(tenant))
			if busy, ok := errors.AsType[*berth.BusyError](err); !ok || !busy.QueueFull || busy.Tenant != tenant {
				e.Errorf("tenant %s: %v, want a queue that is full for it", tenant, err)
			}
		}
		full("a")
		rs = append(rs, asTenant(e, sem, "b0"), asTenant(e, sem, "c0"))
		full("a")
		full("c")
		wantServed(e, "a0 a1 b0 c0 a2 a3", first, rs...)
	})
}

// A request that is repeated, because its reply was lost, keeps its place, and its tenant loses
// nothing by that.
func TestRepeatedRequestOfATenantKeepsItsTurn(t *testing.T) {
	for what, fault := range map[string]redistest.Fault{"reply lost": redistest.SwallowReply, "sent twice": redistest.Duplicate} {
		t.Run(what, func(t *testing.T) {
			testenv.Each(t, func(e *testenv.Env) {
				p := e.Peer()
				faulty, other := p.Sem(1), e.Peer().Sem(1)
				e.Release(e.Hold(p.Named("warm", 1)))
				first := e.Hold(other)
				lost := p.Net.Inject(redistest.Rule{Match: testenv.Carries("A"), Fault: fault})
				rs := []*testenv.Request{asTenant(e, faulty, "a1")}
				rs = append(rs, asTenant(e, other, "b1"), asTenant(e, other, "b2"), asTenant(e, other, "a2"))
				if lost.Hits() == 0 {
					e.Error("the fault did not happen")
				}
				wantServed(e, "a1 a2 b1 b2", first, rs...)
			})
		})
	}
}

// T1: HeadStart moves a request forward in the line of its tenant, and nowhere else.
func TestHeadStartOfATenant(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		sem := e.Peer().Sem(1)
		first := e.Hold(sem)
		rs := []*testenv.Request{
			asTenant(e, sem, "a1"), asTenant(e, sem, "a2"), asTenant(e, sem, "b1"),
			asTenant(e, sem, "a3", berth.HeadStart(90*time.Minute)), asTenant(e, sem, "b2", berth.HeadStart(45*time.Minute)),
		}
		wantServed(e, "a3 a1 b2 a2 b1", first, rs...)
	})
}

// Operators see whose a lease is, and whose place, also after the lease was handed over; so does
// who waits.
func TestTenantIsShown(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		from, to := e.Peer(), e.Peer()
		key := "Zoë;tenant=<b>" + strings.Repeat("é", 50)
		sem := from.Sem(1, berth.Tenant(key), berth.Label("tenant=x;tenant=y"))
		l := e.Hold(sem)
		ctx, cancel := context.WithCancel(e.Ctx)
		waits := e.QueueUntil(ctx, sem, berth.Tenant("other"))
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

// The lines of tenants keep no keys for longer than tombstones do.
func TestLinesKeepNoKeys(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		sem := e.Peer().Sem(1)
		first := e.Hold(sem)
		rs := []*testenv.Request{}
		for i := range 5 {
			rs = append(rs, asTenant(e, sem, fmt.Sprint("a", i)))
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
			"no key": berth.Tenant(""), "space": berth.Tenant("a b"), "line": berth.Tenant("a\n"),
			"wide space": berth.Tenant("a\u2003b"), "NUL": berth.Tenant("a\x00"), "UTF-8": berth.Tenant("\xff"),
			"65": berth.Tenant(strings.Repeat("ü", 65)), "bidi": berth.Tenant("a\u202eb"), "1 MB": berth.Tenant(strings.Repeat("x", 1<<20)),
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
		for _, n := range []int{0, -1, 101} {
			_, err := s.Acquire(e.Ctx, berth.Tenant("a"), berth.Share(n))
			invalid(e, err, "Share", fmt.Sprint(n))
		}
		nothingSent(e, p)
	})
}
