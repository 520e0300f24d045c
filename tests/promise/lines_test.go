package promise_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/internal/testkit/testenv"
)

// Lines of tenants, whose waiters are in as many processes.

// T2 with each waiter, each grant and each release in another process, where two declarations of the
// limit come in turn.
func TestTenantsOfManyProcessesTakeTurns(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		first := e.Hold(e.Peer().Sem(1))
		var rs []*testenv.Request
		for i, label := range []string{"big0", "big1", "big2", "small0", "small1"} {
			rs = append(rs, asTenant(e, e.Peer().Sem(1+i%2), label))
		}
		e.Must(e.Inspector.Resize(e.Ctx, testenv.Name, 1))
		e.Release(first)
		var served []string
		for range rs {
			l := firstOf(e, &rs)
			served = append(served, l.Label())
			e.Release(l)
		}
		if got := fmt.Sprint(served); got != "[big0 big1 small0 big2 small1]" {
			e.Errorf("served %s", got)
		}
	})
}

// R2, L7 for the head of a line in another process than the cause, which began after the wait.
func TestHeadOfALineIsOnTimeInEveryProcess(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		const per = 500 * time.Millisecond
		sem := func() *berth.Semaphore { return e.Peer().Sem(1, berth.Rate(1, per)) }
		first := e.Hold(sem())
		a, b := asTenant(e, sem(), "a0"), asTenant(e, sem(), "b0")
		e.Pass(2 * time.Second)
		granted := time.Now()
		e.Release(first)
		e.Release(a.Granted())
		b.Granted()
		e.Within(granted, per-e.Slack(), per+per/100+time.Millisecond, "granted")
		e.Release(b.Lease)
		e.Pass(2 * time.Second)

		first = e.Hold(sem())
		a = asTenant(e, sem(), "a1")
		e.Pass(2 * time.Second)
		paused := time.Now()
		e.Must(e.Peer().Sem(1).Cooldown(e.Ctx, per))
		e.Release(first)
		a.Granted()
		e.Within(paused, per-e.Slack(), per+per/100+2*time.Millisecond, "granted")
	})
}

// L3 where the first of each line is in a process that has died.
func TestDeadLinesDelayByOneHeartbeatTTLTogether(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		const heartbeat = 10 * time.Second
		first := e.Hold(e.Peer().Sem(1))
		var dead []*testenv.Peer
		for i := range 10 {
			dead = append(dead, e.Peer())
			e.Queue(dead[i].Sem(1), berth.Tenant(fmt.Sprint("dead", i)))
			e.Pass(130 * time.Millisecond)
		}
		r := e.Start(e.Peer().Sem(1), berth.Tenant("alive"))
		e.UntilWaiting(len(dead) + 1)
		e.Pass(9 * time.Second)
		for _, p := range dead {
			p.Crash()
		}
		crashed := time.Now()
		e.Release(first)
		r.Granted()
		e.Within(crashed, 0, heartbeat, "the living waiter's turn came")
	})
}
