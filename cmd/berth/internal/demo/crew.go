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

// crew is the worker processes.
type crew struct {
	events  chan event
	members []*member
	readers sync.WaitGroup
}

// member is one worker process.
type member struct {
	*child.Process

	stderr strings.Builder
	killed bool
}

// hire starts the workers.
func hire(cfg Config, socket string) (*crew, error) {
	// The buffer takes all that can be said while nobody listens.
	c := &crew{events: make(chan event, 1024)}
	for number := range cfg.Workers {
		m := &member{}
		cmd := cfg.Worker(workerArgs(cfg, socket, number)...)
		cmd.Stderr = &m.stderr
		var err error
		if m.Process, err = child.Start(cmd); err != nil {
			c.dismiss(0)
			return nil, fmt.Errorf("start worker %d: %w", number, err)
		}
		c.members = append(c.members, m)
		c.readers.Go(func() { c.follow(m, number) })
	}
	return c, nil
}

// follow passes the worker's reports on until it has ended.
func (c *crew) follow(m *member, number int) {
	for line := range m.Said {
		var e event
		if json.Unmarshal(line, &e) == nil {
			e.worker = number
			c.events <- e
		}
	}
	c.events <- event{Kind: gone, At: clock(), worker: number}
}

// kill kills a worker as a crash would.
func (c *crew) kill(number int) {
	m := c.members[number]
	m.killed = true
	m.Kill()
}

// dismiss asks the workers to end, ends those that do not, and returns what
// they had left to say. It may be called again.
func (c *crew) dismiss(patience time.Duration) []event {
	for _, m := range c.members {
		m.Leave()
	}
	stubborn := time.AfterFunc(patience, func() {
		for _, m := range c.members {
			m.Kill()
		}
	})
	defer stubborn.Stop()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		c.readers.Wait()
	}()
	var rest []event
	for {
		select {
		case e := <-c.events:
			rest = append(rest, e)
		case <-ended:
			// Nobody sends any more.
			for len(c.events) > 0 {
				rest = append(rest, <-c.events)
			}
			return rest
		}
	}
}

// failure returns why workers failed that were not killed. Only after dismiss.
func (c *crew) failure() error {
	var errs []error
	for number, m := range c.members {
		if err := m.Wait(); err != nil && !m.killed {
			errs = append(errs, fmt.Errorf("worker %d: %w: %s", number, err, strings.TrimSpace(m.stderr.String())))
		}
	}
	return errors.Join(errs...)
}
