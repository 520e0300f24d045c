package demo

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// crew is the worker processes.
type crew struct {
	events  chan event
	members []*member
	readers sync.WaitGroup
}

// member is one worker process.
type member struct {
	number int
	cmd    *exec.Cmd
	stdin  io.Closer
	stderr strings.Builder
	killed bool
	err    error // from Wait; read after the readers are done
}

// hire starts the workers.
func hire(cfg Config, socket string) (*crew, error) {
	// The buffer takes all that can be said while nobody listens.
	c := &crew{events: make(chan event, 1024)}
	for number := range cfg.Workers {
		m, err := c.start(number, cfg.Worker(workerArgs(cfg, socket, number)...))
		if err != nil {
			c.dismiss(0)
			return nil, fmt.Errorf("start worker %d: %w", number, err)
		}
		c.members = append(c.members, m)
	}
	return c, nil
}

func (c *crew) start(number int, cmd *exec.Cmd) (*member, error) {
	m := &member{number: number, cmd: cmd}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	m.stdin = stdin
	cmd.Stderr = &m.stderr
	// A group of their own: a Ctrl-C is for the demo, which then ends them.
	cmd.SysProcAttr = ownGroup()
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	c.readers.Go(func() { c.follow(m, stdout) })
	return m, nil
}

// follow passes the worker's reports on until it has ended.
func (c *crew) follow(m *member, stdout io.Reader) {
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		var e event
		if json.Unmarshal(lines.Bytes(), &e) == nil {
			e.worker = m.number
			c.events <- e
		}
	}
	m.err = m.cmd.Wait()
	c.events <- event{Kind: gone, At: clock(), worker: m.number}
}

// kill kills a worker as a crash would.
func (c *crew) kill(number int) {
	m := c.members[number]
	m.killed = true
	_ = m.cmd.Process.Kill()
}

// dismiss asks the workers to end, ends those that do not, and returns what
// they had left to say. It may be called again.
func (c *crew) dismiss(patience time.Duration) []event {
	for _, m := range c.members {
		_ = m.stdin.Close()
	}
	stubborn := time.AfterFunc(patience, func() {
		for _, m := range c.members {
			_ = m.cmd.Process.Kill()
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
	for _, m := range c.members {
		if m.err != nil && !m.killed {
			errs = append(errs, fmt.Errorf("worker %d: %w: %s", m.number, m.err, strings.TrimSpace(m.stderr.String())))
		}
	}
	return errors.Join(errs...)
}
