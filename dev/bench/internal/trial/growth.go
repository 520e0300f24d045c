package trial

import (
	"context"
	"errors"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/dev/bench/internal/crowd"
	"github.com/berth-go/berth/dev/bench/internal/peer"
	"github.com/berth-go/berth/dev/internal/measure"
	"github.com/berth-go/berth/dev/internal/scenario"
)

func holders() *Trial {
	return &Trial{
		Scenario: scenario.Holders, Slices: 1, Together: true, Open: openHolders,
		Cases:   func(s Scale) []Case { return cases(s.Crowd) },
		Length:  func(s Scale) time.Duration { return s.Slice },
		Takes:   among(peer.BerthKey, peer.TrivialKey),
		Figures: "\"server µs\" is the time in commands by INFO commandstats.",
	}
}

func openHolders(ctx context.Context, e *Env, c Case, p *peer.Peer) (*Entrant, error) {
	s := e.shape(scenario.Holders)
	s.Limit += c.N
	release := func() {} // nothing depends on the holders
	if p.Key == peer.BerthKey {
		var err error
		if release, err = e.lease(ctx, c.N, func(c *berth.Client, _ int) (*berth.Semaphore, error) {
			return c.Semaphore(s.Name, s.Limit, berth.TTL(scenario.Holders.TTL))
		}); err != nil {
			return nil, err
		}
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

func waiters() *Trial {
	return &Trial{
		Scenario: scenario.Waiters, Slices: 1, Most: 3, Open: brief(waitersSlice),
		Cases:    func(s Scale) []Case { return cases(s.Crowd) },
		Length:   func(s Scale) time.Duration { return 4 * s.Slice },
		Takes:    among(peer.BerthKey),
		Together: true,
	}
}

func waitersSlice(ctx context.Context, e *Env, c Case, p *peer.Peer) ([]Figure, error) {
	// The crowd exists during the slice only: a thousand waiters that cycle would
	// disturb all other contestants.
	taken, line, err := e.line(ctx, scenario.Waiters, c.N, true)
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
		{Metric: "server-µs", Value: used.Sent(p.Sent).Usec / turns},
		{Metric: "cpu-µs", Value: used.CPU * 1e6 / turns},
		{Metric: "turns/s", Value: turns / (3 * e.Scale.Slice).Seconds()},
	}, nil
}

// line makes n waiters wait for the only permit of a semaphore, which is taken until the
// returned function is called.
func (e *Env) line(ctx context.Context, s scenario.Scenario, n int, cycle bool) (func(), *crowd.Crowd, error) {
	name := e.name(s)
	release, err := e.lease(ctx, 1, func(c *berth.Client, _ int) (*berth.Semaphore, error) { return c.Semaphore(name, s.Limit) })
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
