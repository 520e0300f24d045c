package fault_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/berthadmin"
	"github.com/berth-go/berth/internal/protocol"
	"github.com/berth-go/berth/internal/testkit/redistest"
	"github.com/berth-go/berth/internal/testkit/testenv"
)

// Copies of a request that Redis executes when their client has long repeated
// it, or given up: each must be refused, or do nothing.

// scripts returns how many scripts the store has run.
func (l *lab) scripts() int {
	l.Helper()
	if l.Exact {
		return l.Embedded.CommandCount()
	}
	n := 0
	info, _ := l.Server.Do(l, "INFO", "commandstats").(string)
	for line := range strings.Lines(info) {
		if rest, ok := strings.CutPrefix(line, "cmdstat_evalsha:calls="); ok {
			calls, _, _ := strings.Cut(rest, ",")
			n, _ = strconv.Atoi(calls)
		}
	}
	return n
}

// delayed is a request of a faulty client that the network keeps.
type delayed struct {
	*redistest.Injection
	l *lab
}

func (l *lab) delay(verb string) delayed {
	return delayed{l.net.Inject(redistest.Rule{Match: testenv.Carries(verb), Fault: redistest.Delay}), l}
}

// arrives lets the request go and returns when the store has executed it.
func (d delayed) arrives() {
	d.l.Helper()
	if d.Hits() == 0 {
		d.l.Fatal("no request was held")
	}
	before := d.l.scripts()
	d.Release()
	if d.l.Exact {
		synctest.Wait()
	}
	d.l.waitFor("late request executed", func() bool { return d.l.scripts() > before })
}

// TestLateAcquire: the copy arrives after the lease that it asked for was given
// back.
func TestLateAcquire(t *testing.T) {
	everywhere(t, func(l *lab) {
		late := l.delay("A")
		lease := l.Hold(l.sem(l.faulty(), 1))
		l.Release(lease)
		late.arrives()
		if st := l.Show(); st.Holders != 0 {
			l.Errorf("a late copy was granted to nobody: %+v", st)
		}
		l.NothingLeft(1, lease.Token())
	})
}

// TestLateAcquireAfterAPause: nothing was heard of the server's clock for so long that little is
// known of it, and the copy arrives when the tombstone has gone.
func TestLateAcquireAfterAPause(t *testing.T) {
	t.Parallel()
	inBubble(t, func(l *lab) {
		s := l.sem(l.faulty(), 1)
		for _, pause := range []time.Duration{time.Minute, 10 * time.Minute, 40 * time.Minute} {
			l.Release(l.Hold(s))
			l.Pass(pause)
			late := l.delay("A")
			l.Release(l.Hold(s))
			l.Pass(protocol.Late + 500*time.Millisecond)
			late.arrives()
			l.NothingLeft(1, 0)
		}
	})
}

// TestLateAcquireGivenUp: as before, but nobody ever saw the grant.
func TestLateAcquireGivenUp(t *testing.T) {
	everywhere(t, func(l *lab) {
		s := l.sem(l.faulty(), 1)
		l.Release(l.Hold(s))
		late := l.delay("A")
		ctx, cancel := context.WithCancel(l.Ctx)
		ch := acquiring(ctx, s)
		testenv.Receive(l, "request", late.Hit())
		cancel()
		if o := testenv.Receive(l, "end", ch); !errors.Is(o.err, context.Canceled) {
			l.Fatalf("Acquire: %v", o.err)
		}
		// The release in the background goes out when the acquire has had its time.
		released := l.net.Inject(redistest.Rule{Match: testenv.Carries("L"), Fault: redistest.Duplicate})
		testenv.Receive(l, "release", released.Hit())
		late.arrives()
		l.NothingLeft(1, 0)
	})
}

// TestLateSettlement: the copy of one that had no answer arrives after a later one was answered. What the
// holder said last counts once the lease has been given back.
func TestLateSettlement(t *testing.T) {
	everywhere(t, func(l *lab) {
		lease := l.Hold(l.sem(l.faulty(), 1, berth.Rate(1000, time.Hour).Of("tokens")), berth.Cost(500).Of("tokens"))
		counts := func(n int) func() bool { return func() bool { return l.Show().Rates[0].Spent == n } }
		late := l.delay("S")
		l.Must(lease.Settle(100, "tokens"))
		l.waitFor("settled by the second copy", counts(100))
		l.Must(lease.Settle(300, "tokens"))
		l.waitFor("settled again", counts(300))
		late.arrives()
		l.waitFor("overruled", counts(100))
		l.Release(lease)
		if !counts(300)() {
			l.Errorf("state %+v", l.Show())
		}
	})
}

// TestLateWait: the copy of a cancelled waiter does not queue again.
func TestLateWait(t *testing.T) {
	everywhere(t, func(l *lab) {
		holder := l.Hold(l.sem(l.healthy(), 1))
		late := l.delay("A")
		ctx, cancel := context.WithCancel(l.Ctx)
		waiting := l.queued(ctx, l.sem(l.faulty(), 1), 1)
		cancel()
		testenv.Receive(l, "end of the wait", waiting)
		l.waitFor("out of the queue", func() bool { return l.Show().Waiting == 0 })
		late.arrives()
		if st := l.Show(); st.Waiting != 0 {
			l.Errorf("a late copy queued for nobody: %+v", st)
		}
		l.Release(holder)
		l.NothingLeft(1, holder.Token())
	})
}

