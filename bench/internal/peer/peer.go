// Package peer has the contestants: berth, what else there is to limit
// concurrency on Redis, and the floors, which are the least that Redis and a
// client could do.
//
// Each is used through its public API with its default options; About states
// them. A go-redis client has the same options whomever it serves.
package peer

import (
	"context"
	"slices"
	"time"

	"github.com/berth-go/berth/internal/judge"
)

// Kind is what a contestant is.
type Kind string

// The kinds.
const (
	Semaphore Kind = "semaphore"
	Lock      Kind = "lock"  // one holder at a time; where a scenario has room for all, each goroutine has a name of its own
	Floor     Kind = "floor" // does not limit anything, or not safely
)

// Peer is one contestant.
type Peer struct {
	Key, Title string
	About      string // its options, and what else is worth knowing
	Kind       Kind
	// Queues: it can be asked for a permit that is taken, and waits for it.
	Queues bool
	// Poll is how long a refused client pauses at the most before it asks again;
	// 0: it is told.
	Poll time.Duration
	// Sent are the commands that its clients send, in lower case: what else the
	// server counts is called by its scripts. None: they have no scripts.
	Sent []string
	// Connect makes one client, with connections of its own, whose keys begin
	// with the prefix. It is nil for those with a Driver of their own.
	Connect func(url, prefix string) (*Client, error)
	// Open is for those that are not driven by Connect.
	Open func(ctx context.Context, url, prefix string, s Shape) (Driver, error)
}

// Client is one client of a contestant.
type Client struct {
	// Semaphore returns how to acquire the named one. A Lock ignores the limit.
	Semaphore func(name string, limit int) (Acquire, error)
	Close     func()
}

// Acquire takes a permit and returns how to give it back. If it is taken, it
// waits as long as ctx lasts and returns ctx's error then.
type Acquire func(ctx context.Context) (Release, error)

// Release gives a permit back.
type Release func() error

// Shape is who uses what.
type Shape struct {
	Name    string // begins the names of the semaphores
	Clients int    // with connections of their own
	Workers int    // goroutines, spread evenly over the clients
	Limit   int
	Each    bool // every worker uses a semaphore of its own
}

// Load is one stretch of work.
type Load struct {
	For   time.Duration // no acquire begins after it
	Hold  time.Duration // of each permit; 0: released at once
	Times bool          // note when each permit was asked for, had and given back
	// GoTimers: permits are held by Go's timers, which are late, and not by the kernel's.
	GoTimers bool
}

// Outcome is what came of it.
type Outcome struct {
	Pairs   int             // acquires with their releases
	Took    time.Duration   // until the last of them
	Each    []int           // pairs of each worker
	Beliefs []judge.Request // with Load.Times
}

// PerSecond returns the pairs per second.
func (o *Outcome) PerSecond() float64 { return float64(o.Pairs) / o.Took.Seconds() }

// Driver has a contestant work, in one Shape.
type Driver interface {
	// Spin has every worker acquire and release, again and again.
	Spin(ctx context.Context, l Load) (*Outcome, error)
	// Pass hands the one permit to and fro between two clients, of which the
	// first in line waits, and returns how long that took: from the call of
	// release to the return of the waiter's acquire. Before each release it
	// pauses, so that the round trip comes alone, plus a random part of the
	// contestant's poll: nobody's release falls in with others' polls.
	Pass(ctx context.Context, n int, pause time.Duration, most time.Duration) ([]time.Duration, error)
	// Close closes the connections.
	Close()
}

// All returns every contestant, berth first, the floors last.
func All() []*Peer {
	return slices.Concat([]*Peer{Berth()}, locks(), chapter(), []*Peer{NPM()}, floors())
}

// Missing returns why a contestant cannot take part, "" if it can.
func (p *Peer) Missing() string {
	if p.Key == "npm" {
		return npmMissing()
	}
	return ""
}

// Drive opens a contestant in a shape. Every semaphore has been used once when
// it returns, by every client: connections are made and scripts are loaded.
func (p *Peer) Drive(ctx context.Context, url, prefix string, s Shape) (Driver, error) {
	if p.Kind == Lock || p.Key == setDelKey || p.Key == setDelAutoKey {
		s.Each = s.Each || s.Limit > 1
	}
	if p.Open != nil {
		return p.Open(ctx, url, prefix, s)
	}
	return open(ctx, p, url, prefix, s)
}
