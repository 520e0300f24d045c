package fault_test

import (
	"context"
	"errors"
	"math"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/internal/testkit/redistest"
	"github.com/berth-go/berth/internal/testkit/testenv"
)

const many = 10_000

// waitingNow returns the length of the queue; unlike show it does not read it.
func (l *lab) waitingNow() int {
	l.Helper()
	all, err := testenv.Listed(l.Inspector.List(l.Context()))
	if err != nil {
		l.Fatal(err)
	}
	n := 0
	for _, s := range all {
		n += s.Waiting
	}
	return n
}

// TestManyLeasesExpireAtOnce: a process takes 10,000 permits, does not renew
// them, and they all come back, to one that waits for all of them.
func TestManyLeasesExpireAtOnce(t *testing.T) {
	everywhere(t, func(l *lab) {
		n := many
		l.TTL = 15 * time.Second // so that a slow machine has used the last before the first runs out
		if l.Exact {
			n /= 5 // it interprets Lua slowly
		}
		s := l.sem(l.faulty(), n)
		leases := make([]*berth.Lease, n)
		var wg sync.WaitGroup
		room := make(chan struct{}, 1000) // with all at once, a slow machine has the last ones time out
		for i := range leases {
			room <- struct{}{}
			wg.Go(func() {
				defer func() { <-room }()
				err := l.Timely(func() (err error) {
					leases[i], err = s.Acquire(l.Context(), berth.WithoutRenewal())
					return err
				})
				if err != nil {
					l.Error(err)
				}
			})
		}
		wg.Wait()
		if l.Failed() {
			return
		}
		start := time.Now()
		all := l.Hold(l.sem(l.healthy(), n, berth.TTL(time.Minute)), berth.Weight(n))
		if took := time.Since(start); took > l.TTL+l.Slack() {
			l.Errorf("all permits came back after %v, the TTL is %v", took, l.TTL)
		}
		for _, lease := range leases {
			if lease.Valid() {
				l.Fatal("a lease is valid that has run out")
			}
			testenv.Receive(l, "end of a lease", lease.Context().Done())
			if cause := context.Cause(lease.Context()); !errors.Is(cause, berth.ErrLost) {
				l.Fatalf("a lease that ran out ended with %v", cause)
			}
		}
		l.Release(all)
		sums, err := testenv.Listed(l.Inspector.List(l.Context())) // Show would read 10,000 tombstones
		if err != nil || len(sums) > 0 && sums[0].InUse+sums[0].Holders+sums[0].Waiting > 0 {
			l.Errorf("%v, the server has %+v", err, sums)
		}
	})
}

// crowd starts n requests that wait for a permit, and returns what they cost the
// heap of the process that runs them, and how to end them. On a real machine that has no
// time for so many heartbeats there are fewer of them.
//
// It is the difference of the live heap (after a collection) before and after.
// The callers' goroutines, which exist before, and their stacks, which are not
// in the heap, do not count; all else that the test allocates does, and so does what
// a larger crowd, which was not in line in time, has left.
func (l *lab) crowd(s *berth.Semaphore, most int) (n int, bytes int64, disperse func()) {
	l.Helper()
	least := int64(math.MaxInt64)
	for n = most; ; n /= 2 {
		before, disperse := l.gather(s, n)
		least = min(least, before)
		for end := time.Now().Add(3 * time.Minute); time.Now().Before(end); l.Pass(l.pause) {
			if l.waitingNow() == n {
				return n, liveHeap() - least, disperse
			}
		}
		disperse()
		l.waitFor("nobody in line", func() bool { return l.waitingNow() == 0 })
		if l.Exact || n < most/10 {
			l.Fatalf("%d requests were not all in line within 3 minutes", n)
		}
	}
}

// gather starts n requests, and returns the live heap before that, and how to end them.
func (l *lab) gather(s *berth.Semaphore, n int) (before int64, disperse func()) {
	l.Helper()
	ctx, cancel := context.WithCancel(l.Ctx)
	begin := make(chan struct{})
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			<-begin
			for ctx.Err() == nil {
				lease, err := s.Acquire(ctx)
				if err == nil {
					_ = lease.Release() // it was granted when the others left
				}
				if !errors.Is(err, berth.ErrUnreachable) { // a slow machine has them ask again
					break
				}
			}
		})
	}
	before = liveHeap()
	close(begin)
	return before, func() { cancel(); wg.Wait() }
}

func liveHeap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // what a finalizer or a pool kept
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc) //nolint:gosec // no machine has so much
}

