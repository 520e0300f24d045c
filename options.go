package berth

import (
	"cmp"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unicode"

	"github.com/berth-go/berth/internal/protocol"
	"github.com/berth-go/berth/internal/rules"
)

// Bounds of arguments. A value outside them is an *InvalidError, and nothing is sent.
const (
	// MaxLimit bounds limits, weights, queue limits, rates and costs.
	MaxLimit = 1 << 30
	// NoLimit is the limit of a semaphore that only a [Rate] limits.
	NoLimit = MaxLimit
	// MinTTL and MaxTTL bound TTL, MaxHold and the window of a Rate; MaxTTL bounds HeadStart.
	MinTTL = 10 * time.Millisecond
	MaxTTL = 30 * 24 * time.Hour
	// DefaultTTL is how long a lease lasts without renewal, unless TTL is given.
	DefaultTTL = 30 * time.Second
	// MaxName and MaxLabel bound names and labels, in bytes.
	MaxName  = 512
	MaxLabel = 256
	// MaxTenant bounds the keys of tenants, in characters, and MaxPace their pace.
	MaxTenant = 64
	MaxPace   = 24 * time.Hour
)

const (
	// mostReplicas bounds MinReplicas, to catch mistakes.
	mostReplicas = 100
	// mostLevel bounds Level, to catch mistakes.
	mostLevel = 1000
	// mostHeartbeat is how long a waiter stays in the queue without a heartbeat,
	// unless its TTL is shorter. A lease granted by a hand-off lasts as long at first.
	mostHeartbeat = 10 * time.Second
)

// ClientOption configures New.
type ClientOption func(*clientConfig)

type clientConfig struct {
	prefix string
	logger *slog.Logger
	hooks  hooks
}

// Prefix sets the prefix of all keys and channels: 1 to 64 bytes of letters, digits
// and "._:-"; the default is "berth". Clients share a semaphore only if their prefixes
// are equal.
func Prefix(prefix string) ClientOption {
	return func(c *clientConfig) { c.prefix = prefix }
}

// Logger sets the log for what berth can report to no caller, such as a failed renewal, or a
// declaration that changed the limit in force. The default is slog.Default(). Its handler may
// block, like a Lost hook ([Hooks]). While 1,000 records wait, further ones are dropped, and one
// then says how many.
func Logger(l *slog.Logger) ClientOption {
	return func(c *clientConfig) { c.logger = l }
}

// Hook adds callbacks for telemetry. It can be given several times: all are called, in that order.
func Hook(h Hooks) ClientOption {
	return func(c *clientConfig) { c.hooks = append(c.hooks, h) }
}

type (
	// AcquireOption configures one request: Acquire, TryAcquire, Do. Each [Option] is one, too.
	AcquireOption interface{ acquire(c *config) }
	// Option configures all leases of a [Semaphore], or one request. [TTL], [MinReplicas] and
	// [WithoutRenewal] can be given to [Client.Adopt], too.
	Option interface {
		AcquireOption
		semaphore(c *config)
	}
)

type (
	requestOption func(*config)
	leaseOption   func(*config)
	renewalOption func(*config) // of an adopted lease, too
)

func (o requestOption) acquire(c *config) { o(c) }

func (o leaseOption) acquire(c *config)   { o(c) }
func (o leaseOption) semaphore(c *config) { o(c) }

func (o renewalOption) acquire(c *config)   { o(c) }
func (o renewalOption) semaphore(c *config) { o(c) }

type config struct {
	ttl        time.Duration
	weight     int
	label      string
	headStart  time.Duration
	maxHold    time.Duration
	queueLimit int
	noRenewal  bool
	replicas   int
	onQueued   []func(Place)
	rate       protocol.Rate
	cost       int // 0: the weight
	level      int
	tenant     *tenant // nil: none
	watch      *watch  // nil: the request is enforced, and not observed
	program    protocol.Program
}

type tenant struct {
	key  string
	pace time.Duration
}

var defaults = config{ttl: DefaultTTL, weight: 1, queueLimit: MaxLimit, label: program()}

// program is the name of this program, or "" if that is not valid as a label.
func program() string {
	if len(os.Args) == 0 {
		return ""
	}
	name := strings.ToValidUTF8(filepath.Base(os.Args[0]), "")
	name = strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return -1
	}, name)
	if name = name[:min(len(name), MaxLabel)]; rules.Text(name, MaxLabel) != "" {
		return ""
	}
	return name
}

