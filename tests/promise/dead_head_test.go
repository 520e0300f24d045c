package promise_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/internal/testkit/testenv"
)

// Where there are rates, who has died in the queue spends nothing of them. Every Peer here is a process.

// silence is longer than a waiter counts as heard of after its last sign of life, and shorter than
// until it loses its place.
func silence(e *testenv.Env) time.Duration {
	if e.Exact {
		return 2 * time.Second
	}
	return 1200 * time.Millisecond
}

// placeLasts is the TTL of waiters that die here: as long as their places last.
func placeLasts(e *testenv.Env) time.Duration { return max(e.TTL, 4*time.Second) }

// L3, however the permit or the budget is freed for which they wait.
func TestDeadHeadSpendsNoBudget(t *testing.T) {
	type freed struct {
		limit  int                                  // of the semaphore
		rate   int                                  // an hour
		holder int                                  // what the first lease costs
		spent  int                                  // what is spent in the end
		free   func(e *testenv.Env, l *berth.Lease) // lets one in
	}
	for how, f := range map[string]freed{
		"a release": {1, 3, 1, 2, func(e *testenv.Env, l *berth.Lease) { e.Release(l) }},
		"a settlement": {9, 3, 3, 2, func(e *testenv.Env, l *berth.Lease) {
			e.Must(l.Settle(1, ""))
		}},
		"an eviction": {1, 3, 1, 2, func(e *testenv.Env, l *berth.Lease) {
			e.Must(e.Inspector.ForceEvict(e.Ctx, testenv.Name, l.ID()))
		}},
		"a limit": {1, 3, 1, 2, func(e *testenv.Env, _ *berth.Lease) {
			e.Must(e.Inspector.Resize(e.Ctx, testenv.Name, 2))
		}},
		"the end of a pause": {1, 3, 1, 2, func(e *testenv.Env, l *berth.Lease) {
			e.Must(e.Inspector.PauseFor(e.Ctx, testenv.Name, 100*time.Millisecond))
			e.Release(l)
		}},
	} {
		t.Run(how, func(t *testing.T) {
			testenv.Each(t, func(e *testenv.Env) {
				sem := func() *berth.Semaphore {
					return e.Peer().Sem(f.limit, berth.Rate(f.rate, time.Hour), berth.TTL(placeLasts(e)))
				}
				holder := e.Peer().Sem(f.limit, berth.Rate(f.rate, time.Hour))
				first := e.Hold(holder, berth.Cost(f.holder))
				dead := e.Peer()
				e.Queue(dead.Sem(f.limit, berth.Rate(f.rate, time.Hour), berth.TTL(placeLasts(e))))
				alive := e.Queue(sem())
				dead.Crash()
				crashed := time.Now()
				e.Pass(silence(e))
				f.free(e, first)
				alive.Granted()
				e.Within(crashed, 0, placeLasts(e), "the living waiter's turn came")
				if n := spent(e.Show()); n != f.spent {
					e.Errorf("%d spent, want %d", n, f.spent)
				}
			})
		})
	}
}

// L3 where a holder has died, too: its permit is freed by time alone.
func TestDeadHeadSpendsNoBudgetWhenAPermitExpires(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		rate := berth.Rate(3, time.Hour)
		holder, dead := e.Peer(), e.Peer()
		e.Hold(holder.Sem(1, rate, berth.TTL(placeLasts(e)/2)))
		e.Queue(dead.Sem(1, rate, berth.TTL(placeLasts(e))))
		alive := e.Queue(e.Peer().Sem(1, rate))
		holder.Crash()
		dead.Crash()
		crashed := time.Now()
		alive.Granted()
		e.Within(crashed, 0, placeLasts(e), "the living waiter's turn came")
		if n := spent(e.Show()); n != 2 {
			e.Errorf("%d spent, want the holder's and the living waiter's", n)
		}
	})
}