// TestManyWaiters: 10,000 waiters in one process cost it less than 2 KiB each,
// the server a few calls a second, and they leave nothing behind.
//
// It does not run in parallel: others would allocate.
func TestManyWaiters(t *testing.T) { //nolint:paralleltest // see above
	onServer(t, redistest.Start(t), func(l *lab) {
		holder := l.Hold(l.sem(l.healthy(), 1, berth.TTL(berth.MaxTTL)))
		l.TTL = 10 * time.Second // of waiters: with more they would be heard from as often
		s := l.sem(l.faulty(), 1)
		n, bytes, disperse := l.crowd(s, many)
		each := bytes / int64(n)
		t.Logf("%d waiters cost %d bytes each", n, each)
		if each > 2<<10 {
			t.Errorf("a waiter costs %d bytes", each)
		}

		calls, most := 0, 0
		for range 5 { // calls that a slow machine does not answer in time are repeated
			if calls, most = l.beats(n, 2*l.TTL/3); calls <= most {
				break
			}
		}
		t.Logf("%d waiters make %d calls in the time of %d", n, calls, most)
		if calls > most {
			t.Errorf("%d waiters cost the server %d calls in the time of %d", n, calls, most)
		}
		l.waitFor("all still wait", func() bool { return l.waitingNow() == n })
		disperse()
		l.waitFor("nobody in line", func() bool { return l.waitingNow() == 0 })
		l.Release(holder)
		l.NothingLeft(1, holder.Token())
	})
}

// beats returns how many calls the server had of n waiters in d or longer, and how many
// they may be: each waiter is heard from in each interval begun, with 250 others.
func (l *lab) beats(n int, d time.Duration) (calls, most int) {
	l.Helper()
	start, before := time.Now(), l.scripts()
	<-time.After(d)
	calls = l.scripts() - before
	intervals := int(time.Since(start)/(l.TTL/3)) + 1
	return calls, intervals * n / 250 * 11 / 10
}

// TestWaitersForAnHour: the heartbeats of all waiters of a process travel
// together, so an hour of waiting costs as many calls as it has intervals.
func TestWaitersForAnHour(t *testing.T) {
	t.Parallel()
	inBubble(t, func(l *lab) {
		var cancel context.CancelFunc
		l.Ctx, cancel = context.WithTimeout(l.Context(), 2*time.Hour)
		defer cancel()
		const n = 5
		s := l.sem(l.faulty(), 1)
		holder := l.Hold(l.sem(l.healthy(), 1, berth.TTL(berth.MaxTTL)))
		_, _, disperse := l.crowd(s, n)
		l.net.ResetCounts()
		<-time.After(time.Hour)
		intervals := int(time.Hour / (10 * time.Second / 3))
		if calls := l.net.Count("EVALSHA"); calls > intervals*11/10 || calls < intervals*9/10 {
			l.Errorf("%d waiters made %d calls in an hour of %d intervals", n, calls, intervals)
		}
		if others := l.net.Count() - l.net.Count("EVALSHA", "PING", "INFO"); others > 0 {
			l.Errorf("they sent other commands too: %v", l.net.Counts())
		}
		if got := l.waitingNow(); got != n {
			l.Errorf("%d of %d still wait", got, n)
		}
		disperse()
		l.Release(holder)
		l.NothingLeft(1, holder.Token())
	})
}

// TestUncontendedTakesTwoCommands: a call that a slow machine does not answer in time is
// repeated, so there it goes on until one pair at least was quick. In a bubble, all are.
func TestUncontendedTakesTwoCommands(t *testing.T) {
	everywhere(t, func(l *lab) {
		s := l.sem(l.faulty(), 5)
		l.Release(l.Hold(s))
		for pairs, quick := 0, 0; pairs < 50 || quick == 0; pairs++ {
			l.net.ResetCounts()
			start, before := time.Now(), l.scripts()
			l.Release(l.Hold(s))
			calls, took := l.scripts()-before, time.Since(start)
			sent := l.net.Counts()
			if l.Exact {
				calls = sent["EVALSHA"] // the embedded store counts the commands in a script too
			} else if took >= 2*time.Second {
				continue
			}
			quick++
			// Of a connection, whenever it is made; PING asks whether Redis is there when it is slow.
			for _, once := range []string{"CLIENT", "HELLO", "INFO", "PING"} {
				delete(sent, once)
			}
			if calls != 2 || len(sent) != 1 || sent["EVALSHA"] != 2 {
				l.Errorf("a pair made %d calls, and sent %v", calls, l.net.Counts())
			}
		}
	})
}

// TestContendedCommands: 64 waiters for 5 permits take 2.1 commands for each
// acquire at most, and their heartbeats, whether they are one process or many.
func TestContendedCommands(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	for name, processes := range map[string]int{"one process": 1, "64 processes": 64} {
		t.Run(name, func(t *testing.T) {
			onServer(t, server, func(l *lab) {
				var sems []*berth.Semaphore
				for range processes {
					s := l.sem(l.faulty(), 5)
					l.Release(l.Hold(s)) // connects
					sems = append(sems, s)
				}
				ld := l.load(64+5, sems...)
				ld.more(64)
				var calls, acquires, beats int
				for range 5 { // calls that a slow machine does not answer in time are repeated
					before, had, start := l.net.Count("EVALSHA"), ld.count(), time.Now()
					ld.more(600)
					calls, acquires = l.net.Count("EVALSHA")-before, ld.count()-had
					beats = int(64 * time.Since(start) / (10 * time.Second / 3))
					if calls <= acquires*21/10+beats+64 { // those that are under way
						break
					}
				}
				t.Logf("%d calls for %d acquires, in the time of %d heartbeats", calls, acquires, beats)
				if calls > acquires*21/10+beats+64 {
					t.Error("too many")
				}
				ld.stop()
				ld.wg.Wait()
				ld.check(t, 5)
				l.NothingLeft(5, 0)
			})
		})
	}
}
