package run

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/cmd/berth/internal/exit"
	"github.com/berth-go/berth/cmd/berth/internal/job"
)

type acquired struct {
	lease *berth.Lease
	err   error
}

// Wait gets the permit, or leaves the queue at the first signal. Its errors
// carry the exit code.
func Wait(cfg Config) (*berth.Lease, error) {
	ctx, leave := context.WithCancel(context.Background())
	defer leave()
	places := make(chan berth.Place, 1)
	got := make(chan acquired, 1)
	go func() {
		lease, err := cfg.Acquire(ctx, berth.OnQueued(latest(places)))
		got <- acquired{lease, err}
	}()
	line := newLine(cfg)
	defer line.erase()
	tick := line.ticks()
	defer tick.Stop()
	for {
		select {
		case a := <-got:
			return cfg.outcome(a, line)
		case place := <-places:
			line.show(place)
		case <-tick.C:
			line.draw()
		case sig := <-cfg.Signals:
			leave()
			return nil, cfg.left(got, sig)
		}
	}
}

// latest returns a callback that keeps the newest place in the channel and
// never blocks.
func latest(places chan berth.Place) func(berth.Place) {
	return func(p berth.Place) {
		for {
			select {
			case places <- p:
				return
			default:
			}
			select {
			case <-places:
			default:
			}
		}
	}
}

// left gives back a permit that came in the very moment of the signal. A
// second signal does not wait for that: the permit is free within the TTL.
func (cfg Config) left(got <-chan acquired, sig os.Signal) error {
	select {
	case a := <-got:
		if a.lease != nil {
			giveBack(cfg, a.lease)
		}
	case <-cfg.Signals:
	}
	return exit.Signal(job.Number(sig))
}

// outcome makes the library's answer the command line's.
func (cfg Config) outcome(a acquired, line *line) (*berth.Lease, error) {
	if a.err == nil {
		return a.lease, nil
	}
	code := exit.Of(a.err)
	if code != exit.NotAcquired {
		return nil, a.err
	}
	if errors.Is(a.err, context.DeadlineExceeded) {
		// Without a place in line there may have been no answer at all.
		if line.place == nil {
			if err := cfg.Probe(); err != nil {
				return nil, exit.Errorf(exit.Unavailable, "redis does not answer: %w", err)
			}
		}
		return nil, &exit.Error{Code: cfg.NotAcquired, Err: timedOut(cfg.Name, line)}
	}
	if busy := (*berth.BusyError)(nil); errors.As(a.err, &busy) {
		return nil, &exit.Error{Code: cfg.NotAcquired, Err: refused(busy)}
	}
	return nil, &exit.Error{Code: cfg.NotAcquired, Err: a.err}
}

// refused is the library's refusal in a shell user's words.
func refused(busy *berth.BusyError) error {
	what := "no permit"
	if busy.QueueFull {
		what = "the queue is full"
	}
	if busy.Paused {
		what += ", it is paused"
	}
	return fmt.Errorf("%q: %s: %d of %d in use, %d waiting", busy.Name, what, busy.InUse, busy.Limit, busy.Waiting)
}

func timedOut(name string, line *line) error {
	waited := time.Since(line.since).Round(time.Millisecond)
	if line.place == nil {
		return fmt.Errorf("no permit of %q within %v", name, waited)
	}
	p := line.place
	return fmt.Errorf("no permit of %q within %v: %d of %d in use, %d ahead in the queue",
		name, waited, p.InUse, p.Limit, p.Ahead)
}
