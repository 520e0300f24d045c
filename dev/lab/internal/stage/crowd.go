package stage

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/berth-go/berth/dev/internal/algo"
	"github.com/berth-go/berth/dev/internal/measure"
	"github.com/berth-go/berth/internal/judge"
)

// releaseTimeout bounds a release at the end of a run.
const releaseTimeout = 20 * time.Second

// runCrowd has every client acquire a permit, hold it for a while, and start over.
func (s *stage) runCrowd(ctx context.Context) (*Result, error) {
	r, err := s.watch(ctx, func() error {
		end, cancel := lasting(ctx, s.env.Duration)
		defer cancel()
		return s.each(end, func(ctx context.Context, i int, rng *rand.Rand) (err error) {
			for ctx.Err() == nil && err == nil {
				err = s.use(ctx, i, rng, jitter(rng, s.Hold))
			}
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	view := s.Hold * 60 / time.Duration(s.Limit) // short enough to tell single leases apart
	r.Window = judge.Worst(r.Moments, r.Window.To, view)
	return r, nil
}

// watch opens the clients, has them used, which is the run, and judges it.
func (s *stage) watch(ctx context.Context, use func() error) (*Result, error) {
	if err := s.openWarm(ctx); err != nil {
		return nil, err
	}
	before, sent := s.work(ctx), s.sent()
	s.begin()
	if err := use(); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	run := s.now()
	r := s.result()
	r.judged(s.requests, run)
	r.rated(s, run, sent, before, s.work(ctx))
	r.waited()
	return r, nil
}

// lasting returns a context that ends after d. It has no deadline, which the Redis client
// would turn into time-outs just before the end.
func lasting(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	timer := time.AfterFunc(d, cancel)
	return ctx, func() {
		timer.Stop()
		cancel()
	}
}

// use acquires a permit, holds it, releases it, and records what the client believed.
func (s *stage) use(ctx context.Context, i int, rng *rand.Rand, hold time.Duration) error {
	r := judge.Request{Client: i, Asked: s.now()}
	p, err := obtain(ctx, &noted{s.clients[i], s, &r}, func() time.Duration { return jitter(rng, s.env.Poll) })
	if errors.Is(err, errOver) {
		r.End = s.now()
		s.record(r)
		return nil
	}
	if err != nil {
		return err
	}
	// From here on the client believes that it holds the permit, whatever Redis says.
	r.Granted, r.Start, r.Token = true, s.now(), p.Token
	select {
	case <-time.After(hold):
	case <-ctx.Done():
	case <-p.Lost:
	}
	r.End = s.now()
	s.record(r)
	_, err = release(ctx, p)
	return err
}

// noted is a client that records in r what it learns from the server.
type noted struct {
	algo.Client
	s *stage
	r *judge.Request
}

// Acquire implements algo.Client.
func (n *noted) Acquire(ctx context.Context, _ func()) (*algo.Permit, bool, error) {
	n.r.Called = n.s.now()
	p, ok, err := n.Client.Acquire(ctx, n.answered)
	n.answered()
	return p, ok, err
}

func (n *noted) answered() {
	if n.r.Answered == 0 {
		n.r.Answered = n.s.now()
	}
}

// release releases a permit, also after the run.
func release(ctx context.Context, p *algo.Permit) (bool, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
	defer cancel()
	return p.Release(ctx)
}

// each runs f for all clients at once, each with its own source of random numbers. The
// first error ends all of them and is returned.
func (s *stage) each(ctx context.Context, f func(ctx context.Context, i int, rng *rand.Rand) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var all sync.WaitGroup
	var once sync.Once
	var first error
	for i := range s.clients {
		all.Go(func() {
			if err := f(ctx, i, s.chance(i)); err != nil {
				once.Do(func() {
					first = err
					cancel()
				})
			}
		})
	}
	all.Wait()
	return first
}

// chance returns a client's own source of random numbers, which depends on the seed.
func (s *stage) chance(i int) *rand.Rand {
	return rand.New(rand.NewPCG(s.env.Seed, uint64(i))) //nolint:gosec // repeatable on purpose
}

// jitter returns a random duration from half to one and a half times d.
func jitter(rng *rand.Rand, d time.Duration) time.Duration {
	return d/2 + time.Duration(rng.Int64N(int64(d)+1))
}

// rated fills in how much was done and what it cost.
func (r *Result) rated(s *stage, run time.Duration, sent int64, before, after *measure.Work) {
	n := granted(r.Requests)
	r.Rate = &Rate{
		Acquires: n, PerSecond: float64(n) / run.Seconds(),
		Ideal: float64(min(s.Limit, len(s.clients))) / s.Hold.Seconds(),
	}
	if n == 0 {
		return
	}
	r.Rate.Sent = float64(s.sent()-sent) / float64(n)
	if before != nil && after != nil {
		x := after.Since(*before).Sent(nil).Calls / float64(n)
		r.Rate.Executed = &x
	}
}

// runQueue has every client arrive in turn, and want one permit, again and again.
func (s *stage) runQueue(ctx context.Context) (*Result, error) {
	var first time.Duration
	r, err := s.watch(ctx, func() error {
		for s.now() < s.env.Duration && ctx.Err() == nil {
			if err := s.round(ctx); err != nil {
				return err
			}
			first = cmp.Or(first, s.now())
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	r.Rate.Ideal = 0 // permits are not always wanted here
	r.Window = judge.Span{To: first}
	return r, nil
}

// round lets every client arrive once, in order.
func (s *stage) round(ctx context.Context) error {
	return s.each(ctx, func(ctx context.Context, i int, rng *rand.Rand) error {
		if measure.Pause(ctx, time.Duration(i)*s.Gap) != nil {
			return nil //nolint:nilerr // the run is over
		}
		return s.use(ctx, i, rng, s.Hold)
	})
}
