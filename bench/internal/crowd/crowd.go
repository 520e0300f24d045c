package crowd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"

	"github.com/berth-go/berth/bench/internal/child"
)

// Crowd is some processes, all of whose waiters wait.
type Crowd struct{ members []*member }

// member is one process.
type member struct {
	proc  *child.Process
	in    io.WriteCloser
	out   io.ReadCloser
	ask   *json.Encoder
	reply *json.Decoder
	state State
}

// Gather starts the processes, shares cfg.Waiters out among them and returns
// when all wait. The permit must be taken. On failure nothing is left behind.
func Gather(ctx context.Context, run func() *exec.Cmd, processes int, cfg Config) (*Crowd, error) {
	c := &Crowd{}
	for i := range processes {
		part := cfg
		part.Waiters = cfg.Waiters*(i+1)/processes - cfg.Waiters*i/processes
		m, err := start(run(), part)
		if err != nil {
			c.Close()
			return nil, fmt.Errorf("a process of waiters: %w", err)
		}
		c.members = append(c.members, m)
	}
	if _, err := c.each(ctx, (*member).hear); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

func start(cmd *exec.Cmd, cfg Config) (*member, error) {
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	proc, err := child.Start(cmd)
	if err != nil {
		return nil, err
	}
	m := &member{proc: proc, in: in, out: out, ask: json.NewEncoder(in), reply: json.NewDecoder(out)}
	return m, m.ask.Encode(cfg)
}

func (m *member) hear() error {
	if err := m.reply.Decode(&m.state); err != nil {
		return fmt.Errorf("a process of waiters has ended: %w", err)
	}
	if m.state.Error != "" {
		return errors.New("a process of waiters: " + m.state.Error)
	}
	return nil
}

// State asks every process, and returns the sums of the counts and the means of
// the bytes.
func (c *Crowd) State(ctx context.Context) (State, error) {
	return c.each(ctx, func(m *member) error {
		if err := m.ask.Encode("state"); err != nil {
			return err
		}
		return m.hear()
	})
}

// each talks to all at once. When ctx ends first, the processes are ended.
func (c *Crowd) each(ctx context.Context, f func(*member) error) (State, error) {
	stop := context.AfterFunc(ctx, c.kill)
	defer stop()
	errs := make([]error, len(c.members))
	var wg sync.WaitGroup
	for i, m := range c.members {
		wg.Go(func() { errs[i] = f(m) })
	}
	wg.Wait()
	if err := ctx.Err(); err != nil {
		return State{}, err
	}
	var sum State
	for _, m := range c.members {
		sum.Queued += m.state.Queued
		sum.Grants += m.state.Grants
		sum.Heap += m.state.Heap / float64(len(c.members))
		sum.Stack += m.state.Stack / float64(len(c.members))
	}
	return sum, errors.Join(errs...)
}

func (c *Crowd) kill() {
	for _, m := range c.members {
		_ = m.proc.Cmd.Process.Kill()
	}
}

// Close has the processes give back what they have, and returns when they have
// gone.
func (c *Crowd) Close() {
	for _, m := range c.members {
		_ = m.in.Close()
	}
	for _, m := range c.members {
		<-m.proc.Done
		_ = m.out.Close()
	}
}
