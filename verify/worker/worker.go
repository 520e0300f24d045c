// Package worker is a client process of a run: some seats, each of which takes
// and gives back permits in its own manner, and writes down what it asked, what
// it was told, and for how long it believed in what it held. Its network fails
// from a seed.
package worker

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/internal/child"
	"github.com/berth-go/berth/internal/redistest"
	"github.com/berth-go/berth/internal/testenv"
	"github.com/berth-go/berth/verify/history"
)

// Env is the variable that holds a worker's Spec as JSON.
const Env = "BERTH_VERIFY_WORKER"

// Spec is a worker's order.
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
	Deaf  bool // half of the messages to it are lost, and nothing else fails
}

// Mode is a seat's manner.
type Mode string

// The modes.
const (
	// Linear tries and releases, never waits, and changes to another semaphore
	// after a while: short histories for the checker.
	Linear Mode = "linear"
	// Queue waits for one permit, holds it shortly or for more than a TTL,
	// sometimes without renewal and without ever releasing it.
	Queue Mode = "queue"
	// Mix is Queue with weights.
	Mix Mode = "mix"
	// Late tries without renewal, and mostly lets the lease run out.
	Late Mode = "late"
	// Crowd is several users of one client, most of whom stop waiting early.
	Crowd Mode = "crowd"
)

// Main is the main function of a worker process. It ends when its standard input
// does, after it has given everything back.
func Main() int {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "worker:", err)
		return 1
	}
	return 0
}

func run() error {
	var spec Spec
	if err := json.Unmarshal([]byte(os.Getenv(Env)), &spec); err != nil {
		return err
	}
	out, err := history.NewWriter(spec.History, spec.Proc)
	if err != nil {
		return err
	}
	clean := &cleaner{}
	defer clean.run()
	p := &process{Spec: spec, out: out, clean: clean, net: redistest.NewFaults(clean)}
	ctx, cancel := child.Until(context.Background(), os.Stdin)
	defer cancel()
	var wg sync.WaitGroup
	for i, s := range spec.Seats {
		if err := p.seat(ctx, &wg, i+1, s); err != nil {
			return err
		}
	}
	if spec.Faults {
		wg.Go(func() { p.trouble(ctx) })
	}
	wg.Wait()
	return nil
}

// process is what the seats share.
type process struct {
	Spec

	out   *history.Writer
	net   *redistest.Faults
	clean *cleaner
}

// rand returns a source of its own for each part of the process.
func (p *process) rand(part int) *rand.Rand {
	return rand.New(rand.NewPCG(p.Seed, uint64(p.Proc)<<16+uint64(part)))
}

// seat starts a seat with a client of its own, so that every id that this
// client makes is the seat's; Crowd starts three users of one.
func (p *process) seat(ctx context.Context, wg *sync.WaitGroup, n int, s Seat) error {
	rng := p.rand(n)
	opts := &redis.Options{Network: "unix", Addr: p.Socket, ContextTimeoutEnabled: rng.IntN(2) == 0}
	// Some clients give a call up long before a request's last moment, and repeat it
	// while the first copy is under way; others wait for a reply however late.
	if p.Faults && (s.Mode == Linear || (p.Proc/2+n)%2 == 0) {
		opts.ReadTimeout = 40 * time.Millisecond
	}
	p.wrap(s, opts, rng)
	rdb := redis.NewClient(opts)
	client, err := berth.New(rdb, berth.Prefix(p.Prefix))
	if err != nil {
		return err
	}
	users := 1
	if s.Mode == Crowd {
		users = 3
	}
	var seats sync.WaitGroup
	for i := range users {
		u := &user{process: p, spec: s, seat: n, rng: p.rand(n + 100*(i+1)), client: client, sole: users == 1}
		seats.Go(func() { u.run(ctx) })
	}
	wg.Go(func() {
		seats.Wait()
		_ = client.Close()
		_ = rdb.Close()
	})
	return nil
}

// wrap puts a seat's client behind the process's network, or behind one that loses
// messages only: what that costs has a bound of its own.
func (p *process) wrap(s Seat, opts *redis.Options, rng *rand.Rand) {
	if !s.Deaf {
		p.net.Wrap(opts)
		return
	}
	opts.ReadTimeout = 0
	net := redistest.NewFaults(p.clean)
	net.Inject(redistest.Rule{Fault: redistest.DropMessage, Times: -1, Match: func(c redistest.Command) bool {
		return testenv.IsMessage(c) && rng.IntN(2) == 0
	}})
	net.Wrap(opts)
}

// cleaner is as much of a test as redistest.NewFaults needs.
type cleaner struct{ funcs []func() }

// Cleanup implements testing.TB: run calls f.
func (c *cleaner) Cleanup(f func()) { c.funcs = append(c.funcs, f) }

func (c *cleaner) run() {
	for _, f := range c.funcs {
		f()
	}
}

// pause waits for d, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
