package berthgrpc

import (
	"context"
	"log/slog"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/internal/gate"
)

// The defaults of the options. A ClientLimit has no MaxWait and no MaxWaiting.
const (
	// DefaultMaxWait is how long a call waits in the queue of a ServerLimit.
	DefaultMaxWait = 5 * time.Second
	// DefaultMaxWaiting is how many calls wait at once for a ServerLimit.
	DefaultMaxWaiting = 1000
	// DefaultAnswerWithin is how long a call waits for Redis in a ServerLimit.
	DefaultAnswerWithin = time.Second
	// DefaultClientAnswerWithin is the same in a ClientLimit.
	DefaultClientAnswerWithin = 5 * time.Second
)

// Option configures NewServerLimit and NewClientLimit.
type Option interface{ apply(c *config) }

// LimitOption is an Option about one limit: that of NewServerLimit or NewClientLimit, or one that
// And adds.
type LimitOption interface {
	Option
	set(r *rule)
}

type (
	wholeOption func(*config)
	limitOption func(*rule)
	rule        = gate.Rule[*Call]
)

func (o wholeOption) apply(c *config) { o(c) }

func (o limitOption) apply(c *config) { o(&c.Rules[0]) }
func (o limitOption) set(r *rule)     { o(r) }

type config struct {
	gate.Config[*Call] // its first rule is that of NewServerLimit or NewClientLimit

	skip func(method string) bool
	bad  error // of an option
}

// Skip sets which methods are not counted, and need no permit; with nil none. The default is
// HealthOrReflection.
func Skip(f func(method string) bool) Option { return wholeOption(func(c *config) { c.skip = f }) }

// Key sets the function that returns a call's key, such as ByMethod or ByMetadata("x-tenant"); calls
// with equal keys share a limit. Any string is valid, and the empty string is a key like any other.
// The semaphore of a key is called NAME/KEY, so no other semaphore's name must begin with NAME/.
// Without it all calls share one limit.
func Key(f func(*Call) string) LimitOption { return limitOption(func(r *rule) { r.Key = f }) }

// Limits sets a function that returns the limit for a key, instead of the limit given to
// NewServerLimit, NewClientLimit or And. Calls for which it returns less than 1 are refused. It must
// not block, and should return the same in all processes. It needs a Key.
func Limits(f func(key string) int) LimitOption { return limitOption(func(r *rule) { r.Limits = f }) }

// And adds a limit: a call then needs a permit of each. Begin with the narrow limit, such as that of
// a tenant, and add the wide ones that it shares with others: see berthhttp.And.
func And(name string, limit int, opts ...LimitOption) Option {
	return wholeOption(func(c *config) {
		r := rule{Name: name, Limit: limit}
		for _, o := range opts {
			if o == nil {
				c.bad = nilOption()
				return
			}
			o.set(&r)
		}
		c.Rules = append(c.Rules, r)
	})
}

// Rate adds a rate to the limit, for each key: at most n calls, or costs of n, are let through in any
// time of length per. Given several times, all of them hold: see berth.Rate. Where only rates
// are to limit, the limit is berth.NoLimit. Rate(n, per) is short for LeaseOptions(berth.Rate(n, per)).
func Rate(n int, per time.Duration) RateOption { return RateOption{berth.Rate(n, per)} }

// RateOption is a [LimitOption] that adds a rate: see [Rate].
type RateOption struct{ rate berth.RateOption }

// Of returns the same rate for another unit than calls, such as "tokens": see [Cost].
func (o RateOption) Of(unit string) RateOption { return RateOption{o.rate.Of(unit)} }

// Burst returns the rate as a bucket, which holds b and is refilled at n in per.
func (o RateOption) Burst(b int) RateOption { return RateOption{o.rate.Burst(b)} }

func (o RateOption) apply(c *config) { o.set(&c.Rules[0]) }
func (o RateOption) set(r *rule)     { LeaseOptions(o.rate).set(r) }

// Cost adds a function that returns what a call costs of the limit's rates: of those that count calls,
// or with [CostOption.Of] of those of another unit. Without it a call costs its weight. A call whose
// cost is above a rate is refused. The cost can be corrected later: see [Settle] and [SettleBy].
func Cost(f func(*Call) int) CostOption { return CostOption{f, ""} }

// CostOption is a [LimitOption] that says what a call costs: see [Cost].
type CostOption struct {
	f    func(*Call) int
	unit string
}

// Of returns the same cost in another unit than calls, such as "tokens".
func (o CostOption) Of(unit string) CostOption { return CostOption{o.f, unit} }

func (o CostOption) apply(c *config) { o.set(&c.Rules[0]) }
func (o CostOption) set(r *rule)     { r.PerCall = append(r.PerCall, gate.CostBy(o.f, o.unit)) }