// TTL sets how long a lease lasts without renewal, and so how long a permit stays taken after its
// holder crashes. berth renews every third of it. It does not bound the wait; only the context
// does. It is in whole milliseconds, from [MinTTL] to [MaxTTL]; the default is [DefaultTTL], or for
// an adopted lease the TTL that it had.
func TTL(d time.Duration) Option { return renewalOption(func(c *config) { c.ttl = d }) }

// Weight sets how many permits the lease takes; the default is 1. A weight above the
// limit in force is refused ([ErrTooHeavy]).
func Weight(n int) Option { return leaseOption(func(c *config) { c.weight = n }) }

// Rate adds a rate to the limit: in any window of length per, by the server's clock, the total cost
// granted is at most n. The cost of a lease is its weight, or what [Cost] says. What counts is the
// grant: a release or a crash gives nothing back, and a renewal, Detach and Adopt are no grants.
// There is one queue: a request is granted when there are permits for its weight and the rate has
// room for its cost, at most a hundredth of per later, and until then nobody overtakes it.
//
// n is 1 to [MaxLimit], and per is in whole milliseconds from [MinTTL] to [MaxTTL]; Rate(0, 0), the
// default, leaves the one in force as it is. The last declaration is in force, as with limits; what
// was granted before counts for at most the new window from then. An idle semaphore forgets its
// rate.
func Rate(n int, per time.Duration) Option {
	return leaseOption(func(c *config) { c.rate = protocol.Rate{N: n, Per: per} })
}

// Cost sets what the lease costs of the semaphore's Rate, for example the tokens of a
// request to a language model: 1 to MaxLimit; the default is the weight. A cost above the
// rate in force is refused ([ErrTooHeavy]). Without a rate it has no effect.
func Cost(n int) Option { return leaseOption(func(c *config) { c.cost = cmp.Or(n, -1) }) }

// Tenant says for whom the request is made, and keeps tenants from pushing each other out: where
// there is a queue, the requests of one tenant stand in it as though each had come its weight times
// pace before the next, and those of others go between them. It only orders the queue: nothing is
// idle because of it, and what a tenant asked for is forgotten when the queue is empty. Within a
// tenant it is first come, first served. A pace well below the usual time between two requests of
// an ordinary tenant costs little, and still holds a burst back; docs/limits.md has figures.
//
// key is 1 to [MaxTenant] characters without spaces and control characters, for example the number
// of a customer. Operators see it. pace is in whole milliseconds, from [MinTTL] to [MaxPace].
func Tenant(key string, pace time.Duration) Option {
	return leaseOption(func(c *config) { c.tenant = &tenant{key, pace} })
}

// Level sets the semaphore's place in [AcquireAll], from 0, the default, to 1000: lower levels are
// acquired first, and equal ones in the order of their names. Give narrow limits, such as that of
// one tenant, a lower level than the wide ones that they share: who waits for a narrow one then
// holds nothing of a wide one. All programs should give a name the same level, because callers with
// different orders can deadlock; a Client warns, once, if it sees two levels of a name.
func Level(n int) Option { return leaseOption(func(c *config) { c.level = n }) }

// Label sets a text that operators see with the lease, for example the name of a job:
// at most MaxLabel bytes of UTF-8. The default is the program's name.
func Label(s string) Option { return leaseOption(func(c *config) { c.label = s }) }

// HeadStart queues the request as if it had been made d earlier, at most MaxTTL; the
// default is 0. It is a priority that cannot starve other requests: those made more
// than d earlier stay ahead.
func HeadStart(d time.Duration) AcquireOption {
	return requestOption(func(c *config) { c.headStart = d })
}

// MaxHold bounds how long the lease can be kept by renewal, by the server's clock: [MinTTL] to
// [MaxTTL]; the default is 0, no bound. A holder that hangs loses its lease when MaxHold is over.
func MaxHold(d time.Duration) Option { return leaseOption(func(c *config) { c.maxHold = d }) }

// QueueLimit refuses to wait ([ErrQueueFull]) when n others already do. By default the queue has no
// bound; with 0 the request never waits.
func QueueLimit(n int) Option { return leaseOption(func(c *config) { c.queueLimit = n }) }

