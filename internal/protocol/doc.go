// Package protocol is the state machine of a semaphore: the Lua script that runs
// inside Redis, and the only Go code that knows its keys, operations and replies.
// The header of transition.lua specifies what is sent, stored and answered. This
// comment gives the reasons.
//
// # Who is right
//
// The server's state is the truth, and the server's clock is the only clock. A
// client sends durations and never a wall-clock time. One number in a request is
// a time, the latest server time at which the request may run. It is made of the
// server's own clock, as last seen in a reply, and of what a local monotonic clock
// has measured since. Messages are hints: each may be lost, late or doubled, and
// nothing but speed depends on them.
//
// # One step
//
// Every change is one call of the script. It
//
//  1. reads the server's time, once, and refuses if the call is late
//  2. takes out leases, waiters and tombstones whose deadline is not after now
//  3. applies all operations but acquires, in order
//  4. hands permits to the head of the queue while it fits and nothing is paused;
//     a head that is heavier than the limit is removed and told so
//  5. applies the acquires, in order
//
// It computes all this first and writes at the end, so an error leaves nothing half
// done, as long as the user has all rights (docs/decisions/0012 tells of others). Each
// step is bounded: what is left over is reported by Reply.More, and the next call goes
// on with it.
//
// There are two tiers. A lease of weight 1 without MaxHold that is alone on its
// semaphore is compact: one field of one key, which its acquire, its renewals and
// its release read and write, and nothing else. Any other operation unfolds it
// first, into what the second tier works on. That changes the layout and no more.
//
// # States of an id
//
// The client chooses the id of a lease, which begins with the channel of its
// process and is random enough that nobody guesses it. An id never means two
// requests.
//
//	                acquire, room
//	   +------------------------------------+
//	   |  acquire, no room      hand-off    v
//	absent ------------> waiter -------> holder --+ renew: deadline = now + TTL,
//	   ^                   |              | |   ^-+ at most grant + MaxHold
//	   |        cancel,    |    release,  | | move: the lease, with slot and weight, goes
//	   |        evict,     |    evict,    | | to another id, with a new token
//	   |        deadline   v    deadline  v v
//	   +---- deadline --- tombstone (only while it has something to tell)
//
// Every operation may be repeated. Acquiring an id that holds returns its grant and
// what is left of its lease, not a new TTL; one that waits returns its place and
// counts as a heartbeat; one with a tombstone is refused. Cancelling an id that was
// granted meanwhile releases it. Renewing never creates anything.
//
// A tombstone refuses copies of an acquire that may still come, for Late after the
// acquire, or after the release of an id whose acquire had an unknown outcome. It
// tells of an eviction for a minute, and of a move.
//
// Move makes the lease that has an id the lease of another id, and the owner of that
// id its holder. The record keeps its slot, weight, label and ceiling; the token is
// above all before it, because the holder changes. Of two that move one lease the
// second is told the first, for a minute, and neither the old id nor a late copy of
// its acquire gets the lease again. A repetition is answered as the first time.
//
// A waiter's deadline is its heartbeat TTL after it was last heard of. A hand-off
// leaves that deadline as it is: it becomes the lease's. So a waiter that died in
// the queue costs those behind it no more than the rest of its heartbeat TTL, all
// dead waiters together, whether it is granted meanwhile or not.
//
// # Trust
//
// A holder may rely on its lease until
//
//	trusted until = request sent + lease remaining - margin
//
// where the request is the one whose reply told of the lease (acquire, renew or
// move) and the instant is local and monotonic. The server counts from when it
// executed the request, which is later. The margin covers the millisecond in which
// the server counts, and clocks that run apart by up to a hundredth. When a message
// tells of the grant there is no such request. But the grant came after the waiter's
// last acknowledged heartbeat was sent, and kept its deadline:
//
//	trusted until = heartbeat sent + min(heartbeat TTL, MaxHold) - margin
//
// # Numbers
//
// A ticket (place in the queue) and a token (number of a grant) come from one
// sequence: max(last + 1, now in microseconds). It needs no counter that lives for
// ever: keys are deleted only while the clock is past the last token, and so the
// tokens that come after are above it. It stays below 2^53, where Lua's doubles are
// exact, until the year 2255. A waiter's score is its ticket minus its head start,
// so a head start moves it by exactly that time. Numbers are written by %d: Lua's own
// conversion keeps 14 digits. Those that are only copied stay text.
//
// A slot is the lowest number that no live lease has. At a grant there are never
// more leases than the limit, so it is below the limit.
//
// # What is stored
//
// Two keys in one slot of a cluster, PREFIX:{NAME} and PREFIX:{NAME}:order; the header
// of transition.lua tells what is in them. In a cluster only the first is declared: while
// a slot moves, it refuses every call that declares two keys of which one is not there. So
// a compact lease and an idle semaphore work whatever their slot does, and others work
// while their two keys are on one node. Elsewhere both are declared, because some servers
// want that; so does a client of a cluster that has said so.
//
// The keys have a TTL, unless operators have pinned or paused the semaphore. Another
// exception are servers with a volatile-* policy, which evict keys with a TTL first: there
// they have one only while nobody holds or waits.
//
// Content that berth did not write is refused with ErrCorrupt, as far as it is
// noticed: limits_test tells what is checked, and what is believed.
//
// # Halves
//
// Eviction, or a careless DEL, may take one of the two keys. The number of members of
// the sorted set, which each call compares with what the hash says, shows it at once.
// What is left tells until when leases may live: the sorted set by its last deadline,
// the hash by State.Till. Until then every call is refused with ErrCorrupt, and
// Failure.Heals tells for how long. After that the rest is removed, except what
// operators have set, and life goes on. So there are never more leases than the limit.
// The loss of both keys, or of the only key of a compact lease, leaves nothing to see.
//
// # A server without memory
//
// Redis refuses a script's first write if it could need memory, and none after that.
// A step that gives back or keeps what is there begins with a removal of nothing, and
// so it passes: releases, renewals, heartbeats, moves, repeated acquires, and whatever
// else is in their call. New acquires do not pass, unless their call has also taken out
// what was due, or the keys' TTL.
//
// # Failures
//
// Do never repeats a request by itself and keeps go-redis from doing so. Its errors
// are of three kinds:
//
//   - ErrRefused: it did not happen; asking again may help
//   - ErrRejected: it did not happen; asking again is useless until somebody acts, or
//     a half heals
//   - ErrUnknown: it may have happened, and may happen as long as Late after
//
// After an unknown outcome the caller repeats the request with the same id, which is
// harmless, or releases the id with a tombstone, which stays until no copy can be
// executed any more.
//
// # What a client owes
//
// The script believes its callers. Packages clock, claim, commit and session do what
// follows; a client in another language has to do it, too.
//
//   - The script is the text "local POLICY = '1' " and then transition.lua, byte for
//     byte, so that all clients share one. It is '0' where maxmemory_policy is
//     volatile-*, and as long as the policy is not known.
//   - An id is the channel of the process (8 letters and digits), a dot, and what
//     nobody guesses; it has letters, digits, dots and hyphens. A name, an owner and a
//     label have no control characters, an owner no space.
//   - A process subscribes before its first acquire: to PREFIX:inbox:CHANNEL (the
//     prefix is "berth"), or with SSUBSCRIBE to KEYS[1]:CHANNEL, and then its owner
//     begins with a colon.
//   - Its first call is empty, and tells the server's time. From then on the bound of a
//     call is the latest that the server's clock can show when the call is given up
//     (clock.Server.Latest). It is 0 where a call may come late without harm. Nobody
//     repeats an acquire later than LATE after its first attempt, unless it has waited in
//     the queue: each copy has its bound.
//   - A waiter sends a heartbeat every third of its heartbeat TTL (10 s, or the TTL if
//     that is less). A holder renews after a third of what it trusts.
//   - Who has waiters makes a call, with the bound alone, when the nearest deadline of
//     "state" has passed. Nobody else takes out what has run out: a crashed holder's
//     permit comes back by this.
//   - After status 1 it makes a call with the bound alone, at once. The operations of
//     the first were done.
//   - A release says tomb 1 while a copy of its acquire may be under way.
//   - After "gone" a waiter asks again with a new id: the old one may have a tombstone,
//     and a late message may tell of a grant that is over.
//   - After an acquire without an answer, a message that tells of its grant is a reason
//     to ask, no more: a server that has lost its data may have granted the repetition,
//     with another token.
package protocol
