package berthhttp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/berth-go/berth"
)

// limiter takes permits for requests. It stores nothing for a key: making a semaphore
// costs nothing.
type limiter struct {
	config

	client *berth.Client
	holds  meter
	outage outage
	pauses pauses
	unread atomic.Bool // an answer was told of that says in no known form when to come back

	waiting atomic.Int64 // requests in take, except those of a known outage
}

func newLimiter(client *berth.Client, cfg config) (*limiter, error) {
	if client == nil {
		return nil, &berth.InvalidError{What: "client", Reason: "it is nil"}
	}
	named := map[string]bool{}
	for i := range cfg.rules {
		r := &cfg.rules[i]
		if err := r.ready(client, i, cfg.maxHold); err != nil {
			return nil, err
		}
		if named[r.name] {
			return nil, &berth.InvalidError{What: "name", Reason: fmt.Sprintf("two limits are named %q, and a request could wait for itself", r.name)}
		}
		named[r.name] = true
	}
	cfg.logger = unhurried(client, cfg.logger)
	l := &limiter{config: cfg, client: client}
	l.outage.log = cfg.logger.With("limit", cfg.rules[0].name)
	l.outage.open, l.outage.patience = cfg.failOpen, cfg.answerWithin
	l.outage.reach = func(ctx context.Context) error { return internals.Reach(ctx, client) }
	return l, nil
}

// take waits for the permits of r. On failure it returns the reason, and nothing is held.
// A request whose context has ended gets no permit.
func (l *limiter) take(r *http.Request) (*permit, *RefusedError) {
	p, why, open := l.ask(r)
	if open != nil {
		for _, f := range l.onOpen { // which may block: r is no request that waits any more
			f(r, open)
		}
	}
	return p, why
}

// ask is take without the function of FailOpen. open is the reason why r passes without a permit.
func (l *limiter) ask(r *http.Request) (p *permit, why *RefusedError, open error) {
	w := &attempt{limiter: l, request: r, began: time.Now(), away: l.outage.known(r.Context())}
	if w.away == nil { // else it does not wait, and those in the queue do not keep it from passing
		defer l.waiting.Add(-1)
		if n := int(l.waiting.Add(1)); l.maxWaiting > 0 && n > l.maxWaiting {
			if n > l.maxWaiting+tries(l.maxWaiting) {
				return nil, w.refusal(ErrMaxWaiting), nil
			}
			w.once = true
		}
	}
	leases, err := w.acquire()
	away := w.away
	if away == nil && errors.Is(err, berth.ErrUnreachable) {
		away = l.outage.unanswered(r.Context())
	}
	switch {
	case r.Context().Err() != nil:
		// The grant came as the context ended: it will not be used.
		giveBack(leases, l.logger)
		err = cmp.Or(err, r.Context().Err())
	case away != nil && l.failOpen && errors.Is(err, berth.ErrUnreachable): // and not for an invalid limit
		l.outage.report(away, false)
		open, err = away, nil
	case byRedis(err):
		l.outage.report(err, true)
	}
	if err != nil {
		return nil, w.refusal(err), nil
	}
	return newPermit(l, w.asks, leases), nil, open
}

// tries is how many requests at once may ask for a permit that is free while maxWaiting
// requests wait: so that those who wait for one key do not lock out the others.
func tries(maxWaiting int) int { return (maxWaiting + 9) / 10 }
