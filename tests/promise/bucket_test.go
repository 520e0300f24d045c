package promise_test

import (
	"testing"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/internal/testkit/testenv"
)

// bucket is a semaphore of a process that only a bucket of tokens limits, and calls perhaps.
func bucket(p *testenv.Peer, calls ...berth.Option) *berth.Semaphore {
	return p.Sem(berth.NoLimit, append(calls, berth.Rate(10, time.Second).Of("tokens").Burst(10))...)
}

// R4: a bucket gets back what the last call did not cost, whatever was charged before it since the
// bucket was full.
func TestBucketGetsBackWhatTheLastCallDidNotCost(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		sem, other := bucket(e.Peer()), bucket(e.Peer())
		e.Release(e.Hold(sem, costs(1)))
		e.Pass(95 * time.Millisecond)
		l := e.Hold(sem, costs(9))
		settled := time.Now()
		e.Must(l.Settle(0, "tokens"))
		e.Release(e.Hold(other, costs(9)))
		e.Within(settled, 0, 10*time.Millisecond, "granted")
	})
}

// R4: it gets back no more than it would have kept, had the call cost less from the beginning: what
// came in while it was nearly full, it would have lost.
func TestBucketGetsBackNoMoreThanItWouldHaveKept(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		sem, other := bucket(e.Peer()), bucket(e.Peer())
		l := e.Hold(sem, costs(10))
		e.Pass(900 * time.Millisecond)
		e.Release(e.Hold(other, costs(9))) // without the first it had been full
		settled := time.Now()
		e.Must(l.Settle(0, "tokens"))
		e.Release(e.Hold(other, costs(9)))
		e.Within(settled, 800*time.Millisecond, 810*time.Millisecond, "granted")
	})
}

// R5: a bucket that is declared in two sets fills up as if there were one, however often they take turns.
func TestDeclarationsInTurnLetABucketFillUp(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		a := bucket(e.Peer(), berth.Rate(1000, time.Second))
		b := bucket(e.Peer(), berth.Rate(2000, time.Second))
		e.Release(e.Hold(a, costs(10)))
		for range 19 { // 50 ms are half a token
			e.Pass(50 * time.Millisecond)
			_ = e.Try(a, costs(10))
			_ = e.Try(b, costs(10))
		}
		e.Pass(50 * time.Millisecond)
		e.Must(e.Try(b, costs(10)))
	})
}

// R4: what a lease has cost more than the bucket holds counts whole, also when another rate is changed meanwhile.
func TestSurplusOfABucketOutlastsAChangeOfAnotherRate(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		a := bucket(e.Peer(), berth.Rate(1000, time.Second))
		b := bucket(e.Peer(), berth.Rate(2000, time.Second))
		l := e.Hold(a, costs(10))
		settled := time.Now()
		e.Must(l.Settle(20, "tokens"))
		e.Release(l)
		e.Release(e.Hold(b, costs(10)))
		e.Within(settled, 2*time.Second, 2010*time.Millisecond, "granted")
	})
}
