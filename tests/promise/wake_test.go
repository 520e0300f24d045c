package promise_test

import (
	"context"
	"testing"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/internal/testkit/testenv"
)

// Who waits is granted on time, whatever process it is in, and whichever has begun the time that it
// waits for. Every Peer here is a process.

// R2: the window that B's grant begins ends for C, in another process, to the millisecond.
func TestRateIsOnTimeInEveryProcess(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		const per = 500 * time.Millisecond
		sem := func() *berth.Semaphore { return e.Peer().Sem(1, berth.Rate(1, per)) }
		first := e.Hold(sem())
		b, c := e.Queue(sem()), e.Queue(sem())
		e.Pass(2 * time.Second) // its heartbeats are not what C needs
		e.Release(first)
		second := b.Granted()
		granted := time.Now()
		e.Pass(e.Tick() / 2)
		e.Release(second)
		third := c.Granted()
		e.Within(granted, per-e.Slack(), per+per/100+time.Millisecond, "C was granted")
		if apart := third.Token() - second.Token(); apart < per.Microseconds() {
			e.Errorf("granted within %d µs, and the window is %v", apart, per)
		}
	})
}

// L7: a pause that is begun while somebody waits ends for that one on time, whoever began it.
func TestPauseEndsOnTimeInEveryProcess(t *testing.T) {
	for who, pause := range map[string]func(e *testenv.Env, holder, waiter *testenv.Peer, d time.Duration) error{
		"the holder": func(e *testenv.Env, holder, _ *testenv.Peer, d time.Duration) error {
			return holder.Sem(1).Cooldown(e.Ctx, d)
		},
		"the waiter": func(e *testenv.Env, _, waiter *testenv.Peer, d time.Duration) error {
			return waiter.Sem(1).Cooldown(e.Ctx, d)
		},
		"another": func(e *testenv.Env, _, _ *testenv.Peer, d time.Duration) error {
			return e.Peer().Sem(1).Cooldown(e.Ctx, d)
		},
		"an operator": func(e *testenv.Env, _, _ *testenv.Peer, d time.Duration) error {
			return e.Inspector.PauseFor(e.Ctx, testenv.Name, d)
		},
	} {
		t.Run(who, func(t *testing.T) {
			testenv.Each(t, func(e *testenv.Env) {
				const lasts = 300 * time.Millisecond
				holder, waiter := e.Peer(), e.Peer()
				first, r := e.Hold(holder.Sem(1)), e.Queue(waiter.Sem(1))
				e.Pass(2 * e.Tick())
				paused := time.Now()
				e.Must(pause(e, holder, waiter, lasts))
				e.Pass(lasts / 3)
				e.Release(first)
				r.Granted()
				e.Within(paused, lasts-e.Slack(), lasts, "granted")
			})
		})
	}
}

// L7, where the head of the queue, which alone was told of the pause, does not stay: those behind it
// are told then.
func TestPauseEndsOnTimeForWhoBecomesTheHead(t *testing.T) {
	for how, leave := range map[string]func(e *testenv.Env, head *testenv.Request){
		"it gives up": func(_ *testenv.Env, head *testenv.Request) {
			head.Cancel()
			head.Refused(context.Canceled)
		},
		"it is evicted": func(e *testenv.Env, head *testenv.Request) {
			e.Must(e.Inspector.Evict(e.Ctx, testenv.Name, e.Show().Queue[0].ID))
			head.Refused(berth.ErrEvicted)
		},
	} {
		t.Run(how, func(t *testing.T) {
			testenv.Each(t, func(e *testenv.Env) {
				const lasts = 300 * time.Millisecond
				holder := e.Peer().Sem(1)
				first, head, next := e.Hold(holder), e.Queue(e.Peer().Sem(1)), e.Queue(e.Peer().Sem(1))
				paused := time.Now()
				e.Must(holder.Cooldown(e.Ctx, lasts))
				e.Pass(lasts / 3)
				leave(e, head)
				e.Pass(lasts / 6)
				e.Release(first)
				next.Granted()
				e.Within(paused, lasts-e.Slack(), lasts, "granted")
			})
		})
	}
}

// L7 for a head that has overtaken another with a head start, and gives up: who was the head before
// is again.
func TestPauseEndsOnTimeForWhoWasOvertaken(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		const lasts = 300 * time.Millisecond
		holder := e.Peer().Sem(1)
		first, head := e.Hold(holder), e.Queue(e.Peer().Sem(1))
		fast := e.Queue(e.Peer().Sem(1), berth.HeadStart(time.Minute))
		paused := time.Now()
		e.Must(holder.Cooldown(e.Ctx, lasts))
		fast.Cancel()
		fast.Refused(context.Canceled)
		e.Release(first)
		head.Granted()
		e.Within(paused, lasts-e.Slack(), lasts, "granted")
	})
}

// L2: a MaxHold that begins with a hand-off ends for whoever waits in a third process.
func TestMaxHoldEndsOnTimeInEveryProcess(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		const most = 300 * time.Millisecond
		first := e.Hold(e.Peer().Sem(1))
		e.Queue(e.Peer().Sem(1), berth.MaxHold(most)) // it hangs
		next := e.Queue(e.Peer().Sem(1))
		e.Pass(2 * time.Second)
		granted := time.Now()
		e.Release(first)
		next.Granted()
		e.Within(granted, most-e.Slack(), most, "granted")
	})
}

