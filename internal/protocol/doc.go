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
// It computes all this first and writes at the end, after it has tried on nobody each
// command that the user may lack the right to, so an error leaves nothing half done. Each
// step is bounded: what is left over is reported by Reply.More, and the next call goes on
// with it.
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
// A holder may rely on its lease until what remained of it has passed since the request
// was sent whose reply told so, by a local monotonic clock, less a margin. The server
// counts from when it executed the request, which is later. The margin, a millisecond and
// a hundredth, covers the millisecond in which the server counts, and clocks that run
// apart by up to a hundredth. When a message tells of the grant there is no such request.
// But the grant came after the waiter's last acknowledged heartbeat was sent, and kept its
// deadline: so the lease lasts for a heartbeat TTL from then, or for MaxHold if that is
// less.
//
// # Numbers
//
// A ticket (place in the queue) and a token (number of a grant) come from one
// sequence: max(last + 1, now in microseconds). It needs no counter that lives for
// ever: keys are deleted only while the clock is past the last token, and so the
// tokens that come after are above it. It stays below 2^53, where Lua's doubles are
// exact, until the year 2255. A waiter's score is its turn minus its head start, so a
// head start moves it by exactly that time. Numbers are written by %d: Lua's own
// conversion keeps 14 digits. Those that are only copied stay text.
//
// A slot is the lowest number that no live lease has. At a grant there are never
// more leases than the limit, so it is below the limit.
//
// # Rates
//
// A semaphore has up to four rates, each of a unit. The head of the queue is granted when its weight
// fits the limit and its costs fit every rate; all are charged in that step, or none. A rate is a
// window, or with Burst a bucket.
//
// A window bounds the costs of the grants in any time of its length. Each grant would have to be
// remembered for as long, so those of a hundredth of the window, the grain, are kept in one sum. It
// counts until the last grant that it can have has left the window: at most a hundredth of the window
// too long for any of them, and never too short. The sums are a row in one text, so a burst of
// declarations makes no more members than one grant. The window in force decides when a sum leaves:
// a row is kept when another window is declared for which its grain is fine enough, and not much
// finer than needed, and else is sorted into sums of the new grain. So what was granted before a
// change counts for at most one new window from its own time, or from the change where a sum of the
// old window may be as long as that, and no row has more than 400 sums.
//
// A bucket is one number, the time at which it is full again. A grant moves it by the time in which
// the bucket gets the cost back, and is made if that is not further away than an empty bucket takes.
// Times are in us, rounded up. A token bucket for all rates would save the rows, and let nearly twice
// the rate into a window.
//
// What counts is the grant, whatever becomes of the lease. A lease's record has what it was charged in
// each unit, and since when. Settle corrects that. Less is taken out of the sum of the grant's time,
// and what waits is served in the same step; more counts whole from now. So whenever something is
// granted, what counts in the window that ends then, as settled so far, is at most the rate; if nobody
// settles for more than was asked, so do the settled costs of any window. A charge that is not in the
// row any more, because it has left the window or the set of rates had none of its unit meanwhile,
// is not taken out of it: "since" of a rate is above all charges that are not in its row, so that it
// moves on where a longer window follows a shorter one, which has forgotten some. Where the row
// was sorted for another window since, a charge is in a later sum than its time says, and whole: so it is
// taken out of the first that is large enough. Is that another's, then the sum that lasts longer keeps
// what the one that ends earlier lost, so that too much is counted for a while and never too little. A bucket
// gives back no more than it would have kept, had the lease cost less from the beginning: the least
// that it lacked before any later charge.
//
// A Release of what nobody has seen, a hand-off that crossed its cancel or a lease of an AcquireAll
// that failed, settles it for nothing: nothing was called. A crash is not that: whoever crashed may
// have used what it was granted.
//
// # Who looks
//
// Redis has no timers: somebody must call when time alone lets a waiter in, because a sum has left
// the window, a pause or a MaxHold has ended, or a holder or waiter is dead. If all who wait did,
// each such moment would cost a call of every process. So one does, the head of the queue, which is
// the only one that can come to fit. After each step
//
//   - the head does not fit, or "nearest" is not after now
//   - the head knows a time that is not after "nearest"
//
// The first holds because all that ends by time has a deadline, and what a step has left over makes
// "nearest" the present. The second holds because whoever becomes the head is told in that step, in
// whatever process it is, or answered; and is told again when "nearest" comes forward. That alone
// would not do: the one that was told may leave.
//
// A waiter behind the head watches the one directly in front of it. While that one lives its place
// lasts for longer than until the next heartbeat of either. So a dead head is noticed by the second,
// and several dead ones by the first behind them, when the last of them has lost its place. When
// a waiter leaves the middle of the queue, those behind it learn of another one in front with
// their next heartbeat.
//
// # Signs of life
//
// A dead waiter that is granted costs those behind it no more than its place, because the lease ends when
// the place would have. But what it was charged counts for the rates for as long as any other grant: it
// may have been used. So where there are rates, nobody is granted of whom nothing was heard for a second.
// It is asked instead, is still the head, and takes the grant with the heartbeat that it sends then. So
// that a queue of those who live is not served one by one, a round trip each, all are asked at once that
// would be granted in this step. Half a millisecond less in the deadline of a waiter tells that it was
// asked, so that it is asked once; its heartbeat sets another deadline. Meanwhile "nearest" is the
// present: whoever calls, it is looked at.
//
// # Tenants
//
// Waiters of a tenant stand in a line, and so do those without a tenant. The lines take turns by
// start-time fair queueing (Goyal, Vin and Cheng 1996), charged at the grant: a request that leaves
// the queue has cost its tenant nothing, and one that has been granted while nobody else waited has
// moved the clock, too. A line is a record. While it has waiters its member in the sorted set has its
// place as a score, so that the next line is found without a look at all; else it has a deadline, and
// stays for as long as its place is ahead of the clock. The epoch, a number that changes when the last
// waiter with a tenant has left, tells which of them count: so no step has to forget all of them.
//
// A tenant that is new begins at "fresh", which each of them moves on by what it would be charged,
// divided by how many wait: else ever new tenants would keep those who wait from being served. Only new
// ones move it, so that a tenant that comes and leaves does not set itself back.
//
// Where nobody has a tenant the queue is as it would be without them: no line is read or written.
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
// The script believes its callers. Packages clock, claim, commit, session and inbox do
// what follows; a client in another language has to do it, too.
//
// The script. Its text is "local POLICY = '1' " and then transition.lua, byte for byte, so
// that all clients share one. It is '0' where the line maxmemory_policy of INFO memory
// begins with "volatile-" (in a Cluster: on any master), and as long as that is not known.
// It is asked for before the first acquire, whenever a subscription is new, because the server
// may be another one, and each minute while there are calls, because an operator may change it.
// When it becomes '0', whoever holds or waits makes a call, which takes the TTL off. EVALSHA that is answered NOSCRIPT has changed nothing: EVAL
// follows. The Redis client must not repeat a call by itself.
//
// Names. The script takes any id that its header allows. berth's tools take those alone
// that match [a-z2-7]{8}\.[a-z2-7]{18}(-[a-z0-9]{1,13})?: the channel of the process, a
// secret that nobody guesses, and a number. One who is to adopt a lease gets the handle
// berth1/PREFIX/NAME/ID, with PREFIX and NAME escaped as in a URL's path; that id has no
// number. A prefix has 1 to 64 letters, digits and . _ : - and is "berth" by default. A
// name has at most 512 bytes of UTF-8, a label 256; neither has control characters, and a
// name no braces. The host in an owner has letters, digits and . _ - and at most 48 of
// them. Channel and secret are drawn at random when a process starts. A process that was
// forked draws its own, makes its own connections, and has no leases.
//
// Messages. A process subscribes before its first acquire: to PREFIX:inbox:CHANNEL, or with
// SSUBSCRIBE to KEYS[1]:CHANNEL, and then its owner begins with a colon. It waits for that
// for a second at most: without messages, waiting is only slower. Whenever a subscription is
// new, all its waiters send H and all its holders renew, at once: messages may have been
// lost, and data, too. A PING must be answered within five seconds.
//
// Clock. Local instants are of a monotonic clock that counts suspension (CLOCK_BOOTTIME on
// Linux); below, sent and got are when a request left and its reply came.
//
// Bound. The offset of a reply is its "now" in ms - sent + 1. The least that was seen
// counts, plus a hundredth of its age, so the server's clock shows at most
//
//	latest(t) = t + offset + age/100 + 1
//
// A reply that is later than latest(got) shows that the clock was stepped: its offset counts
// from then on. The bound of A and M is latest(sent + 2000), because a late copy would take
// what nobody wants; so is that of W, and of R and L on a lease that nobody holds. That of all
// else is 0. Where nothing was heard yet, or the age is above
// 100 s, an empty call comes first. After status -1 nothing has happened, and the next
// attempt has the same id and twice the time, up to 8000 instead of 2000. All this together
// is below LATE.
//
// Trust. A holder relies on its lease until
//
//	sent + remaining - 1 - remaining/100
//
// of the answer 1, 7 or 11 that tells of it, whichever copy of the request it answers; an
// answer that comes late counts as well, if it gives more, and so does an earlier one, unless
// got + remaining of the later one is before that. Answer 8 gives none: the holder is
// told to stop, and releases. A message g gives trust from the last request about the id that
// was answered 2, or from the acquire if the message comes before its answer:
//
//	sent + min(heartbeat, maxhold) - 1 - a hundredth of that
//
// unless a copy of the acquire is of unknown outcome, slot >= limit, weight > limit, limit >
// 2^30, or token/1000 > latest(now): anybody may have sent it, and then it is a reason to
// send H. What is granted for too short a time to be used is renewed first.
//
// Signs of life. A waiter sends H every third of its heartbeat TTL (10 s, or the TTL if that
// is less), counted from sent. A holder renews after a third of what it trusts, less what
// the last answer took. If no answer comes within half of what is left then, it sends the
// same again, on another connection. A message x, or a line that is not known, is no reason
// to stop, but one to send this at once; for a lease that its holder renews by hand, H 0 0.
//
// Nearest. A waiter that is answered "2 0" sends H when "nearest" of that reply has passed, counted
// from got, and a millisecond more. So does one that a message n tells of, when its rest has passed,
// counted from when it came; an answer to what was sent before that does not put it off. A rest of 0
// may come to others, too, and is a reason to send H in any case. A waiter
// that is answered with others ahead does so when "front" has passed, if it is not 0. The first H
// in a call asks for the place, and so does each of one that is the head as last heard. Nobody else
// takes out what has run out, or lets in whom time lets in: a crashed holder's permit comes back by
// this. Jitter is allowed, and delays that by as much.
//
// Settlement. S is sent until it is answered, with what was said last of each unit; L may carry the
// same, and does if a copy of an earlier S may come still, because that would overrule the last. Before
// an M such an S is sent again. Whoever gives back what nobody has seen, sends L with "0".
//
// Status 1. A call with the bound alone follows, at once, and again while it is answered so.
// The operations of the first were done; but 3 and 4 are no verdict then, and the acquire is
// sent again with its id. If such a call fails, whoever comes next does the rest.
//
// Gone. A waiter that is answered 6 asks again with a new id, at the end of the queue: the
// old one may have a tombstone, and a late message may tell of a grant that is over. After
// reason 3 and 4 it does not: it was evicted, or is too heavy. A holder that is answered 6 or
// 12 has lost its lease, or, if it is being released after a copy of its own, has given it
// back. An answer 1 or 7 with another token or slot than the holder's is a loss, too: a
// failover has forgotten the grant, and what it tells of is to be released.
//
// Failures. Refused, and to be tried again after 10 ms, twice that, up to a second, each with
// some jitter: no connection; no free one in the pool; LOADING, READONLY, NOREPLICAS,
// CLUSTERDOWN, TRYAGAIN, MASTERDOWN, BUSY, OOM, MISCONF, "max number of clients", "non local
// key", and in a Cluster MOVED, ASK and BERTHHALF while a slot moves. Rejected, and to be
// told to the caller: every other error that the server says. Unknown: everything else, a
// time-out or a connection that broke. It is repeated with the same id. Who gives up, or is
// answered 3, 4 or 5, within LATE of a copy of unknown outcome, releases with tomb 1, and
// repeats that until it is answered. A holder whose renewal fails keeps its lease until its
// trust ends.
package protocol
