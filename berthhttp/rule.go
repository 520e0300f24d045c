package berthhttp

import (
	"fmt"
	"net/http"
	"time"

	"github.com/berth-go/berth"
)

// rule is one of the limits of a Transport or Handler.
type rule struct {
	name       string
	limit      int
	key        func(*http.Request) string // nil: one semaphore for all
	limits     func(key string) int
	lease      []berth.Option
	perRequest func(*http.Request) []berth.AcquireOption
	tenant     func(*http.Request) string         // nil: requests have no tenant
	pace       time.Duration                      // of a tenant
	obey       time.Duration                      // Transport only; 0: an answer's Retry-After is not obeyed
	comeBack   func(*http.Response) time.Duration // with obey; nil: RetryAfter, of answers that mean it
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
// before all of them may have room. What it has spent of the rates of other limits is spent.
func And(name string, limit int, opts ...LimitOption) Option {
	return wholeOption(func(c *config) {
		r := rule{name: name, limit: limit}
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

// ready checks the rule at a place among others, and adds the options that come before its own.
func (r *rule) ready(client *berth.Client, place int, maxHold time.Duration) error {
	if len(r.name) > mostName {
		return &berth.InvalidError{What: "name", Reason: fmt.Sprintf("%d bytes are more than %d", len(r.name), mostName)}
	}
	if r.limits != nil && r.key == nil {
		return &berth.InvalidError{What: "Limits", Reason: "there is no Key whose limits it could tell: add Key, or leave Limits out"}
	}
	r.lease = append([]berth.Option{berth.Level(place), berth.MaxHold(maxHold)}, r.lease...)
	sem, err := client.Semaphore(r.name, r.limit, r.lease...)
	if err == nil && r.tenant != nil {
		_, err = sem.With(berth.Tenant("a", r.pace))
	}
	return err
}

// ask returns what a request asks of the limit.
func (r *rule) ask(client *berth.Client, req *http.Request) (ask, error) {
	a := ask{name: r.name, limit: r.limit}
	if r.key != nil {
		key := r.key(req)
		a.name = nameOf(r.name, key)
		if r.limits != nil {
			if a.limit = r.limits(key); a.limit < 1 { // to a semaphore, 0 would declare none
				return a, &berth.InvalidError{What: "limit", Reason: fmt.Sprintf("it is %d for %q, and less than 1", a.limit, a.name)}
			}
		}
	}
	sem, err := client.Semaphore(a.name, a.limit, r.lease...)
	if err != nil {
		return a, err
	}
	a.sem = sem
	if r.tenant != nil {
		if tenant := r.tenant(req); tenant != "" {
			a.opts = append(a.opts, berth.Tenant(tenantOf(tenant), r.pace))
		}
	}
	if r.perRequest != nil {
		a.opts = append(a.opts, r.perRequest(req)...)
	}
	return a, nil
}

// ask is what a request asks of one limit.
type ask struct {
	name  string
	limit int              // declared
	sem   *berth.Semaphore // nil: there is none, because of an error
	opts  []berth.AcquireOption
}
