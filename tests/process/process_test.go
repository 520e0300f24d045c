//go:build unix

package process_test

import (
	"io"
	"net"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/berthadmin"
	"github.com/berth-go/berth/internal/testkit/redistest"
	"github.com/berth-go/berth/internal/testkit/testenv"
)

// ending is a way in which real client processes end.
type ending struct {
	name string
	test func(e *testenv.Env)
}

func (end ending) String() string { return end.name }

// TestProcesses: clients are processes here, ended by signals that leave them no
// time for a last word. Most of it is waiting for TTLs, so all run at once.
func TestProcesses(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	testenv.SideBySide(t, []ending{
		{"holder killed", holderKilled},
		{"all holders killed", allHoldersKilled},
		{"all holders killed, nobody waits", allHoldersKilledUnseen},
		{"waiter killed at the head", func(e *testenv.Env) { waitersKilled(e, 0) }},
		{"waiter killed in the middle", func(e *testenv.Env) { waitersKilled(e, 1) }},
		{"two waiters killed", func(e *testenv.Env) { waitersKilled(e, 0, 1) }},
		{"waiter killed at the head, with a rate", waiterOfARateKilled},
		{"holder stopped beyond its lease", holderStopped},
		{"waiter stopped beyond its heartbeat", waiterStopped},
		{"machine suspended beyond the lease", machineSuspended},
		{"machine suspended, another holds, a release is lost", sleeperReleases},
	}, ending.String, func(t *testing.T, end ending) {
		e := testenv.On(t, server)
		e.TTL = 3 * time.Second
		end.test(e)
	})
}

// holderKilled: its permit is back within its TTL, without anybody's doing.
func holderKilled(e *testenv.Env) {
	holder := holding(e, 1)
	waiting := e.Follow(e.Peer().Sem(1))
	start := time.Now()
	holder.Kill()
	lease := waiting.Granted()
	e.Within(start, 0, e.TTL, "a killed holder's permit came back")
	e.Release(lease)
	e.NothingLeft(1, lease.Token())
}

func allHoldersKilled(e *testenv.Env) {
	const limit = 3
	var holders []*child
	for range limit {
		holders = append(holders, holding(e, limit))
	}
	waiting := e.Follow(e.Peer().Sem(limit), berth.Weight(limit))
	start := time.Now()
	for _, h := range holders {
		h.Kill()
	}
	lease := waiting.Granted()
	e.Within(start, 0, e.TTL, "the permits came back")
	e.Release(lease)
	e.NothingLeft(limit, lease.Token())
}

// allHoldersKilledUnseen: nobody waits, and whoever comes later finds all free.
func allHoldersKilledUnseen(e *testenv.Env) {
	holding(e, 2).Kill()
	holding(e, 2).Kill()
	e.Until("run out", func(s *berthadmin.State) bool { return s.Holders == 0 })
	lease := e.Hold(e.Peer().Sem(2), berth.Weight(2))
	e.Release(lease)
	e.NothingLeft(2, lease.Token())
}

// waitersKilled kills some of two waiting processes. All dead waiters together
// delay those behind them by one heartbeat TTL at most; there is no delay at all
// where nobody dead is at the head.
func waitersKilled(e *testenv.Env, victims ...int) {
	holder := e.Hold(e.Peer().Sem(1))
	waiters := []*child{inLine(e, 1, 1), inLine(e, 1, 2)}
	last := e.Queue(e.Peer().Sem(1))
	dead := map[int]bool{}
	for _, v := range victims {
		waiters[v].Kill()
		dead[v] = true
	}
	start := time.Now()
	e.Release(holder)
	for i, w := range waiters {
		if dead[i] {
			continue
		}
		w.says("held")
		w.tell("release")
		if got := w.says("released"); got != "<nil>" {
			e.Errorf("a waiter's release: %s", got)
		}
	}
	lease := last.Granted()
	e.Within(start, 0, e.TTL, "the last in the queue was served")
	e.Release(lease)
	e.NothingLeft(1, lease.Token())
}

// waiterOfARateKilled: the killed one spends nothing, though a permit is free before it has lost its
// place.
func waiterOfARateKilled(e *testenv.Env) {
	const rate = 3
	sem := e.Peer().Sem(1, berth.Rate(rate, time.Hour))
	holder := e.Hold(sem)
	waiter := startWith(e, order{Network: "unix", Addr: e.Server.Socket(), Prefix: e.Prefix, Limit: 1, Rate: rate, TTL: e.TTL})
	waiter.tell("acquire")
	e.UntilWaiting(1)
	last := e.Queue(sem)
	waiter.Kill()
	killed := time.Now()
	e.Pass(1100 * time.Millisecond) // else it was heard of just now
	e.Release(holder)
	e.Release(last.Granted())
	e.Within(killed, 0, e.TTL, "the last in the queue was served")
	if st := e.Show(); len(st.Rates) != 1 || st.Rates[0].Spent != 2 {
		e.Errorf("state %+v, want 2 spent", st.Summary)
	}
}

