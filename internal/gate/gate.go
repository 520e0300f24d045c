// Package gate takes permits for the calls of berthhttp and berthgrpc: of one limit or of several,
// within a bound of waiting, and with what is to happen while Redis is away.
//
// R is what the two packages call a call: an *http.Request, say.
package gate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/internal/bridge"
)

var internals = berth.Internal(bridge.NewKey())

// Config is what the options of the two packages say.
type Config[R any] struct {
	Package string // for log records: berthhttp, say
	Calls   string // what it calls calls, in the plural

	Context      func(R) context.Context // of a call
	Rules        []Rule[R]
	MaxHold      time.Duration // the default
	MaxWait      time.Duration // negative: no bound but the call's context
	MaxWaiting   int           // 0: no bound
	AnswerWithin time.Duration
	FailOpen     bool
	OnOpen       []func(R, error)
	Observe      bool // every call passes, and what would have become of it is counted
	Logger       *slog.Logger

	// Before, unless nil, is called before a semaphore is asked, and may wait until ctx ends.
	Before func(ctx context.Context, name string)
}

// Gate takes permits for calls. It stores nothing for a key: making a semaphore costs nothing.
type Gate[R any] struct {
	Config[R]

	client *berth.Client
	holds  meter
	outage outage
	tally  tally // of Observe

	unsettled atomic.Bool // the log tells of a cost that could not be settled

	room room // for calls in ask, except those of a known outage
}

// New returns a Gate for a config, whose logger is then one for which no call waits. The only error
// is a *berth.InvalidError.
func New[R any](client *berth.Client, cfg Config[R]) (*Gate[R], error) {
	if client == nil {
		return nil, &berth.InvalidError{What: "client", Reason: "it is nil"}
	}
	if cfg.AnswerWithin <= 0 {
		return nil, &berth.InvalidError{What: "AnswerWithin", Reason: fmt.Sprintf("%v is not above 0", cfg.AnswerWithin)}
	}
	if cfg.MaxWaiting < 0 {
		return nil, &berth.InvalidError{What: "MaxWaiting", Reason: fmt.Sprintf("%d is below 0", cfg.MaxWaiting)}
	}
	named := map[string]bool{}
	for i := range cfg.Rules {
		r := &cfg.Rules[i]
		if err := r.ready(client, i, cfg.MaxHold); err != nil {
			return nil, err
		}
		if named[r.Name] {
			return nil, &berth.InvalidError{What: "name", Reason: fmt.Sprintf("two limits are named %q, and a call could wait for itself", r.Name)}
		}
		named[r.Name] = true
	}
	cfg.Logger = internals.Events(client).Logger(cmp.Or(cfg.Logger, slog.Default()))
	g := &Gate[R]{Config: cfg, client: client, room: room{most: cfg.MaxWaiting}}
	log := cfg.Logger.With("limit", cfg.Rules[0].Name)
	g.tally.log, g.tally.pkg = log, cfg.Package
	g.outage.log, g.outage.pkg, g.outage.calls = log, cfg.Package, cfg.Calls
	g.outage.open, g.outage.observe, g.outage.patience = cfg.FailOpen && !cfg.Observe, cfg.Observe, cfg.AnswerWithin
	g.outage.reach = func(ctx context.Context) error { return internals.Reach(ctx, client) }
	return g, nil
}

// Take waits for the permits of a call. On failure it returns the reason, and nothing is held.
// A call whose context has ended gets no permit. With Observe it neither waits nor fails.
func (g *Gate[R]) Take(r R) (*Permit, *Refusal) {
	if g.Observe {
		return g.observe(g.Context(r), r), nil
	}
	p, why, open := g.ask(r)
	if open != nil {
		for _, f := range g.OnOpen { // which may block: r is no call that waits any more
			f(r, open)
		}
	}
	return p, why
}

// ask is Take without the functions of OnOpen. open is the reason why r passes without a permit.
func (g *Gate[R]) ask(r R) (p *Permit, why *Refusal, open error) {
	ctx := g.Context(r)
	a := g.attempt(ctx, r)
	if a.away = g.outage.known(ctx); a.away == nil { // else it does not wait, and those in the queue do not keep it from passing
		tenant := a.tenant()
		entry := g.room.enter(tenant)
		if entry == turnedAway {
			return nil, a.refusal(a.crowded()), nil
		}
		defer g.room.leave(tenant, entry)
		a.once = entry == mayTry
	}
	leases, err := a.acquire(r)
	away := a.away
	if away == nil && errors.Is(err, berth.ErrUnreachable) {
		away = g.outage.unanswered(ctx)
	}
	switch {
	case ctx.Err() != nil:
		// The grant came as the context ended: it will not be used.
		internals.Unused(leases)
		giveBack(leases, g.Logger, g.Package)
		err = cmp.Or(err, ctx.Err())
	case away != nil && g.FailOpen && errors.Is(err, berth.ErrUnreachable): // and not for an invalid limit
		g.outage.report(away, false)
		open, err = away, nil
	case ByRedis(err):
		g.outage.report(err, true)
	}
	if err != nil {
		return nil, a.refusal(err), nil
	}
	if open != nil {
		return g.permit(nil, nil), nil, open
	}
	return g.permit(a.asks, leases), nil, nil
}
