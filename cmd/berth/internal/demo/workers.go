package demo

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/berth-go/berth/internal/child"
)

// farewell is how long the workers have to end by themselves.
const farewell = 2 * time.Second

// workers are the worker processes.
type workers struct {
	events chan event // closed when all have ended
	all    []*process
}

// process is one of them.
type process struct {
	*child.Process

	stderr strings.Builder
	killed bool
}

// startWorkers starts them. Those that were started before an error are to be stopped.
func startWorkers(cfg Config, socket string) (*workers, error) {
	w := &workers{events: make(chan event)}
	var followed sync.WaitGroup
	defer func() {
		go func() {
			followed.Wait()
			close(w.events)
		}()
	}()
	address := url.URL{Scheme: "unix", Path: socket}
	redis := strings.ReplaceAll(address.String(), "@", "%40")
	for number := range cfg.Workers {
		p := &process{}
		cmd := cfg.Worker("--redis", redis, "--limit", strconv.Itoa(cfg.Limit), "--number", strconv.Itoa(number))
		cmd.Stderr = &p.stderr
		var err error
		if p.Process, err = child.Start(cmd); err != nil {
			return w, fmt.Errorf("start worker %d: %w", number, err)
		}
		w.all = append(w.all, p)
		followed.Go(func() {
			for line := range p.Said {
				e := event{worker: number}
				if json.Unmarshal(line, &e) == nil {
					w.events <- e
				}
			}
		})
	}
	return w, nil
}

// kill kills a worker as a crash would.
func (w *workers) kill(number int) {
	p := w.all[number]
	p.killed = true
	p.Kill()
}

// stop asks the workers to end, kills those that do not, and returns their last events. It
// can be called again.
func (w *workers) stop() (last []event) {
	for _, p := range w.all {
		p.Leave()
	}
	stubborn := time.AfterFunc(farewell, func() {
		for _, p := range w.all {
			p.Kill()
		}
	})
	defer stubborn.Stop()
	for e := range w.events {
		last = append(last, e)
	}
	return last
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
