// Package peer has the contestants: berth, other software that limits concurrency on
// Redis, and the floors, which are lower bounds: the least that a client and Redis have
// to do.
//
// Each is used through its public API with its default options, which About states. All
// go-redis clients have the same options.
package peer

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth/dev/bench/internal/redisd"
	"github.com/berth-go/berth/internal/judge"
)

// Kind is what a contestant is.
type Kind string

// The kinds.
const (
	Semaphore Kind = "semaphore"
	Lock      Kind = "lock"  // one holder at a time; where a scenario has room for all, each goroutine uses its own name
	Rate      Kind = "rate"  // limits how often, not how many at once
	Floor     Kind = "floor" // limits nothing, or not safely
)

// Peer is one contestant.
type Peer struct {
	Key, Title string
	About      string // its options, and what else is worth knowing
	Kind       Kind
	// Queues says that its Acquire waits for a permit that is taken.
	Queues bool
	// Poll is the longest pause of a refused client before it tries again; 0: clients
	// do not poll.
	Poll time.Duration
	// Sent lists the commands that its clients send, in lower case; scripts call all
	// other commands that the server counts. It is empty if there are no scripts.
	Sent []string
	// Connect makes one client, with its own connections, whose keys begin with the
	// prefix. It is nil for contestants with their own Driver.
	Connect func(url, prefix string) (*Client, error)
	// Open returns the Driver of a contestant without Connect.
	Open func(ctx context.Context, url, prefix string, s Shape) (Driver, error)
}

// Client is one client of a contestant.
type Client struct {
	// Semaphore returns the Acquire of the named semaphore, which has the limit and the rate of the
	// shape. A Lock has neither.
	Semaphore func(name string, s Shape) (Acquire, error)
	Close     func()
}

// semaphores is Client.Semaphore for a key.
type semaphores func(key string, s Shape) (Acquire, error)

// onGoRedis returns the Connect of a contestant on go-redis, whose clients open prepares.
func onGoRedis(open func(*redis.Client) (semaphores, error)) func(url, prefix string) (*Client, error) {
	return func(url, prefix string) (*Client, error) {
		rdb := redisd.Client(url)
		semaphore, err := open(rdb)
		if err != nil {
			_ = rdb.Close()
			return nil, err
		}
		return &Client{
			Close:     func() { _ = rdb.Close() },
			Semaphore: func(name string, s Shape) (Acquire, error) { return semaphore(prefix+name, s) },
		}, nil
	}
}

// Acquire acquires a permit and returns its Release. It waits until it has one or ctx
// ends, whose error it returns.
type Acquire func(ctx context.Context) (Release, error)

// Release releases a permit.
type Release func() error

// Shape says how many clients and workers use which semaphores.
type Shape struct {
	Name    string // prefix of the names of the semaphores
	Clients int    // each with its own connections
	Workers int    // goroutines, spread evenly over the clients
	Limit   int
	Each    bool // every worker uses its own semaphore
	Rate    int  // grants in a second; 0: as many as there are
	Ask     int  // the Rate is one of tokens, of which each grant asks for so many and uses one
	Settle  bool // and says so
	// Granted is called for each grant of a Rate, by several workers at once.
	Granted func(Grant) `json:"-"`
}

// Grant is when something was let through: not before From and not after To, by one clock of the
// contestant's choice.
type Grant struct{ From, To time.Duration }

// Load is work for a while.
type Load struct {
	For   time.Duration // no acquire begins after this time
	Hold  time.Duration // for which each permit is held; 0: it is released at once
	Times bool          // record when each permit was requested, granted and released
	// GoTimers measures Hold with Go's timers, which are late, instead of the kernel's.
	GoTimers bool
	Count    *Count `json:"-"` // of the holders, if it is not nil; of a contestant in Go
}

// Count counts the holders of all loads that share it, where so many permits change hands that
// Times would not fit into memory.
type Count struct{ held, most atomic.Int64 }

// Take counts a holder that was told it has a permit.
func (c *Count) Take() {
	now := c.held.Add(1)
	for most := c.most.Load(); now > most && !c.most.CompareAndSwap(most, now); most = c.most.Load() {
	}
}

// Give uncounts a holder that is about to release its permit.
func (c *Count) Give() { c.held.Add(-1) }

// Most returns the largest number of holders at one time.
func (c *Count) Most() int64 { return c.most.Load() }

// Outcome is the result of a Load.
type Outcome struct {
	Pairs   int             // acquires with their releases
	Took    time.Duration   // until the last pair
	Each    []int           // pairs of each worker
	Beliefs []judge.Request // with Load.Times
}

// PerSecond returns the pairs per second.
func (o *Outcome) PerSecond() float64 { return float64(o.Pairs) / o.Took.Seconds() }

// Driver drives a contestant in one Shape.
type Driver interface {
	// Spin makes every worker acquire and release, again and again.
	Spin(ctx context.Context, l Load) (*Outcome, error)
	// Pass hands the only permit back and forth between two clients n times, or until
	// most has passed. It returns how long each hand-off took, from the call of release
	// to the return of the waiter's acquire. Before each release it pauses, so that
	// nothing else happens at the time, plus a random part of the contestant's poll, so
	// that releases do not coincide with polls.
	Pass(ctx context.Context, n int, pause time.Duration, most time.Duration) ([]time.Duration, error)
	// Close closes the connections.
	Close()
}

// All returns every contestant, berth first, the floors last.
func All() []*Peer {
	return slices.Concat([]*Peer{Berth()}, locks(), []*Peer{NPM()}, raters(), floors())
}

// Missing returns why a contestant cannot take part, or "" if it can.
func (p *Peer) Missing() string {
	switch p.Key {
	case "npm":
		return npmMissing("redis-semaphore")
	case "bottleneck":
		return npmMissing("bottleneck")
	}
	return ""
}

// Drive opens a contestant in a shape. When it returns, every client has used each of
// its semaphores once: connections are made and scripts are loaded.
func (p *Peer) Drive(ctx context.Context, url, prefix string, s Shape) (Driver, error) {
	if p.Kind == Lock || p.Key == setDelKey || p.Key == setDelAutoKey {
		s.Each = s.Each || s.Limit > 1
	}
	if p.Open != nil {
		return p.Open(ctx, url, prefix, s)
	}
	return open(ctx, p, url, prefix, s)
}
