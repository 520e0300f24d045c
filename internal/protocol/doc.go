// Package protocol is the state machine of a semaphore: the Lua that runs it
// inside Redis, and the only Go code that knows its keys, operations and replies.
//
// # Who is right
//
// The server's state is the truth, and the server's clock is the only clock.
// A client sends durations and never a wall-clock time; one number in a request
// looks like a time, the latest server time at which the request may still be
// executed, and that one is made of the server's own clock as last seen in a
// reply plus what a local monotonic clock has measured since. Messages are
// hints: every one may be lost, late or doubled, and nothing but speed depends
// on them.
//
// # One step
//
// Every change is one call of the script in transition/, which does four things
// (its parts are ways through it: folded.lua, crowd.lua and short.lua do the
// common cases as general.lua and operations.lua would, sooner):
//
//  1. read the server's time, once, in milliseconds; refuse if the call is late
//  2. reap: leases, waiters and tombstones whose deadline is not after now
//  3. apply the operations given, in order
//  4. pump: while the head of the queue fits and nothing is paused, grant it,
//     and publish that to its process; a head heavier than the limit is removed
//     and told so
//
// Everything is computed first and written last, removals before additions, so
// an error leaves nothing half done and a server that is out of memory refuses
// acquires but lets releases, renewals and heartbeats pass. Two things are written
// before all is known. A folded semaphore (see What is stored) is unfolded, which
// changes its layout and no more. It begins with a removal, of nobody, so it passes,
// and with it what the call writes then: a server that is out of memory may let the
// newcomers of one call into a folded semaphore. And short.lua adds to the sorted
// set first, to learn whether all is new; if not, it takes away again what it added.
//
// # States of an id
//
// The client chooses the id of a lease: 128 random bits of its process and a
// counter. An id never means two requests.
//
//	                acquire, room
//	   +----------------------------------+
//	   |  acquire, no room       pump     v
//	absent ------------> waiter ------> holder --+ renew: deadline = now + TTL,
//	   ^                   |              |    ^-+ at most grant + MaxHold
//	   |      cancel, evict, deadline     | release, evict, deadline
//	   |                   v              v
//	   +---- deadline --- tombstone (only while a copy of the acquire may be on its way)
//
// Every operation is idempotent on the id. Acquiring an id that holds returns
// its grant and what is left of its lease, not a new TTL; one that waits returns
// its place and counts as a heartbeat; one with a tombstone is refused.
// Cancelling an id that was granted meanwhile releases it. Renewing never
// creates anything.
//
// A waiter's deadline is its heartbeat TTL after it was last heard of. A
// hand-off leaves that deadline as it is: it becomes the lease's. So a waiter
// that died in the queue costs those behind it no more than the rest of its
// heartbeat TTL, all dead waiters together, whether it is granted meanwhile or
// not; and a hand-off writes one field less.
//
// # Trust
//
// A holder may rely on its lease until
//
//	trusted until = request sent + lease remaining - margin
//
// where the request is the one whose reply told of the lease (acquire or renew)
// and the instant is local and monotonic. The server counts from when it
// executed the request, which is later. The margin covers the millisecond in
// which the server counts and clocks that run apart by up to a hundredth.
// Granted by message, there is no such request; but the grant came after the
// waiter's last acknowledged heartbeat was sent, and kept its deadline:
//
//	trusted until = heartbeat sent + min(heartbeat TTL, MaxHold) - margin
//
// # Numbers
//
// A ticket (place in the queue) and a token (number of a grant) come from one
// sequence: max(last + 1, now in microseconds). It needs no counter that lives
// for ever: keys that were deleted at time t are followed by tokens above t, and
// keys are only deleted while the clock is past the last token. It stays below
// 2^53, where Lua's doubles are exact, until the year 2255. A waiter's score is
// its ticket minus its head start, so a head start moves it by exactly that time.
// Numbers are written with %.0f or, where they fit, %d: Lua's own conversion
// keeps 14 digits.
//
// A slot is the lowest number that no live lease has. There are never more
// leases than the limit at a grant, so it is below the limit. Slots in use are
// below a high-water mark; those that are free below it are in the sorted set.
//
// # What is stored
//
// Two keys, PREFIX:{NAME} and PREFIX:{NAME}:order, in one slot of a cluster.
// The hash has
//
//	settings  version limit pin(-1: none) paused changes
//	counts    used holders waiting tombstones slots last nearest expires
//	ID        h weight slot token ceiling evicting owner label   a holder
//	          w weight since maxhold owner label                 a waiter
//	          x reason                                           a tombstone
//	note      the same for whoever looks, over 64 bytes: Redis keeps a table, not a list
//
// with owner = session/pid/host, or /pid/host where the ID begins with the owner's
// session; in a cluster with ":" in front. The sorted set has three bands of scores: the
// queue below zero, free slots below 2^31, deadlines above 2^32; one variadic
// command serves all. Between the last two is a note, as long as there is the
// key: for its sake Redis keeps a skip list from the start. nearest is a lower
// bound of the deadlines: while it is ahead there is nothing to reap, and no need
// to look. expires is the keys' TTL, as a time; 0 for none. They have one only
// where the server evicts nothing, or while their loss is harmless: eviction eats
// keys with a TTL first.
//
// One lease on a semaphore that nobody else uses is folded: there is no sorted
// set, and one field with all that the others would hold,
//
//	settings  version ID last deadline expires terms
//
// where terms are the acquire's, as they came. It is unfolded before anything but
// that lease's renewal or release.
//
// # Failures
//
// Do never repeats a request by itself and keeps go-redis from doing so. Its
// errors are of three kinds:
//
//   - refused: it did not happen; asking again may help
//   - rejected: it did not happen; asking again is useless until somebody acts
//   - unknown: it may have happened, and may happen as long as Late after
//
// After an unknown outcome the caller repeats the request with the same id,
// which is harmless, or releases the id, which leaves a tombstone until no copy
// can be executed any more. See faults 1 to 3 in docs/guarantees.md.
package protocol
