package algo

import (
	"context"
	"errors"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/dev/internal/measure"
)

// own is a client of berth's semaphore, with a berth.Client of its own. It ignores
// Setup.ClockOff, because berth never sends the time of a client's clock.
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

// Acquire waits in line. It asks again where a slow machine made Redis
// answer too late, or the lease end before its grant arrived.
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
		Release: func(context.Context) (bool, error) { // Release itself repeats what was interrupted
			err := lease.Release()
			switch {
			case errors.Is(err, berth.ErrLost) || errors.Is(err, berth.ErrReleased):
				return false, nil
			case errors.Is(err, berth.ErrUnreachable): // on a slow machine: the client goes on trying
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

// fillBerth makes n acquires, which the client sends together: see package commit. On a slow
// machine they wait for what an attempt of theirs was granted too late, and is given back.
func fillBerth(ctx context.Context, s Setup, n int) (func(), error) {
	c, err := newOwn(s)
	if err != nil {
		return nil, err
	}
	one := func(int) error {
		_, _, err := c.Acquire(ctx, func() {})
		return err
	}
	if err := measure.AtOnce(n, one); err != nil {
		c.Close()
		return nil, err
	}
	return c.Close, nil
}
