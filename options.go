package berth

import (
	"context"
	"fmt"
	"log/slog"
	"time"
	"unicode"
	"unicode/utf8"
)

// Bounds of what the library accepts. Anything outside is an *InvalidError and
// nothing is sent.
const (
	// MaxLimit bounds limits, weights and queue limits.
	MaxLimit = 1 << 31
	// MinTTL and MaxTTL bound TTL; MaxHold and HeadStart end at MaxTTL too.
	MinTTL = 10 * time.Millisecond
	MaxTTL = 30 * 24 * time.Hour
	// DefaultTTL is how long a lease lasts without renewal, unless TTL says otherwise.
	DefaultTTL = 30 * time.Second
	// MaxName and MaxLabel bound names and labels, in bytes.
	MaxName  = 512
	MaxLabel = 256
)

// mostReplicas bounds MinReplicas, to catch mistakes.
const mostReplicas = 100

// ClientOption configures New.
type ClientOption func(*clientConfig)

type clientConfig struct {
	prefix string
	logger *slog.Logger
	hooks  Hooks
}

// WithPrefix sets the prefix of every key and channel; default "berth".
// Clients share a semaphore only if their prefixes are equal. 1 to 64 bytes of
// letters, digits and "._:-".
func WithPrefix(prefix string) ClientOption {
	return func(c *clientConfig) { c.prefix = prefix }
}

// WithLogger sets where berth reports what no caller can be told: failed
// renewals, reconnects, a server clock that jumps. Default: nowhere.
func WithLogger(l *slog.Logger) ClientOption {
	return func(c *clientConfig) { c.logger = l }
}

// WithHooks sets the callbacks for telemetry; see Hooks.
func WithHooks(h Hooks) ClientOption {
	return func(c *clientConfig) { c.hooks = h }
}

// Option configures a Semaphore (as the default of all its leases) or a single
// Acquire, TryAcquire or With.
type Option func(*config)

type config struct {
	ttl        time.Duration
	weight     int
	label      string
	headStart  time.Duration
	maxHold    time.Duration
	queueLimit int
	noRenewal  bool
	replicas   int
	onQueued   func(Place)
}

var defaults = config{ttl: DefaultTTL, weight: 1, queueLimit: MaxLimit}

// TTL sets how long a lease lasts without renewal, and so how long a crashed
// holder's permits are missing; default DefaultTTL. berth renews every third of
// it. It bounds nothing but the lease: the wait is bounded by the context alone.
func TTL(d time.Duration) Option { return func(c *config) { c.ttl = d } }

// Weight sets how many permits the lease takes; default 1.
func Weight(n int) Option { return func(c *config) { c.weight = n } }

// Label sets what operators see beside the lease, for example the job's name;
// default empty. It is shown, never interpreted. At most MaxLabel bytes of UTF-8.
func Label(s string) Option { return func(c *config) { c.label = s } }

// HeadStart queues the request as if it had come d earlier. It is a priority
// that cannot starve anybody: whoever came more than d earlier stays ahead.
func HeadStart(d time.Duration) Option { return func(c *config) { c.headStart = d } }

// MaxHold caps how long the lease can be kept by renewal, by the server's
// clock; default 0, no cap. A holder that hangs loses the lease then.
func MaxHold(d time.Duration) Option { return func(c *config) { c.maxHold = d } }

// QueueLimit refuses to wait (ErrQueueFull) when n waiters wait already;
// default: no bound. 0 never waits.
func QueueLimit(n int) Option { return func(c *config) { c.queueLimit = n } }

// WithoutRenewal leaves renewal to the caller (Lease.Renew). The lease lasts
// one TTL from the moment in which Acquire returns it.
func WithoutRenewal() Option { return func(c *config) { c.noRenewal = true } }

// MinReplicas counts the grant, and every renewal of it, only when n replicas of
// the server have it; default 0. A grant that too few have within half a second
// is given back, and the error is a *NotReplicatedError (ErrNotReplicated). A
// renewal that too few have leaves the trust deadline as it was, so the lease is
// lost when that lasts.
//
// It makes a failover that forgets the lease less likely, not impossible: the
// replica that is promoted may be another one. Nothing but fencing closes that
// gap. It costs a round trip to Redis and one to its replicas for each grant,
// for which the process's other requests to the semaphore wait. The user needs
// the right to WAIT. Adopt does not know it: who adopts a lease renews it
// without.
func MinReplicas(n int) Option { return func(c *config) { c.replicas = n } }

