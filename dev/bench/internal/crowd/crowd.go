// Package crowd runs many waiters in child processes. Each process runs this program
// again and speaks JSON, one line for each question and answer.
package crowd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/dev/bench/internal/peer"
	"github.com/berth-go/berth/internal/child"
)

// Role is the role of a process of a crowd.
const Role = "crowd-of-waiters"

// Config configures a process.
type Config struct {
	URL, Prefix, Name string
	Waiters           int
	// Cycle makes a waiter that gets the permit release it at once and go to the end of
	// the queue. Otherwise it keeps the permit.
	Cycle bool
}

// State is the answer of a process.
type State struct {
	Queued int64 // waiters that were told that they are in line
	Grants int64 // permits granted so far
	// Heap and Stack are the memory of the waiters in bytes, after garbage collection.
	// They include the waiting goroutines, although these belong to the callers.
	Heap, Stack float64
}

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

// Main is the main function of a process. It writes its State when all waiters wait and after each
// line of input, and ends with its input.
func Main(config []byte, in io.Reader, out io.Writer) error {
	c := &crowd{leave: func() {}}
	err := json.Unmarshal(config, &c.cfg)
	if err == nil {
		err = c.gather()
	}
	defer func() { c.leave() }()
	return child.Answer(in, out, func(struct{}) (any, error) {
		if err != nil {
			return nil, err
		}
		return c.state()
	})
}

// crowd holds the waiters of one process.
type crowd struct {
	cfg            Config
	queued, grants atomic.Int64
	failed         atomic.Pointer[error]
	before, after  runtime.MemStats
	leave          func()
}

// gatherTimeout bounds the time until all waiters wait.
const gatherTimeout = 3 * time.Minute

// gather starts the waiters and returns when all wait.
func (c *crowd) gather() error {
	client, closeAll, err := peer.Dial(c.cfg.URL, c.cfg.Prefix)
	if err != nil {
		return err
	}
	sem, err := client.Semaphore(c.cfg.Name, 1)
	if err != nil {
		closeAll()
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	c.leave = func() {
		closeAll() // gives up places and permits in a few calls; the context would do so one by one
		cancel()
		wg.Wait()
	}
	// One waiter before the memory is read first: connection, subscription and script.
	wg.Go(func() { c.wait(ctx, sem) })
	if err := c.await(1); err != nil {
		return err
	}
	settled(&c.before)
	for range c.cfg.Waiters - 1 {
		wg.Go(func() { c.wait(ctx, sem) })
	}
	if err := c.await(int64(c.cfg.Waiters)); err != nil {
		return err
	}
	settled(&c.after)
	return nil
}

// await returns when n wait.
func (c *crowd) await(n int64) error {
	for deadline := time.Now().Add(gatherTimeout); c.queued.Load() < n; {
		if err := c.failed.Load(); err != nil {
			return *err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%d of %d waiters wait after %v", c.queued.Load(), n, gatherTimeout)
		}
		<-time.After(5 * time.Millisecond)
	}
	return nil
}

func (c *crowd) wait(ctx context.Context, sem *berth.Semaphore) {
	first := sync.OnceFunc(func() { c.queued.Add(1) })
	for {
		lease, err := sem.Acquire(ctx, berth.OnQueued(func(berth.Place) { first() }))
		if err != nil {
			if !errors.Is(err, berth.ErrClosed) && ctx.Err() == nil {
				c.failed.CompareAndSwap(nil, &err)
			}
			return
		}
		c.grants.Add(1)
		if !c.cfg.Cycle {
			return // Close releases it
		}
		if err := lease.Release(); err != nil && !errors.Is(err, berth.ErrReleased) {
			c.failed.CompareAndSwap(nil, &err)
			return
		}
	}
}

// settled reads how much memory is in use after garbage collection.
func settled(m *runtime.MemStats) {
	runtime.GC()
	runtime.GC() // frees what finalizers and pools released in the first collection
	runtime.ReadMemStats(m)
}

func (c *crowd) state() (State, error) {
	n := float64(max(1, c.cfg.Waiters-1))
	if err := c.failed.Load(); err != nil {
		return State{}, *err
	}
	return State{
		Queued: c.queued.Load(), Grants: c.grants.Load(),
		Heap:  (float64(c.after.HeapAlloc) - float64(c.before.HeapAlloc)) / n,
		Stack: (float64(c.after.StackInuse) - float64(c.before.StackInuse)) / n,
	}, nil
}
