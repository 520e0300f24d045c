package berth

import (
	"cmp"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/berth-go/berth/internal/protocol"
	"github.com/berth-go/berth/internal/rules"
)

// Bounds of arguments; a value outside is an *InvalidError.
const (
	MaxLimit   = 1 << 30  // limits, weights, queue limits, rates and costs
	NoLimit    = MaxLimit // the limit of a semaphore that only a [Rate] limits
	MinTTL     = 10 * time.Millisecond
	MaxTTL     = 30 * 24 * time.Hour // TTL, MaxHold, the window of a Rate, HeadStart
	DefaultTTL = 30 * time.Second
	MaxName    = 512 // bytes
	MaxLabel   = 256 // bytes
	MaxTenant  = 64  // characters
	MaxShare   = 100
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

// ClientOption configures [New].
type ClientOption func(*clientConfig)

type clientConfig struct {
	prefix string
	logger *slog.Logger
	hooks  hooks
}

// Prefix sets what all keys and channels begin with, and so what is shared: 1 to 64 bytes of
// letters, digits and "._:-"; the default is "berth".
func Prefix(prefix string) ClientOption {
	return func(c *clientConfig) { c.prefix = prefix }
}

// Logger sets the log for what berth can report to no caller, such as a failed renewal; by default
// slog.Default(). Its handler may block.
func Logger(l *slog.Logger) ClientOption {
	return func(c *clientConfig) { c.logger = l }
}

// Hook adds callbacks for telemetry; all given are called, in order.
func Hook(h Hooks) ClientOption {
	return func(c *clientConfig) { c.hooks = append(c.hooks, h) }
}

type (
	// AcquireOption configures one request: Acquire, TryAcquire or Do.
	AcquireOption interface{ acquire(c *config) }
	// Option configures all leases of a [Semaphore], or one request.
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
	failEarly  bool
	noRenewal  bool
	replicas   int
	onQueued   []func(Place)
	rates      []protocol.Rate
	costs      []protocol.Cost // in a unit without one it is the weight
	fresh      fresh
	level      int
	tenant     string // "": none
	named      bool   // a tenant was given
	share      int
	watch      *watch // nil: the request is enforced, and not observed
	program    protocol.Program
}

// fresh is what one set of options has said anew: its first rate takes the place of all that an
// earlier set has said, and so does its first cost.
type fresh struct{ rates, costs bool }

var defaults = config{ttl: DefaultTTL, weight: 1, share: 1, queueLimit: MaxLimit, label: program()}

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
// holder crashes: whole milliseconds from [MinTTL] to [MaxTTL]; the default is [DefaultTTL], or for
// an adopted lease the TTL that it had. berth renews every third of it. It does not bound the wait.
func TTL(d time.Duration) Option { return renewalOption(func(c *config) { c.ttl = d }) }

// Weight sets how many permits the lease takes; the default is 1.
func Weight(n int) Option { return leaseOption(func(c *config) { c.weight = n }) }

// Rate adds a rate to the limit: in any window of length per, by the server's clock, the total cost
// granted is at most n. What counts is the grant: a release or a crash gives nothing back, but
// [Lease.Settle] corrects what it cost. A renewal, Detach and Adopt are no grants.
//
// A semaphore has up to 4 rates, no two with the same unit and window. A request is granted when
// there are permits for its weight and each rate has room for its [Cost], at most a hundredth of
// that rate's per later, and until then nobody overtakes it. All rates are charged in that step.
//
// n is 1 to MaxLimit, per whole milliseconds from MinTTL to MaxTTL. The rates given together
// replace those of an earlier declaration, whose grants count for at most one new window; Rate(0,
// 0), the default, leaves those in force.
func Rate(n int, per time.Duration) RateOption { return RateOption{protocol.Rate{N: n, Per: per}} }

// RateOption is an [Option] that declares a rate: see [Rate].
type RateOption struct{ rate protocol.Rate }

// Of returns the same rate for another unit than calls, such as "tokens": a lower-case word of at
// most 16 letters, digits, "_" and "-", but not "none".
func (o RateOption) Of(unit string) RateOption { o.rate.Unit = unit; return o }

// Burst returns the rate as a bucket of b, 1 to MaxLimit, refilled at n in per: in any time t the
// costs granted sum to at most b + n·t/per.
func (o RateOption) Burst(b int) RateOption {
	o.rate.Burst = cmp.Or(b, -1)
	return o
}

func (o RateOption) acquire(c *config) { o.semaphore(c) }
func (o RateOption) semaphore(c *config) {
	if !c.fresh.rates {
		c.rates, c.fresh.rates = nil, true
	}
	if o.rate != (protocol.Rate{}) {
		c.rates = append(slices.Clip(c.rates), o.rate)
	}
}

// Cost sets what the lease costs of the semaphore's rates of calls or, with [CostOption.Of], of
// another unit, such as tokens: 0 (only with a unit) to MaxLimit; the default is its weight.
// Without such a rate it has no effect. One above a rate in force, or its burst, is refused
// ([ErrTooHeavy]).
func Cost(n int) CostOption { return CostOption{protocol.Cost{N: n}} }

// CostOption is an [Option] that says what a lease costs: see [Cost].
type CostOption struct{ cost protocol.Cost }

// Of returns the same cost in another unit: see [RateOption.Of].
func (o CostOption) Of(unit string) CostOption { o.cost.Unit = unit; return o }

func (o CostOption) acquire(c *config) { o.semaphore(c) }
func (o CostOption) semaphore(c *config) {
	if !c.fresh.costs {
		c.costs, c.fresh.costs = nil, true
	}
	c.costs = append(slices.Clip(c.costs), o.cost)
}

// Tenant says for whom the request is made: 1 to MaxTenant characters without spaces and control
// characters. Operators see it.
//
// Where there is a queue, the requests of each tenant stand in a line, first come, first served,
// and the lines take turns, so that all tenants that wait get as much (of the limit or of a rate,
// whichever a request takes more of). Requests without a tenant are one line. Nothing is idle
// because of it, and what a tenant was granted while nobody else waited does not count.
func Tenant(key string) Option {
	return leaseOption(func(c *config) { c.tenant, c.named = key, true })
}

// Share gives the [Tenant] of the request n times as much as one with a share of 1, the default,
// while both have requests waiting: up to MaxShare. The share of the request that is granted
// counts.
func Share(n int) Option { return leaseOption(func(c *config) { c.share = n }) }

// Level sets the semaphore's place in [AcquireAll], 0, the default, to 1000: lower levels are
// acquired first. Give narrow limits, such as a tenant's, a lower level than wide ones, and a name
// one level in all programs, or they can deadlock; berth warns of it.
func Level(n int) Option { return leaseOption(func(c *config) { c.level = n }) }

// Label sets a text that operators see with the lease, such as a job's name, at most MaxLabel bytes
// of UTF-8; the default is the program's name.
func Label(s string) Option { return leaseOption(func(c *config) { c.label = s }) }

// HeadStart queues the request as if it had been made d earlier: 0, the default, to MaxTTL. Of its
// tenant's requests those made earlier than that stay ahead, so it starves none.
func HeadStart(d time.Duration) AcquireOption {
	return requestOption(func(c *config) { c.headStart = d })
}

// MaxHold bounds how long renewal can keep the lease, [MinTTL] to [MaxTTL]; by default no bound
// (0).
func MaxHold(d time.Duration) Option { return leaseOption(func(c *config) { c.maxHold = d }) }

// QueueLimit refuses to wait ([ErrQueueFull]) when n others do, or its [Tenant]'s part of n; 0 never
// waits. By default there is no bound.
func QueueLimit(n int) Option { return leaseOption(func(c *config) { c.queueLimit = n }) }

// FailEarly refuses a request at once ([ErrBusy], a [*BusyError]) if a [Rate], or a pause that
// ends, keeps it out until after its context's deadline, so that it holds up nobody behind it.
// While it waits, which takes a second call, it is refused within a heartbeat interval when a pause
// now ends after the deadline, or nothing comes back before that of a rate that those in front have
// spent. Where no time is known, it waits: for permits, and in a pause without an end. A
// [Lease.Settle] for less may make room sooner.
func FailEarly() Option { return leaseOption(func(c *config) { c.failEarly = true }) }

// WithoutRenewal leaves renewing, within the TTL, to [Lease.Renew].
func WithoutRenewal() Option { return renewalOption(func(c *config) { c.noRenewal = true }) }

// MinReplicas accepts the grant, and each renewal, only when n replicas have confirmed it; the
// default is 0. A grant that too few confirm within half a second is given back
// ([*NotReplicatedError]); such a renewal leaves the trust deadline as it was. A failover that
// forgets the lease becomes less likely, but only fencing closes that gap. Each grant costs two
// more round trips.
func MinReplicas(n int) Option { return renewalOption(func(c *config) { c.replicas = n }) }

// OnQueued adds a function that is called, in the goroutine of Acquire, when the request starts to
// wait and when its place has changed. While it blocks, the request keeps its place or its permit,
// until ctx ends.
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
	c.fresh = fresh{}
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
	return c, err
}

