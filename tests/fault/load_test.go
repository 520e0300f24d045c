package fault_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/internal/testkit/redistest"
	"github.com/berth-go/berth/internal/testkit/testenv"
)

// again does something every few milliseconds until the returned function is called.
func again(d time.Duration, do func()) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(d)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				do()
			case <-ctx.Done():
				return
			}
		}
	})
	return func() { cancel(); wg.Wait() }
}

// underLoad runs a fleet of two processes on a server of its own while trouble
// is made again and again, and checks the history.
func underLoad(t *testing.T, every time.Duration, trouble func(l *lab)) {
	t.Helper()
	t.Parallel()
	onServer(t, redistest.Start(t), func(l *lab) {
		l.TTL = 3 * time.Second
		const limit = 3
		ld := l.load(12, l.sem(l.faulty(), limit), l.sem(l.faulty(), limit))
		last := -1
		stop := again(every, func() {
			// Where nothing got done since, the machine is slow, and more would let nothing be done.
			if n := ld.count(); n != last {
				last = n
				trouble(l)
			}
		})
		defer stop()
		ld.more(300)
		stop()
		ld.more(50)
		ld.drain(limit)
		ld.check(t, limit)
	})
}

func TestClientKillUnderLoad(t *testing.T) {
	underLoad(t, 20*time.Millisecond, func(l *lab) { l.Server.Do(l, "CLIENT", "KILL", "TYPE", "normal") })
}

func TestClientKillPubSubUnderLoad(t *testing.T) {
	underLoad(t, 20*time.Millisecond, func(l *lab) { l.Server.Do(l, "CLIENT", "KILL", "TYPE", "pubsub") })
}

func TestScriptFlushUnderLoad(t *testing.T) {
	underLoad(t, 3*time.Millisecond, func(l *lab) { l.Server.Do(l, "SCRIPT", "FLUSH") })
}

// TestFlushAllUnderLoad: the data goes, and with it the leases. Whoever had one
// may still believe in it until its next renewal; those apart, the limit holds,
// everybody is told and nobody hangs.
func TestFlushAllUnderLoad(t *testing.T) {
	t.Parallel()
	onServer(t, redistest.Start(t), func(l *lab) {
		const limit = 3
		c := l.faulty()
		keeper := l.Hold(l.sem(c, limit))
		held := keeper.Context()
		ld := l.load(12, l.sem(c, limit), l.sem(l.faulty(), limit))
		ld.more(50)
		last := time.Duration(0)
		for range 3 {
			l.Server.Do(t, "FLUSHALL")
			last = ld.now()
			ld.more(20)
		}
		testenv.Receive(l, "end of the lost lease", held.Done())
		if err := keeper.Release(); err == nil {
			t.Error("Release of a lease that was deleted: nil")
		}
		ld.more(100)
		ld.drain(limit)
		// Leases last a few milliseconds here; those of before have ended by then.
		if most := ld.most(last+l.TTL/3, time.Hour); most > limit {
			t.Errorf("%d permits believed in at once after the last FLUSHALL, the limit is %d", most, limit)
		}
		if most := ld.most(0, time.Hour); most > 2*limit {
			t.Errorf("%d permits believed in at once; a FLUSHALL loses at most %d", most, limit)
		}
	})
}

// TestClientThatNeverReturns: each call that is given up leaves a goroutine behind in a client
// without time-outs, but never more than eight. When their connections break, all goes on.
func TestClientThatNeverReturns(t *testing.T) {
	everywhere(t, func(l *lab) {
		const most = 8
		s := l.sem(l.Client(l.connect(l.net, func(o *redis.Options) { o.ReadTimeout = -1 })), 1)
		l.Release(l.Hold(s))
		lost := l.net.Inject(redistest.Rule{Match: redistest.IsScript, Fault: redistest.SwallowRequest, Times: -1})
		for range most + 2 {
			_, err := s.TryAcquire(l.Ctx)
			l.WantErr(err, berth.ErrUnreachable)
		}
		if n := lost.Hits(); n != most {
			l.Errorf("%d calls hang, want %d", n, most)
		}
		lost.Stop()
		l.net.CutAll()
		lease := l.Hold(s)
		l.Release(lease)
		l.NothingLeft(1, lease.Token())
	})
}

// TestResizeUnderLoad: 10 → 2 → 10, again and again. Shrinking drains, growing
// wakes: the limit in force when each lease was granted holds.
func TestResizeUnderLoad(t *testing.T) {
	everywhere(t, func(l *lab) {
		sems := []*berth.Semaphore{l.sem(l.faulty(), 10), l.sem(l.faulty(), 10)}
		ld := l.load(32, sems...)
		ld.more(50)
		type phase struct{ from, to time.Duration }
		var small []phase
		for range 4 {
			if err := l.Inspector.Pin(l.Ctx, "s", 2); err != nil {
				l.Fatal(err)
			}
			l.waitFor("drained to the new limit", func() bool { return l.Show().InUse <= 2 })
			from := ld.now()
			ld.more(20)
			small = append(small, phase{from, ld.now()})
			if err := l.Inspector.Pin(l.Ctx, "s", 10); err != nil {
				l.Fatal(err)
			}
			l.waitFor("all 10 in use", func() bool { return l.Show().InUse == 10 })
			ld.more(50)
		}
		if err := l.Inspector.Unpin(l.Ctx, "s"); err != nil {
			l.Fatal(err)
		}
		ld.drain(10)
		ld.check(l.T, 10)
		for _, p := range small {
			if most := ld.most(p.from, p.to); most > 2 {
				l.Errorf("%d permits believed in at once while the limit was 2", most)
			}
		}
	})
}

// TestDeclaredResizeUnderLoad: two deployments that declare different limits.
// The last declaration is in force, so no more than the larger limit is out, and
// the flapping is counted.
func TestDeclaredResizeUnderLoad(t *testing.T) {
	everywhere(t, func(l *lab) {
		ld := l.load(16, l.sem(l.faulty(), 6), l.sem(l.faulty(), 2))
		ld.more(300)
		if changes := l.Show().LimitChanges; changes < 2 {
			l.Errorf("two declarations, but %d changes were counted", changes)
		}
		ld.drain(6)
		ld.check(l.T, 6)
	})
}
