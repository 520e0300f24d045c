// Package worker is a client process of a run. It has some seats, each of which
// acquires and releases permits in its own manner and records what it asked, what it
// was told, and for how long it believed in its leases. Its network fails as a seed
// decides.
package worker

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/dev/verify/history"
	"github.com/berth-go/berth/internal/child"
	"github.com/berth-go/berth/internal/protocol"
	"github.com/berth-go/berth/internal/testkit/redistest"
	"github.com/berth-go/berth/internal/testkit/testenv"
)

// Env is the variable that holds a worker's Spec as JSON.
const Env = "BERTH_VERIFY_WORKER"

// Spec describes a worker.
type Spec struct {
	Socket, Prefix string
	History        string // the file to append to
	Handles        string // the directory in which detached leases are offered
	Proc           int    // unique in the run
	Seed           uint64
	Start          history.Time // of the run
	Faults         bool         // its network fails
	Seats          []Seat
}

// Seat is one user of one semaphore.
type Seat struct {
	Mode  Mode
	Name  string
	Limit int
	TTL   time.Duration
	Deaf  bool          // half of the messages to it are lost, and nothing else fails
	Late  time.Duration // everything from the server comes so late, and nothing else fails

	// Its users declare Rates, or if there is Then, that instead every other time; where Apart is set,
	// only every second process does.
	Rates   protocol.Rates
	Then    protocol.Rates
	Apart   bool
	Settles bool // they settle what their leases have cost
	Bursts  bool // they ask at the same times, and some hold until others do so again

	// Of the mode Tenants.
	Fair bool // nobody gives up
	New  bool // each of its requests is for a new tenant

	// Of the mode Timed.
	Tries   bool // its users do not wait: where all others do, they declare the rate
	MaxHold time.Duration
	Pauses  bool // its users, and operators, pause it
	Lines   bool // some of its requests are for tenants; all have the same cost
}

// Mode is the manner in which a seat uses its semaphore.
type Mode string

// The modes.
const (
	// Linear never waits, and changes to another semaphore after a while, so that
	// histories are short enough for the checker.
	Linear Mode = "linear"
	// Queue waits for one permit and holds it briefly or for more than a TTL,
	// sometimes without renewal and without ever releasing it.
	Queue Mode = "queue"
	// Mix is Queue with weights.
	Mix Mode = "mix"
	// Late tries without renewal, and mostly lets the lease expire.
	Late Mode = "late"
	// Crowd is several users of one client, most of whom stop waiting early.
	Crowd Mode = "crowd"
	// Line is several users of one client, who ask one after the other for the permit of a
	// semaphore of their own, and wait.
	Line Mode = "line"
	// Brief waits for one permit and gives it back at once.
	Brief Mode = "brief"
	// Tenants waits for one permit on behalf of one of a hundred tenants, of which one is greedy, and
	// one mostly gives up, or of none. All do so at the same times, and the queue is empty between them.
	Tenants Mode = "tenants"
	// Spend waits for permits of several rates, and mostly says later what they have really cost.
	Spend Mode = "spend"
	// Timed waits, briefly or not, for what mostly only time brings: room in the window of a rate,
	// which changes; the end of a pause, begun by one who asks or holds, or by an operator; or that
	// of a MaxHold whose holder hangs. It changes to another semaphore after a while, so that a
	// process that was killed keeps nobody waiting for long.
	Timed Mode = "timed"
)

// Main is the main function of a worker process. When its standard input ends it
// releases everything and returns.
func Main() {
	var spec Spec
	must(json.Unmarshal([]byte(os.Getenv(Env)), &spec))
	out, err := history.NewWriter(spec.History, spec.Proc)
	must(err)
	p := &process{Spec: spec, out: out, net: redistest.NewFaults(cleaner{})}
	ctx, cancel := child.Until(context.Background(), os.Stdin)
	defer cancel()
	var wg sync.WaitGroup
	for i, s := range spec.Seats {
		p.seat(ctx, &wg, i+1, s)
	}
	wg.Go(func() { p.watch(ctx) })
	if spec.Faults {
		wg.Go(func() { p.trouble(ctx) })
	}
	wg.Wait()
}

// must panics for an error that a correct spec and a working directory cannot cause.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

// process is the state that the seats share.
type process struct {
	Spec

	out *history.Writer
	net *redistest.Faults
}

// rand returns the source of random numbers of one part of the process.
func (p *process) rand(part int) *rand.Rand {
	return rand.New(rand.NewPCG(p.Seed, uint64(p.Proc)<<16+uint64(part)))
}

// seat starts a seat with a client of its own, so that every id that the client makes
// belongs to the seat. A Crowd or Line seat has several users of one client.
func (p *process) seat(ctx context.Context, wg *sync.WaitGroup, n int, s Seat) {
	rng := p.rand(n)
	opts := &redis.Options{Network: "unix", Addr: p.Socket, ContextTimeoutEnabled: rng.IntN(2) == 0}
	// Some clients give up a call early and repeat it while the first copy is under way;
	// others wait for a reply however late it is.
	if p.Faults && (s.Mode == Linear || (p.Proc/2+n)%2 == 0) {
		opts.ReadTimeout = 40 * time.Millisecond
	}
	own := p.wrap(s, opts, rng)
	patience, probe := opts.ReadTimeout, *opts // before NewClient fills in its defaults
	rdb := redis.NewClient(opts)
	client, err := berth.New(rdb, berth.Prefix(p.Prefix))
	must(err)
	users := make([]*user, 1)
	switch s.Mode {
	case Crowd:
		users = make([]*user, 3)
	case Line:
		users = make([]*user, 4)
	}
	var seats sync.WaitGroup
	for i := range users {
		u := &user{process: p, spec: s, seat: n, rng: p.rand(n + 100*(i+1)), own: own, rdb: rdb, client: client, patience: patience, sole: len(users) == 1}
		seats.Go(func() { u.run(ctx) })
		users[i] = u
	}
	if s.Late > 0 {
		seats.Go(func() { p.measure(ctx, &probe) })
	}
	wg.Go(func() {
		seats.Wait()
		_ = users[0].client.Close()
		_ = users[0].rdb.Close()
	})
}

// wrap puts a seat's client behind a network, which it returns: the process's, or, if the seat is
// deaf or late, one that only loses messages, or is only late, whose cost has a bound of its own; or
// one that only the seat itself cuts.
func (p *process) wrap(s Seat, opts *redis.Options, rng *rand.Rand) *redistest.Faults {
	if !s.Deaf && s.Late == 0 && s.MaxHold == 0 {
		p.net.Wrap(opts)
		return p.net
	}
	opts.ReadTimeout = 0
	own := redistest.NewFaults(cleaner{})
	own.Wrap(opts)
	own.Latency(s.Late)
	if s.Deaf {
		own.Inject(redistest.Rule{Fault: redistest.DropMessage, Times: -1, Match: func(c redistest.Command) bool {
			return testenv.IsMessage(c) && rng.IntN(2) == 0
		}})
	}
	return own
}

// cleaner is the part of a testing.TB that redistest.NewFaults needs. Its networks end
// with the process.
type cleaner struct{}

// Cleanup implements testing.TB.
func (cleaner) Cleanup(func()) {}

// pause waits for d, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
