package promise_test

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/berthadmin"
	"github.com/berth-go/berth/internal/testkit/testenv"
)

// tokens is a semaphore of a process that only a rate of tokens limits.
func tokens(p *testenv.Peer, n int, per time.Duration) *berth.Semaphore {
	return p.Sem(berth.NoLimit, berth.Rate(n, per).Of("tokens"))
}

func costs(n int) berth.AcquireOption { return berth.Cost(n).Of("tokens") }

// spentAs waits until so much is spent: Settle does not wait for its answer.
func spentAs(e *testenv.Env, n int) {
	e.Helper()
	e.Until("settled", func(st *berthadmin.State) bool { return spent(st) == n })
}

// R4: what a call has cost less is free at once for who waits in another process, though the wait began
// before, and that process has since declared another rate, or a window so different that the record of
// the rate had to be sorted anew.
func TestSettledCostsServeWhoWaitsElsewhere(t *testing.T) {
	for what, other := range map[string]struct {
		n   int
		per time.Duration
		in  func(*testing.T, func(*testenv.Env))
	}{
		"the same rate": {1000, time.Minute, testenv.Each}, "another rate": {1100, time.Minute, testenv.Each},
		"a shorter window": {1000, 6 * time.Second, testenv.Each}, "a longer window": {1000, time.Hour, testenv.Embedded},
	} {
		t.Run(what, func(t *testing.T) {
			other.in(t, func(e *testenv.Env) {
				l := e.Hold(tokens(e.Peer(), 1000, time.Minute), costs(900))
				e.Pass(300 * time.Millisecond)
				waits := e.Queue(tokens(e.Peer(), other.n, other.per), costs(300))
				waits.Waits()
				settled := time.Now()
				e.Must(l.Settle(600, "tokens"))
				e.Holds(l, waits.Granted())
				e.Within(settled, 0, 0, "granted")
				if n := spent(e.Show()); n != 900 {
					e.Errorf("%d count, want 900", n)
				}
			})
		})
	}
}

// R4: what it has cost more counts whole from then on, and nothing is granted while a rate is exceeded.
func TestSurplusCountsFromItsSettlement(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		l := e.Hold(tokens(e.Peer(), 1000, time.Minute), costs(100))
		e.Pass(40 * time.Second)
		settled := time.Now()
		e.Must(l.Settle(1200, "tokens"))
		other := tokens(e.Peer(), 1000, time.Minute)
		spentAs(e, 1200)
		var busy *berth.BusyError
		if err := e.Try(other, costs(1)); !errors.As(err, &busy) || busy.Spent != 1200 || busy.Unit != "tokens" {
			e.Fatalf("%v", err)
		}
		e.Release(l)
		e.Release(e.Hold(other, costs(1)))
		e.Within(settled, time.Minute, 61*time.Second, "it has left the window")
	})
}

// R4: less after a surplus is taken from where that counts.
func TestSettlementAfterASurplus(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		sem := tokens(e.Peer(), 1000, time.Minute)
		l := e.Hold(sem, costs(100))
		e.Pass(40 * time.Second)
		settled := time.Now()
		e.Must(l.Settle(300, "tokens"))
		e.Pass(5 * time.Second)
		e.Must(l.Settle(50, "tokens"))
		spentAs(e, 50)
		e.Release(e.Hold(tokens(e.Peer(), 1000, time.Minute), costs(951)))
		e.Within(settled, time.Minute, 61*time.Second, "it has left the window")
	})
}

// R4: what is said last counts, once, also with the release that follows at once.
func TestLastSettlementCounts(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		sem := tokens(e.Peer(), 1000, time.Hour)
		l := e.Hold(sem, costs(500))
		for _, n := range []int{100, 700, 0, 300} {
			e.Must(l.Settle(n, "tokens"))
		}
		spentAs(e, 300)
		e.Must(l.Settle(200, "tokens"))
		e.Release(l)
		spentAs(e, 200)
	})
}

// R4: a crash leaves the estimate.
func TestCrashLeavesTheEstimate(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		p := e.Peer()
		l := e.Hold(tokens(p, 1000, time.Hour), costs(500), berth.TTL(e.TTL))
		p.Crash()
		_ = l.Settle(100, "tokens")
		e.Pass(2 * e.TTL)
		if st := e.Show(); spent(st) != 500 || st.InUse != 0 {
			e.Errorf("state %+v", st.Summary)
		}
	})
}