// terms are the config in the protocol's words.
func (c *config) terms(limit int, wait bool) *protocol.Terms {
	rates, _ := protocol.JoinRates(c.rates...) // both were validated
	costs, _ := protocol.JoinCosts(c.costs...)
	return &protocol.Terms{
		Wait: wait && c.queueLimit > 0, Weight: c.weight, TTL: c.ttl, Heartbeat: min(c.ttl, mostHeartbeat),
		HeadStart: c.headStart, QueueLimit: c.queueLimit, MaxHold: c.maxHold, Limit: limit, Label: c.label,
		MinReplicas: c.replicas, FailEarly: c.failEarly, Rates: rates, Costs: costs,
		Tenant: c.tenant, Share: c.share, For: c.program,
	}
}

func (c *config) validate() error {
	var tenant error
	if c.named {
		tenant = invalid("Tenant", rules.Key(c.tenant, MaxTenant))
	}
	return cmp.Or(
		within("TTL", c.ttl, MinTTL, MaxTTL),
		within("weight", c.weight, 1, MaxLimit),
		within("HeadStart", c.headStart, 0, MaxTTL),
		within("MaxHold", cmp.Or(c.maxHold, MinTTL), MinTTL, MaxTTL), // 0: no bound
		within("QueueLimit", c.queueLimit, 0, MaxLimit),
		c.validateRates(),
		c.validateCosts(),
		tenant,
		within("Share", c.share, 1, MaxShare),
		within("Level", c.level, 0, mostLevel),
		within("MinReplicas", c.replicas, 0, mostReplicas),
		invalid("label", rules.Text(c.label, MaxLabel)),
	)
}

