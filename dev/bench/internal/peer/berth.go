package peer

import (
	"context"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/berthpool"
	"github.com/berth-go/berth/dev/bench/internal/redisd"
)

// BerthKey is the key of berth.
const BerthKey = "berth"

// Berth returns berth as a contestant.
func Berth() *Peer { return Lending(0, berth.DefaultTTL) }

// Lending returns berth with leases of a TTL, each client of which lends so many of a semaphore from
// a pool; with a size of 0 every permit comes from Redis.
func Lending(size int, ttl time.Duration) *Peer {
	return &Peer{
		Key: BerthKey, Title: "berth", Kind: Semaphore, Queues: true,
		About: "default options: a queue, slots, fencing tokens, TTL 30 s with renewals, loss detection",
		Sent:  scripts,
		Connect: func(url, prefix string) (*Client, error) {
			c, closeAll, err := Dial(url, prefix)
			if err != nil {
				return nil, err
			}
			pools := map[string]*berthpool.Pool{} // closed with the client
			return &Client{Close: closeAll, Semaphore: func(name string, s Shape) (Acquire, error) {
				if s.Rate > 0 {
					return rated(c, name, s)
				}
				sem, err := c.Semaphore(name, s.Limit, berth.TTL(ttl))
				if err != nil || size == 0 {
					return func(ctx context.Context) (Release, error) { return releaseOf(sem.Acquire(ctx)) }, err
				}
				if pools[name] == nil {
					pools[name], err = berthpool.New(sem, size)
				}
				pool := pools[name]
				return func(ctx context.Context) (Release, error) { return releaseOf(pool.Acquire(ctx)) }, err
			}}, nil
		},
	}
}

// rated returns the Acquire of a semaphore that has only a rate. A lease's token tells when the
// server granted it.
func rated(c *berth.Client, name string, s Shape) (Acquire, error) {
	opts := []berth.Option{berth.Rate(s.Rate, time.Second)}
	if s.Ask > 0 {
		opts = []berth.Option{berth.Rate(s.Rate, time.Second).Of("tokens"), berth.Cost(s.Ask).Of("tokens")}
	}
	sem, err := c.Semaphore(name, berth.NoLimit, opts...)
	return func(ctx context.Context) (Release, error) {
		lease, err := sem.Acquire(ctx)
		if err == nil && s.Settle {
			err = lease.Settle(1, "tokens")
		}
		if err != nil {
			return nil, err
		}
		at := time.Duration(lease.Token()/1000) * time.Millisecond
		s.Granted(Grant{at, at})
		return lease.Release, nil
	}, err
}

// releaseOf returns the Release of a lease or a loan, if there is one.
func releaseOf[L interface{ Release() error }](l L, err error) (Release, error) {
	if err != nil {
		return nil, err
	}
	return l.Release, nil
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
