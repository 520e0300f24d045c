package berthhttp

import (
	"cmp"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/internal/gate"
)

// The defaults of the options.
const (
	// DefaultMaxHold is how long a Handler's request may keep its permit. Proxies
	// commonly wait that long for a response.
	DefaultMaxHold = time.Minute
	// DefaultTransportMaxHold is the same for a Transport's request, reading the
	// response body included.
	DefaultTransportMaxHold = 15 * time.Minute
	// DefaultMaxWait is how long a Handler's request waits in the queue.
	DefaultMaxWait = 5 * time.Second
	// DefaultMaxWaiting is how many of a Handler's requests wait at once.
	DefaultMaxWaiting = 1000
	// DefaultAnswerWithin is how long a Handler's request waits for Redis.
	DefaultAnswerWithin = time.Second
	// DefaultTransportAnswerWithin is the same for a Transport's request.
	DefaultTransportAnswerWithin = 5 * time.Second
)

// Option configures NewTransport or NewHandler. Some options are valid for only one of
// them, as their comments say, and an error for the other.
type Option interface{ apply(c *config) }

// LimitOption is an Option about one limit: that of NewTransport or NewHandler, or one that And
// adds.
type LimitOption interface {
	Option
	set(r *rule)
}

type (
	wholeOption func(*config)
	limitOption func(*rule)
)

func (o wholeOption) apply(c *config) { o(c) }

func (o limitOption) apply(c *config) { o(&c.rules[0]) }
func (o limitOption) set(r *rule)     { o(r) }

type config struct {
	gate  gate.Config[*http.Request] // except its rules
	rules []rule                     // the first is that of NewTransport or NewHandler
	bad   error                      // of an option

	base    http.RoundTripper // Transport only
	callers bool              // Transport only

	status int                                                     // Handler only
	refuse func(http.ResponseWriter, *http.Request, *RefusedError) // Handler only
}

// rule is one of the limits of a Transport or Handler.
type rule struct {
	gate.Rule[*http.Request]

	obey     time.Duration                      // Transport only; 0: an answer's Retry-After is not obeyed
	comeBack func(*http.Response) time.Duration // with obey; nil: RetryAfter, of answers that mean it
}

// newConfig returns the defaults of a Transport or Handler, and its options.
func newConfig(first gate.Rule[*http.Request], defaults gate.Config[*http.Request], opts []Option) (config, error) {
	c := config{gate: defaults, rules: []rule{{Rule: first}}}
	c.gate.Package, c.gate.Calls, c.gate.Context = "berthhttp", "requests", (*http.Request).Context
	for _, o := range opts {
		if o == nil {
			return c, nilOption()
		}
		o.apply(&c)
	}
	return c, c.bad
}

// Key sets the function that returns a request's key; requests with equal keys share a
// limit. Any string is valid, and the empty string is a key like any other. The semaphore
// of a key is called NAME/KEY, so no other semaphore's name must begin with NAME/. With nil,
// all requests share one limit. The default is ByHost for a Transport and nil for a
// Handler.
func Key(f func(*http.Request) string) LimitOption { return limitOption(func(r *rule) { r.Key = f }) }

// Limits sets a function that returns the limit for a key, instead of the limit given
// to NewTransport or NewHandler. Requests for which it returns less than 1 are refused.
// It must not block, and should return the same in all processes: the last limit
// declared is in force. It needs a Key.
func Limits(f func(key string) int) LimitOption { return limitOption(func(r *rule) { r.Limits = f }) }

// LeaseOptions sets options for all leases, such as berth.TTL or berth.QueueLimit.
func LeaseOptions(opts ...berth.Option) LimitOption {
	return limitOption(func(r *rule) { r.Lease = append(r.Lease, opts...) })
}

// PerRequest adds a function that returns more options for a request's lease, such as
// berth.Weight, berth.HeadStart or berth.Label. A request whose options are invalid, or whose
// weight is above the limit, is refused.
func PerRequest(f func(*http.Request) []berth.AcquireOption) LimitOption {
	return limitOption(func(r *rule) {
		if f != nil {
			r.PerCall = append(r.PerCall, f)
		}
	})
}

