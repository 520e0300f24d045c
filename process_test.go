package berth_test

import (
	"syscall"
	"testing"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/internal/redistest"
)

// ending is a way in which real client processes end.
type ending struct {
	name string
	test func(l *lab)
}

func (e ending) String() string { return e.name }

// TestProcesses: clients are processes here, ended by signals that leave them no
// time for a last word. Most of it is waiting for TTLs, so all run at once.
func TestProcesses(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	sideBySide(t, []ending{
		{"holder killed", holderKilled},
		{"all holders killed", allHoldersKilled},
		{"all holders killed, nobody waits", allHoldersKilledUnseen},
		{"waiter killed at the head", func(l *lab) { waitersKilled(l, 0) }},
		{"waiter killed in the middle", func(l *lab) { waitersKilled(l, 1) }},
		{"two waiters killed", func(l *lab) { waitersKilled(l, 0, 1) }},
		{"holder stopped beyond its lease", holderStopped},
		{"waiter stopped beyond its heartbeat", waiterStopped},
	}, ending.String, func(t *testing.T, e ending) { onServer(t, server, e.test) })
}

// late is what a busy machine may add to a TTL.
const late = 5 * time.Second

// holderKilled: its permit is back within its TTL, without anybody's doing.
func holderKilled(l *lab) {
	holder := l.holding(1)
	waiting := l.queued(l.bounded(), l.sem(l.struck(), 1), 1)
	start := time.Now()
	holder.kill()
	lease := l.granted(waiting)
	if took := time.Since(start); took > l.ttl+late {
		l.Errorf("a killed holder's permit came back after %v, the TTL is %v", took, l.ttl)
	}
	l.release(lease)
	l.idle(1, lease.Token())
}

func allHoldersKilled(l *lab) {
	const limit = 3
	var holders []*child
	for range limit {
		holders = append(holders, l.holding(limit))
	}
	waiting := l.queued(l.bounded(), l.sem(l.struck(), limit), 1, berth.Weight(limit))
	start := time.Now()
	for _, h := range holders {
		h.kill()
	}
	lease := l.granted(waiting)
	if took := time.Since(start); took > l.ttl+late {
		l.Errorf("the permits came back after %v, the TTL is %v", took, l.ttl)
	}
	l.release(lease)
	l.idle(limit, lease.Token())
}

// allHoldersKilledUnseen: nobody waits, and whoever comes later finds all free.
func allHoldersKilledUnseen(l *lab) {
	l.holding(2).kill()
	l.holding(2).kill()
	<-time.After(l.ttl)
	s := l.sem(l.struck(), 2)
	lease, err := s.TryAcquire(l.bounded(), berth.Weight(2))
	if err != nil {
		l.Fatal(err)
	}
	l.release(lease)
	l.idle(2, lease.Token())
}

// waitersKilled kills some of two waiting processes. All dead waiters together
// delay those behind them by one heartbeat TTL at most; there is no delay at all
// where nobody dead is at the head.
func waitersKilled(l *lab, victims ...int) {
	holder := l.acquire(l.sem(l.struck(), 1))
	waiters := []*child{l.inLine(1, 1), l.inLine(1, 2)}
	last := l.queued(l.bounded(), l.sem(l.struck(), 1), 3)
	dead := map[int]bool{}
	for _, v := range victims {
		waiters[v].kill()
		dead[v] = true
	}
	start := time.Now()
	l.release(holder)
	for i, w := range waiters {
		if dead[i] {
			continue
		}
		w.says("held")
		w.tell("release")
		if got := w.says("released"); got != "<nil>" {
			l.Errorf("a waiter's release: %s", got)
		}
	}
	lease := l.granted(last)
	if took := time.Since(start); took > l.ttl+late {
		l.Errorf("the last in line was served after %v, the heartbeat TTL is %v", took, l.ttl)
	}
	l.release(lease)
	l.idle(1, lease.Token())
}

// holderStopped: the process stands still while its lease runs out and another
// gets the permit. The first thing it sees when it goes on is that the lease is
// not valid, and then its context ends.
func holderStopped(l *lab) {
	holder := l.holding(1)
	waiting := l.queued(l.bounded(), l.sem(l.struck(), 1), 1)
	holder.tell("watch")
	holder.says("watching")
	stopped := time.Now()
	holder.signal(syscall.SIGSTOP)
	lease := l.granted(waiting)
	<-time.After(time.Until(stopped.Add(l.ttl + l.ttl/4)))
	holder.signal(syscall.SIGCONT)
	said := map[string]bool{}
	for range 2 {
		said[receive(l, "line from a child", holder.lines)] = true
	}
	if !said["valid false"] || !said["lost"] {
		l.Errorf("a process that was stopped beyond its lease said %v", said)
	}
	holder.tell("release")
	holder.says("released")
	if st := l.show(); st.Holders != 1 || st.Leases[0].ID != lease.ID() || !lease.Valid() {
		l.Errorf("the next holder's lease was touched: %+v", st)
	}
	l.release(lease)
	l.idle(1, lease.Token())
}

// waiterStopped: whoever stands still loses its place, not its wait.
func waiterStopped(l *lab) {
	holder := l.acquire(l.sem(l.struck(), 1))
	stopped := l.inLine(1, 1)
	behind := l.queued(l.bounded(), l.sem(l.struck(), 1), 2)
	stopped.signal(syscall.SIGSTOP)
	l.until("dropped from the queue", func() bool { return l.show().Waiting == 1 })
	stopped.signal(syscall.SIGCONT)
	l.until("in line again", func() bool { return l.show().Waiting == 2 })
	l.release(holder)
	lease := l.granted(behind)
	l.release(lease)
	stopped.says("held")
	stopped.tell("release")
	stopped.says("released")
	l.idle(1, lease.Token())
}
