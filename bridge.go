package berth

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth/internal/bridge"
	"github.com/berth-go/berth/internal/clock"
	"github.com/berth-go/berth/internal/events"
	"github.com/berth-go/berth/internal/protocol"
	"github.com/berth-go/berth/internal/reach"
	"github.com/berth-go/berth/internal/session"
)

// Internal is for berth's other packages, and no part of the API.
func Internal(key bridge.Key) internals {
	key.Check()
	return internals{}
}

// internals is what berth's other packages build on.
type internals struct{}

// Semaphore returns this process's side of a semaphore, the terms of its leases, and whether their
// holders renew them.
func (internals) Semaphore(s *Semaphore) (inner *session.Semaphore, terms *protocol.Terms, manual bool, err error) {
	if err := s.made(); err != nil {
		return nil, nil, false, err
	}
	return s.inner, s.wait, s.config.noRenewal, nil
}

// Trust returns until when the holder of a lease may rely on it, or the zero Instant if the lease
// is over. Renewals only ever move it to a later time.
func (internals) Trust(l *Lease) clock.Instant { return l.claim.Trust() }

// Admin returns what a client has for looking at semaphores and changing them; nothing for one that
// was not made.
func (internals) Admin(c *Client) (store *protocol.Store, rdb redis.UniversalClient, prefix string, log *slog.Logger) {
	if c.made() != nil {
		return nil, nil, "", nil
	}
	return c.session.Store(), c.rdb, c.prefix, c.log
}

// Events returns the events of a client.
func (internals) Events(c *Client) *events.Queue { return &c.events }

// Reach reports whether Redis can be reached. It makes its own connection, so that an exhausted
// connection pool does not matter. It returns nil if Redis answers anything, even with a refusal,
// there or to another call of this client; in a Redis Cluster, if any node does. It returns
// ErrUnreachable if there is no connection or no answer, and another error if this process cannot
// find out: ctx has ended, or no CPU, descriptor or port is left. It takes 3 seconds if the server
// is silent, and at most 10, or 13 with a Cluster.
func (internals) Reach(ctx context.Context, c *Client) error {
	if err := c.made(); err != nil {
		return err
	}
	err := c.session.Reach(ctx)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, reach.ErrAway):
		return fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	return fmt.Errorf("berth: whether redis can be reached is not known: %w", err)
}

// Failed translates an error of the inner packages for a caller, whose context may be its reason.
func (internals) Failed(ctx context.Context, name string, err error) error {
	err = public(name, err)
	if ctx.Err() != nil {
		return fmt.Errorf("%w: %w", ctx.Err(), err)
	}
	return err
}

// Outcome is the error of work that returned err, and whose loan was then released with after.
func (internals) Outcome(err, after error) error { return outcome(err, after) }

// For makes a request that of another process of this machine: operators see its pid, which is 0 if it
// is not known. more is ;key=value, without spaces, for those who look closer.
func (internals) For(pid int, more string) AcquireOption {
	return requestOption(func(c *config) { c.program = protocol.Program{PID: pid, More: more} })
}

// AcquireEach takes n leases, one after another, or none, as AcquireAll does with those that it names.
func (internals) AcquireEach(ctx context.Context, n int, acquire func(ctx context.Context, i int) (*Lease, error)) (Leases, error) {
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	return acquireEach(ctx, order, acquire)
}

// Cooldown is Semaphore.Cooldown for another process of this machine, which operators see. Its pid is
// 0 if it is not known.
func (internals) Cooldown(ctx context.Context, s *Semaphore, d time.Duration, label string, pid int) error {
	return s.cooldown(ctx, d, label, pid)
}

// Carried returns the id of a lease of s that ctx carries, and that is held; "": there is none.
func (internals) Carried(ctx context.Context, s *Semaphore) string { return s.carried(ctx) }

// WarnOfCarried warns, once, of a request for s that waits while its context carries that lease.
func (internals) WarnOfCarried(s *Semaphore, id string) { s.warnOfCarried(id) }

// Unused notes that nobody has used leases: what they cost of rates is given back with them.
func (internals) Unused(l Leases) { l.unused() }

// Settles reports whether what a lease costs may have to be settled: it was granted under a rate of a
// unit with a name, or under a rate with a cost of its own.
func (internals) Settles(l *Lease) bool {
	if l.grant.Rates == "" {
		return false
	}
	return l.claim.Costs() != "" || slices.ContainsFunc(l.grant.Rates.All(), func(r protocol.Rate) bool { return r.Unit != "" })
}

// Observe is a TryAcquire for a request that does its work whatever comes of it. waits tells whether
// it would wait in the queue if the limit were enforced.
func (internals) Observe(ctx context.Context, s *Semaphore, waits bool, opts []AcquireOption) (*Lease, Observation, error) {
	return s.observe(ctx, waits, opts)
}

// Order returns the indexes of sems in the order in which AcquireAll takes them, or its error.
func (internals) Order(sems []*Semaphore) ([]int, error) { return inOrder(sems) }

// Terms returns where a semaphore is stored, and the terms of a request that has the given options.
func (internals) Terms(s *Semaphore, opts []AcquireOption) (*protocol.Store, protocol.Key, *protocol.Terms, error) {
	if err := s.made(); err != nil {
		return nil, protocol.Key{}, nil, err
	}
	cfg, err := with(s.config, opts)
	if err != nil {
		return nil, protocol.Key{}, nil, err
	}
	store := s.client.session.Store()
	return store, store.Key(s.name), cfg.terms(s.limit, false), nil
}