// TestLateRelease: the copy arrives when the permit is another's.
func TestLateRelease(t *testing.T) {
	everywhere(t, func(l *lab) {
		holder := l.Hold(l.sem(l.faulty(), 1))
		waiting := l.queued(l.Ctx, l.sem(l.healthy(), 1), 1)
		late := l.delay("L")
		l.Release(holder)
		next := l.granted(waiting)
		late.arrives()
		if st := l.Show(); st.Holders != 1 || st.Leases[0].ID != next.ID() {
			l.Errorf("a late release freed another's lease: %+v", st)
		}
		l.Release(next)
		l.NothingLeft(1, next.Token())
	})
}

// TestLateRenewal: the copy arrives after the release, and revives nothing.
func TestLateRenewal(t *testing.T) {
	everywhere(t, func(l *lab) {
		lease := l.Hold(l.sem(l.faulty(), 1, berth.WithoutRenewal()))
		late := l.delay("R")
		if err := lease.Renew(l.Ctx); err != nil {
			l.Fatal(err)
		}
		l.Release(lease)
		late.arrives()
		if st := l.Show(); st.Holders != 0 {
			l.Errorf("a late renewal revived the lease: %+v", st)
		}
		l.NothingLeft(1, lease.Token())
	})
}

// TestLateHeartbeat: the copy arrives after the waiter has left.
func TestLateHeartbeat(t *testing.T) {
	everywhere(t, func(l *lab) {
		holder := l.Hold(l.sem(l.healthy(), 1))
		ctx, cancel := context.WithCancel(l.Ctx)
		waiting := l.queued(ctx, l.sem(l.faulty(), 1), 1)
		late := l.delay("H")
		testenv.Receive(l, "heartbeat", late.Hit())
		cancel()
		testenv.Receive(l, "end of the wait", waiting)
		l.waitFor("out of the queue", func() bool { return l.Show().Waiting == 0 })
		late.arrives()
		if st := l.Show(); st.Waiting != 0 || st.Holders != 1 {
			l.Errorf("a late heartbeat did something: %+v", st)
		}
		l.Release(holder)
		l.NothingLeft(1, holder.Token())
	})
}

// notPaused fails unless there is nothing of the semaphore.
func (l *lab) notPaused() {
	l.Helper()
	if _, err := l.Inspector.Show(l.Ctx, testenv.Name); !errors.Is(err, berthadmin.ErrNotFound) {
		l.Errorf("a late copy paused the semaphore: %v", err)
	}
}

// TestLateCooldown: the copy arrives when the pause has ended.
func TestLateCooldown(t *testing.T) {
	everywhere(t, func(l *lab) {
		s := l.sem(l.faulty(), 1)
		late := l.delay("W")
		l.Must(s.Cooldown(l.Ctx, time.Second)) // by a second copy
		l.Pass(protocol.Late)
		late.arrives()
		l.notPaused()
	})
}

// TestLateCooldownGivenUp: the same of one that was told that it may have paused the semaphore, or not.
func TestLateCooldownGivenUp(t *testing.T) {
	everywhere(t, func(l *lab) {
		s := l.sem(l.faulty(), 1)
		l.Release(l.Hold(s)) // so that the server's clock is known
		late := l.delay("W")
		ctx, cancel := context.WithCancel(l.Ctx)
		told := make(chan error, 1)
		go func() { told <- s.Cooldown(ctx, time.Minute) }()
		testenv.Receive(l, "request", late.Hit())
		cancel()
		if err := testenv.Receive(l, "end", told); !errors.Is(err, context.Canceled) || !errors.Is(err, berth.ErrUnreachable) {
			l.Errorf("Cooldown: %v", err)
		}
		l.Pass(protocol.Late)
		late.arrives()
		l.notPaused()
	})
}

// TestLateRenewalOfAHandle: the copy arrives when the lease is about to end.
func TestLateRenewalOfAHandle(t *testing.T) {
	everywhere(t, func(l *lab) {
		c := l.faulty()
		handle, err := l.Hold(l.sem(c, 1)).Detach(l.Ctx)
		l.Must(err)
		late := l.delay("R")
		_, err = c.RenewHandle(l.Ctx, handle) // by a second copy
		l.Must(err)
		l.Pass(protocol.Late)
		late.arrives()
		if left := l.Show().Leases[0].ExpiresIn; left > l.TTL-protocol.Late+time.Second {
			l.Errorf("a late copy renewed the lease, which lasts for %v more", left)
		}
	})
}

