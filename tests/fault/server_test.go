package fault_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/internal/testkit/redistest"
	"github.com/berth-go/berth/internal/testkit/testenv"
)

// trouble is what befalls a real server, and takes real time: most of it is
// waiting, so all of them run at once.
type trouble struct {
	name string
	test func(l *lab)
	opts []redistest.Option
}

func (tr trouble) String() string { return tr.name }

// TestServerTrouble: servers that stand still, come back and forget.
func TestServerTrouble(t *testing.T) {
	t.Parallel()
	aof := func(fsync string) []redistest.Option {
		return []redistest.Option{redistest.WithConfig("appendonly yes", "appendfsync "+fsync)}
	}
	testenv.SideBySide(t, []trouble{
		{"CLIENT PAUSE ALL beyond the TTL", pausedAll, nil},
		{"CLIENT PAUSE WRITE beyond the TTL", pausedWrites, nil},
		{"SIGSTOP beyond the TTL", stoppedBeyondTTL, nil},
		{"SIGSTOP within the TTL", stoppedWithinTTL, nil},
		{"DEBUG SLEEP within the TTL", asleep, []redistest.Option{redistest.WithConfig("enable-debug-command yes")}},
		{"SIGSTOP with requests of a client that gave up", stoppedWithRequests, nil},
		{"SIGSTOP with requests of a client that died", stoppedWithOrphans, nil},
		{"killed and restarted, appendfsync always", killed, aof("always")},
		{"killed and restarted, appendfsync everysec", killed, aof("everysec")},
		{"killed and restarted, without its data", killedForgetful, nil},
		{"half-open subscription", halfOpen, nil},
	}, trouble.String, func(t *testing.T, tr trouble) { onServer(t, redistest.Start(t, tr.opts...), tr.test) })
}

// expectLost waits for the end of a lease, which must come at the trust deadline
// at the latest, and not by the server's word.
func (l *lab) expectLost(lease *berth.Lease, renewed time.Time) {
	l.Helper()
	held := lease.Context()
	testenv.Receive(l, "end of the lease", held.Done())
	if after := time.Since(renewed); after > l.TTL+l.TTL/2 {
		l.Errorf("the lease ended %v after its last renewal, the TTL is %v", after, l.TTL)
	}
	if cause := context.Cause(held); !errors.Is(cause, berth.ErrLost) || lease.Valid() || !lease.ValidUntil().IsZero() {
		l.Errorf("the lease ended with %v, valid: %v until %v", cause, lease.Valid(), lease.ValidUntil())
	}
}

// pauseClients has the server pause clients for that long.
func (l *lab) pauseClients(kind string, d time.Duration) {
	l.Helper()
	l.Server.Do(l, "CLIENT", "PAUSE", d.Milliseconds(), kind)
}

func pausedAll(l *lab)    { l.outage(func() { l.pauseClients("ALL", 2*l.TTL) }) }
func pausedWrites(l *lab) { l.outage(func() { l.pauseClients("WRITE", 2*l.TTL) }) }

func stoppedBeyondTTL(l *lab) {
	l.outage(func() {
		l.Server.Stop()
		cont := time.AfterFunc(2*l.TTL, l.Server.Cont)
		l.Cleanup(func() { cont.Stop() })
	})
}

// outage: nobody is served for two TTLs. The holder loses its lease in time; the
// waiter outlasts it, is served afterwards, and the history has no overlap.
func (l *lab) outage(begin func()) {
	l.shorter()
	b := newBeliefs()
	s := l.sem(l.faulty(), 1)
	asked := b.now()
	holder := l.Hold(s)
	waiting := l.queued(l.Ctx, l.sem(l.faulty(), 1), 1)
	believed := make(chan struct{})
	go func() {
		defer close(believed)
		b.hold(holder, asked, time.Minute)
	}()
	begin()
	l.expectLost(holder, time.Now())
	testenv.Receive(l, "end of the belief", believed)

	asked = b.now()
	next := l.granted(waiting)
	b.hold(next, asked, 10*time.Millisecond)
	b.check(l.T, 1)
	if next.Token() <= holder.Token() || !next.Valid() {
		l.Errorf("token %d after %d, valid: %v", next.Token(), holder.Token(), next.Valid())
	}
	if err := holder.Release(); !errors.Is(err, berth.ErrLost) {
		l.Errorf("Release of a lost lease: %v", err)
	}
	l.Release(next)
	l.NothingLeft(1, next.Token())
}

// brief is well within the TTL, and longer than a call lasts before it is given up.
const brief = 3 * time.Second

// stoppedWithinTTL: calls fail, but there is time to try again.
func stoppedWithinTTL(l *lab) {
	l.hiccup(func() {
		l.Server.Stop()
		<-time.After(brief)
		l.Server.Cont()
	})
}

