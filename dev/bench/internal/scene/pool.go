package scene

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/berth-go/berth/dev/bench/internal/peer"
	"github.com/berth-go/berth/dev/internal/measure"
	"github.com/berth-go/berth/internal/judge"
)

const (
	poolLimit   = 8
	poolWorkers = 16 // goroutines of the client that is measured
	poolOthers  = 4  // goroutines of the other client, which hold for 1 ms
)

func pool() *Scenario {
	return &Scenario{
		Key: "pool", Title: "Permits lent in memory", Slices: 1, Most: 3, Open: openPool,
		Cases:  func(Scale) []Case { return []Case{{"pool", poolLimit}, {"no-pool", 0}} },
		Length: func(s Scale) time.Duration { return 3*s.Slice + s.Elsewhere },
		Takes:  among(peer.BerthKey),
		About: "Two clients share 8 permits: of one 16 goroutines borrow from a pool of 8 and give back at once, of the other 4 goroutines hold " +
			"each permit for 1 ms, from a pool of their own. \"pairs/s\" is the first client alone. Then for longer, and with all holders counted " +
			"(\"most held\"), somebody without a pool waits elsewhere, again and again: \"elsewhere\" is the longest wait in renewal intervals, a " +
			"third of the TTL. \"other ms\" is the longest wait of the second client.",
	}
}

func openPool(ctx context.Context, e *Env, c Case, _ *peer.Peer) (*Entrant, error) {
	p := &pools{env: e}
	name, lending := e.name("pool"), peer.Lending(c.N, e.Scale.PoolTTL)
	for _, workers := range []int{poolWorkers, poolOthers} {
		d, err := lending.Drive(ctx, e.URL, e.Prefix, peer.Shape{Name: name, Clients: 1, Workers: workers, Limit: poolLimit})
		if err != nil {
			p.close()
			return nil, err
		}
		p.drivers = append(p.drivers, d)
	}
	var err error
	if p.third, err = peer.Lending(0, e.Scale.PoolTTL).Connect(e.URL, e.Prefix); err == nil {
		p.elsewhere, err = p.third.Semaphore(name, poolLimit)
	}
	if err != nil {
		p.close()
		return nil, err
	}
	return &Entrant{Slice: p.slice, Close: p.close}, nil
}

// pools are the two clients, and the third, which has no pool.
type pools struct {
	env       *Env
	drivers   []peer.Driver
	third     *peer.Client
	elsewhere peer.Acquire
}

func (p *pools) close() {
	for _, d := range p.drivers {
		d.Close()
	}
	if p.third != nil {
		p.third.Close()
	}
}

func (p *pools) slice(ctx context.Context) ([]Figure, error) {
	fast, _, err := p.both(ctx, peer.Load{For: 3 * p.env.Scale.Slice}, func(context.Context) error { return nil })
	if err != nil {
		return nil, err
	}
	var count peer.Count
	var waited time.Duration
	_, other, err := p.both(ctx, peer.Load{For: p.env.Scale.Elsewhere, Count: &count}, func(ctx context.Context) (err error) {
		waited, err = p.wait(ctx, &count)
		return err
	})
	if err != nil {
		return nil, err
	}
	return []Figure{
		{Metric: "pairs/s", Value: fast.PerSecond()},
		{Metric: "most-held", Value: float64(count.Most())},
		{Metric: "elsewhere", Value: float64(waited) / float64(p.env.Scale.PoolTTL/3)},
		{Metric: "elsewhere-ms", Value: float64(waited) / float64(time.Millisecond)},
		{Metric: "other-ms", Value: float64(slices.Max(judge.Waits(other.Beliefs))) / float64(time.Millisecond)},
	}, nil
}

// both makes both clients work at the same time, and runs f meanwhile.
func (p *pools) both(ctx context.Context, l peer.Load, f func(context.Context) error) (one, other *peer.Outcome, err error) {
	var errs [3]error
	var wg sync.WaitGroup
	wg.Go(func() { one, errs[0] = p.drivers[0].Spin(ctx, l) })
	slow := l
	slow.Hold, slow.Times, slow.GoTimers = hold, true, true
	wg.Go(func() { other, errs[1] = p.drivers[1].Spin(ctx, slow) })
	meanwhile, cancel := context.WithTimeout(ctx, l.For)
	defer cancel()
	errs[2] = f(meanwhile)
	wg.Wait()
	return one, other, errors.Join(errs[:]...)
}

// wait acquires again and again until ctx ends, and returns the longest wait, including
// the one that ctx ended.
func (p *pools) wait(ctx context.Context, count *peer.Count) (longest time.Duration, err error) {
	for ctx.Err() == nil {
		asked := time.Now()
		release, err := p.elsewhere(ctx)
		longest = max(longest, time.Since(asked))
		if err != nil {
			if ctx.Err() != nil {
				err = nil // the end of ctx is not an error
			}
			return longest, err
		}
		count.Take()
		_ = measure.Pause(ctx, 5*hold) // or until the end of ctx
		count.Give()
		if err := release(); err != nil {
			return longest, err
		}
	}
	return longest, nil
}
