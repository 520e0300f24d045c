package berth_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/internal/redistest"
)

// Copies of a request that Redis executes when their client has long repeated
// it, or given up: each must be refused, or do nothing.

// scripts returns how many scripts the store has run.
func (l *lab) scripts() int {
	l.Helper()
	if l.store != nil {
		return l.store.CommandCount()
	}
	n := 0
	info, _ := l.server.Do(l.T, "INFO", "commandstats").(string)
	for line := range strings.Lines(info) {
		if rest, ok := strings.CutPrefix(line, "cmdstat_evalsha:calls="); ok {
			calls, _, _ := strings.Cut(rest, ",")
			n, _ = strconv.Atoi(calls)
		}
	}
	return n
}

// held is a request of the struck client that the network keeps.
type held struct {
	*redistest.Injection
	l *lab
}

func (l *lab) hold(verb string) held {
	return held{l.net.Inject(redistest.Rule{Match: carries(verb), Fault: redistest.Delay}), l}
}

// arrives lets the request go and returns when the store has executed it.
func (h held) arrives() {
	h.l.Helper()
	if h.Hits() == 0 {
		h.l.Fatal("no request was held")
	}
	before := h.l.scripts()
	h.Release()
	if h.l.store != nil {
		synctest.Wait()
	}
	h.l.until("late request executed", func() bool { return h.l.scripts() > before })
}

// TestLateAcquire: the copy arrives after the lease that it asked for was given
// back.
func TestLateAcquire(t *testing.T) {
	everywhere(t, func(l *lab) {
		late := l.hold("A")
		lease := l.acquire(l.sem(l.struck(), 1))
		l.release(lease)
		late.arrives()
		if st := l.show(); st.Holders != 0 {
			l.Errorf("a late copy was granted to nobody: %+v", st)
		}
		l.idle(1, lease.Token())
	})
}

// TestLateAcquireGivenUp: as before, but nobody ever saw the grant.
func TestLateAcquireGivenUp(t *testing.T) {
	everywhere(t, func(l *lab) {
		s := l.sem(l.struck(), 1)
		l.release(l.acquire(s))
		late := l.hold("A")
		ctx, cancel := context.WithCancel(l.bounded())
		ch := acquiring(ctx, s)
		receive(l, "request", late.Hit())
		cancel()
		if o := receive(l, "end", ch); !errors.Is(o.err, context.Canceled) {
			l.Fatalf("Acquire: %v", o.err)
		}
		// The release in the background goes out when the acquire has had its time.
		released := l.net.Inject(redistest.Rule{Match: carries("L"), Fault: redistest.Duplicate})
		receive(l, "release", released.Hit())
		late.arrives()
		l.idle(1, 0)
	})
}

// TestLateWait: the copy of a cancelled waiter does not queue again.
func TestLateWait(t *testing.T) {
	everywhere(t, func(l *lab) {
		holder := l.acquire(l.sem(l.spared(), 1))
		late := l.hold("A")
		ctx, cancel := context.WithCancel(l.bounded())
		waiting := l.queued(ctx, l.sem(l.struck(), 1), 1)
		cancel()
		receive(l, "end of the wait", waiting)
		l.until("out of the queue", func() bool { return l.show().Waiting == 0 })
		late.arrives()
		if st := l.show(); st.Waiting != 0 {
			l.Errorf("a late copy queued for nobody: %+v", st)
		}
		l.release(holder)
		l.idle(1, holder.Token())
	})
}

// TestLateRelease: the copy arrives when the permit is another's.
func TestLateRelease(t *testing.T) {
	everywhere(t, func(l *lab) {
		holder := l.acquire(l.sem(l.struck(), 1))
		waiting := l.queued(l.bounded(), l.sem(l.spared(), 1), 1)
		late := l.hold("L")
		l.release(holder)
		next := l.granted(waiting)
		late.arrives()
		if st := l.show(); st.Holders != 1 || st.Leases[0].ID != next.ID() {
			l.Errorf("a late release freed another's lease: %+v", st)
		}
		l.release(next)
		l.idle(1, next.Token())
	})
}

// TestLateRenewal: the copy arrives after the release, and revives nothing.
func TestLateRenewal(t *testing.T) {
	everywhere(t, func(l *lab) {
		lease := l.acquire(l.sem(l.struck(), 1, berth.WithoutRenewal()))
		late := l.hold("R")
		if err := lease.Renew(l.bounded()); err != nil {
			l.Fatal(err)
		}
		l.release(lease)
		late.arrives()
		if st := l.show(); st.Holders != 0 {
			l.Errorf("a late renewal revived the lease: %+v", st)
		}
		l.idle(1, lease.Token())
	})
}

