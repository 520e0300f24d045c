// Package lend has processes that borrow permits of pools, and share a limit:
// each process runs this program again and answers questions.
package lend

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/bench/internal/peer"
	"github.com/berth-go/berth/berthpool"
	"github.com/berth-go/berth/internal/child"
)

// Command is the argument with which this program is such a process.
const Command = "borrower-of-a-pool"

// Config is what a process is.
type Config struct {
	URL, Prefix, Name string
	Limit             int
	Size              int // of its pool; 0: no pool, every permit from Redis
	Workers           int
	TTL, Hold         time.Duration
	Board             string // the file of the Board
}

// Work is one stretch of work.
type Work struct {
	For    time.Duration
	Judged bool // note every belief on the board, which takes time
}

// Done is what came of it.
type Done struct {
	Pairs   int
	Took    time.Duration
	Longest time.Duration // wait; only with Hold
}

// question is what a process is asked: to come, once and first, or to work.
type question struct {
	Come *Config
	Work *Work
}

// Process is a process of borrowers.
type Process struct{ child *child.Process }

// Start starts a process and returns when it can work.
func Start(ctx context.Context, cfg Config) (*Process, error) {
	c, err := child.Again(Command)
	if err != nil {
		return nil, err
	}
	p := &Process{c}
	if err := c.Ask(ctx, question{Come: &cfg}, &Done{}); err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

// Work has the process work and returns when it has.
func (p *Process) Work(ctx context.Context, w Work) (d Done, err error) {
	return d, p.child.Ask(ctx, question{Work: &w}, &d)
}

// Close has the process give back what it has, and returns when it has gone.
func (p *Process) Close() {
	p.child.Leave()
	_ = p.child.Wait() // how it ended does not matter
}

// Main is the process; it ends with its input.
func Main(in io.Reader, out io.Writer) error {
	var b *borrowers
	defer func() {
		if b != nil {
			b.leave()
		}
	}()
	return child.Answer(in, out, func(q question) (any, error) {
		switch {
		case q.Come != nil:
			came, err := come(*q.Come)
			if err != nil {
				return nil, err
			}
			b = came
			return Done{}, b.pair(context.Background())
		case q.Work != nil && b != nil:
			return b.work(*q.Work)
		}
		return nil, errors.New("there is nothing to do")
	})
}

// borrowers are the goroutines of one process.
type borrowers struct {
	cfg     Config
	board   *Board
	acquire peer.Acquire
	leave   func()
}

func come(cfg Config) (*borrowers, error) {
	board, err := OpenBoard(cfg.Board)
	if err != nil {
		return nil, err
	}
	client, closeAll, err := peer.Dial(cfg.URL, cfg.Prefix)
	if err != nil {
		return nil, err
	}
	b := &borrowers{cfg: cfg, board: board, leave: closeAll}
	sem, err := client.Semaphore(cfg.Name, cfg.Limit, berth.TTL(cfg.TTL))
	if err == nil {
		b.acquire, err = acquireFrom(sem, cfg.Size)
	}
	if err != nil {
		closeAll()
		return nil, err
	}
	return b, nil
}

// acquireFrom borrows from a pool, or takes from Redis without one.
func acquireFrom(sem *berth.Semaphore, size int) (peer.Acquire, error) {
	if size == 0 {
		return func(ctx context.Context) (peer.Release, error) {
			lease, err := sem.Acquire(ctx)
			if err != nil {
				return nil, err
			}
			return lease.Release, nil
		}, nil
	}
	pool, err := berthpool.New(sem, size) // closed with its client
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) (peer.Release, error) {
		loan, err := pool.Acquire(ctx)
		if err != nil {
			return nil, err
		}
		return loan.Release, nil
	}, nil
}

func (b *borrowers) pair(ctx context.Context) error {
	release, err := b.acquire(ctx)
	if err != nil {
		return err
	}
	return release()
}

// work has every goroutine borrow and give back.
func (b *borrowers) work(w Work) (Done, error) {
	ctx, cancel := context.WithTimeout(context.Background(), w.For)
	defer cancel()
	begin := time.Now()
	each, errs := make([]Done, b.cfg.Workers), make([]error, b.cfg.Workers)
	var wg sync.WaitGroup
	for i := range b.cfg.Workers {
		wg.Go(func() { each[i], errs[i] = b.borrow(ctx, w.Judged) })
	}
	wg.Wait()
	sum := Done{Took: time.Since(begin)}
	for _, d := range each {
		sum.Pairs += d.Pairs
		sum.Longest = max(sum.Longest, d.Longest)
	}
	return sum, errors.Join(errs...)
}

// borrow is one goroutine. It looks at the time only where it holds for some
// time anyway: a look costs a fraction of what is measured.
func (b *borrowers) borrow(ctx context.Context, judged bool) (d Done, err error) {
	for ctx.Err() == nil {
		var asked time.Time
		if b.cfg.Hold > 0 {
			asked = time.Now()
		}
		release, err := b.acquire(ctx)
		if err != nil {
			if ctx.Err() != nil {
				err = nil // that is how it ends
			}
			return d, err
		}
		if judged {
			b.board.Take()
		}
		if b.cfg.Hold > 0 {
			d.Longest = max(d.Longest, time.Since(asked))
			<-time.After(b.cfg.Hold)
		}
		if judged {
			b.board.Give()
		}
		if err := release(); err != nil {
			return d, err
		}
		d.Pairs++
	}
	return d, nil
}
