// Package demo shows berth at work: worker processes contend for a few permits, one of them
// is killed while it holds a permit, and the permit comes back.
//
// The store is an embedded one, in the demo's own process, on a unix socket. The workers are
// real processes that share nothing but that socket. The picture and the summary are made
// from their own reports.
package demo

import (
	"context"
	"os"
	"os/exec"
	"time"

	"github.com/berth-go/berth/cmd/berth/internal/local"
)

const (
	// frame is the time between two pictures.
	frame = 80 * time.Millisecond
	// killAfter is when a worker is killed, as a fraction of the demo: early enough for the
	// permit to come back, late enough for a queue to have formed.
	killAfter = 0.35
	// overtime is how much longer than asked for the demo lasts if the killed
	// worker's permit has not come back yet: on a machine that is busy.
	overtime = 20 * time.Second
)

// Config is one demo.
type Config struct {
	Workers int
	Limit   int
	For     time.Duration
	// Worker returns the command of a worker process, which calls Work with
	// what the arguments say.
	Worker func(args ...string) *exec.Cmd
	Told   func(Event)  // is called for each event, in the order of arrival; nil: nobody is told
	Frame  func(*State) // is called some times per second; nil: nothing is drawn
}

// Run runs the demo to its end, or until ctx ends, and returns what it showed.
func Run(ctx context.Context, cfg Config) (Summary, error) {
	dir, socket, err := local.TempSocket("berth-demo-")
	if err != nil {
		return Summary{}, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	server, err := local.Listen(socket)
	if err != nil {
		return Summary{}, err
	}
	defer server.Close()

	workers, err := startWorkers(cfg, socket)
	defer workers.stop()
	if err != nil {
		return Summary{}, err
	}
	return watch(ctx, cfg, workers)
}

// watch follows the workers until the demo's time is over and the permit of the killed worker
// has come back.
func watch(ctx context.Context, cfg Config, workers *workers) (Summary, error) {
	ctx, cancel := context.WithTimeout(ctx, cfg.For+overtime)
	defer cancel()
	s := newState(cfg)
	tick := time.NewTicker(frame)
	defer tick.Stop()
	killer := time.NewTimer(time.Duration(killAfter * float64(cfg.For)))
	defer killer.Stop()
	over := time.After(cfg.For)
	for {
		select {
		case e, more := <-workers.events:
			if !more {
				cancel() // all workers have failed
			}
			s.add(e)
		case <-tick.C:
			s.cfg.Frame(s)
		case <-killer.C:
			if h := s.amidWork(); h != nil {
				at := clock()
				workers.kill(h.Client)
				s.add(event{Kind: killed, At: at, worker: h.Client})
			} else {
				killer.Reset(20 * time.Millisecond)
			}
		case <-over:
			over = nil
		case <-ctx.Done():
			end := clock()
			s.over = true
			for _, e := range workers.stop() {
				s.add(e)
			}
			clear(s.line) // nobody waits any more
			s.cfg.Frame(s)
			return s.summary(end), workers.failure()
		}
		if over == nil && s.crashed != nil && s.successor(s.crashed) != nil {
			cancel()
		}
	}
}
