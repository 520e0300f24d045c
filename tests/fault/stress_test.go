package fault_test

import (
	"flag"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/internal/testkit/redistest"
	"github.com/berth-go/berth/internal/testkit/testenv"
)

// stressSeed repeats the faults of a run; what they meet depends on the machine.
var stressSeed = flag.Uint64("stress.seed", 0, "seed of TestStress; 0: a new one")

// storm lets loose one fault after another on networks and their server.
type storm struct {
	l    *lab
	rng  *rand.Rand
	nets []*redistest.Faults
	hits map[string]int

	mu   sync.Mutex
	held []*redistest.Injection // guarded by mu; to be released in the end
}

// blow does one random thing.
func (st *storm) blow() {
	net := st.nets[st.rng.IntN(len(st.nets))]
	switch n := st.rng.IntN(100); {
	case n < 70:
		st.strike(net)
	case n < 80:
		st.note("network cut")
		net.CutAll()
	case n < 85:
		st.note("all clients killed")
		st.l.Server.Do(st.l, "CLIENT", "KILL", "TYPE", "normal")
	case n < 90:
		st.note("subscriptions killed")
		st.l.Server.Do(st.l, "CLIENT", "KILL", "TYPE", "pubsub")
	case n < 95:
		st.note("scripts flushed")
		st.l.Server.Do(st.l, "SCRIPT", "FLUSH")
	default:
		st.note("server stopped")
		st.l.Server.Stop()
		<-time.After(time.Duration(st.rng.IntN(200)) * time.Millisecond)
		st.l.Server.Cont()
	}
}

func (st *storm) note(what string) { st.hits[what]++ }

// strike picks one of the next requests or messages for one of the faults.
func (st *storm) strike(net *redistest.Faults) {
	f := []redistest.Fault{
		redistest.SwallowReply, redistest.SwallowReplyAndClose, redistest.SwallowRequest, redistest.Reset,
		redistest.Duplicate, redistest.Delay, redistest.DelayReply, redistest.DropMessage, redistest.DelayMessage,
	}[st.rng.IntN(9)]
	st.note("strikes")
	rule := redistest.Rule{Fault: f, Match: redistest.IsScript}
	if f == redistest.DropMessage || f == redistest.DelayMessage {
		rule.Match = testenv.IsMessage
	}
	i := net.Inject(rule)
	if f == redistest.Delay || f == redistest.DelayReply || f == redistest.DelayMessage {
		st.mu.Lock()
		defer st.mu.Unlock()
		st.held = append(st.held, i)
		time.AfterFunc(time.Duration(st.rng.IntN(400))*time.Millisecond, i.Release)
	}
}

// TestStress: several processes, a limit, and a few seconds in which everything
// that can fail does. What clients believed is then judged as a whole.
func TestStress(t *testing.T) {
	t.Parallel()
	seed := *stressSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("-stress.seed=%d", seed)
	onServer(t, redistest.Start(t), func(l *lab) {
		const limit, processes = 3, 5
		l.TTL = 400 * time.Millisecond
		st := &storm{l: l, rng: rand.New(rand.NewPCG(seed, 1)), hits: map[string]int{}}
		var sems []*berth.Semaphore
		for range processes {
			net := redistest.NewFaults(t)
			st.nets = append(st.nets, net)
			sems = append(sems, l.sem(l.Client(l.connect(net)), limit))
		}
		ld := l.load(3*processes, sems...)
		calm := again(10*time.Millisecond, st.blow)
		<-time.After(3 * time.Second)
		calm()
		for _, i := range st.held {
			i.Stop()
			i.Release()
		}
		ld.more(30) // everybody recovers
		ld.drain(limit)
		ld.check(t, limit)
		t.Logf("%v", st.hits)
	})
}
