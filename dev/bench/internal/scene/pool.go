package scene

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/dev/bench/internal/lend"
	"github.com/berth-go/berth/dev/bench/internal/peer"
	"github.com/berth-go/berth/dev/internal/measure"
	"github.com/berth-go/berth/internal/child"
)

const (
	poolLimit   = 8
	poolWorkers = 16 // goroutines of the process that is measured
	poolOthers  = 4  // goroutines of the other process, which hold for 1 ms
)

func pool() *Scenario {
	return &Scenario{
		Key: "pool", Title: "Permits lent in memory", Slices: 1, Most: 3, Open: openPool,
		Cases:  func(Scale) []Case { return []Case{{"pool", poolLimit}, {"no-pool", 0}} },
		Length: func(s Scale) time.Duration { return 3*s.Slice + s.Elsewhere },
		Takes:  among(peer.BerthKey),
		About: "Two processes share 8 permits: in one 16 goroutines borrow from a pool of 8 and give back at once, in the other 4 goroutines hold " +
			"each permit for 1 ms, from a pool of their own. \"pairs/s\" is the first process alone. Then for longer, and with every belief counted in " +
			"memory that the processes share (\"most held\"), somebody without a pool waits elsewhere, again and again: \"elsewhere\" is the longest " +
			"wait in renewal intervals, a third of the TTL. \"other ms\" is the longest wait in the second process.",
	}
}

func openPool(ctx context.Context, e *Env, c Case, _ *peer.Peer) (*Entrant, error) {
	dir, err := os.MkdirTemp("", "berth-bench")
	if err != nil {
		return nil, err
	}
	p := &pools{env: e, dir: dir, cfg: lend.Config{
		URL: e.URL, Prefix: e.Prefix, Name: e.name("pool"), Limit: poolLimit, Size: c.N, Workers: poolWorkers,
		TTL: e.Scale.PoolTTL, Board: filepath.Join(dir, "board"),
	}}
	if err := p.open(ctx); err != nil {
		p.close()
		return nil, err
	}
	return &Entrant{Slice: p.slice, Close: p.close}, nil
}

// pools are the two processes.
type pools struct {
	env        *Env
	dir        string
	cfg        lend.Config
	board      *lend.Board
	one, other *child.Process
	elsewhere  peer.Acquire
	leave      func()
}

func (p *pools) open(ctx context.Context) (err error) {
	if p.board, err = lend.OpenBoard(p.cfg.Board); err != nil {
		return err
	}
	if p.one, err = lend.Start(ctx, p.cfg); err != nil {
		return err
	}
	second := p.cfg
	second.Workers, second.Hold = poolOthers, hold
	if p.other, err = lend.Start(ctx, second); err != nil {
		return err
	}
	client, leave, err := peer.Dial(p.env.URL, p.env.Prefix)
	if err != nil {
		return err
	}
	p.leave = leave
	sem, err := client.Semaphore(p.cfg.Name, poolLimit, berth.TTL(p.cfg.TTL))
	if err != nil {
		return err
	}
	p.elsewhere = peer.AcquireOf(sem)
	return nil
}

func (p *pools) close() {
	for _, process := range []*child.Process{p.one, p.other} {
		if process != nil {
			process.End()
		}
	}
	if p.leave != nil {
		p.leave()
	}
	if p.board != nil {
		p.board.Close()
	}
	_ = os.RemoveAll(p.dir)
}

func (p *pools) slice(ctx context.Context) ([]Figure, error) {
	fast, _, err := p.both(ctx, lend.Work{For: 3 * p.env.Scale.Slice}, func(context.Context) error { return nil })
	if err != nil {
		return nil, err
	}
	var waited time.Duration
	_, other, err := p.both(ctx, lend.Work{For: p.env.Scale.Elsewhere, Judged: true}, func(ctx context.Context) (err error) {
		waited, err = p.wait(ctx)
		return err
	})
	if err != nil {
		return nil, err
	}
	return []Figure{
		{Metric: "pairs/s", Value: float64(fast.Pairs) / fast.Took.Seconds()},
		{Metric: "most-held", Value: float64(p.board.Most())},
		{Metric: "elsewhere", Value: float64(waited) / float64(p.cfg.TTL/3)},
		{Metric: "elsewhere-ms", Value: float64(waited) / float64(time.Millisecond)},
		{Metric: "other-ms", Value: float64(other.Longest) / float64(time.Millisecond)},
	}, nil
}

// both makes both processes work at the same time, and runs f meanwhile.
func (p *pools) both(ctx context.Context, w lend.Work, f func(context.Context) error) (one, other lend.Done, err error) {
	var errs [3]error
	var wg sync.WaitGroup
	wg.Go(func() { errs[0] = p.one.Ask(ctx, w, &one) })
	wg.Go(func() { errs[1] = p.other.Ask(ctx, w, &other) })
	meanwhile, cancel := context.WithTimeout(ctx, w.For)
	defer cancel()
	errs[2] = f(meanwhile)
	wg.Wait()
	return one, other, errors.Join(errs[:]...)
}

// wait acquires again and again until ctx ends, and returns the longest wait, including
// the one that ctx ended.
func (p *pools) wait(ctx context.Context) (longest time.Duration, err error) {
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
		p.board.Take()
		if err := measure.Pause(ctx, 5*hold); err != nil && !errors.Is(err, context.DeadlineExceeded) {
			return longest, err
		}
		p.board.Give()
		if err := release(); err != nil {
			return longest, err
		}
	}
	return longest, nil
}