// L2 where a lease with a short TTL is crashed with, which was handed off, or adopted, while
// somebody waited.
func TestShorterTTLEndsOnTimeInEveryProcess(t *testing.T) {
	short := func(e *testenv.Env) berth.Option { return berth.TTL(e.TTL / 2) }
	for how, take := range map[string]func(e *testenv.Env, first *berth.Lease, p *testenv.Peer) (next *testenv.Request){
		"a hand-off": func(e *testenv.Env, first *berth.Lease, p *testenv.Peer) *testenv.Request {
			e.Queue(p.Sem(1, short(e)))
			next := e.Queue(e.Peer().Sem(1))
			e.Release(first)
			return next
		},
		"an adoption": func(e *testenv.Env, first *berth.Lease, p *testenv.Peer) *testenv.Request {
			next := e.Queue(e.Peer().Sem(1))
			handle, err := first.Detach(e.Ctx)
			e.Must(err)
			if _, err = p.Adopt(e.Ctx, handle, short(e)); !e.RanOut(err) {
				e.Must(err)
			}
			return next
		},
	} {
		t.Run(how, func(t *testing.T) {
			testenv.Each(t, func(e *testenv.Env) {
				p := e.Peer()
				next := take(e, e.Hold(e.Peer().Sem(1)), p)
				p.Crash()
				crashed := time.Now()
				next.Granted()
				e.Within(crashed, 0, e.TTL/2, "granted")
			})
		})
	}
}

// L3 where many processes with a waiter each have died, and one lives behind them.
func TestDeadWaitersOfManyProcessesDelayByOneHeartbeatTTLTogether(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		const heartbeat = 10 * time.Second
		first := e.Hold(e.Peer().Sem(1))
		var dead []*testenv.Peer
		for range 20 {
			dead = append(dead, e.Peer())
			e.Queue(dead[len(dead)-1].Sem(1))
			e.Pass(130 * time.Millisecond)
		}
		r := e.Start(e.Peer().Sem(1)) // it does not want to know its place
		e.UntilWaiting(len(dead) + 1)
		e.Pass(9 * time.Second) // the last of their heartbeats are not in the order of the queue
		for _, p := range dead {
			p.Crash()
		}
		crashed := time.Now()
		e.Release(first)
		r.Granted()
		e.Within(crashed, 0, heartbeat, "the living waiter's turn came")
	})
}

// calls returns how many calls of the script each of so many grants takes, where each process waits
// for one of them, and one is made each 50 ms as time goes on.
func calls(e *testenv.Env, processes int, sem func(p *testenv.Peer) *berth.Semaphore, opts ...berth.AcquireOption) float64 {
	e.Helper()
	var all []*testenv.Peer
	var waiting []*testenv.Request
	e.Hold(sem(e.Peer()), opts...)
	for range processes {
		p := e.Peer()
		all, waiting = append(all, p), append(waiting, e.Queue(sem(p), opts...))
	}
	for _, r := range waiting {
		r.Granted()
	}
	n := 0
	for _, p := range all {
		n += p.Net.Count("EVALSHA") + p.Net.Count("EVAL")
	}
	return float64(n) / float64(processes)
}

// Nobody looks but the first in the queue: what a grant costs does not grow with the number of
// processes that wait.
func TestGrantTakesAsManyCallsHoweverManyWait(t *testing.T) {
	for what, one := range map[string]func(e *testenv.Env, processes int) float64{
		"a rate": func(e *testenv.Env, processes int) float64 {
			return calls(e, processes, func(p *testenv.Peer) *berth.Semaphore {
				return p.Sem(berth.NoLimit, berth.Rate(1, 50*time.Millisecond))
			})
		},
		"holders that hang": func(e *testenv.Env, processes int) float64 {
			return calls(e, processes, func(p *testenv.Peer) *berth.Semaphore { return p.Sem(1) }, berth.MaxHold(50*time.Millisecond))
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			var few, many float64
			t.Run("5", func(t *testing.T) { testenv.Bubble(t, func(e *testenv.Env) { few = one(e, 5) }) })
			t.Run("50", func(t *testing.T) { testenv.Bubble(t, func(e *testenv.Env) { many = one(e, 50) }) })
			if most := few + 1.5; many > most { // a heartbeat takes more than 50 grants, or hardly less
				t.Errorf("%.1f calls a grant where 5 processes wait, %.1f where 50 do", few, many)
			}
			t.Logf("%.1f calls a grant where 5 processes wait, %.1f where 50 do", few, many)
		})
	}
}

// A pause that ends is looked for by one of those who wait.
func TestEndOfAPauseTakesAsManyCallsHoweverManyWait(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		const processes = 50
		holder := e.Peer().Sem(1)
		e.Hold(holder)
		var all []*testenv.Peer
		for range processes {
			p := e.Peer()
			all = append(all, p)
			e.Queue(p.Sem(1))
		}
		e.Must(holder.Cooldown(e.Ctx, time.Second))
		for _, p := range all {
			p.Net.ResetCounts()
		}
		e.Pass(2 * time.Second) // before the first heartbeat
		n := 0
		for _, p := range all {
			n += p.Net.Count("EVALSHA") + p.Net.Count("EVAL")
		}
		if n != 1 {
			e.Errorf("%d calls, want 1", n)
		}
	})
}
