package demo

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/berth-go/berth/internal/child"
)

// workers are the worker processes.
type workers struct {
	events  chan event
	all     []*process
	readers sync.WaitGroup
}

// process is one of them.
type process struct {
	*child.Process

	stderr strings.Builder
	killed bool
}

// startWorkers starts them.
func startWorkers(cfg Config, socket string) (*workers, error) {
	// The buffer has room for everything that is sent while nobody receives.
	w := &workers{events: make(chan event, 1024)}
	for number := range cfg.Workers {
		p := &process{}
		cmd := cfg.Worker(workerArgs(cfg, socket, number)...)
		cmd.Stderr = &p.stderr
		var err error
		if p.Process, err = child.Start(cmd); err != nil {
			w.stop(0)
			return nil, fmt.Errorf("start worker %d: %w", number, err)
		}
		w.all = append(w.all, p)
		w.readers.Go(func() { w.follow(p, number) })
	}
	return w, nil
}

// follow passes the worker's reports on until it has ended.
func (w *workers) follow(p *process, number int) {
	for line := range p.Said {
		var e event
		if json.Unmarshal(line, &e) == nil {
			e.worker = number
			w.events <- e
		}
	}
}

// kill kills a worker as a crash would.
func (w *workers) kill(number int) {
	p := w.all[number]
	p.killed = true
	p.Kill()
}

// stop asks the workers to end, kills those that do not, and returns their last events. It
// can be called again.
func (w *workers) stop(grace time.Duration) []event {
	for _, p := range w.all {
		p.Leave()
	}
	stubborn := time.AfterFunc(grace, func() {
		for _, p := range w.all {
			p.Kill()
		}
	})
	defer stubborn.Stop()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		w.readers.Wait()
	}()
	var rest []event
	for {
		select {
		case e := <-w.events:
			rest = append(rest, e)
		case <-ended:
			// All senders have ended.
			for len(w.events) > 0 {
				rest = append(rest, <-w.events)
			}
			return rest
		}
	}
}

// failure returns why workers failed that were not killed. Only after stop.
func (w *workers) failure() error {
	var errs []error
	for number, p := range w.all {
		if err := p.Wait(); err != nil && !p.killed {
			errs = append(errs, fmt.Errorf("worker %d: %w: %s", number, err, strings.TrimSpace(p.stderr.String())))
		}
	}
	return errors.Join(errs...)
}
