// Package clock measures time for promises about leases: monotonic, and, where
// the system can tell, counting the time that the machine was suspended. Go's
// own monotonic clock stands still then, and a lease would seem valid for as
// long as the machine slept.
package clock

import (
	"sync/atomic"
	"time"
)

// Instant is a point in time. The zero Instant is before every other one.
type Instant time.Duration

// Never is later than every other Instant.
const Never Instant = 1<<63 - 1

// epoch is the Instant at which the process started: far from zero, so that
// also the clock of a testing/synctest bubble, which is behind, stays above it.
const epoch = 100 * 365 * 24 * time.Hour

var (
	start = time.Now()
	base  atomic.Int64 // suspension until start
	slept atomic.Int64 // suspension since start, as last seen by Exact
	ahead atomic.Int64 // by how much the wall clock was ahead of the monotonic one then
)

func init() { base.Store(int64(suspended())) }

// Now returns the present instant. It may miss a suspension that Exact has not
// seen yet, and is then early; that is safe for the moment at which a request
// is sent and for timers, not for the question whether a lease still lasts.
// In a testing/synctest bubble it follows the bubble's clock.
func Now() Instant {
	return Instant(epoch + time.Since(start) + time.Duration(slept.Load()))
}

// Exact returns the present instant, any suspension included. The wall clock goes
// on during a suspension and the monotonic one does not; so only where the distance
// between the two has changed is the system asked, which costs two system calls. (A
// suspension is overlooked if somebody sets the wall clock back by as much, to the
// millisecond, before the next look.)
func Exact() Instant {
	now := time.Now()
	since := now.Sub(start)
	distance := now.UnixNano() - int64(since)
	if time.Duration(distance-ahead.Load()).Abs() > time.Millisecond {
		look()
		ahead.Store(distance)
	}
	return Instant(epoch + since + time.Duration(slept.Load()))
}

// look asks how long the machine has been suspended.
func look() {
	// Less than the uncertainty of reading two clocks is no suspension.
	least := max(time.Duration(slept.Load()), 5*time.Millisecond)
	base := time.Duration(base.Load())
	if suspendedAtMost()-base > least {
		if d := suspended() - base; d > least {
			slept.Store(int64(d))
		}
	}
}

// Suspend has this process believe that the machine was suspended for d, just now. It
// is for tests, which cannot suspend the machine.
func Suspend(d time.Duration) {
	base.Add(-int64(d))
	ahead.Add(int64(d)) // the wall clock went on
}

// Add returns the instant d later.
func (i Instant) Add(d time.Duration) Instant { return i + Instant(d) }

// Sub returns how much later i is than j.
func (i Instant) Sub(j Instant) time.Duration { return time.Duration(i - j) }

// Time returns the instant on the wall clock as it is set now. A deadline comes out early if the
// process stands still between the two looks, and not late after a suspension.
func (i Instant) Time() time.Time { return time.Now().Add(i.Sub(Exact())) }
