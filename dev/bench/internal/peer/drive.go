package peer

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/berth-go/berth/dev/internal/measure"
	"github.com/berth-go/berth/internal/judge"
)

// goDriver drives a contestant that is written in Go.
type goDriver struct {
	peer    *Peer
	shape   Shape
	clients []*Client
	workers []Acquire
}

func open(ctx context.Context, p *Peer, url, prefix string, s Shape) (Driver, error) {
	d := &goDriver{peer: p, shape: s}
	for range s.Clients {
		client, err := p.Connect(url, prefix)
		if err != nil {
			d.Close()
			return nil, err
		}
		d.clients = append(d.clients, client)
	}
	if err := d.warm(ctx); err != nil {
		d.Close()
		return nil, err
	}
	return d, nil
}

// warm gives each worker its semaphore and makes each client use each of its semaphores
// once.
func (d *goDriver) warm(ctx context.Context) error {
	for w := range d.shape.Workers {
		name := d.shape.Name
		if d.shape.Each {
			name += "-" + strconv.Itoa(w)
		}
		acquire, err := d.clients[w%len(d.clients)].Semaphore(name, d.shape)
		if err != nil {
			return err
		}
		d.workers = append(d.workers, acquire)
		if d.shape.Each || w < len(d.clients) {
			if err := firstPair(ctx, acquire); err != nil {
				return err
			}
		}
	}
	return nil
}

// firstPair acquires and releases once. It tries again if an attempt takes too long: a lock
// library that waits for the message of a release would wait for ever if the answer to its
// first attempt came too late.
func firstPair(ctx context.Context, acquire Acquire) (err error) {
	for range 10 {
		attempt, cancel := context.WithTimeout(ctx, grace)
		release, failed := acquire(attempt)
		if err = failed; err == nil {
			err = release()
		}
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
			break
		}
	}
	return err
}

// Close implements Driver.
func (d *goDriver) Close() {
	var wg sync.WaitGroup
	for _, client := range d.clients {
		wg.Go(client.Close)
	}
	wg.Wait()
}

// grace is how much longer a load lasts if no worker got a permit.
const grace = 5 * time.Second

// Spin implements Driver.
func (d *goDriver) Spin(ctx context.Context, l Load) (*Outcome, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	first := make(chan struct{})
	defer time.AfterFunc(l.For, func() {
		select { // a load without a single pair measures nothing, so it lasts longer
		case <-first:
		case <-ctx.Done():
		case <-time.After(grace):
		}
		cancel()
	}).Stop()
	served := sync.OnceFunc(func() { close(first) })
	out := &Outcome{Each: make([]int, len(d.workers))}
	beliefs := make([][]judge.Request, len(d.workers))
	errs := make([]error, len(d.workers))
	begin := time.Now()
	var wg sync.WaitGroup
	for w, acquire := range d.workers {
		wg.Go(func() {
			s := spinner{acquire: acquire, load: l, begin: begin, served: served}
			errs[w] = s.run(ctx)
			out.Each[w], beliefs[w] = s.pairs, s.beliefs
		})
	}
	wg.Wait()
	out.Took = time.Since(begin)
	for w, n := range out.Each {
		out.Pairs += n
		out.Beliefs = append(out.Beliefs, beliefs[w]...)
	}
	err := errors.Join(errs...)
	if err == nil && out.Pairs == 0 {
		err = fmt.Errorf("%s had no permit within %v", d.peer.Title, l.For+grace)
	}
	return out, err
}

// spinner is one worker in one Spin.
type spinner struct {
	acquire Acquire
	load    Load
	begin   time.Time
	served  func() // called after a pair
	pairs   int
	beliefs []judge.Request
}

// goPause returns a function that waits with a timer of Go.
func goPause() (pause func(time.Duration) error, stop func() error, err error) {
	return func(d time.Duration) error { <-time.After(d); return nil }, func() error { return nil }, nil
}

// run works until ctx ends, which is not an error.
func (s *spinner) run(ctx context.Context) (err error) {
	newPause := goPause
	if s.load.Hold > 0 && !s.load.GoTimers {
		newPause = exactPause
	}
	pause, stop, err := newPause()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	for ctx.Err() == nil {
		asked := s.now()
		release, err := s.acquire(ctx)
		if err != nil {
			if ctx.Err() != nil {
				err = nil // the end of the load is not an error
			}
			return err
		}
		had := s.now()
		if s.load.Count != nil {
			s.load.Count.Take()
		}
		if s.load.Hold > 0 {
			if err := pause(s.load.Hold); err != nil {
				return errors.Join(err, release())
			}
		}
		if s.load.Count != nil {
			s.load.Count.Give()
		}
		gave := s.now()
		if err := release(); err != nil {
			return err
		}
		if s.pairs++; s.pairs == 1 {
			s.served()
		}
		if s.load.Times {
			s.beliefs = append(s.beliefs, judge.Request{Granted: true, Asked: asked, Start: had, End: gave})
		}
	}
	return nil
}

// now reads the clock, if times are recorded: what is lent in memory takes hardly longer than that.
func (s *spinner) now() (since time.Duration) {
	if s.load.Times {
		since = time.Since(s.begin)
	}
	return since
}

// Pass implements Driver.
func (d *goDriver) Pass(ctx context.Context, n int, pause, most time.Duration) ([]time.Duration, error) {
	// A lock library may miss the message of a release, and its waiter would wait for ever.
	ctx, cancel := context.WithTimeoutCause(ctx, most+grace, errNotHandedOver)
	defer cancel()
	took, err := d.pass(ctx, n, pause, most)
	if err != nil && errors.Is(context.Cause(ctx), errNotHandedOver) {
		err = fmt.Errorf("%w within %v", errNotHandedOver, most+grace)
	}
	return took, err
}

// errNotHandedOver says that a waiter was never told of a release.
var errNotHandedOver = errors.New("a permit did not change hands")

func (d *goDriver) pass(ctx context.Context, n int, pause, most time.Duration) ([]time.Duration, error) {
	release, err := d.workers[0](ctx)
	if err != nil {
		return nil, err
	}
	var took []time.Duration
	for i, end := 1, time.Now().Add(most); len(took) < n && (i <= 3 || time.Now().Before(end)); i++ {
		lasted, next, err := handOver(ctx, release, d.workers[i%2], pause+upTo(d.peer.Poll), d.peer.Poll > 0)
		if err != nil {
			return took, err
		}
		took, release = append(took, lasted), next
	}
	return took, release()
}

// offBeat waits for a random time up to two milliseconds without a timer. The kernel may
// let timers expire together, and with a timer here the wait could end together with the
// pause of a waiter that polls.
func offBeat() {
	for end := time.Now().Add(upTo(2 * time.Millisecond)); time.Now().Before(end); {
	}
}

// handOver starts a waiter, releases after the pause, and returns the time until the
// waiter had the permit, and the waiter's release.
func handOver(ctx context.Context, release Release, waiter Acquire, pause time.Duration, apart bool) (time.Duration, Release, error) {
	type grant struct {
		release Release
		at      time.Time
		err     error
	}
	got, gave := make(chan grant, 1), make(chan error, 1)
	go func() {
		r, err := waiter(ctx)
		got <- grant{r, time.Now(), err}
	}()
	early := measure.Pause(ctx, pause)
	if apart {
		offBeat()
	}
	start := time.Now()
	go func() { gave <- release() }()
	g := <-got
	if err := errors.Join(early, g.err, <-gave); err != nil {
		if g.release != nil {
			_ = g.release()
		}
		return 0, nil, err
	}
	return g.at.Sub(start), g.release, nil
}