// WithoutRenewal leaves renewal to the caller ([Lease.Renew]). The lease lasts one TTL
// from the grant; [Lease.ValidUntil] returns until when it can be relied on.
func WithoutRenewal() Option { return renewalOption(func(c *config) { c.noRenewal = true }) }

// MinReplicas accepts the grant, and each renewal of it, only when n replicas of the server have
// confirmed it; the default is 0. A grant that too few confirm within half a second is given back,
// and the error is a [*NotReplicatedError]. A renewal that too few confirm leaves the trust
// deadline as it was. A failover that forgets the lease becomes less likely, but only fencing
// closes that gap. Each grant costs a round trip to Redis and one from Redis to its replicas, while
// the process's other requests to the semaphore wait. The Redis user needs permission for WAIT.
func MinReplicas(n int) Option { return renewalOption(func(c *config) { c.replicas = n }) }

// OnQueued adds a function that is called when the request starts to wait, and whenever Acquire
// learns that its place has changed. Several are called in the order given, in the goroutine of
// Acquire. While one blocks, the request keeps its place, or the permit it is granted, until
// Acquire's context ends.
func OnQueued(f func(Place)) AcquireOption {
	return requestOption(func(c *config) {
		if f != nil {
			c.onQueued = append(c.onQueued, f)
		}
	})
}

// Place is where a waiter stands in the queue, and what it waits for.
type Place struct {
	Status        // Waiting counts this one, too
	Ahead  int    // waiters in front of it
	Tenant string // for whom the request is made; see Tenant
}

// with returns c as opts change it.
func with[O AcquireOption](c config, opts []O) (config, error) {
	for _, o := range opts {
		if any(o) == nil {
			return c, &InvalidError{"option", "it is nil"}
		}
		o.acquire(&c)
	}
	err := c.validate()
	// The server counts whole milliseconds; a fraction would make every renewal
	// look as if MaxHold had cut it short.
	c.ttl, c.maxHold = c.ttl.Truncate(time.Millisecond), c.maxHold.Truncate(time.Millisecond)
	c.rate.Per = c.rate.Per.Truncate(time.Millisecond)
	return c, err
}

// terms are the config in the protocol's words.
func (c *config) terms(limit int, wait bool) *protocol.Terms {
	var owner tenant
	if c.tenant != nil {
		owner = *c.tenant
	}
	return &protocol.Terms{
		Wait: wait && c.queueLimit > 0, Weight: c.weight, TTL: c.ttl, Heartbeat: min(c.ttl, mostHeartbeat),
		HeadStart: c.headStart, QueueLimit: c.queueLimit, MaxHold: c.maxHold, Limit: limit, Label: c.label,
		MinReplicas: c.replicas, Rate: c.rate, Cost: c.cost,
		Tenant: owner.key, Pace: owner.pace, For: c.program,
	}
}

func (c *config) validate() error {
	var rate, tenant error
	if c.rate != (protocol.Rate{}) {
		rate = cmp.Or(within("Rate", c.rate.N, 1, MaxLimit), within("Rate", c.rate.Per, MinTTL, MaxTTL))
	}
	if c.tenant != nil {
		tenant = cmp.Or(within("Tenant", c.tenant.pace, MinTTL, MaxPace), invalid("Tenant", rules.Key(c.tenant.key, MaxTenant)))
	}
	return cmp.Or(
		within("TTL", c.ttl, MinTTL, MaxTTL),
		within("weight", c.weight, 1, MaxLimit),
		within("HeadStart", c.headStart, 0, MaxTTL),
		within("MaxHold", cmp.Or(c.maxHold, MinTTL), MinTTL, MaxTTL), // 0: no bound
		within("QueueLimit", c.queueLimit, 0, MaxLimit),
		rate,
		within("Cost", max(cmp.Or(c.cost, 1), 0), 1, MaxLimit), // 0: the weight
		tenant,
		within("Level", c.level, 0, mostLevel),
		within("MinReplicas", c.replicas, 0, mostReplicas),
		invalid("label", rules.Text(c.label, MaxLabel)),
	)
}

// within is the error for an argument that is below least or above most.
func within[T int | time.Duration](what string, v, least, most T) error {
	if v < least || v > most {
		return &InvalidError{what, fmt.Sprintf("%v is outside %v to %v", v, least, most)}
	}
	return nil
}
