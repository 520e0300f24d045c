package algo

import (
	"context"
	"errors"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/internal/measure"
)

// own is a client of berth's semaphore: a process of its own, as far as berth
// can see. It has no use for Setup.ClockOff: berth never sends a wall clock's time.
type own struct {
	client *berth.Client
	sem    *berth.Semaphore
}

func openBerth(s Setup) (Client, error) {
	c, err := newOwn(s)
	if err != nil {
		return nil, err
	}
	return c, nil
}

func newOwn(s Setup) (*own, error) {
	client, err := berth.New(s.Redis, berth.Prefix(s.Prefix))
	if err != nil {
		return nil, err
	}
	sem, err := client.Semaphore(s.Name, s.Limit, berth.TTL(s.Timeout))
	if err != nil {
		return nil, err
	}
	return &own{client, sem}, nil
}

// Acquire implements Client. It waits in line. On a machine so slow that Redis does not answer
// in time, or that the lease was over when its grant arrived, it asks again.
func (c *own) Acquire(ctx context.Context, queued func()) (*Permit, bool, error) {
	inLine := berth.OnQueued(func(berth.Place) { queued() })
	lease, err := c.sem.Acquire(ctx, inLine)
	for (errors.Is(err, berth.ErrUnreachable) || errors.Is(err, berth.ErrLost)) && ctx.Err() == nil {
		lease, err = c.sem.Acquire(ctx, inLine)
	}
	if err != nil {
		return nil, false, err
	}
	return &Permit{
		Release: func(context.Context) (bool, error) { // it repeats what was interrupted by itself
			err := lease.Release()
			switch {
			case errors.Is(err, berth.ErrLost) || errors.Is(err, berth.ErrReleased):
				return false, nil
			case errors.Is(err, berth.ErrUnreachable): // on a slow machine: it comes back by further attempts
				return true, nil
			}
			return err == nil, err
		},
		Check: func(context.Context) bool { return lease.Valid() }, // without asking Redis
		Lost:  lease.Context().Done(), Until: lease.ValidUntil, Token: lease.Token(),
	}, true, nil
}

// Close implements Client.
func (c *own) Close() { _ = c.client.Close() }

// fillOne takes a permit, on a machine that is slow in several attempts.
func (c *own) fillOne(ctx context.Context) error {
	for {
		_, err := c.sem.TryAcquire(ctx)
		if !errors.Is(err, berth.ErrUnreachable) || ctx.Err() != nil {
			return err
		}
	}
}

// fillBerth really makes n acquires. They travel together: see the library's group commit.
func fillBerth(ctx context.Context, s Setup, n int) (func(), error) {
	c, err := newOwn(s)
	if err != nil {
		return nil, err
	}
	if err := measure.AtOnce(n, func(int) error { return c.fillOne(ctx) }); err != nil {
		c.Close()
		return nil, err
	}
	return c.Close, nil
}
