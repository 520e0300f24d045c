package berth

import (
	"context"
	"log/slog"
	"reflect"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth/internal/session"
)

// Client is one process's way to the semaphores on one Redis. It keeps one
// subscription, whatever the number of semaphores and waiters (in a Redis Cluster
// one for each node). Make one and share it: it is safe for concurrent use.
type Client struct {
	session *session.Session
	rdb     redis.UniversalClient
	prefix  string
	log     *slog.Logger
	hooks   Hooks
}

// New returns a Client on rdb, which stays the caller's: berth neither closes
// nor reconfigures it. Nothing is sent before the first use, so a Redis that is
// away is reported then. It fails with an *InvalidError.
func New(rdb redis.UniversalClient, opts ...ClientOption) (*Client, error) {
	if rdb == nil || reflect.ValueOf(rdb).Kind() == reflect.Pointer && reflect.ValueOf(rdb).IsNil() {
		return nil, &InvalidError{"client", "it is nil"}
	}
	if _, ok := rdb.(*redis.Ring); ok {
		return nil, &InvalidError{"client", "a Ring forgets keys when its shards change: use one of its servers, or a Cluster"}
	}
	cfg := clientConfig{prefix: "berth"}
	for _, o := range opts {
		if o == nil {
			return nil, &InvalidError{"option", "it is nil"}
		}
		o(&cfg)
	}
	if err := validPrefix(cfg.prefix); err != nil {
		return nil, err
	}
	if cfg.logger == nil {
		cfg.logger = slog.Default()
	}
	return &Client{session: session.New(rdb, cfg.prefix, cfg.logger), rdb: rdb, prefix: cfg.prefix, log: cfg.logger, hooks: cfg.hooks}, nil
}

// Close gives back every lease, cancels what waits, and stops renewals and the
// subscription. It returns within 8 seconds, whatever Redis does; what could not be
// given back expires by itself. The contexts of leases end with cause ErrClosed;
// later requests, and calls on those leases, fail with it. Close returns nil,
// always; the redis client stays open, and an Inspector goes on working. A second Close
// waits for the first.
func (c *Client) Close() error {
	c.session.Close()
	return nil
}

// Semaphore returns the semaphore called name with the given limit. Nothing is
// sent. Wherever name, prefix and Redis are the same, it is the same semaphore,
// in all processes.
//
// The limit is declared with every acquire. When declarations differ, the last
// one is in force: a new limit is rolled out by rolling out the code. An
// operator may pin a limit, which then wins. A limit of 0 declares none: the one
// in force counts, or 1 where nobody has declared one.
//
// opts are the defaults of its leases. It fails with an *InvalidError.
func (c *Client) Semaphore(name string, limit int, opts ...Option) (*Semaphore, error) {
	if err := validName(name); err != nil {
		return nil, err
	}
	if err := validLimit(limit, 0); err != nil {
		return nil, err
	}
	cfg, err := with(defaults, opts)
	if err != nil {
		return nil, err
	}
	return newSemaphore(c, c.session.Semaphore(name), name, limit, cfg), nil
}

// Adopt takes the lease that another process, or this one, gave away by Detach: it
// is this client's from then on, with the same slot and a new token, and berth
// renews it. A handle is good for one Adopt; whoever comes second gets a *LostError
// that names who was first.
//
// It returns within 5 seconds, or when ctx ends. It fails with ErrHandle when
// handle is none of this version and prefix, with a *LostError when the lease has
// run out or was taken, with ErrInvalid, ErrClosed or ErrNotReplicated, and with
// ErrUnreachable, ErrRefused or ErrCorrupt when Redis does not do it. When Redis
// did not answer, or ctx ended, the lease may have been adopted: if so, it is given
// back; if not, the handle is still good.
func (c *Client) Adopt(ctx context.Context, handle string, opts ...AdoptOption) (*Lease, error) {
	if err := validContext(ctx); err != nil {
		return nil, err
	}
	h, err := parseHandle(handle, c.prefix)
	if err != nil {
		return nil, err
	}
	cfg, err := with(defaults, opts)
	if err != nil {
		return nil, err
	}
	terms := cfg.terms(0, false)
	terms.TTL = ttlOf(opts)
	claim, err := c.session.Semaphore(h.name).Adopt(ctx, h.id, terms, cfg.noRenewal)
	if err != nil {
		return nil, public(h.name, err)
	}
	return newLease(ctx, c, claim), nil
}

// ttlOf is the TTL that opts set; 0 if they set none.
func ttlOf(opts []AdoptOption) time.Duration {
	var c config
	for _, o := range opts {
		o.adopt(&c)
	}
	return c.ttl.Truncate(time.Millisecond)
}
