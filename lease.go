package berth

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
	"weak"

	"github.com/berth-go/berth/internal/claim"
	"github.com/berth-go/berth/internal/protocol"
	"github.com/berth-go/berth/internal/rules"
	"github.com/berth-go/berth/internal/session"
)

// Lease is the right to use Weight permits until it is released, lost, or no longer renewed. berth
// renews it every third of its TTL.
//
// A lease is lost if Redis is unreachable for longer than the TTL, an operator evicts it, or the
// process is suspended. Its holder must stop the work that the lease protects when [Lease.Context]
// ends. If that takes too long, call [Lease.Valid] just before each effect, or use fencing: let the
// resource keep, for each [Lease.Slot], the highest [Lease.Token] seen, and refuse smaller ones.
//
// A Lease that was not released and that nothing refers to any more is renewed on, with a warning
// in the log, because its work may go on.
type Lease struct {
	client *Client
	claim  *session.Request
	id     string
	grant  claim.Lease
	since  time.Time
	parent context.Context //nolint:containedctx // for its values only

	told atomic.Bool // a hook was told of the end
	once sync.Once
	ctx  context.Context //nolint:containedctx // the lease's life, as Context gives it out
}

type leaseKey struct{}

// FromContext returns the lease of a context of [Lease.Context] or [Semaphore.Do].
func FromContext(ctx context.Context) (*Lease, bool) {
	l, ok := ctx.Value(leaseKey{}).(*Lease)
	return l, ok
}

func newLease(ctx context.Context, c *Client, held *session.Request, manual bool) *Lease {
	l := &Lease{client: c, claim: held, since: time.Now(), parent: ctx}
	l.id, l.grant = held.Lease()
	if c.hooks.follow() {
		l.Context() // hears of the loss
	}
	if !manual { // else it runs out
		runtime.AddCleanup(l, forgotten, leftover{held, l.id, c.log})
	}
	return l
}

// leftover is what is left of a Lease that nothing refers to.
type leftover struct {
	claim *session.Request
	id    string
	log   *slog.Logger
}

// forgotten warns of a lease that nobody can release any more. It is renewed on, because the work
// that it protects may go on.
func forgotten(l leftover) {
	if l.claim.Trust() > 0 {
		l.log.Warn("berth: a lease was not released, and nothing in this program refers to it any more; it is held and renewed as long as the program runs: release each lease, or use Do",
			"semaphore", l.claim.Name(), "lease", l.id)
	}
}

// none reports whether l is nil or zero, as one has that ignored the error of an Acquire. It is over.
func (l *Lease) none() bool { return l == nil || l.claim == nil }

// ended is the context of no lease.
var ended = func() context.Context {
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(ErrReleased)
	return ctx
}()

// Context returns a context that ends when the lease does, with the cause (context.Cause)
// [*LostError] when it is lost, at the trust deadline at the latest, [ErrReleased], [ErrDetached]
// or [ErrClosed]. It has the values of Acquire's context but not its deadline and cancellation.
func (l *Lease) Context() context.Context {
	if l.none() {
		return ended
	}
	l.once.Do(func() {
		ctx, cancel := context.WithCancelCause(context.WithoutCancel(l.parent))
		l.ctx = context.WithValue(ctx, leaseKey{}, l)
		l.claim.OnEnd(l.ending(ctx, cancel))
	})
	return l.ctx
}

// ending returns a function that ends the lease's context, ctx, with cancel, and tells the hooks. It does
// not refer to l, so that a lease is found to be forgotten though it waits to be called.
func (l *Lease) ending(ctx context.Context, cancel context.CancelCauseFunc) func(error) {
	client, claim, id, grant, since := l.client, l.claim, l.id, l.grant, l.since
	same := weak.Make(l)
	return func(err error) {
		err = public(claim.Name(), err)
		defer cancel(err) // after the hooks have it to do: who sees the end may close the client at once
		if !client.hooks.follow() {
			return
		}
		l := same.Value()
		if l == nil {
			l = &Lease{client: client, claim: claim, id: id, grant: grant, since: since, parent: context.Background()}
		}
		client.hooks.lost(l, err, ctx.Done())
	}
}

// Name returns the semaphore's name.
func (l *Lease) Name() string {
	if l.none() {
		return ""
	}
	return l.claim.Name()
}

// itself returns l; a lease of nothing if it is nil.
func (l *Lease) itself() *Lease {
	if l == nil {
		return new(Lease)
	}
	return l
}

// ID returns the lease's id, as operators see it.
func (l *Lease) ID() string { return l.itself().id }

// Slot returns the lowest number, from 0, that no other lease had at the grant, and none has while
// this one lasts: use it to pick one of N things, and as the key for the highest Token.
func (l *Lease) Slot() int { return l.itself().grant.Slot }