// Settle says what a call has really cost in a unit ("": calls), less or more than was asked for, of
// each limit that has a rate of that unit: see berth.Lease.Settle. ctx is the context of the
// call that a server handles, or of a stream that a client has begun. A client has no such context for
// a unary call, whose permit is given back when it has ended: use SettleBy.
//
// It sends that in the background, and must be called before the handler returns, or the stream has
// ended. The error is a *berth.InvalidError if ctx carries no permit, as when FailOpen has let the call
// pass, or no limit has such a rate, or that of a lease which is over.
func Settle(ctx context.Context, n int, unit string) error { return gate.Settle(ctx, n, unit) }

// SettleBy settles what a call has cost in a unit by its answer: f returns the cost, and false if the
// answer has none. f gets a Call with the answer's Message and Metadata in place of its own. That
// is, of a unary call that has not failed, the response, and where a client has made the call its header
// and trailer; and of a stream each message that goes to the client, without metadata: what was said
// last counts. If a stream sends the client only one message, its permit there has been given back by
// then, or is about to be, and it may not be settled. SettleBy can be given several times.
func SettleBy(unit string, f func(answer *Call) (n int, ok bool)) LimitOption {
	return limitOption(func(r *rule) { r.Settles = append(r.Settles, gate.SettleBy(unit, f)) })
}

// CostIn returns a function for [SettleBy] that reads what the call has cost from the first metadata
// value of that name: a number, also with a fraction, which is rounded up.
func CostIn(name string) func(answer *Call) (int, bool) {
	return func(answer *Call) (int, bool) { return gate.CostIn(ByMetadata(name)(answer)) }
}

// Tenant says for whom a call waits, so that a tenant with many calls does not keep others waiting:
// the lines of tenants take turns: see berth.Tenant. f returns the tenant's key; any string is
// valid, and a call with an empty one is nobody's. PerCall can give berth.Share.
func Tenant(f func(*Call) string) LimitOption {
	return limitOption(func(r *rule) { r.Tenant = f })
}

// PerCall adds a function that returns more options for a call's lease, such as berth.Weight or
// berth.Label, by its method, metadata or message. A call whose options are invalid, or that asks
// for more than the limit or the rate, is refused.
func PerCall(f func(*Call) []berth.AcquireOption) LimitOption {
	return limitOption(func(r *rule) {
		if f != nil {
			r.PerCall = append(r.PerCall, f)
		}
	})
}

// LeaseOptions sets options for all leases, such as berth.TTL or berth.QueueLimit.
func LeaseOptions(opts ...berth.Option) LimitOption {
	return limitOption(func(r *rule) { r.Lease = append(r.Lease, opts...) })
}

// MaxHold bounds how long a call, also a stream, may keep its permit; the default is 0, no bound.
// After that the lease is lost, and the call ends. MaxHold(d) is short for
// LeaseOptions(berth.MaxHold(d)).
func MaxHold(d time.Duration) LimitOption { return LeaseOptions(berth.MaxHold(d)) }

// MaxWait bounds the time in the queue. With 0 calls do not wait; with a negative d only the call's
// context bounds the wait. The default is DefaultMaxWait for a ServerLimit, and no bound for a
// ClientLimit. With LeaseOptions(berth.FailEarly()) a call that a rate or a pause keeps out for longer
// is refused at once.
func MaxWait(d time.Duration) Option { return wholeOption(func(c *config) { c.MaxWait = d }) }

// MaxWaiting bounds how many calls of this process wait for a permit at once, over all keys; 0 is no
// bound. The default is DefaultMaxWaiting for a ServerLimit, and no bound for a ClientLimit. Further
// calls get a permit if one is free, and with Tenant each tenant has its part, as with
// berthhttp.MaxWaiting.
func MaxWaiting(n int) Option { return wholeOption(func(c *config) { c.MaxWaiting = n }) }

// AnswerWithin bounds how long a call waits for the first answer of Redis. After that it is refused,
// or passes if FailOpen is set. The default is DefaultAnswerWithin for a ServerLimit, and
// DefaultClientAnswerWithin for a ClientLimit.
func AnswerWithin(d time.Duration) Option {
	return wholeOption(func(c *config) { c.AnswerWithin = d })
}

// FailOpen lets calls pass without a permit, and so without a limit or a MaxHold, while Redis cannot
// be reached, as berthhttp.FailOpen does. That is logged, and f, unless nil, is called for each such
// call with the reason.
func FailOpen(f func(c *Call, why error)) Option {
	return wholeOption(func(c *config) {
		if c.FailOpen = true; f != nil {
			c.OnOpen = append(c.OnOpen, f)
		}
	})
}

// Observe lets all calls pass, and counts what would have become of them, as berthhttp.Observe does.
func Observe() Option { return wholeOption(func(c *config) { c.Observe = true }) }

// Logger sets the log for what berth can report to no caller: an outage, a lease that is lost while its
// call runs, what was observed. The default is slog.Default(). No call waits for its handler.
func Logger(l *slog.Logger) Option { return wholeOption(func(c *config) { c.Logger = l }) }
