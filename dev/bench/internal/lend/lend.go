// Package lend runs child processes that borrow permits from pools and share a limit.
// Each process runs this program again and answers questions.
package lend

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/berthpool"
	"github.com/berth-go/berth/dev/bench/internal/peer"
	"github.com/berth-go/berth/internal/child"
)

// Role is the role of such a process.
const Role = "borrower-of-a-pool"

// Config configures a process.
type Config struct {
	URL, Prefix, Name string
	Limit             int
	Size              int // of its pool; 0: it has none, and every permit comes from Redis
	Workers           int
	TTL, Hold         time.Duration
	Board             string // the file of the Board
}

// Work is an order to work for a while.
type Work struct {
	For    time.Duration
	Judged bool // count every belief on the board, which takes time
}

// Done is the result of a Work.
type Done struct {
	Pairs   int
	Took    time.Duration
	Longest time.Duration // wait; only with Hold
}

// Start starts a process and returns when it can work. Its answer to a Work is a Done.
func Start(ctx context.Context, cfg Config) (*child.Process, error) {
	p, err := child.Again(Role, cfg)
	if err != nil {
		return nil, err
	}
	if err := p.Ask(ctx, Work{}, &Done{}); err != nil {
		p.End()
		return nil, err
	}
	return p, nil
}

// Main is the main function of a process, which ends with its input.
func Main(config []byte, in io.Reader, out io.Writer) error {
	b := &borrowers{leave: func() {}}
	err := json.Unmarshal(config, &b.cfg)
	if err == nil {
		err = b.come()
	}
	defer func() { b.leave() }()
	return child.Answer(in, out, func(w Work) (any, error) {
		if err != nil {
			return nil, err
		}
		return b.work(w)
	})
}

// borrowers are the goroutines of one process.
type borrowers struct {
	cfg     Config
	board   *Board
	acquire peer.Acquire
	leave   func()
}

// come opens what the borrowers need and uses the semaphore once. They must leave, even if it fails.
func (b *borrowers) come() (err error) {
	if b.board, err = OpenBoard(b.cfg.Board); err != nil {
		return err
	}
	client, closeAll, err := peer.Dial(b.cfg.URL, b.cfg.Prefix)
	if err != nil {
		return err
	}
	b.leave = closeAll
	sem, err := client.Semaphore(b.cfg.Name, b.cfg.Limit, berth.TTL(b.cfg.TTL))
	if err != nil {
		return err
	}
	if b.acquire, err = acquireFrom(sem, b.cfg.Size); err != nil {
		return err
	}
	release, err := b.acquire(context.Background())
	if err != nil {
		return err
	}
	return release()
}

// acquireFrom returns a function that borrows from a pool or, if size is 0, acquires from
// Redis.
func acquireFrom(sem *berth.Semaphore, size int) (peer.Acquire, error) {
	if size == 0 {
		return peer.AcquireOf(sem), nil
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

// work makes every goroutine borrow and return permits.
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

// borrow is one goroutine. It reads the clock only if it holds permits for some time,
// because reading it takes a good part of the time that is measured otherwise.
func (b *borrowers) borrow(ctx context.Context, judged bool) (d Done, err error) {
	for ctx.Err() == nil {
		var asked time.Time
		if b.cfg.Hold > 0 {
			asked = time.Now()
		}
		release, err := b.acquire(ctx)
		if err != nil {
			if ctx.Err() != nil {
				err = nil // the end of the work is not an error
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
