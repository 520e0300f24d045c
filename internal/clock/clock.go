// Package clock measures time for leases. Its clock is monotonic and, where the system
// can tell, counts the time for which the machine was suspended. Go's own monotonic clock
// stands still then, and a lease would still seem valid after a long suspension.
package clock

import (
	"sync/atomic"
	"time"
)

// Instant is a point in time. The zero Instant is before every other one.
type Instant time.Duration

// Never is later than every other Instant.
const Never Instant = 1<<63 - 1

// epoch is the Instant at which the process started: so far from zero that the clock of a
// testing/synctest bubble, which is behind, stays above zero, too.
const epoch = 100 * 365 * 24 * time.Hour

var (
	start = time.Now()
	base  atomic.Int64 // suspension until start
	slept atomic.Int64 // suspension since start, as last seen by Exact
	ahead atomic.Int64 // by how much the wall clock was ahead of the monotonic one then
)

func init() { base.Store(int64(suspended())) }

// Now returns the present instant. It may be early by a suspension that Exact has not seen
// yet. That is safe for timers and for the time at which a request is sent, but not for
// deciding whether a lease is still valid, nor for a bound that begins now: it would be over
// at once. In a testing/synctest bubble it follows the bubble's clock.
func Now() Instant { return awake() + Instant(slept.Load()) }

// awake returns the present instant by Go's own clock.
func awake() Instant { return Instant(epoch + time.Since(start)) }

// Exact returns the present instant, including any suspension. The wall clock goes on during
// a suspension and the monotonic clock does not, so the system is asked, by two system calls,
// only if the distance between the two has changed. (A suspension is overlooked if the wall
// clock is set back by the same time, to the millisecond, before the next look.)
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

// Suspend makes this process behave as if the machine had just been suspended for d. It is
// for tests, which cannot suspend the machine.
func Suspend(d time.Duration) {
	base.Add(-int64(d))
	ahead.Add(int64(d)) // the wall clock went on
}

// Add returns the instant d later.
func (i Instant) Add(d time.Duration) Instant { return i + Instant(d) }

// Sub returns how much later i is than j.
func (i Instant) Sub(j Instant) time.Duration { return time.Duration(i - j) }

// Time returns the instant by the wall clock as it is set now. A deadline comes out early if
// the process is stopped between the readings of the two clocks, and never late.
func (i Instant) Time() time.Time { return time.Now().Add(i.Sub(Exact())) }