// R4, R5: what has left a short window that was in force meanwhile does not count any more, so that settling
// it frees nothing of what others have spent since.
func TestSettlementOfWhatIsForgottenFreesNothing(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		long, short := tokens(e.Peer(), 1000, time.Hour), tokens(e.Peer(), 1000, time.Second)
		l := e.Hold(long, costs(600))
		e.WantErr(e.Try(short, costs(500)), berth.ErrBusy)
		e.Pass(2 * time.Second)
		other := e.Hold(long, costs(700))
		spentAs(e, 700)
		e.Must(l.Settle(100, "tokens"))
		e.Release(l)
		if n := spent(e.Show()); n != 700 {
			e.Errorf("%d count, want 700", n)
		}
		e.Release(other)
	})
}

// R4: a release that comes after the lease has run out tells that what was settled may not count.
func TestReleaseTellsOfALateSettlement(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		p := e.Peer()
		l := e.Hold(tokens(p, 1000, time.Hour), costs(500), berth.TTL(2*time.Second))
		p.Net.Down()
		e.Must(l.Settle(600, "tokens"))
		released := make(chan error, 1)
		go func() { released <- l.Release() }()
		e.Pass(2 * time.Second)
		p.Net.Up()
		if err := <-released; !errors.Is(err, berth.ErrUnreachable) || !strings.Contains(err.Error(), "settled") {
			e.Errorf("released: %v", err)
		}
		if st := e.Show(); spent(st) != 500 || st.InUse != 0 {
			e.Errorf("state %+v", st.Summary)
		}
	})
}

// What cannot be settled is refused, and changes nothing.
func TestBadSettlements(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		sem := tokens(e.Peer(), 1000, time.Hour)
		l := e.Hold(sem, costs(500))
		for given, err := range map[string]error{
			"below zero": l.Settle(-1, "tokens"), "too much": l.Settle(berth.MaxLimit+1, "tokens"),
			"a unit that was not charged": l.Settle(1, "points"), "no unit": l.Settle(1, ""), "no word": l.Settle(1, "To kens"),
		} {
			invalid(e, err, "Settle", given)
		}
		var none *berth.Lease
		e.WantErr(none.Settle(1, "tokens"), berth.ErrReleased)
		lost := e.Hold(sem, costs(100))
		e.Must(e.Inspector.ForceEvict(e.Ctx, testenv.Name, lost.ID()))
		_ = e.Lost(lost)
		e.WantErr(lost.Settle(1, "tokens"), berth.ErrLost)
		e.Release(l)
		e.WantErr(l.Settle(1, "tokens"), berth.ErrReleased)
		if n := spent(e.Show()); n != 600 {
			e.Errorf("%d spent, want 600", n)
		}
	})
}

// TestRequestWithoutACostIsTold: a request that has no cost in a unit of which it declares a rate counts
// by its weight, and one warning says so.
func TestRequestWithoutACostIsTold(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		log := newWarnings("does not say what it costs")
		p := e.Peer(berth.Logger(slog.New(log)))
		sem := tokens(p, 1000, time.Minute)
		e.Release(e.Hold(sem, costs(0)))
		for range 2 {
			e.Release(e.Hold(sem))
		}
		spentAs(e, 2)
		e.Must(p.Close())
		if n := len(log.told); n != 1 || !strings.Contains(<-log.told, "unit=tokens") {
			e.Errorf("%d warnings, want one, of the unit", n)
		}
	})
}

// R4: what was settled before a Detach is not lost with it.
func TestDetachKeepsTheSettlement(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		p, q := e.Peer(), e.Peer()
		l := e.Hold(tokens(p, 1000, time.Hour), costs(900))
		e.Must(l.Settle(600, "tokens"))
		handle, err := l.Detach(e.Ctx)
		e.Must(err)
		spentAs(e, 600)
		adopted, err := q.Adopt(e.Ctx, handle)
		e.Must(err)
		e.Must(adopted.Settle(500, "tokens"))
		spentAs(e, 500)
		e.Release(adopted)
	})
}