// L3 for many dead waiters, in lines, with a head start, and with rates of several kinds: they cost one
// heartbeat TTL together, and nothing of any rate.
func TestDeadWaitersOfARateCostOneHeartbeatTTLTogether(t *testing.T) {
	const many = 6
	hour, tokens := berth.Rate(20, time.Hour), berth.Rate(300, time.Hour).Of("tokens")
	type queue struct {
		rates []berth.Option
		wait  func(i int) []berth.AcquireOption // of the i-th dead; 0: of the living
	}
	plain := func(int) []berth.AcquireOption { return nil }
	for what, q := range map[string]queue{
		"one rate":      {[]berth.Option{hour}, plain},
		"several rates": {[]berth.Option{hour, tokens, berth.Rate(1, time.Minute).Burst(9).Of("api")}, plain},
		"head starts": {[]berth.Option{hour}, func(i int) []berth.AcquireOption {
			return []berth.AcquireOption{berth.HeadStart(time.Duration(i) * time.Minute)}
		}},
		"tenants": {[]berth.Option{hour, tokens}, func(i int) []berth.AcquireOption {
			return []berth.AcquireOption{berth.Tenant(fmt.Sprint("t", i%3))}
		}},
	} {
		t.Run(what, func(t *testing.T) {
			testenv.Each(t, func(e *testenv.Env) {
				sem := func(p *testenv.Peer) *berth.Semaphore {
					return p.Sem(1, append([]berth.Option{berth.TTL(placeLasts(e))}, q.rates...)...)
				}
				first := e.Hold(sem(e.Peer()))
				var dead []*testenv.Peer
				for i := range many {
					dead = append(dead, e.Peer())
					e.Queue(sem(dead[i]), q.wait(i+1)...)
				}
				alive := e.Queue(sem(e.Peer()), q.wait(0)...)
				for _, p := range dead {
					p.Crash()
				}
				crashed := time.Now()
				e.Pass(silence(e))
				e.Release(first)
				e.Release(alive.Granted())
				e.Within(crashed, 0, placeLasts(e), "the living waiter's turn came")
				for _, r := range e.Show().Rates {
					if r.Spent > 2 {
						e.Errorf("%d of %q spent by two leases", r.Spent, r.Unit)
					}
				}
			})
		})
	}
}

// L1 and R2 where there is a rate: who has waited for long is granted with the call that it is asked
// for, a round trip later, and so are those behind it that fit with it, in whatever process.
func TestLivingWaitersOfARateAreServedInARoundTrip(t *testing.T) {
	for what, opts := range map[string]func(i int) []berth.AcquireOption{
		"one line": func(int) []berth.AcquireOption { return nil },
		"tenants":  func(i int) []berth.AcquireOption { return []berth.AcquireOption{berth.Tenant(fmt.Sprint(i % 3))} },
	} {
		t.Run(what, func(t *testing.T) {
			testenv.Each(t, func(e *testenv.Env) {
				const waiting, latency = 12, 20 * time.Millisecond
				rate := berth.Rate(20, time.Hour)
				first := e.Hold(e.Peer().Sem(waiting, rate), berth.Weight(waiting), berth.Cost(1))
				var all []*testenv.Request
				for i := range waiting {
					p := e.Peer()
					all = append(all, e.Queue(p.Sem(waiting, rate, berth.TTL(placeLasts(e))), opts(i)...))
					p.Net.Latency(latency)
				}
				e.Subscribed()
				e.Pass(silence(e))
				freed := time.Now()
				e.Release(first)
				for _, r := range all {
					r.Granted()
				}
				if took := time.Since(freed); e.Exact && took > 5*latency {
					e.Errorf("%d were granted in %v, with %v for a round trip", waiting, took, 2*latency)
				}
				if n := spent(e.Show()); n != waiting+1 {
					e.Errorf("%d spent, want %d", n, waiting+1)
				}
			})
		})
	}
}