// TestLateReleaseOfAHandle: whoever gave the release up has gone on with the lease.
func TestLateReleaseOfAHandle(t *testing.T) {
	everywhere(t, func(l *lab) {
		c := l.faulty()
		handle, err := l.Hold(l.sem(c, 1)).Detach(l.Ctx)
		l.Must(err)
		late := l.delay("L")
		ctx, cancel := context.WithCancel(l.Ctx)
		told := make(chan error, 1)
		go func() { told <- c.ReleaseHandle(ctx, handle) }()
		testenv.Receive(l, "request", late.Hit())
		cancel()
		if err := testenv.Receive(l, "end", told); !errors.Is(err, context.Canceled) || !errors.Is(err, berth.ErrUnreachable) {
			l.Errorf("ReleaseHandle: %v", err)
		}
		l.Pass(protocol.Late)
		_, err = l.healthy().RenewHandle(l.Ctx, handle)
		l.Must(err)
		late.arrives()
		if st := l.Show(); st.Holders != 1 {
			l.Errorf("a late copy released the lease: %+v", st)
		}
	})
}

// TestLateReply: a reply that was long under way tells of a moment long past. The
// holder counts from when it asked.
func TestLateReply(t *testing.T) {
	everywhere(t, func(l *lab) {
		reply := l.net.Inject(redistest.Rule{Match: testenv.Carries("A"), Fault: redistest.DelayReply})
		granted := acquiring(l.Ctx, l.sem(l.faulty(), 1, berth.WithoutRenewal()))
		l.waitFor("granted, unknown to the holder", func() bool { return l.Show().Holders == 1 })
		<-time.After(l.TTL / 20)
		reply.Release()
		lease := l.granted(granted)
		l.checkTrust(lease)

		reply = l.net.Inject(redistest.Rule{Match: testenv.Carries("R"), Fault: redistest.DelayReply})
		renewed := make(chan error, 1)
		go func() { renewed <- lease.Renew(l.Ctx) }()
		testenv.Receive(l, "renewal", reply.Hit())
		<-time.After(l.TTL / 20)
		reply.Release()
		if err := testenv.Receive(l, "end of Renew", renewed); err != nil {
			l.Errorf("Renew: %v", err)
		}
		l.checkTrust(lease)
		l.Release(lease)
		l.NothingLeft(1, lease.Token())
	})
}

// frozen runs test on a store whose clock stands where it is put. There a copy
// is never late by the clock, and only what the store remembers can refuse it.
func frozen(t *testing.T, test func(l *lab)) {
	t.Helper()
	t.Parallel()
	inBubble(t, func(l *lab) {
		l.Embedded.SetTime(time.Now())
		test(l)
		l.Embedded.SetTime(time.Time{}) // follows the bubble again
	})
}

func TestTombstoneAfterRelease(t *testing.T) {
	frozen(t, func(l *lab) {
		late := l.delay("A")
		lease := l.Hold(l.sem(l.faulty(), 1))
		l.Release(lease)
		late.arrives()
		if st := l.Show(); st.Holders != 0 {
			l.Errorf("a copy in time was granted to nobody: %+v", st)
		}
	})
}

// TestTombstoneAfterDetach: the lease was adopted elsewhere and given back there, where
// nobody knows that a copy of its acquire is on its way.
func TestTombstoneAfterDetach(t *testing.T) {
	frozen(t, func(l *lab) {
		late := l.delay("A")
		handle, err := l.Hold(l.sem(l.faulty(), 1)).Detach(l.Ctx)
		l.Must(err)
		lease, err := l.healthy().Adopt(l.Ctx, handle)
		l.Must(err)
		l.Release(lease)
		late.arrives()
		if st := l.Show(); st.Holders != 0 {
			l.Errorf("a copy in time was granted to nobody: %+v", st)
		}
	})
}

func TestTombstoneAfterCancel(t *testing.T) {
	frozen(t, func(l *lab) {
		holder := l.Hold(l.sem(l.healthy(), 1))
		late := l.delay("A")
		ctx, cancel := context.WithCancel(l.Ctx)
		waiting := l.queued(ctx, l.sem(l.faulty(), 1), 1)
		cancel()
		testenv.Receive(l, "end of the wait", waiting)
		l.waitFor("out of the queue", func() bool { return l.Show().Waiting == 0 })
		late.arrives()
		if st := l.Show(); st.Waiting != 0 {
			l.Errorf("a copy in time queued for nobody: %+v", st)
		}
		l.Release(holder)
	})
}

// TestTombstoneAfterExpiry: the lease ran out before the copy arrived, and the
// server's clock was then put back.
func TestTombstoneAfterExpiry(t *testing.T) {
	frozen(t, func(l *lab) {
		start := time.Now()
		late := l.delay("A")
		lease := l.Hold(l.sem(l.faulty(), 1, berth.TTL(time.Second), berth.WithoutRenewal()))
		l.Embedded.SetTime(start.Add(2 * time.Second))
		if st := l.Show(); st.Holders != 0 {
			l.Fatalf("the lease has not run out: %+v", st)
		}
		l.Embedded.SetTime(start)
		late.arrives()
		if st := l.Show(); st.Holders != 0 {
			l.Errorf("a copy was granted again after its lease ran out: %+v", st)
		}
		if err := lease.Release(); !errors.Is(err, berth.ErrLost) {
			l.Errorf("Release: %v", err)
		}
	})
}