// TestLateHeartbeat: the copy arrives after the waiter has left.
func TestLateHeartbeat(t *testing.T) {
	everywhere(t, func(l *lab) {
		holder := l.acquire(l.sem(l.spared(), 1))
		ctx, cancel := context.WithCancel(l.bounded())
		waiting := l.queued(ctx, l.sem(l.struck(), 1), 1)
		late := l.hold("H")
		receive(l, "heartbeat", late.Hit())
		cancel()
		receive(l, "end of the wait", waiting)
		l.until("out of the queue", func() bool { return l.show().Waiting == 0 })
		late.arrives()
		if st := l.show(); st.Waiting != 0 || st.Holders != 1 {
			l.Errorf("a late heartbeat did something: %+v", st)
		}
		l.release(holder)
		l.idle(1, holder.Token())
	})
}

// TestLateReply: a reply that was long under way tells of a moment long past. The
// holder counts from when it asked.
func TestLateReply(t *testing.T) {
	everywhere(t, func(l *lab) {
		reply := l.net.Inject(redistest.Rule{Match: carries("A"), Fault: redistest.DelayReply})
		granted := acquiring(l.bounded(), l.sem(l.struck(), 1, berth.WithoutRenewal()))
		l.until("granted, unknown to the holder", func() bool { return l.show().Holders == 1 })
		<-time.After(l.ttl / 20)
		reply.Release()
		lease := l.granted(granted)
		l.checkTrust(lease)

		reply = l.net.Inject(redistest.Rule{Match: carries("R"), Fault: redistest.DelayReply})
		renewed := make(chan error, 1)
		go func() { renewed <- lease.Renew(l.bounded()) }()
		receive(l, "renewal", reply.Hit())
		<-time.After(l.ttl / 20)
		reply.Release()
		if err := receive(l, "end of Renew", renewed); err != nil {
			l.Errorf("Renew: %v", err)
		}
		l.checkTrust(lease)
		l.release(lease)
		l.idle(1, lease.Token())
	})
}

// frozen runs test on a store whose clock stands where it is put. There a copy
// is never late by the clock, and only what the store remembers can refuse it.
func frozen(t *testing.T, test func(l *lab)) {
	t.Helper()
	t.Parallel()
	inBubble(t, func(l *lab) {
		l.store.SetTime(time.Now())
		test(l)
		l.store.SetTime(time.Time{}) // follows the bubble again
	})
}

func TestTombstoneAfterRelease(t *testing.T) {
	frozen(t, func(l *lab) {
		late := l.hold("A")
		lease := l.acquire(l.sem(l.struck(), 1))
		l.release(lease)
		late.arrives()
		if st := l.show(); st.Holders != 0 {
			l.Errorf("a copy in time was granted to nobody: %+v", st)
		}
	})
}

func TestTombstoneAfterCancel(t *testing.T) {
	frozen(t, func(l *lab) {
		holder := l.acquire(l.sem(l.spared(), 1))
		late := l.hold("A")
		ctx, cancel := context.WithCancel(l.bounded())
		waiting := l.queued(ctx, l.sem(l.struck(), 1), 1)
		cancel()
		receive(l, "end of the wait", waiting)
		l.until("out of the queue", func() bool { return l.show().Waiting == 0 })
		late.arrives()
		if st := l.show(); st.Waiting != 0 {
			l.Errorf("a copy in time queued for nobody: %+v", st)
		}
		l.release(holder)
	})
}

// TestTombstoneAfterExpiry: the lease ran out before the copy arrived, and the
// server's clock was then put back.
func TestTombstoneAfterExpiry(t *testing.T) {
	frozen(t, func(l *lab) {
		start := time.Now()
		late := l.hold("A")
		lease := l.acquire(l.sem(l.struck(), 1, berth.TTL(time.Second), berth.WithoutRenewal()))
		l.store.SetTime(start.Add(2 * time.Second))
		if st := l.show(); st.Holders != 0 {
			l.Fatalf("the lease has not run out: %+v", st)
		}
		l.store.SetTime(start)
		late.arrives()
		if st := l.show(); st.Holders != 0 {
			l.Errorf("a copy was granted again after its lease ran out: %+v", st)
		}
		if err := lease.Release(); !errors.Is(err, berth.ErrLost) {
			l.Errorf("Release: %v", err)
		}
	})
}
