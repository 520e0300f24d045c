package trial

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/berth-go/berth/dev/bench/internal/peer"
	"github.com/berth-go/berth/dev/internal/measure"
	"github.com/berth-go/berth/dev/internal/scenario"
	"github.com/berth-go/berth/internal/judge"
)

// poolOthers are the goroutines of the other client.
const poolOthers = 4

func pool() *Trial {
	return &Trial{
		Scenario: scenario.Pool, Slices: 1, Most: 3, Open: openPool,
		Cases:  func(Scale) []Case { return []Case{{"pool", scenario.Pool.Limit}, {"no-pool", 0}} },
		Length: func(s Scale) time.Duration { return 3*s.Slice + s.Elsewhere },
		Takes:  among(peer.BerthKey),
	}
}

func openPool(ctx context.Context, e *Env, c Case, _ *peer.Peer) (*Entrant, error) {
	p := &pools{env: e}
	s := e.shape(scenario.Pool)
	for _, workers := range []int{s.Workers, poolOthers} {
		s.Workers = workers
		d, err := peer.Lending(c.N, e.Scale.PoolTTL).Drive(ctx, e.URL, e.Prefix, s)
		if err != nil {
			p.close()
			return nil, err
		}
		p.drivers = append(p.drivers, d)
	}
	var err error
	if p.third, err = peer.Lending(0, e.Scale.PoolTTL).Connect(e.URL, e.Prefix); err == nil {
		p.elsewhere, err = p.third.Semaphore(s.Name, s)
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
	slow.Hold, slow.Times, slow.GoTimers = scenario.Pool.Hold, true, true
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
		_ = measure.Pause(ctx, 5*scenario.Pool.Hold) // or until the end of ctx
		count.Give()
		if err := release(); err != nil {
			return longest, err
		}
	}
	return longest, nil
}
