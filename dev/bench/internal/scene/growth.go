package scene

import (
	"context"
	"errors"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/dev/bench/internal/crowd"
	"github.com/berth-go/berth/dev/bench/internal/peer"
	"github.com/berth-go/berth/dev/internal/measure"
)

// long is a TTL that needs no renewal during the run.
const long = time.Hour

func holders() *Scenario {
	return &Scenario{
		Key: "holders", Title: "Cost against live holders", Slices: 1, Together: true, Open: openHolders,
		Cases:  func(s Scale) []Case { return cases(s.Crowd) },
		Length: func(s Scale) time.Duration { return s.Slice },
		Takes:  among(peer.BerthKey, "basic", "fair", peer.TrivialKey),
		About: "One goroutine acquires and releases while so many others hold permits of the same semaphore, with room left. The others' leases " +
			"last for an hour, so that their renewals are not in the figures. \"server µs\" is the time in commands by INFO commandstats.",
	}
}

func openHolders(ctx context.Context, e *Env, c Case, p *peer.Peer) (*Entrant, error) {
	s := peer.Shape{Name: e.name("holders"), Clients: 1, Workers: 1, Limit: c.N + 8}
	release, err := e.fill(ctx, p, s.Name, c.N)
	if err != nil {
		return nil, err
	}
	entrant, err := e.drive(ctx, p, s, func(ctx context.Context, d peer.Driver) ([]Figure, error) {
		out, used, err := e.spin(ctx, d, peer.Load{For: e.Scale.Slice, Times: true})
		if err != nil {
			return nil, err
		}
		return []Figure{
			{Metric: "server-µs", Value: used.Sent(p.Sent).Usec / float64(out.Pairs)},
			{Metric: "cpu-µs", Value: used.CPU * 1e6 / float64(out.Pairs)},
			{Metric: "pair-µs", Value: float64(out.Took.Microseconds()) / float64(out.Pairs)},
		}, nil
	})
	if err != nil {
		release()
		return nil, err
	}
	closeDriver := entrant.Close
	entrant.Close = func() { closeDriver(); release() }
	return entrant, nil
}

// fill makes n other holders of a permit, and returns a function that releases them.
func (e *Env) fill(ctx context.Context, p *peer.Peer, name string, n int) (func(), error) {
	switch p.Key {
	case peer.BerthKey:
		return e.lease(ctx, n, func(c *berth.Client, _ int) (*berth.Semaphore, error) {
			return c.Semaphore(name, n+8, berth.TTL(long))
		})
	case "basic":
		return func() {}, measure.FillBasic(ctx, e.Redis, e.Prefix+name, n, time.Now().Add(long))
	case "fair":
		return func() {}, measure.FillFair(ctx, e.Redis, e.Prefix+name, n, time.Now().Add(long))
	default:
		return func() {}, nil
	}
}

// lease acquires n leases with a new client, the i-th from the semaphore that of returns
// for i.
func (e *Env) lease(ctx context.Context, n int, of func(c *berth.Client, i int) (*berth.Semaphore, error)) (func(), error) {
	c, closeAll, err := peer.Dial(e.URL, e.Prefix)
	if err != nil {
		return nil, err
	}
	err = measure.AtOnce(n, func(i int) error {
		sem, err := of(c, i)
		if err == nil {
			_, err = sem.Acquire(ctx) // Close releases it
		}
		return err
	})
	if err != nil {
		closeAll()
		return nil, err
	}
	return closeAll, nil
}

func waiters() *Scenario {
	return &Scenario{
		Key: "waiters", Title: "Cost against waiters", Slices: 1, Most: 3, Open: brief(waitersSlice),
		Cases:    func(s Scale) []Case { return cases(s.Crowd) },
		Length:   func(s Scale) time.Duration { return 4 * s.Slice },
		Takes:    among(peer.BerthKey),
		Together: true,
		About: "So many wait in line for one permit, in processes of their own; whoever gets it gives it back at once and goes to the end of the " +
			"line. Time in commands by INFO commandstats, for each turn of the permit: a release, a grant and a new place in line. " +
			"The waiters' heartbeats are in it.",
	}
}

func waitersSlice(ctx context.Context, e *Env, c Case) ([]Figure, error) {
	// The crowd exists during the slice only: a thousand waiters that cycle would
	// disturb all other contestants.
	taken, line, err := e.line(ctx, e.name("waiters"), c.N, true)
	if err != nil {
		return nil, err
	}
	defer line.Close()
	taken()
	if err := measure.Pause(ctx, e.Scale.Slice); err != nil { // until the crowd cycles
		return nil, err
	}
	before, err := line.State(ctx)
	if err != nil {
		return nil, err
	}
	var after crowd.State
	used, err := e.measured(ctx, func() error {
		if err := measure.Pause(ctx, 3*e.Scale.Slice); err != nil {
			return err
		}
		after, err = line.State(ctx)
		return err
	})
	if err != nil {
		return nil, err
	}
	turns := float64(after.Grants - before.Grants)
	if turns == 0 {
		return nil, errors.New("the permit did not change hands")
	}
	return []Figure{
		{Metric: "server-µs", Value: used.Sent(peer.Berth().Sent).Usec / turns},
		{Metric: "cpu-µs", Value: used.CPU * 1e6 / turns},
		{Metric: "turns/s", Value: turns / (3 * e.Scale.Slice).Seconds()},
	}, nil
}

// line makes n waiters wait for the only permit of a semaphore, which is taken until the
// returned function is called.
func (e *Env) line(ctx context.Context, name string, n int, cycle bool) (func(), *crowd.Crowd, error) {
	release, err := e.lease(ctx, 1, func(c *berth.Client, _ int) (*berth.Semaphore, error) { return c.Semaphore(name, 1) })
	if err != nil {
		return nil, nil, err
	}
	in := min(e.Scale.Processes, (n+9999)/10_000)
	line, err := crowd.Gather(ctx, in, crowd.Config{URL: e.URL, Prefix: e.Prefix, Name: name, Waiters: n, Cycle: cycle})
	if err != nil {
		release()
		return nil, nil, err
	}
	return release, line, nil
}