// validateRates also cuts their windows to whole milliseconds.
func (c *config) validateRates() error {
	c.rates = slices.Clone(c.rates)
	for i := range c.rates {
		r := &c.rates[i]
		if err := cmp.Or(within("Rate", r.N, 1, MaxLimit), within("Rate", r.Per, MinTTL, MaxTTL)); err != nil {
			return err
		}
		if r.Burst != 0 {
			if err := within("Burst", r.Burst, 1, MaxLimit); err != nil {
				return err
			}
		}
		r.Per = r.Per.Truncate(time.Millisecond)
	}
	if _, err := protocol.JoinRates(c.rates...); err != nil {
		return &InvalidError{"Rate", err.Error()}
	}
	return nil
}

func (c *config) validateCosts() error {
	for _, cost := range c.costs {
		least := 0
		if cost.Unit == "" {
			least = 1
		}
		if err := within("Cost", cost.N, least, MaxLimit); err != nil {
			return err
		}
	}
	if _, err := protocol.JoinCosts(c.costs...); err != nil {
		return &InvalidError{"Cost", err.Error()}
	}
	return nil
}

// within is the error for an argument that is below least or above most.
func within[T int | time.Duration](what string, v, least, most T) error {
	if v < least || v > most {
		return &InvalidError{what, fmt.Sprintf("%v is outside %v to %v", v, least, most)}
	}
	return nil
}