func asleep(l *lab) { l.hiccup(func() { l.Server.Do(l, "DEBUG", "SLEEP", brief.Seconds()) }) }

// hiccup: a server that is away for less than the TTL costs nobody anything.
func (l *lab) hiccup(happens func()) {
	holder := l.Hold(l.sem(l.faulty(), 1))
	waiting := l.queued(l.Ctx, l.sem(l.faulty(), 1), 1)
	id := l.Show().Queue[0].ID
	happens()
	<-time.After(l.TTL / 2) // the next renewal and heartbeats are over
	if st := l.Show(); !holder.Valid() || st.Waiting != 1 || st.Queue[0].ID != id || st.Leases[0].ID != holder.ID() {
		l.Errorf("holder valid: %v, the server has %+v", holder.Valid(), st)
	}
	l.Release(holder)
	next := l.granted(waiting)
	l.Release(next)
	l.NothingLeft(1, next.Token())
}

// stoppedWithRequests: the server's buffers hold copies of an acquire whose
// caller has given up. The client lives, and takes back what they do.
func stoppedWithRequests(l *lab) {
	l.shorter()
	s := l.sem(l.faulty(), 1)
	l.Release(l.Hold(s))
	l.stopWith(s, l.TTL)
	l.net.Up()
	l.Server.Cont()
	l.NothingLeft(1, 0)
}

// stopWith stops the server, asks it for a lease, in vain, for that long, and
// waits until the last request has had its time.
func (l *lab) stopWith(s *berth.Semaphore, d time.Duration) {
	l.Helper()
	l.Server.Stop()
	ctx, cancel := context.WithTimeout(l.Ctx, d)
	defer cancel()
	start := time.Now()
	o := testenv.Receive(l, "end", acquiring(ctx, s))
	if o.err == nil || time.Since(start) > d+l.TTL {
		l.Errorf("Acquire from a stopped server: %v after %v", o.err, time.Since(start))
	}
	l.net.Down()
	<-time.After(l.TTL / 2)
}

// stoppedWithOrphans: as before, but nobody is left to take anything back. Only
// the latest time at which a copy may run keeps the permit free.
func stoppedWithOrphans(l *lab) {
	l.shorter()
	s := l.sem(l.faulty(), 1)
	l.Release(l.Hold(s))
	before := l.scripts()
	l.net.ResetCounts()
	l.stopWith(s, l.TTL)
	sent := l.net.Count("EVALSHA")
	l.Server.Cont()
	l.waitFor("late requests executed", func() bool { return l.scripts() >= before+1 })
	if st := l.Show(); st.Holders != 0 || st.Waiting != 0 {
		l.Errorf("%d requests of a dead client, and the server has %+v", sent, st)
	}
	l.NothingLeft(1, 0)
	l.net.Up() // for its Close
}

// killed: the server keeps its data. Holders keep their leases, waiters their
// places, and nobody hears of it.
func killed(l *lab) {
	c := l.faulty()
	holder := l.Hold(l.sem(c, 1))
	first := l.queued(l.Ctx, l.sem(c, 1), 1)
	second := l.queued(l.Ctx, l.sem(l.faulty(), 1), 2)
	queue := l.Show().Queue
	l.Server.Kill()
	l.Server.Restart(l)
	until := holder.ValidUntil()
	l.waitFor("renewed after the restart", func() bool { return holder.ValidUntil().After(until.Add(l.TTL / 10)) })
	if st := l.Show(); st.Holders != 1 || st.Leases[0].ID != holder.ID() || st.Waiting != 2 || st.Queue[0].ID != queue[0].ID {
		l.Errorf("after the restart the server has %+v", st)
	}
	l.Release(holder)
	one := l.granted(first)
	l.Release(one)
	two := l.granted(second)
	if !(holder.Token() < one.Token() && one.Token() < two.Token()) {
		l.Errorf("tokens %d, %d, %d", holder.Token(), one.Token(), two.Token())
	}
	l.Release(two)
	l.NothingLeft(1, two.Token())
}

// killedForgetful: the data is gone. The holder is told, waiters queue again.
func killedForgetful(l *lab) {
	c := l.faulty()
	holder := l.Hold(l.sem(c, 1))
	held := holder.Context()
	waiting := l.queued(l.Ctx, l.sem(l.faulty(), 1), 1)
	l.Server.Kill()
	l.Server.Restart(l)
	next := l.granted(waiting)
	testenv.Receive(l, "end of the lost lease", held.Done())
	if cause := context.Cause(held); !errors.Is(cause, berth.ErrLost) {
		l.Errorf("the lease ended with %v", cause)
	}
	if next.Token() <= holder.Token() {
		l.Errorf("token %d after %d", next.Token(), holder.Token())
	}
	l.Release(next)
	l.NothingLeft(1, next.Token())
}
