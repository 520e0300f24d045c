// Package classic has the counting semaphores of Redis in Action, section 6.3
// (here: the chapter), and the lock of section 6.2.5: with the same keys,
// members, scores and transactions, so that they share a Redis with programs
// written from the chapter.
//
//	type           listings      what it adds
//	Basic          6.12, 6.13    one ZSET ordered by the clients' clocks
//	Fair           6.14 to 6.16  an order by counter, refresh
//	Lock           6.11          one holder, with an expiry
//	FairUnderLock  the last      Fair, one client at a time
//
// They are here to share a limit with programs written from the chapter, and to
// be compared with berth, not for new programs. berth has other keys and does not
// share a limit with them: README.md shows how to move a running program.
//
// Each has faults, which its type lists, the tests show and dev/lab measures. All
// have these:
//
//   - A client whose clock is off by the time-out drops all others, or is dropped.
//   - One caller's time-out applies to all: a short one ends the permits of others.
//   - A release repeated after a lost reply reports a time-out that did not happen.
//   - Neither who exceeds the limit nor who is robbed can notice, because both are
//     still in the ZSETs: release and refresh report success.
//
// As in the chapter, no method waits for a permit or renews one in the background.
//
// # Keys
//
// A semaphore NAME lives in these keys, of which only the lock has an expiry:
//
//	NAME          ZSET, identifier -> client's time at the acquire, in seconds since 1970
//	NAME:owner    ZSET, identifier -> number drawn from the counter (Fair)
//	NAME:counter  integer, one more with every try (Fair)
//	lock:NAME     string, identifier of the lock's holder (FairUnderLock)
//
// An identifier is a random UUID, version 4. In a Redis Cluster a name needs a
// hash tag, as in "{github}", to keep the keys of a Fair together; without one
// go-redis refuses with CROSSSLOT and sends nothing.
//
// # What is returned
//
// A try has one of three ends. ok: the permit is the caller's until the
// time-out. Not ok, without an error: there was no room, and what the try wrote
// is removed again. An error: the outcome is unknown; an identifier may be left
// behind and then takes a place until its time-out. No method waits for a
// permit to become free: callers try again.
//
// Bad arguments are ErrInvalid and nothing is sent. Errors of Redis and of the
// context are wrapped. The caller's client is used as it is and never closed;
// if it repeats commands whose reply was lost (go-redis does, by default), a
// release that did succeed can report that the permit had timed out, and the
// acquire of a lock that did succeed can report not ok, while its own identifier
// holds the lock until the time-out.
//
// All types may be used by several goroutines at once.
//
// # What differs from the chapter
//
// The tests compare what is sent, argument by argument, with figure 6.8 and with
// a Python program written from the chapter. Two differences are deliberate:
//
//   - The lock has an expiry, set in the same command (SET NX), as section 6.2.5
//     asks for; the acquire_lock that the chapter's listing calls sets none.
//   - A refused try and a lock are removed even if the caller's context has ended.
package classic