// Token returns the number of the grant, larger with each of the semaphore.
func (l *Lease) Token() int64 { return l.itself().grant.Token }

// Weight returns how many permits the lease takes.
func (l *Lease) Weight() int { return l.itself().grant.Weight }

// Limit returns the limit that was in force at the grant.
func (l *Lease) Limit() int { return l.itself().grant.Limit }

// Label returns the lease's label.
func (l *Lease) Label() string { return l.itself().grant.Label }

// TTL returns how long the lease lasts without renewal.
func (l *Lease) TTL() time.Duration { return l.itself().grant.TTL }

// Valid reports whether the lease can be relied on at this moment: the server cannot have granted
// the permit to another holder. It sends nothing, and is right even just after the process was
// suspended.
func (l *Lease) Valid() bool { return !l.none() && l.claim.Valid() }

// ValidUntil returns the trust deadline, until which the holder can rely on the lease, and which
// renewals extend. It is zero when the lease is over.
func (l *Lease) ValidUntil() time.Time {
	if l.none() {
		return time.Time{}
	}
	if at := l.claim.Trust(); at > 0 {
		return at.Time()
	}
	return time.Time{}
}

// Renew renews the lease now; berth also does so by itself, unless [WithoutRenewal] is set. On
// success the lease lasts another TTL, or until MaxHold. A [*LostError], [ErrReleased] or
// [ErrClosed] means that it is over. Any other error leaves the trust deadline as it was, but after
// ctx's end the renewal may still take effect. Renew returns when ctx ends, or when Redis has been
// silent for 5 seconds.
func (l *Lease) Renew(ctx context.Context) error {
	if l.none() {
		return ErrReleased
	}
	if err := invalid("context", rules.Context(ctx)); err != nil {
		return err
	}
	return public(l.Name(), l.claim.Renew(ctx))
}

// Settle reports what the lease really cost of the semaphore's rates in a unit ("": calls), such as
// tokens: 0 to MaxLimit. The last word counts. Less is free at once; more counts from now on, and
// nothing is granted while a rate is exceeded. It does not wait, and is lost with the process or the
// lease. Release returns [ErrUnreachable] if it may have been too late.
//
// The error is an *InvalidError if n is out of bounds or no rate counts that unit, as far as this
// program knows; else that of a lease that is over.
func (l *Lease) Settle(n int, unit string) error {
	if l.none() {
		return ErrReleased
	}
	if err := within("Settle", n, 0, MaxLimit); err != nil {
		return err
	}
	costs, err := protocol.JoinCosts(protocol.Cost{Unit: unit, N: n})
	switch {
	case err != nil:
		return &InvalidError{"Settle", err.Error()}
	case !l.grant.Rates.Charge(unit):
		return &InvalidError{"Settle", fmt.Sprintf("semaphore %q had no rate of unit %q when the lease was granted, so nothing was charged", l.Name(), unit)}
	}
	return public(l.Name(), l.claim.Settle(costs))
}

// Release gives the permits back; the next waiter is granted them in the same step. The lease is
// then over in every case. Release returns within 5 seconds, whatever Redis does, and takes no
// context, because an ended one must not keep permits.
//
// It returns nil when the lease was held until now, a [*LostError] when it was lost, [ErrReleased]
// or [ErrClosed] when it was over before, and [ErrUnreachable], [ErrRefused] or [ErrCorrupt] when
// Redis did not do it. Then berth retries in the background, unless that is useless, and the lease
// expires.
func (l *Lease) Release() error {
	if l.none() {
		return ErrReleased
	}
	err := public(l.Name(), l.claim.Release())
	l.client.hooks.released(l, err)
	return err
}

// Detach gives the lease away and returns a handle with which one process can take it over by
// [Client.Adopt], within a TTL. This Lease is then over: berth neither renews nor releases it.
//
// Detach returns when ctx ends, or when Redis has been silent for 5 seconds. It fails with a
// [*LostError], [ErrReleased] or [ErrClosed] when the lease was over before, and with [ErrRefused]
// or [ErrCorrupt] when Redis refuses permanently: then the lease is unchanged. After any other
// failure it is over, and is released in the background; [Lease.Valid] shows which.
func (l *Lease) Detach(ctx context.Context) (Handle, error) {
	if l.none() {
		return "", ErrReleased
	}
	if err := invalid("context", rules.Context(ctx)); err != nil {
		return "", err
	}
	d := detached{l.client.prefix, l.Name(), session.NewHandle()}
	if err := l.claim.Detach(ctx, d.id); err != nil {
		return "", public(l.Name(), err)
	}
	return d.handle(), nil
}
