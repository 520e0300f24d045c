-- One call of this script is one atomic step of one semaphore: reap what has
-- run out, apply the operations given, pump the queue. The package comment of
-- internal/protocol is its specification.
--
-- KEYS[1]  hash  "settings", "counts", one record for each lease, waiter and
--                tombstone, and "note"; or "settings" with all in it: folded, see folded.lua
-- KEYS[2]  zset  three bands of scores, so that one variadic command serves all:
--                [-2^53, 0)    queue      member "q"..id    score ticket - head start - 2^53
--                [0, 2^31)     free slot  member "s"..slot  score slot
--                [2^32, ...)   deadline   member id         score milliseconds
--                and NOTE between the last two, which is there as long as the key
-- ARGV[1]  latest server time (ms) at which this call may still run; 0: no bound
-- ARGV[2+] groups of operations: head, number of ids, ids; or one operation: head,
--          id if it has one. A head is a verb with its parameters, in one argument
--          because arguments cost more than bytes:
--          A wait weight ttl start maxhold limit hb qlimit owner label   acquire
--          H hb places                                                   heartbeat
--          R ttl owner                                                   renew
--          L tomb                                                        release, cancel
--          E force                                                       evict
--          D limit | P limit (-1: unpin) | Z paused                operator's, without ids
--          The verb touches its first parameter, others have a space in between.
--          owner is session/pid/host, whose channel is PREFIX:inbox:session, or with
--          ":" in front KEYS[1]:session, a shard channel; ids are session.n, and where
--          the owner is of the id's session that is left out: /pid/host, :/pid/host
-- POLICY   comes in a line before this one, because arguments cost more than
--          variants of a script: "1": keys may carry a TTL (the server does not
--          evict); "0": they must not; "?": not known, leave it as it is. A second
--          character closes the short way (tests)
-- Returns  numbers in one string, which costs a third of a list: the time in
--          seconds and microseconds; 0 done, 1 call again at once (work was bounded),
--          -1 too late (nothing done), 2 folded: the only operation, an acquire or a
--          renewal, was granted on its terms, and nothing follows; counts as they now
--          are, eight zeros where nothing is left; results by operation:
--          A  five numbers: 1 token slot remaining limit | 2 ahead used limit waiting
--             | 3 (busy), 4 (full) used limit waiting paused | 5 (heavy) limit 0 0 0
--             | 6 (gone) 0 0 0 0
--             or 11 n token remaining limit, and n slots: this and the next, n in all,
--             were granted with tokens that follow each other
--          H  2 ahead used limit waiting (2 -1 where no place was asked for)
--             | 1 token slot remaining limit | 6 reason
--          R  7 remaining | 8 (evicting) remaining | 6 reason
--          L  9 (released) | 10 (cancelled) | 6 reason       E  9 | 10 | 8 | 6 reason
--          reason: 0 unknown, 1 released, 2 expired, 3 evicted, 4 too heavy
-- Errors   a message with BERTHCORRUPT (foreign content), BERTHVERSION (newer
--          layout), BERTHCLOCK (deadlines would be in the band of slots);
--          nothing was changed
-- Cost     O(log n) for each operation and each grant; never O(holders) or
--          O(waiters): what is reaped or granted in one call is bounded by CHUNK.

local STATE, ORDER, ARGV = KEYS[1], KEYS[2], ARGV
local FRONT = 9007199254740992
-- Redis looks through a small sorted set or hash one by one, unless it has a text that is
-- longer than zset- or hash-max-listpack-value (64): then it keeps a skip list or a table
-- from the start.
local NOTE = 'berth: queue < 0 <= free slots < this < deadlines (ms); over 64 bytes on purpose'
local LEGEND = 'berth: h weight slot token ceiling evicting owner label; w weight since maxhold owner label; x reason'
local PLACE = '4000000000'
local TERMS = '^A([01]) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) ()'
local call, find, format, match, sub = redis.call, string.find, string.format, string.match, string.sub

local clock = call('TIME')
local us = clock[1] * 1000000 + clock[2]
local now = (us - us % 1000) / 1000
local NOTHING = ' 0 0 0 0 0 0 0 0 0'            -- status and counts, when the keys are gone
if ARGV[1] ~= '0' and now > ARGV[1] + 0 then return clock[1] .. ' ' .. clock[2] .. ' -1 0 0 0 0 0 0 0 0' end
if now < 4294967296 then error('BERTHCLOCK the server says that it is 1970: set its clock') end
