package berthhttp

import (
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/berth-go/berth"
)

// Defaults of the options.
const (
	// DefaultMaxHold is how long a Handler's request may keep its permit. Proxies
	// commonly wait as long for an answer.
	DefaultMaxHold = time.Minute
	// DefaultTransportMaxHold is the same for a Transport's request, reading the
	// response body included.
	DefaultTransportMaxHold = 15 * time.Minute
	// DefaultMaxWait is how long a Handler's request waits in line.
	DefaultMaxWait = 5 * time.Second
	// DefaultMaxWaiting is how many of a Handler's requests wait at once.
	DefaultMaxWaiting = 1000
	// DefaultAnswerWithin is how long a Handler's request waits for Redis.
	DefaultAnswerWithin = time.Second
	// DefaultTransportAnswerWithin is the same for a Transport's request.
	DefaultTransportAnswerWithin = 5 * time.Second
)

// Option configures NewTransport or NewHandler; those that fit only one of them
// say so, and are an error to the other.
type Option func(*config)

type config struct {
	key          func(*http.Request) string // nil: one semaphore for all
	limits       func(key string) int
	lease        []berth.Option
	perRequest   func(*http.Request) []berth.AcquireOption
	maxWait      time.Duration // negative: no bound but the request's context
	maxWaiting   int           // 0: no bound
	answerWithin time.Duration
	failOpen     bool
	onOpen       func(*http.Request, error)
	logger       *slog.Logger

	base    http.RoundTripper // Transport only
	callers bool              // Transport only

	status int                                                     // Handler only
	refuse func(http.ResponseWriter, *http.Request, *RefusedError) // Handler only
}

// Key sets what a request is counted under: requests with equal keys share a
// limit. Any string will do, the empty one is a key like any other. nil counts
// all requests together. Default: ByHost for a Transport, nil for a Handler.
func Key(f func(*http.Request) string) Option { return func(c *config) { c.key = f } }

// Limits sets the limit for each key, in place of the one given to NewTransport
// or NewHandler. Requests for which f returns less than 1 are refused. f must be
// quick, and should return the same in all processes: the last one wins.
func Limits(f func(key string) int) Option { return func(c *config) { c.limits = f } }

// LeaseOptions sets options of all leases, such as berth.TTL or berth.QueueLimit.
func LeaseOptions(opts ...berth.Option) Option {
	return func(c *config) { c.lease = append(c.lease, opts...) }
}

// PerRequest sets further options of each request's lease, such as berth.Weight,
// berth.HeadStart or berth.Label; berth.OnQueued has no effect here. A request
// whose options are out of bounds is refused.
func PerRequest(f func(*http.Request) []berth.AcquireOption) Option {
	return func(c *config) { c.perRequest = f }
}

// MaxWait bounds the time in line; 0 does not wait at all, a negative one leaves
// it to the request's context. Default: DefaultMaxWait for a Handler, the
// request's context for a Transport.
func MaxWait(d time.Duration) Option { return func(c *config) { c.maxWait = d } }

// MaxWaiting bounds how many requests of this process wait for a permit at once,
// over all keys; 0 is no bound. One more is refused at once with ErrMaxWaiting.
// So whoever chooses the keys cannot fill this process's memory with waiting
// requests, nor make it ask Redis for more than it can answer in time. Default:
// DefaultMaxWaiting for a Handler, no bound for a Transport.
func MaxWaiting(n int) Option { return func(c *config) { c.maxWaiting = n } }

// MaxHold bounds how long a request may keep its permit; 0 is no bound. Then the
// lease is lost, and the request ends as ServeHTTP and RoundTrip describe. It is
// LeaseOptions(berth.MaxHold(d)) in a word. Default: DefaultMaxHold for a
// Handler, DefaultTransportMaxHold for a Transport.
func MaxHold(d time.Duration) Option { return LeaseOptions(berth.MaxHold(d)) }

// AnswerWithin bounds how long a request waits for Redis to say anything at all;
// default DefaultAnswerWithin or DefaultTransportAnswerWithin. After that it is
// refused, unless FailOpen lets it pass.
func AnswerWithin(d time.Duration) Option { return func(c *config) { c.answerWithin = d } }

// FailOpen lets requests pass without a permit, and so without a limit or a
// MaxHold, while Redis cannot be reached. That is logged, and f, if not nil, is
// called for each such request with the reason. Default: such requests are
// refused.
//
// A request that had no answer within AnswerWithin waits until berth.Client.Reach
// has found out whether Redis can be reached: 3 s more for one that is silent. If
// it can, the time was lost in a queue, here or there, and the request is refused.
// So is one that Redis refuses, because it has no memory left, for instance.
func FailOpen(f func(r *http.Request, why error)) Option {
	return func(c *config) { c.failOpen, c.onOpen = true, f }
}

// Logger sets where to report what no caller can be told: an outage, a body that
// is never closed, a lease that is lost while a request is served. Default:
// slog.Default().
func Logger(l *slog.Logger) Option { return func(c *config) { c.logger = l } }

// Base sets the transport that sends the requests; default
// http.DefaultTransport. For a Transport only.
func Base(rt http.RoundTripper) Option { return func(c *config) { c.base = rt } }

// RecordCallers notes for each request where in the program it was made, so that
// the warning about a body that is never closed can tell. It costs about a
// microsecond per request. For a Transport only.
func RecordCallers() Option { return func(c *config) { c.callers = true } }

// Status sets the status of a refusal, 400 to 599; default 429, Too Many
// Requests. It is 503 in any case when Redis is why. For a Handler only.
func Status(code int) Option { return func(c *config) { c.status = code } }

// Refuse sets what answers a refused request in place of a line of text. Status
// and Retry-After are in why; the header Retry-After is set already. For a
// Handler only.
func Refuse(f func(w http.ResponseWriter, r *http.Request, why *RefusedError)) Option {
	return func(c *config) { c.refuse = f }
}

// with applies opts and checks the result.
func (c config) with(opts []Option) (config, error) {
	for _, o := range opts {
		if o == nil {
			return c, &berth.InvalidError{What: "option", Reason: "it is nil"}
		}
		o(&c)
	}
	if c.answerWithin <= 0 {
		return c, &berth.InvalidError{What: "AnswerWithin", Reason: fmt.Sprintf("%v is not above 0", c.answerWithin)}
	}
	if c.maxWaiting < 0 {
		return c, &berth.InvalidError{What: "MaxWaiting", Reason: fmt.Sprintf("%d is below 0", c.maxWaiting)}
	}
	if c.logger == nil {
		c.logger = slog.Default()
	}
	return c, nil
}

func (c config) onlyTransport() error {
	if c.status != 0 || c.refuse != nil {
		return &berth.InvalidError{What: "option", Reason: "Status and Refuse are for a Handler"}
	}
	return nil
}

func (c config) onlyHandler() error {
	if c.base != nil || c.callers {
		return &berth.InvalidError{What: "option", Reason: "Base and RecordCallers are for a Transport"}
	}
	if c.status != 0 && (c.status < 400 || c.status > 599) {
		return &berth.InvalidError{What: "Status", Reason: fmt.Sprintf("%d is outside 400 to 599", c.status)}
	}
	return nil
}