// holderStopped: the process stands still while its lease runs out and another
// gets the permit. The first thing it sees when it goes on is that the lease is
// not valid, and then its context ends.
func holderStopped(e *testenv.Env) {
	holder := holding(e, 1)
	waiting := e.Queue(e.Peer().Sem(1))
	holder.tell("watch")
	holder.says("watching")
	stopped := time.Now()
	holder.signal(syscall.SIGSTOP)
	lease := waiting.Granted()
	e.Pass(time.Until(stopped.Add(e.TTL + e.TTL/4)))
	holder.signal(syscall.SIGCONT)
	said := map[string]bool{}
	for range 2 {
		said[holder.line("line")] = true
	}
	if !said["valid false"] || !said["lost"] {
		e.Errorf("a process that was stopped beyond its lease said %v", said)
	}
	holder.tell("release")
	holder.says("released")
	if st := e.Show(); st.Holders != 1 || st.Leases[0].ID != lease.ID() || !lease.Valid() {
		e.Errorf("the next holder's lease was touched: %+v", st)
	}
	e.Release(lease)
	e.NothingLeft(1, lease.Token())
}

// waiterStopped: whoever stands still loses its place, not its wait.
func waiterStopped(e *testenv.Env) {
	holder := e.Hold(e.Peer().Sem(1))
	stopped := inLine(e, 1, 1)
	behind := e.Queue(e.Peer().Sem(1))
	stopped.signal(syscall.SIGSTOP)
	e.UntilWaiting(1)
	stopped.signal(syscall.SIGCONT)
	e.UntilWaiting(2)
	e.Release(holder)
	lease := behind.Granted()
	e.Release(lease)
	stopped.says("held")
	stopped.tell("release")
	stopped.says("released")
	e.NothingLeft(1, lease.Token())
}

// sleeperReleases: while the machine slept another process got the permit. The first
// request of the release is lost with its connection, the second one finds nothing;
// the holder is told of its loss all the same.
func sleeperReleases(e *testenv.Env) {
	faults := redistest.NewFaults(e.T)
	holder := startWith(e, order{Network: "tcp", Addr: proxy(e, faults), Prefix: e.Prefix, Limit: 1, TTL: berth.DefaultTTL})
	holder.acquire()
	e.Must(e.Inspector.Purge(e.Ctx, testenv.Name))
	lease := e.Hold(e.Peer().Sem(1))
	reset := faults.Inject(redistest.Rule{Match: testenv.Carries("L"), Fault: redistest.Reset})
	holder.tell("suspend and release")
	line := "lost" // its context has ended, too
	for line == "lost" {
		line = holder.line("line")
	}
	if line != "late true" || reset.Hits() == 0 {
		e.Errorf("the child says %q; requests lost: %d", line, reset.Hits())
	}
	e.Holds(lease)
	e.Release(lease)
	e.NothingLeft(1, lease.Token())
}

// machineSuspended: a process that slept with its machine knows that its lease is over
// before it does anything else, although its own clock stood still.
func machineSuspended(e *testenv.Env) {
	holder := holding(e, 1)
	holder.tell("suspend")
	line := "lost" // its context has ended, too
	for line == "lost" {
		line = holder.line("an answer")
	}
	if line != "valid false" {
		e.Errorf("after the machine slept for two TTLs the child says %q", line)
	}
}

// proxy returns an address behind which the server is, through a network.
func proxy(e *testenv.Env, faults *redistest.Faults) string {
	e.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	e.Must(err)
	var wg sync.WaitGroup
	e.Cleanup(func() { _ = listener.Close(); faults.Down(); wg.Wait() })
	dial := faults.Dialer(nil)
	wg.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return // closed
			}
			server, err := dial(e.Ctx, "unix", e.Server.Socket())
			if err != nil {
				_ = client.Close()
				continue
			}
			join := func(to, from net.Conn) { _, _ = io.Copy(to, from); _ = to.Close(); _ = from.Close() }
			wg.Go(func() { join(server, client) })
			wg.Go(func() { join(client, server) })
		}
	})
	return listener.Addr().String()
}
