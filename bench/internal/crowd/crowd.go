package crowd

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/berth-go/berth/internal/child"
)

// Crowd is a set of processes, all of whose waiters wait.
type Crowd struct{ members []*child.Process }

// Gather starts the processes, shares cfg.Waiters among them and returns when all
// wait. The permit must be taken. If Gather fails, it leaves no process behind.
func Gather(ctx context.Context, processes int, cfg Config) (*Crowd, error) {
	c := &Crowd{}
	for i := range processes {
		part := cfg
		part.Waiters = cfg.Waiters*(i+1)/processes - cfg.Waiters*i/processes
		m, err := child.Again(Role, part)
		if err != nil {
			c.Close()
			return nil, fmt.Errorf("a process of waiters: %w", err)
		}
		c.members = append(c.members, m)
	}
	if _, err := c.State(ctx); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// State asks all processes at once, and returns the sums of the counts and the means of
// the bytes.
func (c *Crowd) State(ctx context.Context) (sum State, err error) {
	states, errs := make([]State, len(c.members)), make([]error, len(c.members))
	var wg sync.WaitGroup
	for i, m := range c.members {
		wg.Go(func() { errs[i] = m.Ask(ctx, struct{}{}, &states[i]) })
	}
	wg.Wait()
	for _, s := range states {
		sum.Queued += s.Queued
		sum.Grants += s.Grants
		sum.Heap += s.Heap / float64(len(states))
		sum.Stack += s.Stack / float64(len(states))
	}
	return sum, errors.Join(errs...)
}

// Close makes the processes release what they have, and returns when they have ended.
func (c *Crowd) Close() {
	for _, m := range c.members {
		m.Leave()
	}
	for _, m := range c.members {
		_ = m.Wait() // its exit status does not matter
	}
}