// MaxWait bounds the time in the queue. With 0 requests do not wait; with a negative d
// only the request's context bounds the wait. The default is DefaultMaxWait for a
// Handler, and no bound for a Transport. With LeaseOptions(berth.FailEarly()) a request that a
// rate or a pause keeps out for longer is refused at once, and not after MaxWait.
func MaxWait(d time.Duration) Option { return wholeOption(func(c *config) { c.gate.MaxWait = d }) }

// MaxWaiting bounds how many requests of this process wait for a permit at once, over
// all keys; 0 is no bound. So clients that choose their keys can neither fill this
// process's memory with waiting requests nor make it ask Redis for more than it can
// answer in time. The default is DefaultMaxWaiting for a Handler, and no bound for a
// Transport.
//
// Further requests get a permit if one is free, and else are refused with ErrMaxWaiting.
// A tenth as many as may wait ask for one at once; those beyond are refused unasked. So
// one busy key can take the waiting room of all others, but not their permits;
// berth.QueueLimit bounds the queue of each key.
//
// With [Tenant] about n wait, at most 2n, and of one tenant only its part: a request may wait if one
// more than its tenant has waiting, times the tenants that wait, is at most n. Those of nobody are one
// tenant's. So a burst of one tenant does not take the room of the others.
func MaxWaiting(n int) Option { return wholeOption(func(c *config) { c.gate.MaxWaiting = n }) }

// Tenant says for whom a request waits, so that a tenant with many requests does not keep others
// waiting: the lines of tenants take turns: see berth.Tenant. f, such as ByHeader("X-Tenant"),
// returns the tenant's key; any string is valid, and a request with an empty one is nobody's.
// PerRequest can give berth.Share. Unlike with Key, all tenants share one limit.
func Tenant(f func(*http.Request) string) LimitOption {
	return limitOption(func(r *rule) { r.Tenant = f })
}

// MaxHold bounds how long a request may keep its permit; 0 is no bound. After that the
// lease is lost, and the request ends as ServeHTTP and RoundTrip describe. MaxHold(d)
// is short for LeaseOptions(berth.MaxHold(d)). The default is DefaultMaxHold for a
// Handler, and DefaultTransportMaxHold for a Transport.
func MaxHold(d time.Duration) LimitOption { return LeaseOptions(berth.MaxHold(d)) }

// AnswerWithin bounds how long a request waits for the first answer of Redis. After
// that it is refused, or passes if FailOpen is set. The default is DefaultAnswerWithin
// for a Handler, and DefaultTransportAnswerWithin for a Transport.
func AnswerWithin(d time.Duration) Option {
	return wholeOption(func(c *config) { c.gate.AnswerWithin = d })
}

// FailOpen lets requests pass without a permit, and so without a limit or a MaxHold,
// while Redis cannot be reached. That is logged, and f, unless nil, is called for each
// such request with the reason, as are those of other FailOpen options before it; to the
// client's hooks it is a request that failed with berth.ErrUnreachable. By default such
// requests are refused.
//
// A request that had no answer within AnswerWithin waits until a separate connection has
// shown whether Redis can be reached, which takes 3 seconds more if Redis is silent. If it
// can be reached, the time was spent in a queue of this process or of Redis, and the
// request is refused; so is a request that Redis refuses, for example because it is out of
// memory.
func FailOpen(f func(r *http.Request, why error)) Option {
	return wholeOption(func(c *config) {
		if c.gate.FailOpen = true; f != nil {
			c.gate.OnOpen = append(c.gate.OnOpen, f)
		}
	})
}

// Observe lets every request pass, and counts what would have become of it, so that a limit can be
// tried on real traffic before it is enforced. Each limit is asked for a permit without waiting: one
// that is free is held as usual, and else the request passes without. It passes, too, when Redis is
// away. A request waits for Redis no longer than AnswerWithin; a lease that is lost, at MaxHold say,
// does not end it, and its context carries none (berth.FromContext).
//
// What would have become of a request is in berth.AcquireInfo.Observed, for the client's hooks, and
// berthotel counts it. Those that would have waited or been refused are logged, too: the first at
// once, and then every 10 seconds how many there were. docs/http.md says what the numbers mean.
func Observe() Option { return wholeOption(func(c *config) { c.gate.Observe = true }) }

