package berth

import (
	"cmp"
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth/internal/events"
	"github.com/berth-go/berth/internal/rules"
	"github.com/berth-go/berth/internal/session"
)

// Client gives a process access to the semaphores on one Redis, with one subscription (one for each
// node of a Cluster). Share it among goroutines.
type Client struct {
	session *session.Session
	rdb     redis.UniversalClient
	prefix  string
	log     *slog.Logger
	hooks   hooks
	events  events.Queue // Lost hooks, and what log passes on
	server  string       // for hooks

	twoLevels atomic.Bool // a semaphore with two levels was logged
}

// New returns a Client on rdb, a *redis.Client or *redis.ClusterClient, which stays the caller's:
// berth never closes or reconfigures it. It sends nothing.
func New(rdb redis.UniversalClient, opts ...ClientOption) (*Client, error) {
	if err := invalid("client", rules.Client(rdb)); err != nil {
		return nil, err
	}
	cfg := clientConfig{prefix: "berth"}
	for _, o := range opts {
		if o == nil {
			return nil, &InvalidError{"option", "it is nil"}
		}
		o(&cfg)
	}
	if err := invalid("prefix", rules.Prefix(cfg.prefix)); err != nil {
		return nil, err
	}
	if cfg.logger == nil {
		cfg.logger = slog.Default()
	}
	c := &Client{rdb: rdb, prefix: cfg.prefix, hooks: cfg.hooks, server: address(rdb)}
	c.log = c.events.Logger(cfg.logger)
	c.session = session.New(rdb, cfg.prefix, c.log)
	return c, nil
}

// failover is what go-redis has for an address where sentinels know it.
const failover = "FailoverClient"

// address returns the address that rdb was given, the first one of a cluster.
func address(rdb redis.UniversalClient) string {
	switch rdb := rdb.(type) {
	case *redis.Client:
		if addr := rdb.Options().Addr; addr != failover {
			return addr
		}
	case *redis.ClusterClient:
		if addrs := rdb.Options().Addrs; len(addrs) > 0 {
			return addrs[0]
		}
	}
	return ""
}

// made refuses a nil or zero Client, as one has that ignored the error of New.
func (c *Client) made() error {
	if c == nil || c.session == nil {
		return &InvalidError{"client", "it was not made by New, or New failed: look at its error"}
	}
	return nil
}

// lastEvents is how long Close waits for the code of others.
const lastEvents = time.Second

// Close releases every lease, cancels every waiting request, and stops renewals. It always returns
// nil, within 8 seconds, one of which is for hooks and log records; what was not released expires.
// Contexts of leases end with cause [ErrClosed], and later calls fail with it.
func (c *Client) Close() error {
	if c.made() == nil { // there is nothing to close otherwise
		c.session.Close()
		c.events.Wait(lastEvents)
	}
	return nil
}

// Semaphore returns the semaphore called name, 1 to [MaxName] bytes of UTF-8 without control
// characters and braces. opts are the defaults for its leases. It sends nothing; the only error is
// an [*InvalidError].
//
// Every acquire declares the limit, and the last declaration is in force, unless an operator has
// pinned one. 0 declares none: the limit in force applies; for a semaphore not in use 1, and with a
// [Rate] [NoLimit].
func (c *Client) Semaphore(name string, limit int, opts ...Option) (*Semaphore, error) {
	if err := cmp.Or(c.made(), invalid("name", rules.Name(name, MaxName))); err != nil {
		return nil, err
	}
	if err := invalid("limit", rules.Limit(limit, 0, MaxLimit)); err != nil {
		return nil, err
	}
	cfg, err := with(defaults, opts)
	if err != nil {
		return nil, err
	}
	return newSemaphore(c, c.session.Semaphore(name), name, limit, cfg), nil
}

// Adopt takes over a lease that a process gave away by [Lease.Detach]. It then belongs to this
// client, with the same slot and a new token, and berth renews it. opts can be [TTL], [MinReplicas]
// and [WithoutRenewal].
//
// Adopt returns when ctx ends, or when Redis has been silent for 5 seconds. It fails with
// [ErrHandle] when h is not of this version and prefix, with a [*LostError] when the lease has
// expired or was adopted, and otherwise as [Semaphore.Acquire] does. After ErrHandle, ErrInvalid,
// ErrRefused and ErrCorrupt the handle is as good as it was; after other errors the lease, if it
// was adopted, is released in the background.
func (c *Client) Adopt(ctx context.Context, h Handle, opts ...Option) (*Lease, error) {
	if err := cmp.Or(c.made(), invalid("context", rules.Context(ctx))); err != nil {
		return nil, err
	}
	d, err := c.named(h)
	if err != nil {
		return nil, err
	}
	cfg, err := with(defaults, opts)
	if err != nil {
		return nil, err
	}
	terms := cfg.terms(0, false)
	if terms.TTL, err = adoptedTTL(opts); err != nil {
		return nil, err
	}
	claim, err := c.session.Semaphore(d.name).Adopt(ctx, d.id, terms, cfg.noRenewal)
	if err != nil {
		return nil, public(d.name, err)
	}
	return newLease(ctx, c, claim, cfg.noRenewal), nil
}

// adoptedTTL is the TTL that opts set, 0 if they set none. It refuses what an adopted lease has
// from its Acquire.
func adoptedTTL(opts []Option) (time.Duration, error) {
	var c config
	for _, o := range opts {
		if _, ok := o.(renewalOption); !ok {
			return 0, &InvalidError{"option", "Adopt takes TTL, MinReplicas and WithoutRenewal: the rest of a lease is as it was acquired"}
		}
		o.acquire(&c)
	}
	return c.ttl.Truncate(time.Millisecond), nil
}