// OnQueued has f called when the request starts to wait and whenever its place
// is seen to have changed. f runs in the goroutine of Acquire; it must not block.
func OnQueued(f func(Place)) Option { return func(c *config) { c.onQueued = f } }

// Place tells a waiter where it stands.
type Place struct {
	Ahead   int // waiters in front of it
	InUse   int // permits out
	Limit   int // limit in force
	Waiting int // waiters in the queue, this one included
}

func (c config) with(opts []Option) (config, error) {
	for _, o := range opts {
		if o == nil {
			return c, &InvalidError{"option", "it is nil"}
		}
		o(&c)
	}
	err := c.validate()
	// The server counts whole milliseconds; a fraction would make every renewal
	// look as if MaxHold had cut it short.
	c.ttl, c.maxHold = c.ttl.Truncate(time.Millisecond), c.maxHold.Truncate(time.Millisecond)
	return c, err
}

func (c config) validate() error {
	if c.ttl < MinTTL || c.ttl > MaxTTL {
		return &InvalidError{"TTL", fmt.Sprintf("%v is outside %v to %v", c.ttl, MinTTL, MaxTTL)}
	}
	if c.weight < 1 || c.weight > MaxLimit {
		return &InvalidError{"weight", fmt.Sprintf("%d is outside 1 to %d", c.weight, MaxLimit)}
	}
	if c.headStart < 0 || c.headStart > MaxTTL {
		return &InvalidError{"HeadStart", fmt.Sprintf("%v is outside 0 to %v", c.headStart, MaxTTL)}
	}
	if c.maxHold != 0 && (c.maxHold < MinTTL || c.maxHold > MaxTTL) {
		return &InvalidError{"MaxHold", fmt.Sprintf("%v is outside %v to %v", c.maxHold, MinTTL, MaxTTL)}
	}
	if c.queueLimit < 0 || c.queueLimit > MaxLimit {
		return &InvalidError{"QueueLimit", fmt.Sprintf("%d is outside 0 to %d", c.queueLimit, MaxLimit)}
	}
	if c.replicas < 0 || c.replicas > mostReplicas {
		return &InvalidError{"MinReplicas", fmt.Sprintf("%d is outside 0 to %d", c.replicas, mostReplicas)}
	}
	return validText("label", c.label, MaxLabel)
}

func validContext(ctx context.Context) error {
	if ctx == nil {
		return &InvalidError{"context", "it is nil"}
	}
	return nil
}

func validLimit(limit, least int) error {
	if limit < least || limit > MaxLimit {
		return &InvalidError{"limit", fmt.Sprintf("%d is outside %d to %d", limit, least, MaxLimit)}
	}
	return nil
}

// validName refuses names that would be unsafe in a key, a channel or on a
// screen. Braces would change the hash tag: "{NAME}" must end where NAME ends,
// or the semaphore's keys fall into different slots of a Redis Cluster.
func validName(name string) error {
	if name == "" {
		return &InvalidError{"name", "it is empty"}
	}
	for _, r := range name {
		if r == '{' || r == '}' {
			return &InvalidError{"name", "braces are reserved for the Redis Cluster hash tag"}
		}
	}
	return validText("name", name, MaxName)
}

// validText bounds what is stored for people to read: valid UTF-8 that is
// neither huge nor able to rearrange a terminal.
func validText(what, s string, most int) error {
	if len(s) > most {
		return &InvalidError{what, fmt.Sprintf("%d bytes are more than %d", len(s), most)}
	}
	if !utf8.ValidString(s) {
		return &InvalidError{what, "it is not valid UTF-8"}
	}
	blank := s != ""
	for _, r := range s {
		if unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) {
			return &InvalidError{what, fmt.Sprintf("it contains the control character %U", r)}
		}
		blank = blank && unicode.IsSpace(r)
	}
	if blank {
		return &InvalidError{what, "it is blank"}
	}
	return nil
}

func validPrefix(prefix string) error {
	if prefix == "" || len(prefix) > 64 {
		return &InvalidError{"prefix", fmt.Sprintf("%d bytes are outside 1 to 64", len(prefix))}
	}
	for _, r := range prefix {
		if r > unicode.MaxASCII || !(unicode.IsLetter(r) || unicode.IsDigit(r) || r == '.' || r == '_' || r == ':' || r == '-') {
			return &InvalidError{"prefix", fmt.Sprintf("%q is not a letter, a digit or one of . _ : -", r)}
		}
	}
	return nil
}
