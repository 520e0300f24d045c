package peer

import (
	"context"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/dev/bench/internal/redisd"
)

// BerthKey is the key of berth.
const BerthKey = "berth"

// Berth returns berth as a contestant.
func Berth() *Peer {
	return &Peer{
		Key: BerthKey, Title: "berth", Kind: Semaphore, Queues: true,
		About: "default options: a queue, slots, fencing tokens, TTL 30 s with renewals, loss detection",
		Sent:  scripts,
		Rater: berthRate,
		Connect: func(url, prefix string) (*Client, error) {
			c, closeAll, err := Dial(url, prefix)
			if err != nil {
				return nil, err
			}
			return &Client{Close: closeAll, Semaphore: func(name string, limit int) (Acquire, error) {
				sem, err := c.Semaphore(name, limit)
				if err != nil {
					return nil, err
				}
				return AcquireOf(sem), nil
			}}, nil
		},
	}
}

// Dial returns a client of berth with its own connections, and a function that closes both.
func Dial(url, prefix string) (*berth.Client, func(), error) {
	rdb := redisd.Client(url)
	c, err := berth.New(rdb, berth.Prefix(prefix))
	if err != nil {
		_ = rdb.Close()
		return nil, nil, err
	}
	return c, func() {
		_ = c.Close()
		_ = rdb.Close()
	}, nil
}

// AcquireOf returns the Acquire of a semaphore of berth.
func AcquireOf(sem *berth.Semaphore) Acquire {
	return func(ctx context.Context) (Release, error) {
		lease, err := sem.Acquire(ctx)
		if err != nil {
			return nil, err
		}
		return lease.Release, nil
	}
}
