package berth

import (
	"context"
	"sync"
	"time"

	"github.com/berth-go/berth/internal/claim"
	"github.com/berth-go/berth/internal/session"
)

// Lease is the right to use Weight permits until it is released, lost, or no
// longer renewed. berth renews it every third of its TTL.
//
// A lease can be lost: Redis may be away for longer than the TTL, an operator may
// evict it, the process may be stopped. Whoever holds it must stop what it
// protects when Context ends; for what cannot be stopped in time there is Valid,
// just before the act, and fencing: let the resource keep, for each Slot, the
// highest Token it has seen, and refuse smaller ones.
type Lease struct {
	client *Client
	claim  *session.Claim
	id     string
	grant  claim.Lease
	since  time.Time
	parent context.Context //nolint:containedctx // for its values only

	once   sync.Once
	ctx    context.Context //nolint:containedctx // the lease's life, as Context gives it out
	cancel context.CancelCauseFunc
}

type leaseKey struct{}

// FromContext returns the lease that ctx was given for: by Lease.Context or Do.
func FromContext(ctx context.Context) (*Lease, bool) {
	l, ok := ctx.Value(leaseKey{}).(*Lease)
	return l, ok
}

func newLease(ctx context.Context, c *Client, held *session.Claim) *Lease {
	l := &Lease{client: c, claim: held, since: time.Now(), parent: ctx}
	l.id, l.grant = held.Lease()
	if c.hooks.Lost != nil {
		l.Context() // hears of the loss
	}
	return l
}

// Context returns a context that ends when the lease does: with a *LostError as
// its cause (context.Cause, errors.Is ErrLost) when it is lost, at the trust
// deadline at the latest; with ErrReleased after Release or Detach, ErrClosed
// after Close. It has the values of Acquire's context, but not its end: that
// limited the wait.
func (l *Lease) Context() context.Context {
	l.once.Do(func() {
		ctx := context.WithValue(context.WithoutCancel(l.parent), leaseKey{}, l)
		l.ctx, l.cancel = context.WithCancelCause(ctx)
		l.claim.OnEnd(func(err error) {
			err = public(l.Name(), err)
			l.cancel(err)
			l.client.hooks.lost(l, err)
		})
	})
	return l.ctx
}

// Name returns the semaphore's name.
func (l *Lease) Name() string { return l.claim.Name() }

// ID returns the lease's id, as operators see it.
func (l *Lease) ID() string { return l.id }

// Slot returns the lowest number, from 0, that no other lease had at the grant.
// It is this lease's alone for as long as it lasts: use it to pick one of N
// things, and as the place for which Token fences.
func (l *Lease) Slot() int { return l.grant.Slot }

// Token returns the number of the grant. Every later grant of the semaphore has
// a larger one.
func (l *Lease) Token() int64 { return l.grant.Token }

// Weight returns how many permits the lease takes.
func (l *Lease) Weight() int { return l.grant.Weight }

// Limit returns the limit that was in force at the grant.
func (l *Lease) Limit() int { return l.grant.Limit }

// Label returns the lease's label.
func (l *Lease) Label() string { return l.grant.Label }

// TTL returns how long the lease lasts without renewal.
func (l *Lease) TTL() time.Duration { return l.grant.TTL }

// Valid reports whether the lease may be relied on at this very moment. It asks
// nobody: until its trust deadline the server cannot have given the permit to
// anybody else. Unlike Context it is right even when the process was stopped
// and has just been continued.
func (l *Lease) Valid() bool { return l.claim.Valid() }

// ValidUntil returns the trust deadline: until then the holder may rely on the
// lease. Renewals move it. It is zero when the lease is over.
func (l *Lease) ValidUntil() time.Time {
	if at := l.claim.Trust(); at > 0 {
		return at.Time()
	}
	return time.Time{}
}

// Renew renews the lease now; berth does so by itself unless WithoutRenewal. On
// success it lasts another TTL, or until MaxHold. A *LostError means that it is
// over, ErrReleased and ErrClosed that it was given back before. With any other
// error its holder may rely on it for as long as before (ValidUntil). Renew returns
// within 5 seconds, or when ctx ends.
func (l *Lease) Renew(ctx context.Context) error {
	if err := validContext(ctx); err != nil {
		return err
	}
	return public(l.Name(), l.claim.Renew(ctx))
}

// Release gives the permits back; the next waiter has them in the same moment.
// It returns within 5 seconds, whatever Redis does, and takes no context, so that a
// dead one cannot keep a permit. It returns nil when the lease was held until now, a
// *LostError when it had run out before, ErrReleased when it was given back
// before, and ErrUnreachable or ErrRefused when Redis did not do it: then berth
// goes on trying in the background, and the lease expires at its TTL. In every
// case the lease is over.
func (l *Lease) Release() error {
	err := public(l.Name(), l.claim.Release())
	l.client.hooks.released(l, err)
	return err
}

// Detach gives the lease away and returns a handle, with which one process can take
// it: Client.Adopt. It is renewed once more, so that there is a whole TTL for that;
// then berth neither renews nor releases it, and this Lease is over. Whoever knows
// the handle can take the lease: it is a secret.
//
// Detach returns within 5 seconds, or when ctx ends. It fails with a *LostError,
// ErrReleased or ErrClosed when the lease was over before, and with ErrRefused or
// ErrCorrupt when Redis refuses for good, as for a missing right: then the lease is
// as it was. On every other failure (ErrUnreachable, ctx's error, a refusal that
// lasted for 5 seconds) the lease is over, and berth gives it back in the
// background. Valid tells which.
func (l *Lease) Detach(ctx context.Context) (string, error) {
	if err := validContext(ctx); err != nil {
		return "", err
	}
	h := handle{prefix: l.client.prefix, name: l.Name(), id: session.NewHandle()}
	if err := l.claim.Detach(ctx, h.id); err != nil {
		return "", public(l.Name(), err)
	}
	return h.String(), nil
}
