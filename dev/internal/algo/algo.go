// Package algo has the semaphores that lab and bench compare, behind one interface: those of
// Redis in Action, section 6.3 (called the chapter here), through package classic, and
// berth's own.
package algo

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth/classic"
)

// Setup configures one client of a semaphore.
type Setup struct {
	Redis   redis.UniversalClient `json:"-"` // each process has its own
	Prefix  string                // of every key
	Name    string                // of the semaphore
	Limit   int
	Timeout time.Duration // after which a permit that is not renewed is lost
	// ClockOff is the error of the client's clock, below zero if it is slow.
	ClockOff time.Duration
}

// Client is one client of a semaphore.
type Client interface {
	// Acquire asks for a permit. If ok is false and err is nil, it was refused, and
	// the caller may try again. An algorithm with a queue calls queued when the
	// request is in the queue, and waits until it has a permit or ctx ends, whose
	// error it returns.
	Acquire(ctx context.Context, queued func()) (p *Permit, ok bool, err error)
	// Close releases what the client still has.
	Close()
}

// Permit is a permit that a client believes to hold.
type Permit struct {
	// Release releases it and reports whether it was held until then, as far as the
	// algorithm knows.
	Release func(ctx context.Context) (held bool, err error)
	// Check reports, before the holder acts, whether the permit is still held. It
	// returns true for algorithms that cannot tell.
	Check func(ctx context.Context) bool
	// Lost is closed when the client is told that the permit is lost. It is nil for
	// algorithms that do not report a loss.
	Lost <-chan struct{}
	// Until returns the time after which the holder knows by itself that the permit
	// may be lost, or the zero time if it does not know.
	Until func() time.Time
	// Token numbers the grants of the semaphore in the server's order. It is larger
	// than any number of nanoseconds since the run began, and 0 for algorithms without
	// such a number.
	Token int64
}

// Algorithm is one of the semaphores.
type Algorithm struct {
	Key   string // for the command line and for machines
	Title string
	// Open makes a client, which sends nothing yet.
	Open func(Setup) (Client, error)
	// Fill makes n other holders, as fast as it can, and returns a function that ends
	// them. Those of the chapter last for longer if their clocks are ahead.
	Fill func(ctx context.Context, s Setup, n int) (done func(), err error)
	// Replies is the number of replies that the client has received in the middle of an
	// acquire: Redis has executed a part of it, but the client has no permit yet.
	Replies int
	Queues  bool // requests wait in a queue; clients of the others poll
}

// All returns the algorithms in the order of the chapter, berth last.
func All() []Algorithm { return append(Chapter(), Berth()) }

// Chapter returns those of the chapter.
func Chapter() []Algorithm {
	return []Algorithm{
		{Key: "basic", Title: "basic", Open: opener(classic.NewBasic), Fill: fillBasic, Replies: 1},
		{Key: "fair", Title: "fair", Open: opener(classic.NewFair), Fill: fillFair, Replies: 1},
		// The lock's own reply comes first.
		{Key: "underlock", Title: "fair under lock", Open: opener(classic.NewFairUnderLock), Fill: fillFair, Replies: 2},
	}
}

// Berth returns berth.
func Berth() Algorithm {
	return Algorithm{Key: "berth", Title: "berth", Open: openBerth, Fill: fillBerth, Replies: 1, Queues: true}
}

// Keys returns every key that any of the algorithms may make for a semaphore.
func Keys(prefix, name string) []string {
	base := key(prefix, name)
	return []string{base, base + ":owner", base + ":counter", base + ":order", "lock:" + base}
}

// key returns the semaphore's main key. Its hash tag puts all keys of a semaphore on one
// node of a Redis Cluster; berth names its keys in the same way.
func key(prefix, name string) string { return prefix + ":{" + name + "}" }
