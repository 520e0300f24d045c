package berth

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/berth-go/berth/internal/protocol"
	"github.com/berth-go/berth/internal/rules"
	"github.com/berth-go/berth/internal/session"
)

// Semaphore is a named limit, shared by all that use the same name, [Prefix] and Redis. It is safe
// for concurrent use.
type Semaphore struct {
	client *Client
	inner  *session.Semaphore
	name   string
	limit  int
	config config

	wait, try *protocol.Terms // config's, made once
}

func newSemaphore(c *Client, inner *session.Semaphore, name string, limit int, cfg config) *Semaphore {
	return &Semaphore{
		client: c, inner: inner, name: name, limit: limit, config: cfg,
		wait: c.session.Store().Prepare(cfg.terms(limit, true)), try: c.session.Store().Prepare(cfg.terms(limit, false)),
	}
}

// Name returns the semaphore's name.
func (s *Semaphore) Name() string {
	if s == nil {
		return ""
	}
	return s.name
}

// Limit returns the limit that this program declares; another may be in force.
func (s *Semaphore) Limit() int {
	if s == nil {
		return 0
	}
	return s.limit
}

// With returns the same semaphore with other defaults. It sends nothing; the only error is an
// InvalidError.
func (s *Semaphore) With(opts ...Option) (*Semaphore, error) {
	if err := s.made(); err != nil {
		return nil, err
	}
	cfg, err := with(s.config, opts)
	if err != nil {
		return nil, err
	}
	return newSemaphore(s.client, s.inner, s.name, s.limit, cfg), nil
}

// Acquire takes a lease, which the caller must release. If there is no room it waits in the queue
// until ctx ends, first come, first served: a light request does not overtake a heavier one. A
// permit that becomes free is granted to the head of the queue in the same step.
//
// On failure the caller holds nothing; a grant that Acquire could not learn of is given back in the
// background. To errors.Is the error is ctx's (a [*WaitError]), [ErrBusy] (by [FailEarly]),
// [ErrQueueFull], [ErrTooHeavy], [ErrEvicted], [ErrInvalid], [ErrClosed], [ErrLost] (before Acquire
// returned), or, because of Redis, [ErrUnreachable], [ErrRefused], [ErrCorrupt] or
// [ErrNotReplicated].
//
// Acquire returns when ctx ends, whatever Redis does. Until the request is in the queue, it gives
// up when Redis has been silent, or has refused, for 5 seconds, or when go-redis stops dialling
// because nothing listens (1 to 2 seconds). A request in the queue outlasts an outage.
func (s *Semaphore) Acquire(ctx context.Context, opts ...AcquireOption) (*Lease, error) {
	return s.acquire(ctx, true, opts)
}

// TryAcquire takes a lease if there is room and the queue is empty, and otherwise returns a
// [*BusyError] with the reason, within 2 seconds, or when ctx ends. Other errors are those of
// Acquire.
func (s *Semaphore) TryAcquire(ctx context.Context, opts ...AcquireOption) (*Lease, error) {
	return s.acquire(ctx, false, opts)
}

// made refuses a nil or zero Semaphore.
func (s *Semaphore) made() error {
	if s == nil || s.client == nil {
		return &InvalidError{"semaphore", "it was not made by Client.Semaphore, or that failed: look at its error"}
	}
	return nil
}

func (s *Semaphore) acquire(ctx context.Context, wait bool, opts []AcquireOption) (*Lease, error) {
	if err := s.made(); err != nil {
		return nil, err
	}
	cfg, terms := &s.config, s.wait
	if !wait {
		terms = s.try
	}
	if len(opts) > 0 {
		own, err := with(s.config, opts)
		if err != nil {
			return nil, err
		}
		cfg, terms = &own, own.terms(s.limit, wait)
	}
	if err := invalid("context", rules.Context(ctx)); err != nil {
		return nil, err
	}
	s.warnOfCosts(cfg)
	call := s.client.hooks.begin(ctx, s, cfg, wait)
	carried, onQueued := s.carried(ctx), cfg.onQueued
	if carried != "" && wait {
		onQueued = append(slices.Clip(onQueued), func(Place) { s.warnOfCarried(carried) })
	}
	claim, err := s.inner.Acquire(call.ctx, terms, cfg.noRenewal, call.onPlace(onQueued))
	if err != nil {
		return nil, call.end(nil, s.refusal(err, wait, carried))
	}
	lease := newLease(ctx, s.client, claim, cfg.noRenewal)
	returned := false
	defer func() {
		if !returned { // the hook panicked
			_ = lease.Release()
		}
	}()
	_ = call.end(lease, nil)
	returned = true
	return lease, nil
}

// Cooldown pauses the semaphore for d, for all programs, for when an API tells you to back off (429
// with Retry-After). Holders keep their leases, and waiters their places. A longer pause is not
// shortened.
//
// d is in whole milliseconds, from [MinTTL] to [MaxTTL]. Cooldown returns within 5 seconds, or when
// ctx ends. After [ErrUnreachable] and ctx's error it may have paused, or may within 10 seconds;
// after any other error nothing has changed.
func (s *Semaphore) Cooldown(ctx context.Context, d time.Duration) error {
	if err := s.made(); err != nil {
		return err
	}
	return s.cooldown(ctx, d, s.config.label, os.Getpid())
}

