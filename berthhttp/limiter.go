package berthhttp

import (
	"net/http"
	"sync/atomic"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/internal/gate"
)

// limiter takes permits for requests.
type limiter struct {
	*gate.Gate[*http.Request]
	config

	pauses pauses
	unread atomic.Bool // an answer was told of that says in no known form when to come back
}

func newLimiter(client *berth.Client, cfg config) (*limiter, error) {
	l := &limiter{config: cfg}
	for _, r := range cfg.rules {
		cfg.gate.Rules = append(cfg.gate.Rules, r.Rule)
	}
	cfg.gate.Before = l.pauses.await
	g, err := gate.New(client, cfg.gate)
	l.Gate = g
	return l, err
}

// take waits for the permits of r. On failure it returns the reason, and nothing is held.
func (l *limiter) take(r *http.Request) (*gate.Permit, *RefusedError) {
	p, why := l.Take(r)
	if why != nil {
		return nil, refused(why, l.status)
	}
	return p, nil
}

// And adds a limit: a request then needs a permit of each. name, limit and opts are as for
// NewTransport and NewHandler, except that without a Key all requests share the limit; all other
// options are about all limits together.
//
// Begin with the narrow limit, such as that of a tenant, and add the wide ones that it shares with
// others: a request that waits for its tenant then holds nothing that another could use. The limits
// are taken in that order, because each has a berth.Level that is one higher than that of the limit
// before it, from 0. LeaseOptions(berth.Level(n)) says otherwise. Programs should take two limits in
// the same order, because otherwise their requests can wait for each other.
//
// A request that one limit refuses gives the permits of the others back, and its Retry-After is not
// before all of them may have room. Of the rates of the others it has spent nothing then.
func And(name string, limit int, opts ...LimitOption) Option {
	return wholeOption(func(c *config) {
		r := rule{Rule: gate.Rule[*http.Request]{Name: name, Limit: limit}}
		for _, o := range opts {
			if o == nil {
				c.bad = nilOption()
				return
			}
			o.set(&r)
		}
		c.rules = append(c.rules, r)
	})
}
