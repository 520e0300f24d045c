package berthhttp

import (
	"context"
	"net/http"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/internal/gate"
)

// Rate adds a rate to the limit: at most n requests, or costs of n, are let through in any
// time of length per, for each key. Given several times, all of them hold: see berth.Rate.
// Where only rates are to limit, the limit is berth.NoLimit. Rate(n, per) is short for
// LeaseOptions(berth.Rate(n, per)).
func Rate(n int, per time.Duration) RateOption { return RateOption{berth.Rate(n, per)} }

// RateOption is a [LimitOption] that adds a rate: see [Rate].
type RateOption struct{ rate berth.RateOption }

// Of returns the same rate for another unit than requests, such as "tokens": see [Cost].
func (o RateOption) Of(unit string) RateOption { return RateOption{o.rate.Of(unit)} }

// Burst returns the rate as a bucket, which holds b and is refilled at n in per.
func (o RateOption) Burst(b int) RateOption { return RateOption{o.rate.Burst(b)} }

func (o RateOption) apply(c *config) { o.set(&c.rules[0]) }
func (o RateOption) set(r *rule)     { LeaseOptions(o.rate).set(r) }

// Cost adds a function that returns what a request costs of the limit's rates: of those that count
// requests, or with [CostOption.Of] of those of another unit. Without it a request costs its weight. A
// request whose cost is above a rate is refused. The cost can be corrected later: see [Settle].
func Cost(f func(*http.Request) int) CostOption { return CostOption{f: f} }

// CostOption is a [LimitOption] that says what a request costs: see [Cost].
type CostOption struct {
	f    func(*http.Request) int
	unit string
}

// Of returns the same cost in another unit than requests, such as "tokens".
func (o CostOption) Of(unit string) CostOption { return CostOption{o.f, unit} }

func (o CostOption) apply(c *config) { o.set(&c.rules[0]) }
func (o CostOption) set(r *rule)     { r.PerCall = append(r.PerCall, gate.CostBy(o.f, o.unit)) }

// Settle says what a request has really cost in a unit ("": requests), less or more than was asked
// for, of each limit that has a rate of that unit: see berth.Lease.Settle. ctx is the context of
// the request that a Handler serves, or of the Request of the response that a Transport has returned:
//
//	defer resp.Body.Close()
//	text, err := io.ReadAll(resp.Body)
//	err = berthhttp.Settle(resp.Request.Context(), tokens(text), "tokens")
//
// It sends that in the background, and must be called before the body is closed, or the Handler's
// next returns. The error is a *berth.InvalidError if ctx carries no permit, as when FailOpen has let
// the request pass, or no limit has such a rate, or that of a lease which is over.
func Settle(ctx context.Context, n int, unit string) error { return gate.Settle(ctx, n, unit) }

// SettleBy settles what a request has cost in a unit by the head of its answer: f returns the cost, and
// false if the answer has none. It must leave the body alone. CostIn reads a header. It can be
// given several times, and is only for a Transport.
func SettleBy(unit string, f func(resp *http.Response) (n int, ok bool)) LimitOption {
	return limitOption(func(r *rule) { r.Settles = append(r.Settles, gate.SettleBy(unit, f)) })
}

// CostIn returns a function for [SettleBy] that reads what the request has cost from a header of the
// answer, such as X-Ms-Request-Charge: a number, also with a fraction, which is rounded up.
func CostIn(header string) func(*http.Response) (int, bool) {
	return func(resp *http.Response) (int, bool) { return gate.CostIn(resp.Header.Get(header)) }
}