// cooldown is Cooldown for the process that operators see; 0: it is not known.
func (s *Semaphore) cooldown(ctx context.Context, d time.Duration, label string, pid int) error {
	if err := cmp.Or(invalid("context", rules.Context(ctx)), within("pause", d, MinTTL, MaxTTL)); err != nil {
		return err
	}
	host, _ := os.Hostname()
	where := cmp.Or(host, "unknown")
	if pid != 0 {
		where += ":" + strconv.Itoa(pid)
	}
	who := fmt.Sprintf("%s (%s)", cmp.Or(label, "a program"), where)
	_, err := s.inner.Do(ctx, protocol.Op{Verb: protocol.Cool, TTL: d, Who: who})
	return public(s.name, err)
}

// refusal translates an error for the caller. A request that QueueLimit(0) kept from
// waiting was refused by a full queue; the caller of one that was evicted never had a lease
// to lose.
func (s *Semaphore) refusal(err error, wait bool, carried string) error {
	err = public(s.name, err)
	if errors.Is(err, ErrEvicted) {
		return fmt.Errorf("%w: a request for semaphore %q, which holds nothing", ErrEvicted, s.name)
	}
	if busy, ok := errors.AsType[*BusyError](err); ok && wait && !busy.FailedEarly {
		busy.QueueFull = true
	}
	if ended, ok := errors.AsType[*WaitError](err); ok && ended.Queued {
		ended.Carried = carried
	}
	return err
}

// carried returns the id of the innermost lease of s that ctx carries and that is held; "": none.
func (s *Semaphore) carried(ctx context.Context) string {
	for l, ok := FromContext(ctx); ok; l, ok = FromContext(l.parent) {
		same := l.client.prefix == s.client.prefix && l.client.server == s.client.server && l.Name() == s.name
		if same && l.Valid() {
			return l.id
		}
	}
	return ""
}

// warnOfCarried warns, once for each semaphore, of a request that waits for what may be its own lease.
func (s *Semaphore) warnOfCarried(id string) {
	if s.inner.Carried.CompareAndSwap(false, true) {
		s.client.log.Warn("berth: a request waits for permits while its own context carries a lease of the same semaphore, which may be what it waits for: take both in one request, with Weight, or release one before the other",
			"semaphore", s.name, "carried", id)
	}
}

// warnOfCosts warns, once for each semaphore, of a request that has no Cost in a unit of which it
// declares a rate: then the weight counts, for a call of thousands of tokens one of them.
func (s *Semaphore) warnOfCosts(c *config) {
	for _, r := range c.rates {
		said := func(cost protocol.Cost) bool { return cost.Unit == r.Unit }
		if r.Unit != "" && !slices.ContainsFunc(c.costs, said) && s.inner.Costless.CompareAndSwap(false, true) {
			s.client.log.Warn("berth: a request does not say what it costs of a rate that has a unit, so its weight counts: say Cost(n).Of(unit), and 0 for nothing",
				"semaphore", s.name, "unit", r.Unit)
		}
	}
}

// Do runs fn while it holds a lease, and releases the lease afterwards, even if fn panics. The
// context of fn is a child of ctx, ends with cause [ErrLost] when the lease is lost, and carries it
// ([FromContext]).
//
// Do returns Acquire's error if fn was not run. Otherwise it returns fn's error and that of the
// release, or both wrapped in one: a [*LostError] when the lease was lost before fn returned, so
// that fn may not have been alone; [ErrClosed] when [Client.Close] ended it; [ErrUnreachable] or
// [ErrRefused] when it could not be released and will expire.
func (s *Semaphore) Do(ctx context.Context, fn func(context.Context) error, opts ...AcquireOption) error {
	if fn == nil {
		return &InvalidError{"function", "it is nil"}
	}
	lease, err := s.Acquire(ctx, opts...)
	if err != nil {
		return err
	}
	released := false
	defer func() {
		if !released { // fn panicked
			_ = lease.Release()
		}
	}()
	inner, cancel := context.WithCancelCause(context.WithValue(ctx, leaseKey{}, lease))
	defer cancel(nil)
	held := lease.Context()
	defer context.AfterFunc(held, func() { cancel(context.Cause(held)) })()
	err = fn(s.client.hooks.inside(inner, lease))
	released = true
	return outcome(err, lease.Release())
}

// outcome is the error of work that returned err and whose lease was then released, with an error
// after. That the work has given the lease back or away itself is none, and what err tells already
// is not told twice.
func outcome(err, after error) error {
	lost, _ := errors.AsType[*LostError](after)
	known, _ := errors.AsType[*LostError](err)
	switch {
	case after == nil, errors.Is(after, ErrReleased), lost != nil && known != nil && lost.ID == known.ID:
		return err
	case err == nil, errors.Is(after, err):
		return after
	}
	return fmt.Errorf("%w; %w", err, after)
}
