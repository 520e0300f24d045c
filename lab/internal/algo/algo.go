// Package algo has the semaphores that the laboratory compares, behind one
// interface: those of Redis in Action, section 6.3 (here: the chapter), through
// package classic, and berth's own.
package algo

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"
)

// Setup is what one client of a semaphore is made of.
type Setup struct {
	Redis   redis.UniversalClient `json:"-"` // each process has its own
	Prefix  string                // of every key
	Name    string                // of the semaphore
	Limit   int
	Timeout time.Duration // after which a permit is lost that nobody keeps alive
	// ClockOff is by how much the client's machine is off, below zero if slow.
	ClockOff time.Duration
}

// Client is one client of a semaphore.
type Client interface {
	// Acquire asks for a permit. Without ok and err it was refused, and the
	// caller may come again; an algorithm with a queue calls queued when the
	// request is in it, waits until ctx ends, and returns that as err.
	Acquire(ctx context.Context, queued func()) (p *Permit, ok bool, err error)
	// Close gives up whatever is left.
	Close()
}

// Permit is what a client believes to have.
type Permit struct {
	// Release gives it back and tells whether it was held until then, as far as
	// the algorithm knows.
	Release func(ctx context.Context) (held bool, err error)
	// Check asks, just before an act, whether it is still held. An algorithm
	// that cannot be asked says yes.
	Check func(ctx context.Context) bool
	// Lost is closed when the client is told that the permit is lost. It is nil
	// for algorithms that tell nobody.
	Lost <-chan struct{}
	// Until returns the moment after which the holder knows by itself that the
	// permit may be gone; the zero time if it knows of none.
	Until func() time.Time
	// Token numbers the grants of the semaphore in the server's order, far above
	// any number of nanoseconds since the run began. It is 0 for algorithms that
	// have no such number.
	Token int64
}

// Algorithm is one of the semaphores.
type Algorithm struct {
	Key   string // for the command line and for machines
	Title string
	// Open makes a client. Nothing is sent yet.
	Open func(Setup) (Client, error)
	// Fill has n permits held at once, as fast as it can, and returns what ends
	// their holders.
	Fill func(ctx context.Context, s Setup, n int) (done func(), err error)
	// Replies is how many replies the client has got when it is in the middle of
	// an acquire: Redis has taken note of it, it does not have the permit yet.
	Replies int
	Queues  bool // it waits in a queue of its own; the others come again and again
}

// All returns the algorithms in the order in which the chapter has them, berth
// last.
func All() []Algorithm {
	return []Algorithm{
		{Key: "basic", Title: "basic", Open: openBasic, Fill: fillBasic, Replies: 1},
		{Key: "fair", Title: "fair", Open: openFair, Fill: fillFair, Replies: 1},
		// The lock's own reply comes first.
		{Key: "underlock", Title: "fair under lock", Open: openUnderLock, Fill: fillFair, Replies: 2},
		{Key: "berth", Title: "berth", Open: openBerth, Fill: fillBerth, Replies: 1, Queues: true},
	}
}

// Keys returns every key that any of the algorithms may make for a semaphore.
func Keys(prefix, name string) []string {
	base := key(prefix, name)
	return []string{base, base + ":owner", base + ":counter", base + ":order", "lock:" + base}
}

// key is the semaphore's own key. With the hash tag all keys of a semaphore are
// on one node of a Redis Cluster; berth names its keys in the same way.
func key(prefix, name string) string { return prefix + ":{" + name + "}" }
