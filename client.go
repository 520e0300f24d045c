package berth

import (
	"context"
	"log/slog"
	"reflect"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth/internal/protocol"
	"github.com/berth-go/berth/internal/session"
)

// mostHeartbeat is how long a waiter counts as alive without being heard from,
// unless its TTL is shorter. It is also the lease of a hand-off.
const mostHeartbeat = 10 * time.Second

// Client is one process's way to the semaphores on one Redis. It keeps one
// subscription, whatever the number of semaphores and waiters (in a Redis
// Cluster one for each semaphore in use). Make one and share it: it is safe for
// concurrent use.
type Client struct {
	session *session.Session
	prefix  string
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
		cfg.logger = slog.New(slog.DiscardHandler)
	}
	return &Client{session: session.New(rdb, cfg.prefix, cfg.logger), prefix: cfg.prefix, hooks: cfg.hooks}, nil
}

// Close gives back every lease, cancels what waits, and stops renewals and the
// subscription. It waits for Redis for at most a few seconds; what could not be
// given back expires by itself. The contexts of leases end with cause ErrClosed,
// and so does every later call. It returns nil, always; the redis client stays
// open.
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
// operator may pin a limit, which then wins.
//
// opts are the defaults of its leases. It fails with an *InvalidError.
func (c *Client) Semaphore(name string, limit int, opts ...Option) (*Semaphore, error) {
	if err := validName(name); err != nil {
		return nil, err
	}
	if err := validLimit(limit, 1); err != nil {
		return nil, err
	}
	cfg, err := defaults.with(opts)
	if err != nil {
		return nil, err
	}
	return newSemaphore(c, c.session.Semaphore(name), name, limit, cfg), nil
}

// terms are the config in the protocol's words.
func (c config) terms(limit int, wait bool) *protocol.Terms {
	return &protocol.Terms{
		Wait: wait && c.queueLimit > 0, Weight: c.weight, TTL: c.ttl, Heartbeat: min(c.ttl, mostHeartbeat),
		HeadStart: c.headStart, QueueLimit: c.queueLimit, MaxHold: c.maxHold, Limit: limit, Label: c.label,
		MinReplicas: c.replicas,
	}
}

// Adopt resumes the lease that another process, or this one, gave away by
// Detach. The lease is renewed at once and from then on by this client. It fails
// with ErrHandle when handle is none of this version and prefix, and with a
// *LostError when the lease has run out; on any other failure the lease stays as
// it was. A lease that an operator has asked to stop is adopted, but over: all
// that can be done with it is to release it.
func (c *Client) Adopt(ctx context.Context, handle string) (*Lease, error) {
	if err := validContext(ctx); err != nil {
		return nil, err
	}
	h, err := parseHandle(handle, c.prefix)
	if err != nil {
		return nil, err
	}
	cfg := defaults
	cfg.ttl, cfg.weight, cfg.label = time.Duration(h.TTL)*time.Millisecond, h.Weight, h.Label
	cfg.noRenewal = h.Manual
	inner := c.session.Semaphore(h.Name)
	grant := session.Grant{ID: h.ID, Token: h.Token, Slot: h.Slot, Limit: h.Limit}
	claim, err := inner.Adopt(ctx, grant, cfg.terms(h.Declared, false), cfg.noRenewal)
	if err != nil {
		return nil, public(h.Name, err)
	}
	return newLease(ctx, c, claim, &cfg), nil
}