// Logger sets the log for what berth can report to no caller: an outage, a body that is never
// closed, a lease that is lost while a request is served, what was observed. The default is
// slog.Default(). Its handler is called as that of berth.Logger is, so that no request
// waits for it.
func Logger(l *slog.Logger) Option { return wholeOption(func(c *config) { c.gate.Logger = l }) }

// ObeyRetryAfter makes a Transport obey an API that says when to come back: when an answer is 403,
// 429, 503 or 529 and has a time as [RetryAfter] reads it, the semaphore of the request is paused for
// so long, at most for the time most, in all programs that share it (berth.Semaphore.Cooldown). Of
// several limits, that one is paused to which the option is given. It is only for a Transport. most
// is from berth.MinTTL to berth.MaxTTL.
//
// The answer is returned as it is, and not sent again. It waits for Redis for a tenth of a second at
// most: if that takes longer, the next request of this Transport waits until the pause is known, and
// other programs may send some meanwhile.
func ObeyRetryAfter(most time.Duration) LimitOption {
	return limitOption(func(r *rule) { r.obey = cmp.Or(most, -1) })
}

// ObeyBy sets how ObeyRetryAfter, which must be given, too, reads an answer: f returns in how long to
// come back, and 0 for an answer that pauses nothing. It must leave the body alone.
func ObeyBy(f func(resp *http.Response) time.Duration) LimitOption {
	return limitOption(func(r *rule) { r.comeBack = f })
}

// Base sets the transport that sends the requests; the default is
// http.DefaultTransport. It is for a Transport only.
func Base(rt http.RoundTripper) Option { return wholeOption(func(c *config) { c.base = rt }) }

// RecordCallers records for each request where in the program it was made, for the
// warning about a body that is never closed. It costs about a microsecond for each
// request. It is for a Transport only.
func RecordCallers() Option { return wholeOption(func(c *config) { c.callers = true }) }

// Status sets the status of a refusal, 400 to 599; the default is 429, Too Many
// Requests. If Redis is the reason, the status is always 503. It is for a Handler only.
func Status(code int) Option { return wholeOption(func(c *config) { c.status = code }) }

// Refuse sets a function that answers refused requests, instead of a line of text.
// Status and Retry-After are in why; the header Retry-After is already set. It is for a
// Handler only.
func Refuse(f func(w http.ResponseWriter, r *http.Request, why *RefusedError)) Option {
	return wholeOption(func(c *config) { c.refuse = f })
}

func nilOption() error { return &berth.InvalidError{What: "option", Reason: "it is nil"} }

func (c config) onlyTransport() error {
	if c.status != 0 || c.refuse != nil {
		return &berth.InvalidError{What: "option", Reason: "Status and Refuse are for a Handler"}
	}
	for _, r := range c.rules {
		if r.comeBack != nil && r.obey == 0 {
			return &berth.InvalidError{What: "ObeyBy", Reason: "it says how ObeyRetryAfter reads an answer: give that, too"}
		}
		if r.obey != 0 && (r.obey < berth.MinTTL || r.obey > berth.MaxTTL) {
			return &berth.InvalidError{What: "ObeyRetryAfter", Reason: fmt.Sprintf("%v is outside %v to %v", max(r.obey, 0), berth.MinTTL, berth.MaxTTL)}
		}
	}
	return nil
}

func (c config) onlyHandler() error {
	answers := slices.ContainsFunc(c.rules, func(r rule) bool { return r.obey != 0 || r.comeBack != nil || len(r.Settles) > 0 })
	if c.base != nil || c.callers || answers {
		return &berth.InvalidError{What: "option", Reason: "Base, RecordCallers, ObeyRetryAfter, ObeyBy and SettleBy are for a Transport"}
	}
	if c.status != 0 && (c.status < 400 || c.status > 599) {
		return &berth.InvalidError{What: "Status", Reason: fmt.Sprintf("%d is outside 400 to 599", c.status)}
	}
	return nil
}
