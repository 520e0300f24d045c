-- One call of this script is one atomic step of one semaphore. This header is the specification,
-- in two parts: what is stored and sent, which all clients of a semaphore share; and what is asked
-- and answered, which is between a client and the text that it sends. doc.go, beside this file,
-- gives the reasons, and says what a client owes.
--
-- STORED AND SENT
--
-- KEYS[1]        is PREFIX:{NAME}, a hash. It has the field "state", and records. Those of leases and waiters
--                have the id as their name:
--   h weight slot token ceiling ttl charges owner label   a lease; no renewal goes beyond ceiling (0: none)
--   e the same                                            a lease whose holder was asked to stop
--   w weight costs ticket maxhold ttl beat owner label    a waiter (maxhold 0: none; beat: its heartbeat TTL)
--   x reason                                      a tombstone: it answers for an id that has ended
--                                                 (x 5 owner: that was moved to owner)
--   p who                                         named "!p", a pause: who wants that nobody is granted before its deadline
--   r |row|row|...|                               "!r", sums: what counts for each rate that is a window, in their
--                                                 order, until none of it does; empty for buckets
--   t epoch line began pos place count            "!t" and a tenant: its line of waiters (see "Lines")
--                The last four kinds are the others: nobody holds them, or waits with them. They have a
--                deadline, but for lines with waiters.
-- KEYS[1]:order  is a sorted set in the same slot of a cluster. What its scores mean:
--   below -2^52    waiters without a tenant: the member is "#" and the id, the score is ticket - headstart - 2^53
--   below -2^51    waiters with one: the same member; the score is line * 2^34 + pos - headstart (ms) - 2^52
--   below 0        lines with waiters: the member is the name of the line's record, the score is place - 2^51
--   from 0         free slots: member and score are the number of the slot
--   4000000000     the member NOTE, for as long as there is the set
--   from 2^32      deadlines: the member is the name of a record, the score is server time in ms. Half a ms less
--                  marks a waiter who was asked for a sign of life, and has given none since
-- "state"        is 3 declared pin paused changes used holders waiting others slots last nearest till lapses turns rates
--   declared       the limit that was declared last; 0: none yet       pin  limit by an operator; -1: none
--   paused         1: nobody is granted; 2: nobody, while there is "!p"
--   changes        of the declared limit, and of the rates
--   used           permits in use: the weights of all holders          holders, waiting, others  how many
--   slots          numbers given out: those below are held or free     last  token or ticket
--   nearest        before this time (ms) no deadline ends, and the head of the queue does not come to fit
--                  by time alone; 0: there is none
--   till           all deadlines have passed by then (ms)              lapses  1: the keys have a TTL, till then
--   turns          epoch:clock:fresh:place:plain:lines:next, while waiters have tenants (see "Lines"); else 0
--   rates          a set of rates, with "!" in front of it if it is pinned, and three words of each:
--                  spent fades since   of a window: what counts in it, and when the first of that leaves it
--                                      (ms). What was charged at since (us) or later is in it
--                  full lacks since    of a bucket: when it is full again (us); AFTER:LACK, with commas between,
--                                      of the charges that may keep a later refund small: us after since, and
--                                      us that it lacked before them ("-": none); since when it was not full (us)
--                or, where one lease is alone, and there is no sorted set and no record,
--                3 compact id token deadline expires limit ttl owner label
--   expires        when the key does (ms); 0: never
--                A smaller number in front is an older layout, a larger one a newer: BERTHVERSION.
-- Lines          Waiters of a tenant stand in a line, first come, first served, and so do those without one. The lines
--                take turns, by start-time fair queueing (Goyal, Vin and Cheng 1996): the next head is the first of the
--                line whose place is least; a grant moves the clock to that place, and the place on by a step:
--                the request's part of the limit or of a rate, whichever is largest, times 2^26, over its share. A
--                line to which somebody comes again stands where it stood, or at the clock, if that is later. One that
--                is new begins at fresh, which is never before the clock and moves on a little then, so that
--                newcomers do not keep others waiting for good.
--                epoch: ticket of the first who came with a tenant, or the last token when places began anew; a
--                record of another epoch says nothing. place and plain: of the line of those without a tenant,
--                and how many they are. lines: how many tenants have waiters. next: the number of the next line.
--                began: when a line was last empty (ms). pos: of the last who came to it, ms since then and 2^32,
--                which leaves room for head starts in front.
-- A set of rates is "-", or up to 4 of UNIT:N/PER and UNIT:N/PER+BURST with commas between, no two with the same
--                unit and window. The first is a window: in any time of PER, 10 ms to 30 days in ms, costs of
--                N are granted in that unit. The second is a bucket of BURST, which is full at first and
--                gets N back in PER ms, and all of it within 365 days. N, BURST and costs are up to 2^30.
-- A unit         is empty, or a lower-case letter with such letters, digits, _ and - behind it, 16 in
--                all, but not "none".
-- Costs          are "-", or up to 4 of UNIT:N with commas between. In a unit that is not named it is the weight.
-- Charges        are "-", or UNIT:N@SINCE with commas between: what the lease has cost in each unit that had
--                a rate then, and since when it counts (us).
-- A row          is empty, or grain oldest newest sum sum ...: what was granted in each grain ms, from the time
--                oldest * grain on. A sum counts until the last of its grants has left the window. There are
--                no more than 400 of them.
-- Numbers        are decimal, without leading zeros, and have at most 12 digits; tokens, tickets and
--                times in us 16. Times are of the server's clock, durations are in ms.
-- An id          is CHANNEL.REST. The channel of its process has letters and digits; the rest is
--                anything without spaces and line feeds. An id never means two requests.
-- An owner       is pid/host;client, and may go on with ;key=value. It has no spaces. A ":" in front
--                says that its process hears shard channels. All that is behind the
--                first ";tenant=" is the tenant, 1 to 64 characters without control characters; directly in
--                front of it ";share=" may stand, with 1 to 100.
-- A label        is the rest of its text, whatever bytes it has; it may be empty.
-- Tickets and    are numbers of one sequence: max(last + 1, now in us).
-- tokens
-- Messages       go to PREFIX:inbox:CHANNEL, or where the owner has ":" in front to the shard channel
--                KEYS[1]:CHANNEL. A message is KEYS[1] and, each on a line of its own,
--   g id slot token limit    the waiter was granted; limit is the one in force
--   x id reason              it has ended, or (6) is asked to stop
--   n id rest                the waiter is the head of the queue, and "nearest" is in so many ms: only
--                            it need look then. Rest 0 asks for H at once: to look, or as a sign of life. Where there
--                            are rates, nobody is granted of whom nothing was heard for a second, and so
--                            those behind the head are asked, too, who would be granted with it
--                Who does not know a line, or finds more on it, asks the server about the id.
-- Reasons        0 unknown, 1 released, 2 expired, 3 evicted, 4 too heavy, 5 moved, 6 asked to stop
--
-- ASKED AND ANSWERED
--
-- KEYS           KEYS[1], and KEYS[1]:order behind it or not: a cluster refuses two keys of which one
--                does not exist while their slot moves, and other servers refuse what is not named
-- POLICY         is set in front of this text: '1' where the keys may have a TTL, else '0'
-- ARGV           bound head id                    one operation on one id, or
--                bound n head count ... id ...    n groups of operations, then all their ids, or
--                bound                            nothing but what is due
--   bound          the latest server time (ms) at which the call may run; 0: any
--   head           a verb and its words, as "A1 1 0 3 ...": the first follows it directly, the others a space. "+": at least 1.
--     A wait weight+ maxhold limit heartbeat+ headstart qlimit ttl+ owner label    acquire
--       wait 1: may be queued, if fewer than qlimit are; with tenants, if as many as its line then
--                             has, times the lines with waiters, is at most qlimit. limit 0: the declared one, or 1 if there is none
--     B rates costs A...      acquire, with costs, and a set of rates, which takes the place of the one
--                             in force; "-" leaves that. With a set and limit 0, where no limit is
--                             declared, it is 2^30: the rates alone are to limit
--     H heartbeat places      of a waiter: as in its acquire, or 0: its deadline stays, and it is no sign of life. places 1: where it
--                             stands is wanted
--     R ttl                   renew; ttl 0: the lease's
--     S costs                 settle: so much the lease has cost, in the units that are named; or "0": nothing
--                             in any. Less counts no more, more counts from now
--     L tomb  or  L tomb costs   release, or leave the queue, the second after S. tomb 1: a copy of the acquire may
--                             be under way
--     M ttl owner             move; its ids come in pairs, old and new. ttl 0: the lease's. The tenant stays
--     E force                 evict. force 0: ask the holder to stop
--     D limit    P pin    Z paused    for operators, of no ids: resize, pin, pause. A limit is forgotten
--                             when nobody is there any more, a pin and a pause are not
--     W for+ who              of no ids: pause for so long, unless it is paused for longer; Z ends that
--     Q pin which rates       for operators, of no ids: declare a set of rates in place of that in force (which
--                             "*"), or of its rates of one unit (which "UNIT:"). pin 1 pins what comes of that:
--                             no declaration changes it, not even one with pin 0. Like the pin of a limit it is
--                             not forgotten
--     U                       for operators, of no ids: end that; the set stays until the next declaration
--   count          of the ids of a group. Acquires come last. At most 250 ids in all, each of them once,
--                  which the script does not check: it is for the client to see to
-- Answer         words with spaces between: now (us), status (0 done; 1 done, and more is to be done:
--                call again without operations; -1 too late, not done, and the rest is nobody's), the
--                limit that was declared before, the rates that were in force then ("-" where a lease is
--                alone), the time until which it is paused (ms; 0: it is not, or without end), "state" (till
--                and lapses 0 where a lease is alone), and for each id (M: each pair)
--     A  1 slot token remaining | 2 ahead 0 | 3 rest (busy) | 4 rest (queue full)
--        | 5 limit (heavier than that) | 13 rate (costs more than that) | gone
--        rest: for so long the rates alone do not let it in; 0: they would
--     H  1 slot token remaining | 2 ahead front (-1 0: not asked for) | 8 remaining | gone
--        front: for so long the waiter directly in front of it keeps its place, if it is not heard of;
--        0: that one was answered just before, or there is none. Both are as they were before this call; with
--        tenants ahead is an estimate, but for 0
--     R  7 slot token remaining | 8 remaining (asked to stop, not renewed) | gone
--     S  14 | gone
--     L  9 released | 10 left the queue | gone
--     M  11 slot token remaining weight ttl bytes label | gone
--     E  9 | 10 | 8 0 | gone
--     gone: 6 and one of the reasons above | 12 bytes owner (moved, to that owner)
-- Errors         BERTHREQUEST what (it does not fit the grammar), BERTHCORRUPT what (berth did not write
--                that), BERTHVERSION (a newer layout), BERTHCLOCK, BERTHHALF ms (one key was lost; what the
--                other tells of ends in so long, and then it heals). Nothing of what was asked was done.
--                A server puts words of its own around them.
-- Cost           O(log n) for each id and each grant. At most one call in 16 million grants writes all lines.
--                Needs Redis 6.2, a server of 64 bits (%d), and Lua 5.1 to 5.4.
--
-- Numbers that are only copied stay the text that they were, and others become text by format: making
-- text of a number costs as much as four calls of a function, and Lua 5.1 rounds from 10^14.

local STATE, ARGV = KEYS[1], ARGV
local call, try = redis.call, redis.pcall
local format, match, find, sub = string.format, string.match, string.find, string.sub

local NOBODY = '3 0 -1 0 0 0 0 0 0 0 0 0 0 0 0 -'       -- "state" where there are no keys
local ALONE = ' -1 0 0 1 1 0 0 1 '                      -- its numbers from pin to slots, where a lease is alone
local BARE = ' 0 -'                                     -- its words turns and rates, where there are none
local DEADLINES = 4294967296                            -- the least score of a deadline
local GRAIN = 60000                                     -- ms; the keys' TTL moves in steps of this
local OWNER = '^w %d+ %S+ %d+ %d+ %d+ %d+ (%S+)'        -- that of a waiter, in its record
local ACQUIRE = '^A([01]) ([1-9]%d*) (%d+) (%d+) ([1-9]%d*) (%d+) (%d+) ([1-9]%d*) ()(:?%d+/%S+) '

local stamp                                             -- the server's time in us, as text
do
  local time = call('TIME')
  stamp = time[1] .. (#time[2] < 6 and sub('00000' .. time[2], -6) or time[2])
end
local us = stamp + 0
local now = math.floor(us / 1000)
local bound = ARGV[1]
if bound ~= '0' then
  bound = tonumber(bound)
  if not bound or bound < 1 or bound % 1 ~= 0 then error('BERTHREQUEST bound ' .. tostring(ARGV[1])) end
  if now > bound then return stamp .. ' -1 0 - 0 ' .. NOBODY end
end
if now < DEADLINES then error('BERTHCLOCK the server says that it is 1970: set its clock') end

-- ==== The first tier: a lease that nobody else comes near is one field of the hash ====
--
-- It is granted, renewed and released here. Whatever does not fit goes on to the second tier, which
-- looks at everything, and says what is wrong with a request.

local stored                                            -- the text of "state"; nil: not read yet; false: none
if ARGV[3] and not ARGV[4] then
  local head, id = ARGV[2], ARGV[3]
  if sub(head, 1, 1) == 'A' then
    local order = STATE .. ':order'                     -- both at once where both are declared saves 3 % of a pair of calls
    if (KEYS[2] == order and call('EXISTS', STATE, order) or call('EXISTS', STATE)) == 0 then
      local _, weight, maxhold, limit, beat, start, qlimit, ttl, ownerAt = match(head, ACQUIRE)
      if weight == '1' and maxhold == '0' and limit >= '1' and #limit < 13 and #beat < 13 and #start < 13 and #qlimit < 13 and #ttl < 13
        and (start == '0' or start >= '1') and (qlimit == '0' or qlimit >= '1') and find(id, '^%w+%.%S+$') and not find(head, ';tenant=', ownerAt, true)
        and (KEYS[2] == order or call('EXISTS', order) == 0) then
        local deadline, expires = format('%d', now + ttl), '0'
        if POLICY == '1' then expires = format('%d', now + ttl + GRAIN) end
        call('HSET', STATE, 'state', '3 compact ' .. id .. ' ' .. stamp .. ' ' .. deadline .. ' ' .. expires
          .. ' ' .. limit .. ' ' .. ttl .. ' ' .. sub(head, ownerAt))
        if expires ~= '0' then try('PEXPIREAT', STATE, expires) end
        return stamp .. ' 0 0 - 0 3 ' .. limit .. ALONE .. stamp .. ' ' .. deadline .. ' 0 0 0 - 1 0 ' .. stamp .. ' ' .. ttl
      end
    end
  else
    local renewal = match(head, '^R([1-9]%d*)$')
    if renewal and #renewal < 13 or head == 'L0' then
      stored = call('HGET', STATE, 'state')
      local owned, token, deadline, expires, at, limit =
        match(stored or '', '^3 compact (%S+) (%d+) (%d+) (%d+) ()(%d+) ')
      if owned == id and deadline + 0 > now then        -- else it is not, or no longer, that lease's alone
        if not renewal and token + 0 < us then          -- the clock has passed the token: nobody needs to remember it
          call('HDEL', STATE, 'state')
          return stamp .. ' 0 ' .. limit .. ' - 0 ' .. NOBODY .. ' 9'
        elseif renewal and (expires ~= '0') == (POLICY == '1') then
          local later = expires
          deadline = format('%d', now + renewal)
          if expires ~= '0' and deadline + 1000 > expires + 0 then later = format('%d', now + renewal + GRAIN) end
          call('HDEL', STATE, '')                       -- so that it passes when memory is short: see "write"
          call('HSET', STATE, 'state', '3 compact ' .. id .. ' ' .. token .. ' ' .. deadline .. ' ' .. later .. ' ' .. sub(stored, at))
          if later ~= expires then try('PEXPIREAT', STATE, later) end
          return stamp .. ' 0 ' .. limit .. ' - 0 3 ' .. limit .. ALONE .. token .. ' ' .. deadline .. ' 0 0 0 - 7 0 ' .. token .. ' ' .. renewal
        end
      end
    end
  end
end

-- ==== The second tier ====

local floor, ceil, unpack = math.floor, math.ceil, table.unpack or unpack
local ORDER = STATE .. ':order'
local NOTE = 'berth: queue < 0 <= free slots < this < deadlines (ms); over 64 bytes, so Redis keeps a skip list'
local NOTESCORE = '4000000000'                          -- the score of NOTE
local EXACT = 9007199254740992                          -- 2^53: up to here doubles are exact; so much less than a ticket is a waiter's score
local CENTURY = 3000000000000                           -- ms; no deadline is further away
local MOST = 4000000000000                              -- used + slots + waiting + limit, of 12 digits each, is not above this
local PAGE = 250                                        -- so many are reaped, and who is named; so many of the queue are looked at in one call
local LATE = 10000                                      -- ms; so long after an acquire, at most, a copy of it runs (its "bound" sees to that)
local TOLD = 60000                                      -- ms; for so long a tombstone tells of an eviction or a move
local SUMS, PAUSE, LINE = '!r', '!p', '!t'              -- the names of records that are no ids, or what they begin with
local lingers = now - now % 1000 + GRAIN + 1000         -- until then the record of an empty line stays, and then again while its place is above the clock
local COSTLY = 1073741824                               -- 2^30: no rate and no cost is above this
local LOOKED = 25                                       -- so many waiters are looked at in one call, where there is a rate
local LATELY = 1000                                     -- ms; who was heard of in this time lives

local function corrupt(what, value) error('BERTHCORRUPT ' .. what .. ' ' .. sub(tostring(value), 1, 80)) end
local function refuse(what, value) error('BERTHREQUEST ' .. what .. ' ' .. sub(tostring(value), 1, 80)) end
-- What rates and tenants need. Most calls meet neither, and do without: each function costs them about a
-- thousand of the server's instructions.
local isUnit, costIn, tenantOf, precedes, ratesOf, clear, isCosts
local function equip()
  if isUnit then return end
  function isUnit(unit) return unit == '' or #unit < 17 and unit ~= 'none' and find(unit, '^%l[%l%d_-]*$') end
  local function isAmount(n) return #n < 11 and n >= '1' and n + 0 <= COSTLY end
  function costIn(unit) return ',' .. string.gsub(unit, '%-', '%%-') .. ':(%d+)' end -- a pattern, for costs with a comma in front

  function tenantOf(owner)                              -- and its share
    local front, tenant = match(owner, '^(.-);tenant=(.*)$')
    if tenant then return tenant, match(front, ';share=([^;]*)$') or '1' end
  end

  function precedes(a, b)                               -- as the server sorts members, wherever it runs
    local n, byte = 1, string.byte
    while byte(a, n) and byte(a, n) == byte(b, n) do n = n + 1 end
    return (byte(a, n) or -1) < (byte(b, n) or -1)
  end

  -- The list of the rates of a set, or nil if that is no set. A rate has its words (unit, n, per, burst; word is
  -- all of it, most what it grants at once, first whether it is the first of its unit) and what counts for it:
  --   spent, fades, charged          of a window: the sum, until when the first of it counts (ms), and how much
  --                                  of it was charged in this call and is in no row yet
  --   grain, oldest, newest, sums    its row, after "open"
  --   fullAt, lacks                  of a bucket: the words "full" and "lacks"
  --   since, aside                   the word; and what those who are asked for a sign of life would use
  function ratesOf(set)
    local list, length = {}, 0
    for unit, n, per, plus, burst in string.gmatch(set == '-' and '' or set .. ',', '([^:,]*):(%d+)/(%d+)(%+?)(%d*),') do
      if not isUnit(unit) or not isAmount(n) or #per > 10 or per < '1' or per + 0 < 10 or per + 0 > 2592000000
        or plus == '+' and not (isAmount(burst) and burst * 1e0 * per / n <= 31536000000) or plus == '' and burst ~= '' then return nil end
      length = length + #unit + #n + #per + #plus + #burst + 3
      local first = true                                -- of the rates of its unit
      for k = 1, #list do
        if list[k].unit == unit and list[k].per == per + 0 then return nil end
        first = first and list[k].unit ~= unit
      end
      list[#list + 1] = {
        word = unit .. ':' .. n .. '/' .. per .. plus .. burst, unit = unit, n = n + 0, per = per + 0,
        burst = plus == '+' and burst + 0, most = (plus == '+' and burst or n) + 0, first = first,
      }
    end
    return (set == '-' or length == #set + 1) and #list < 5 and list or nil
  end

  function clear(r)                                     -- nothing counts for the rate
    r.fullAt, r.lacks, r.spent, r.fades, r.charged = 0, '-', 0, 0, 0
  end

  function isCosts(costs)
    local length, number, units = 0, 0, {}
    for unit, n in string.gmatch(costs .. ',', '([^:,]*):(%d+),') do
      if not isUnit(unit) or units[unit] or n ~= '0' and not isAmount(n) then return false end
      length, number, units[unit] = length + #unit + #n + 2, number + 1, true
    end
    return length == #costs + 1 and number < 5
  end
end

-- ---- The door: what is asked is checked whole before anything is changed ----

local groups, arrivals = {}, {}                         -- what is asked, and behind it the acquires
local named, offset = 0, 2                              -- how many ids there are, and what is before them in ARGV
local newcomers = 0                                     -- how many of them acquire
local declares, settles = false, false                  -- something that is asked does so: rates, or what a lease has cost
local concernsLines = false                             -- somebody comes with a tenant
if ARGV[4] then offset = 2 + 2 * (match(ARGV[2], '^%d%d?%d?$') or refuse('number of groups', ARGV[2])) end
for k = ARGV[4] and 3 or 2, ARGV[4] and offset or ARGV[2] and 2 or 0, 2 do
  local head, count = ARGV[k] or refuse('number of groups', ARGV[2]), 1
  if ARGV[4] then count = (match(ARGV[k + 1] or '', '^%d%d?%d?$') or refuse('count', ARGV[k + 1])) + 0 end
  local set, costs
  if sub(head, 1, 1) == 'B' then                        -- the rest is an A
    equip()
    local at
    set, costs, at = match(head, '^B(%S+) (%S+) ()A')
    stored = stored or set and call('HGET', STATE, 'state')
    -- A set that is in force was looked at when it was declared. What else may look like it there has no ":", or is
    -- refused when it is declared, but for the words of a lease that is alone.
    local inForce = set and find(set, ':', 1, true) and find(stored or '', ' ' .. set .. ' ', 1, true) and sub(stored, 3, 9) ~= 'compact'
    if not set or not inForce and not ratesOf(set) then refuse('rates', head) end
    if costs ~= '-' and not isCosts(costs) then refuse('costs', head) end
    head = sub(head, at)
  end

  -- What a head of this verb looks like, how many numbers are the first of its words, and whether
  -- it is of ids.
  local verb = sub(head, 1, 1)
  local form, numbers, ofIDs = nil, 1, true
  if verb == 'A' then form, numbers = ACQUIRE, 8
  elseif verb == 'H' then form, numbers = '^H(%d+) ([01])$', 2
  elseif verb == 'R' then form = '^R(%d+)$'
  elseif verb == 'S' then form, numbers = '^S(%S+)$', 0
  elseif verb == 'L' then form = #head < 3 and '^L([01])$' or '^L([01]) (%S+)$'
  elseif verb == 'M' then form = '^M(%d+) (:?%d+/%S+)$'
  elseif verb == 'E' then form = '^E([01])$'
  else
    ofIDs = false
    if verb == 'D' then form = '^D(%d+)$'
    elseif verb == 'P' then form = '^P(%-?%d+)$'
    elseif verb == 'Z' then form = '^Z([01])$'
    elseif verb == 'W' then form = '^W([1-9]%d*) (.*)$'
    elseif verb == 'Q' then form, numbers = '^Q([01]) (%S+) (%S+)$', 0
    elseif verb == 'U' then form, numbers = '^(U)$', 0
    else refuse('verb', head) end
  end
  local words = { match(head, form) }
  if not words[1] then refuse('head', head) end
  for w = 1, numbers do
    local n = words[w]
    if #n > 12 or n < '1' and n ~= '0' and n ~= '-1' then refuse('number', n .. ' in ' .. head) end
  end
  local settled = verb == 'S' and words[1] or verb == 'L' and words[2]
  if settled or verb == 'Q' then equip() end
  if settled and settled ~= '0' and not isCosts(settled) then refuse('costs', head) end
  if verb == 'M' and find(words[2], ';tenant=', 1, true) then refuse('owner', head) end -- it has that of the lease
  if verb == 'Q' then
    local unit, list = match(words[2], '^(.*):$'), ratesOf(words[3]) or refuse('rates', head)
    if unit and not isUnit(unit) or not unit and words[2] ~= '*' then refuse('unit', head) end
    for r = 1, unit and #list or 0 do
      if list[r].unit ~= unit then refuse('unit', head) end
    end
  end
  if arrivals[1] and verb ~= 'A' then refuse('behind an acquire:', head) end
  if ofIDs ~= (count > 0) or verb == 'M' and count % 2 > 0 then refuse('count ' .. count .. ' of', head) end
  -- An id that may come to be stored is looked at whole. Any other must only not be the one field
  -- that is no record, nor begin as the names of what is not a lease or waiter do: what else it is does not matter.
  local first, last = offset + named + 1, offset + named + count
  if last > #ARGV then refuse('number of ids', #ARGV - offset) end
  if verb == 'A' or verb == 'M' or verb == 'L' and words[1] == '1' then
    local all, channel = table.concat(ARGV, '', first, last), ' '
    if find(all, ' ', 1, true) or find(all, '\n', 1, true) then refuse('id', all) end
    for n = first, last do                              -- mostly of one channel: a pattern for each is dear
      local id = ARGV[n]
      if find(id, channel, 1, true) ~= 1 then channel = match(id, '^%w+%.') or refuse('id', id) end
      if #id == #channel then refuse('id', id) end
    end
  else
    for n = first, last do
      if ARGV[n] == 'state' or ARGV[n] >= '!' and ARGV[n] < '"' then refuse('id', ARGV[n]) end
    end
  end
  local group = { verb = verb, words = words, settled = settled, first = named + 1, last = named + count }
  if verb == 'A' then group.set, group.costs, group.ownerAndLabel = set, costs or '-', sub(head, words[9]) end
  declares, settles = declares or verb == 'Q', settles or settled
  if verb == 'A' and find(words[10], ';tenant=', 1, true) then
    equip()
    local tenant, share = tenantOf(words[10])
    local _, letters = string.gsub(tenant, '[^\128-\191]', '') -- characters of UTF-8
    if tenant == '' or letters > 64 or #tenant > 256 or find(tenant, '%c') then refuse('tenant', words[10]) end
    if not find(share, '^[1-9]%d?%d?$') or share + 0 > 100 then refuse('share', words[10]) end
    group.lineName, group.share, concernsLines = LINE .. tenant, share + 0, true
  end
  named = named + count
  if verb == 'A' then
    arrivals[#arrivals + 1], newcomers = group, newcomers + count
  else
    groups[#groups + 1] = group
  end
end
if named ~= (ARGV[2] and #ARGV - offset or 0) or named > PAGE then refuse('number of ids', #ARGV - offset) end
local mustPass = groups[1] or not arrivals[1]           -- it does more than acquire: it is to pass when memory is short (see "write")

-- ---- The sections: read, helpers, lines, reap, rates, operate, pump, admit, tell, write, publish ----
--
-- What is due is taken out before anything else, so that no operation is about what is past its deadline.
--
-- The numbers of the semaphore are local variables, and what happens once is no function: that is
-- for speed. A closure is made anew in each call, at about 700 instructions of the server and 100 for
-- each variable that it refers to; and a field of a table costs as much as five variables.

local status = 0                                        -- of the answer
local weighAll = false                                  -- waiters are looked at though nothing is free: they may have become too heavy
local better = false                                    -- the head of the queue, which did not fit when the last call ended, may fit
-- ---- read: what is stored, and whether it can be true ----
stored = stored or call('HGET', STATE, 'state')

-- A lease that is alone is brought into the general layout. That changes nothing else.
if sub(stored or '', 1, 10) == '3 compact ' then
  local id, token, deadline, expires, limit, ttl, ownerAt =
    match(stored, '^3 compact (%S+) (%d+) (%d+) (%d+) (%d+) (%d+) ():?%d+/%S+ ')
  if not ownerAt or deadline + 0 < DEADLINES or deadline - now > CENTURY or expires - now > CENTURY
    or token + 0 >= EXACT or limit + 2 > MOST or #limit > 12 or #expires > 14 or #ttl > 16
    or call('EXISTS', ORDER) > 0 or call('HLEN', STATE) > 1 then corrupt('state', stored) end
  local record = 'h 1 0 ' .. token .. ' 0 ' .. ttl .. ' - ' .. sub(stored, ownerAt)
  local lasting = expires == '0' and format('%d 0', deadline + GRAIN) or expires .. ' 1' -- till and lapses
  local state = '3 ' .. limit .. ALONE .. token .. ' ' .. deadline .. ' ' .. lasting .. BARE
  if mustPass or ARGV[3] == id then call('ZREM', ORDER, '') end -- for the order of writes see "write"
  call('HSET', STATE, 'state', stored)
  call('ZADD', ORDER, NOTESCORE, NOTE, deadline, id)
  call('HSET', STATE, id, record, 'state', state)
  if expires ~= '0' then try('PEXPIREAT', ORDER, expires) end
  stored = state
end

local declared, pin, paused, changes, used, holders, waiting, others, slots, last, nearest, till, lapses, more =
  match(stored or NOBODY, '^3 (%d+) (%-?%d+) ([012]) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) ([01])( .*)$')
if not more then
  local version = (match(stored, '^(%d+) ') or 3) + 0
  if version > 3 then error('BERTHVERSION ' .. sub(stored, 1, 80)) end
  corrupt((version == 1 or version == 2) and 'of an older berth:' or 'state', stored)
end
local set, pinned, rates, counting = '-', false, nil, false -- pinned: the set is; counting: there is "!r"
local epoch, clock, fresh, tenants, nextLine = 0, 0, 0, 0, 0 -- of the lines
local common                                            -- the line of those without a tenant; nil where nobody has one
if more ~= BARE then
  equip()
  local turns, bang
  turns, bang, set, more = match(more, '^ (%S+) (!?)(%S+)(.*)$')
  pinned = bang == '!'
  if turns ~= '0' then
    local first, ahead, begin, place, count, lines, number = match(turns or '', '^([1-9]%d*):(%d+):(%d+):(%d+):(%d+):([1-9]%d*):(%d+)$')
    if not first or #first > 16 or #ahead > 16 or #begin > 16 or #place > 16 or #count > 12 or #lines > 12 or #number > 6 then corrupt('state', stored) end
    epoch, clock, fresh, tenants, nextLine = first + 0, ahead + 0, begin + 0, lines + 0, number + 0
    common = { place = place + 0, count = count + 0 }
  end
  rates = set and ratesOf(set) or corrupt('state', stored)
  local at = 1
  for k = 1, #rates do
    local r, x, y, since, e = rates[k], match(more, '^ (%d+) ([-%d:,]+) (%d+)()', at)
    if not e or #x > 16 or #y > (r.burst and 300 or 16) or #since > 16 or not find(y, r.burst and '[-:]' or '^%d+$') then corrupt('state', stored) end
    if r.burst then r.fullAt, r.lacks, r.was = x + 0, y, x + 0 else r.spent, r.fades = x + 0, y + 0 end
    r.since, r.charged, at, counting = since + 0, 0, e, counting or x ~= '0'
    if r.burst and x / 1e3 - now > CENTURY or not r.burst and ((x == '0') ~= (y == '0') or y - now > CENTURY) then corrupt('state', stored) end
  end
  if at <= #more then corrupt('state', stored) end
  if set == '-' then rates = nil end
end
used, holders, waiting, others, slots = used + 0, holders + 0, waiting + 0, others + 0, slots + 0
local limit = (pin == '-1' and declared or pin) + 0     -- the one in force
local seq, soon = last + 0, nearest + 0
local free = slots - holders                            -- how many slots are members of ORDER
local hadOrder = used + waiting + others > 0            -- there is ORDER
if free < 0 or holders > used or holders == 0 and used > 0 or limit < 0 or used + slots + waiting + limit > MOST
  or not hadOrder and slots > 0 or seq >= EXACT or soon - now > CENTURY or #declared > 12 or #changes > 12 or #till > 14
  or others == 0 and (counting or paused == '2') or epoch > seq or epoch > 0 and (common.count + tenants > waiting or tenants > others) then
  corrupt('state', stored)
end

-- The number of members shows the loss of one of the two keys. What is left tells how long leases
-- may live. After that it is removed, but for what operators have set.
do
  local members, holdsUntil = call('ZCARD', ORDER), nil -- until when somebody may hold
  if paused == '2' and members > 0 and not call('ZSCORE', ORDER, PAUSE) then corrupt('state', stored) end
  if members ~= (hadOrder and 1 + slots + 2 * waiting + others or 0)
    or free > 0 and call('ZCOUNT', ORDER, '0', '2147483648') ~= free then
    if stored and members == 0 then
      holdsUntil = (used + waiting > 0 or counting or paused == '2') and till + 0 or 0 -- tombstones alone may go: at worst a late copy is granted, and expires
    elseif not stored and (call('ZSCORE', ORDER, NOTE) or 0) + 0 == NOTESCORE + 0 and call('EXISTS', STATE) == 0 then
      holdsUntil = ceil(call('ZRANGE', ORDER, '-1', '-1', 'WITHSCORES')[2])
    end
    if not holdsUntil or holdsUntil - now > CENTURY then corrupt('state does not match ' .. ORDER .. ':', stored) end
    if holdsUntil > now then error('BERTHHALF ' .. format('%d', holdsUntil - now)) end
    used, holders, waiting, others, slots, free, soon, nearest, lapses, hadOrder = 0, 0, 0, 0, 0, 0, 0, '0', '0', false
    epoch, tenants, common, counting = 0, 0, nil, false
    if paused == '2' then paused = '0' end
    if mustPass then call('ZREM', ORDER, '') end        -- for the order of writes see "write"
    if stored then call('HSET', STATE, 'state', stored) end
    call('DEL', STATE, ORDER)                           -- in an open slot a cluster refuses this: one may be elsewhere
    if stored then
      stored = format('3 %s %s %s %s 0 0 0 0 0 %s 0 %s 0 0 %s%s', declared, pin, paused, changes, last, till, pinned and '!' or '', set)
      for k = 1, rates and #rates or 0 do
        clear(rates[k])
        rates[k].since = 0
        stored = stored .. (rates[k].burst and ' 0 - 0' or ' 0 0 0')
      end
      call('HSET', STATE, 'state', stored)
    end
  elseif not stored and call('EXISTS', STATE) > 0 then
    if call('HEXISTS', STATE, 'settings') == 1 then corrupt('of an older berth:', STATE) end
    corrupt('hash without state:', STATE)
  end
end

local was, wasRates, known = declared, set, soon        -- the head of the queue was told of "known", or of an earlier time
local stood = waiting                                   -- so many waiters are in ORDER, until "write"

-- What is going to be written, told and answered.
local fields, scores = { nil, nil, nil, nil }, { nil, nil, nil, nil } -- pairs for HSET, and for ZADD
local caps                                              -- pairs for ZADD LT, which only brings forward
local goneIDs, goneMembers = {}, {}                     -- who goes from both keys, and members that go
local due                                               -- what is past its deadline; nil: nothing
local notes                                             -- messages, by channel
local answers, answered = { nil }, 0
local changed                                           -- new records of waiters and of what was due, false: it is gone
local left = 0                                          -- how many waiters left without a grant
local freed, nextFree = {}, 1                           -- free slots, and which of them is given out next
local freedText, storedText = {}, {}                    -- their texts: of those that were freed now, and of those in ORDER
local furthest = 0                                      -- the latest deadline that was set
local gone = 0                                          -- how many of those in ORDER did, or were granted
local recount = false                                   -- what counts for rates has changed
local heard                                             -- waiters that have given a sign of life in this call
local who, pauseEnds                                    -- of a pause: who wants it, or false: it ends now; and when it ends

-- ---- what several sections need ----
local function put(id, record)                          -- into the hash
  local n = #fields
  fields[n + 1], fields[n + 2] = id, record
end

local function lookBy(at)                               -- "nearest" is not after this time; returns it as a score
  if at < DEADLINES or at - now > CENTURY then corrupt('deadline', at) end
  local score = format('%d', at)
  if soon == 0 or at < soon then soon, nearest = at, score end
  return score
end

local function rank(member, score)                      -- into the sorted set
  local n = #scores
  scores[n + 1], scores[n + 2] = score, member
end

local function expire(id, at)                           -- sets the deadline of id
  rank(id, lookBy(at))
  if at > furthest then furthest = at end
end

local function remaining(id)                            -- what is left until a stored deadline; and whether a waiter was asked for a sign of life
  local at = call('ZSCORE', ORDER, id) or corrupt('no deadline for', id)
  local rest = ceil(at) - now
  if not (rest > -CENTURY and rest < CENTURY) then corrupt('deadline of', id) end
  return rest, rest + now > at + 0
end

local function nextNumber()                             -- a token or ticket
  if seq < us then
    seq, last = us, stamp
  else
    seq = seq + 1
    last = format('%d', seq)
  end
  return last
end

local function tell(id, record, line)                   -- tells the process of a lease or waiter
  local shard = match(record, '^%l %d+ %S+ %d+ %d+ %d+ %S+ (:?)%d+/') or corrupt('record', record)
  local channel = shard .. match(id, '^[^.]*')
  notes = notes or {}
  notes[channel] = (notes[channel] or STATE) .. '\n' .. line
end

local function absent(record)                           -- the answer for an id that has no lease, or an evicted one
  local kind = sub(record or '', 1, 1)
  if not record or kind == 'w' then return '6 0' end
  if kind == 'e' then return '6 3' end
  local owner, reason = match(record, '^x 5 (.+)$'), match(record, '^x ([1-4])$')
  if not owner and not reason then corrupt('record', record) end
  return owner and '12 ' .. format('%d', #owner) .. ' ' .. owner or '6 ' .. reason
end

local costOf                                            -- what a request costs of a rate, where there is one

-- ---- lines: where waiters stand, if some of them have tenants ----
local lined = epoch > 0
local line                                              -- functions; nil where nobody has a tenant
if lined or concernsLines then
  local TAGGED, LINES = -4503599627370496, -2251799813685248 -- -2^52, -2^51: from here on waiters have tenants, and there are lines
  local STRETCH, AMID = 17179869184, 4294967296         -- 2^34 ms, of the scores of a line; 2^32, where its first stands
  local WHOLE = 67108864                                -- 2^26: the step of who takes all that there is
  local NUMBERS = 131072                                -- 2^17, of lines
  local seen, passed = {}, 0                            -- lines, by their others; so many at the front of ORDER are in it
  line, common = {}, common or { place = 0, count = 0 }
  common.past, common.low, common.high = 0, '-inf', format('(%d', TAGGED)
  -- A line has what its record says (number, began, pos, place, count), and
  --   new, placed, touched    there is no record; its place counts; it is to be written
  --   low, high, past         the scores of its waiters, and how many at its front have left in this call
  --   lead, leader            score and id of the foremost who came in this call

  local function spans(l)
    local low = l.number * STRETCH + TAGGED
    l.low, l.high, l.past = format('%d', low), format('%d', low + STRETCH - 1), 0
  end

  local function all() return tenants + (common.count > 0 and 1 or 0) end

  function line.of(name)                                -- that of a tenant, or of those who have none
    if not name or seen[name] then return seen[name] or common end
    local is = (not changed or changed[name] == nil) and call('HGET', STATE, name)
    local of, number, began, pos, place, count = match(is or 't 0 0 0 0 0 0', '^t (%d+) (%d+) (%d+) (%d+) (%d+) (%d+)$')
    if not of or #number > 6 or #began > 14 or #pos > 16 or #place > 16 or #count > 12 or count ~= '0' and of + 0 ~= epoch then corrupt('record', is) end
    local l = { name = name, new = not is, number = number + 0, began = began + 0, pos = pos + 0, place = 0, count = count + 0 }
    if of + 0 == epoch then l.place, l.placed = place + 0, true end
    spans(l)
    seen[name] = l
    return l
  end

  local function whose(record)                          -- the line of a waiter, and its share
    local tenant, share = tenantOf(match(record, OWNER) or corrupt('record', record))
    return line.of(tenant and LINE .. tenant), (share or 1) + 0
  end

  function line.first()                                 -- the one whose first waiter is the head of the queue; nil: nobody waits
    local least = common.count > 0 and common or nil
    local function sooner(name, at)
      return not least or at < least.place or at == least.place and least ~= common and precedes(name, least.name)
    end
    for name, l in pairs(seen) do
      if l.count > 0 and sooner(name, l.place) then least = l end
    end
    while true do
      local name, at = unpack(call('ZRANGEBYSCORE', ORDER, format('%d', LINES), '(0', 'WITHSCORES', 'LIMIT', format('%d', passed), '1'))
      if not name then return least end
      if not seen[name] then return sooner(name, at - LINES) and line.of(name) or least end
      passed = passed + 1
    end
  end

  function line.head(l)                                 -- the first of those in it who came before this call, and the record
    while true do
      local member = call('ZRANGEBYSCORE', ORDER, l.low, l.high, 'LIMIT', format('%d', l.past), '1')[1]
      if not member then return nil end
      local id = sub(member, 2)
      if not changed or changed[id] == nil then return id, call('HGET', STATE, id) or corrupt('no record for', id) end
      l.past = l.past + 1
    end
  end

  function line.leads(l, score, id)                     -- nobody else in it stands in front of that
    local first = line.head(l)
    local at = first and call('ZSCORE', ORDER, '#' .. first) + 0
    if l.lead and (not at or l.lead < at or l.lead == at and precedes(l.leader, first)) then first, at = l.leader, l.lead end
    return not at or score < at or score == at and precedes(id, first)
  end

  -- About how many are ahead of who has so many in front of it in its line, if that is the head's or not.
  function line.ahead(own, first)
    return own == 0 and first and 0 or math.max(math.min((own + 1) * all(), waiting) - 1, 1)
  end

  function line.standing(id, record)                    -- the same of a waiter, and who is directly in front of it
    local l, at = whose(record), call('ZSCORE', ORDER, '#' .. id) or corrupt('not in the queue:', id)
    local own, first = call('ZCOUNT', ORDER, l.low, '(' .. at), line.first()
    local front
    if own > 0 then front = sub(call('ZREVRANGEBYSCORE', ORDER, '(' .. at, l.low, 'LIMIT', '0', '1')[1], 2)
    elseif first ~= l then front = line.head(first) end
    return line.ahead(own, first == l), front
  end

  function line.tooLong(name, most)                     -- there is no room for one more
    local own = epoch > 0 and line.of(name).count or name and 0 or waiting
    local lines = epoch > 0 and all() or waiting > 0 and 1 or 0
    return (own + 1) * (lines + (own == 0 and 1 or 0)) > most
  end

  function line.step(weight, costs, share)              -- what a grant is charged
    local size = weight / math.max(limit, 1)
    for k = 1, rates and #rates or 0 do size = math.max(size, costOf(rates[k], costs, weight) / rates[k].most) end
    return math.min(math.max(math.ceil(size * WHOLE / share), 1), WHOLE)
  end

  -- A waiter comes to a line; returns that, and its score. Only a new line moves fresh on: else a tenant that
  -- comes and leaves would set itself back.
  function line.come(name, step, start)
    if epoch == 0 and not name then return common, seq - start - EXACT end
    if epoch == 0 then epoch, common.count, common.place, clock, fresh, nextLine = seq, waiting, 0, 0, 0, 0 end
    local l = line.of(name)
    if l.count == 0 then
      if l.placed or not name and l.place > 0 then l.place = math.max(clock, l.place)
      else
        l.place, l.placed = fresh, true
        fresh = fresh + math.max(floor(step / (waiting + 1)), 1)
      end
      if name then
        tenants = tenants + 1
        if tenants > NUMBERS - 3 * PAGE then refuse('tenants', tenants) end -- numbers of lines that this call has emptied are not free yet
        repeat
          l.number, nextLine = nextLine, (nextLine + 1) % NUMBERS
          spans(l)
        until call('ZCOUNT', ORDER, l.low, l.high) == 0 -- the numbers have begun anew, and one of that number still waits
        l.began, l.pos = now, 0
      end
    end
    l.count, l.touched = l.count + 1, true
    if not name then return l, seq - start - EXACT end
    l.pos = math.max(math.min(now - l.began, 2 * AMID) + AMID, l.pos + 1) -- not beyond the line's end, however long it lasts
    return l, l.number * STRETCH + l.pos - math.min(start / 1000, AMID) + TAGGED -- not beyond the line's first place
  end

  function line.leave(record)                           -- a waiter leaves its line; returns that, and its share
    local l, share = whose(record)
    if l.count < 1 or l.new then corrupt('record', record) end
    l.count, l.touched = l.count - 1, true
    if l.count == 0 and l.name then tenants = tenants - 1 end
    return l, share
  end

  function line.grant(record, weight, costs)            -- a waiter leaves its line for a lease
    local l, share = line.leave(record)
    clock = math.max(clock, l.place)
    fresh = math.max(fresh, clock)
    l.place = l.place + line.step(weight, costs, share)
  end

  -- The lines are as if a waiter had been granted, for a look at who would be next. Unskip undoes that.
  local skipped = {}
  function line.skip(record, weight, costs)
    local l, share = whose(record)
    skipped[#skipped + 1] = { l, l.place, l.count, l.past }
    l.place, l.count, l.past = l.place + line.step(weight, costs, share), l.count - 1, l.past + 1
  end
  function line.unskip()
    for k = #skipped, 1, -1 do
      local l = skipped[k][1]
      l.place, l.count, l.past = skipped[k][2], skipped[k][3], skipped[k][4]
    end
  end

  -- Long before the places become so large that they are not exact, they all begin anew, at most once in 16
  -- million grants. That call takes the longer the more lines there are.
  local function wind()
    for _, name in ipairs(call('ZRANGEBYSCORE', ORDER, format('%d', LINES), '(0')) do line.of(name).touched = true end
    for _, l in pairs(seen) do
      if l.touched then l.place = math.max(l.place - clock, 0) end
    end
    common.place, fresh, clock, epoch = math.max(common.place - clock, 0), fresh - clock, 0, seq
  end

  function line.write()
    if fresh >= 1125899906842624 then wind() end        -- 2^50
    for name, l in pairs(seen) do
      if l.touched then
        put(name, format('t %d %d %d %d %d %d', epoch, l.number, l.began, l.pos, l.place, l.count))
        if l.new then others = others + 1 end
        if l.count > 0 then rank(name, format('%d', l.place + LINES)) else expire(name, lingers) end
      end
    end
    if tenants == 0 then epoch = 0 end                  -- those who wait stand as they would without tenants
  end
end

-- Ends a lease or a wait. A tombstone tells of it until the time "at", or, if that is nil, until no
-- copy of the acquire can come any more.
local function leave(id, record, reason, at)
  local kind, weight, slotOrCosts, number = match(record, '^([hew]) (%d+) (%S+) (%d+) ')
  if kind == 'w' then
    changed = changed or {}
    waiting, left, gone, changed[id] = waiting - 1, left + 1, gone + 1, false
    if epoch > 0 then line.leave(record) end
    goneMembers[#goneMembers + 1] = '#' .. id
  elseif kind and find(slotOrCosts, '^%d+$') then
    local n = slotOrCosts + 0
    used, holders = used - weight, holders - 1
    freed[#freed + 1], freedText[n] = n, slotOrCosts
  else corrupt('record', record) end
  at = at or floor(number / 1000) + LATE                -- the number is not before the time at which it came
  if at > now then
    others = others + 1
    put(id, 'x ' .. reason)
    expire(id, at)
    if due then changed[id] = 'x ' .. reason end
  else
    goneIDs[#goneIDs + 1] = id
  end
  return kind == 'w' and '10' or '9'
end

local function takeSlot()                               -- the lowest that is free, as text
  local slot = freed[nextFree]
  if not slot then
    slots = slots + 1
    return format('%d', slots - 1)
  end
  nextFree = nextFree + 1
  local member = storedText[slot]
  if member then goneMembers[#goneMembers + 1] = member end
  return member or freedText[slot]
end

-- ---- reap: take out what is due ----
if soon > 0 and soon <= now then
  better, changed = true, {}
  due = call('ZRANGEBYSCORE', ORDER, DEADLINES, now, 'LIMIT', '0', PAGE)
  if #due < PAGE then
    soon = ceil(call('ZRANGEBYSCORE', ORDER, '(' .. format('%d', now), '+inf', 'WITHSCORES', 'LIMIT', '0', '1')[2] or 0)
    if soon - now > CENTURY then corrupt('deadline', soon) end
  else                                                  -- more may be due: the next call goes on
    status, soon = 1, now
    local taken = {}
    for k = 1, #due do taken[due[k]] = true end
    for k = offset + 1, #ARGV do                        -- and no id that is named here may stay overdue
      local id = ARGV[k]
      local at = not taken[id] and call('ZSCORE', ORDER, id)
      if at and at + 0 >= DEADLINES and at + 0 <= now then due[#due + 1], taken[id] = id, true end
    end
  end
  nearest = format('%d', soon)
  local records = due[1] and call('HMGET', STATE, unpack(due))
  for k = 1, #due do
    local id, record = due[k], records[k] or corrupt('no record for', due[k])
    if find(record, '^[hew] ') then
      changed[id] = false
      tell(id, record, 'x ' .. id .. ' 2')
      leave(id, record, 2)
    else
      local lineEpoch, place
      if id == SUMS and sub(record, 1, 3) == 'r |' then -- it counts no more
        for n = 1, rates and #rates or 0 do clear(rates[n]) end
        counting = false
      elseif id == PAUSE then
        if paused ~= '2' or sub(record, 1, 2) ~= 'p ' then corrupt('record', record) end
        paused, weighAll = '0', true
      else
        lineEpoch, place = match(record, '^t (%d+) %d+ %d+ %d+ (%d+) 0$')
        if not lineEpoch then absent(record) end        -- fails, unless it is a tombstone
      end
      if lineEpoch and lineEpoch + 0 == epoch and place + 0 > clock then
        expire(id, lingers)                             -- of who comes again, it says more than nothing
      else
        others, goneIDs[#goneIDs + 1], changed[id] = others - 1, id, false
      end
    end
  end
  -- Nobody is there any more, and nothing is to be remembered: it is as if it had never been.
  if used + waiting + others == 0 and pin == '-1' and not pinned and paused == '0' and seq < us then
    declared, changes, set, rates, epoch, seq, last = '0', '0', '-', nil, 0, 0, '0'
  end
end

-- ---- rates: what counts for them, and what a request has to wait for ----
local counted = counting                                -- there was "!r"
local ratesWait, tooCostly, charge, settle, declare, recounted
for g = 1, #arrivals do
  local wanted = arrivals[g].set or '-'
  if wanted ~= '-' and wanted ~= set then declares = true end
end
if rates or declares or settles then
  local function refill(r, cost) return math.ceil(cost * 1e3 * r.per / r.n) end -- us in which a bucket gets so much back
  local function grainOf(r) return math.max(floor(r.per / 100), 1) end

  function costOf(r, costs, weight)
    if costs == '-' then return weight + 0 end
    r.cost = r.cost or costIn(r.unit)
    return (match(',' .. costs, r.cost) or weight) + 0
  end

  local function sumAt(r, at)                           -- a sum of a row, and where the next one is
    local _, e, sum = find(r.sums, '^ (%d+)', at)
    if not e then corrupt('record', SUMS) end
    return sum + 0, e + 1
  end

  -- Leaves out of a row what has left the window, and what is empty in front of the rest.
  local function roll(r)
    local at = 1
    while r.oldest <= r.newest do
      local sum, e = sumAt(r, at)
      if sum > 0 and (r.oldest + 1) * r.grain + r.per > now then break end
      r.spent, r.oldest, at = r.spent - sum, r.oldest + 1, e
    end
    r.sums = sub(r.sums, at)
    if r.oldest > r.newest then r.grain, r.oldest, r.newest = grainOf(r), 0, -1 end
    r.fades = r.spent > 0 and (r.oldest + 1) * r.grain + r.per or 0
  end

  local storedUntil                                     -- until when what is stored counts
  local function readRows()
    storedUntil = 0
    local record = counted and call('HGET', STATE, SUMS) or corrupt('record', SUMS)
    local at = sub(record, 1, 3) == 'r |' and 4 or corrupt('record', record)
    for k = 1, #rates do
      local r, bar = rates[k], find(record, '|', at, true) or corrupt('record', record)
      if bar > at then
        local grain, oldest, newest, sums = match(sub(record, at, bar - 1), '^([1-9]%d*) (%d+) (%d+)() ')
        if not sums or r.burst or #grain > 10 or #oldest > 14 or #newest > 14 then corrupt('record', record) end
        r.grain, r.oldest, r.newest, r.sums = grain + 0, oldest + 0, newest + 0, sub(record, at + sums - 1, bar - 1)
        if r.newest - r.oldest > 1000 or r.newest * r.grain - now > CENTURY then corrupt('record', record) end
        storedUntil = math.max(storedUntil, (r.newest + 1) * r.grain + r.per)
      elseif r.burst then storedUntil = math.max(storedUntil, floor((r.was + 999) / 1e3))
      else
        r.grain, r.oldest, r.newest, r.sums = grainOf(r), 0, -1, ''
      end
      if not r.burst then
        if (r.spent > r.charged) ~= (r.oldest <= r.newest) then corrupt('record', record) end
        roll(r)
      end
      at = bar + 1
    end
    if at <= #record then corrupt('record', record) end
  end

  local function open(r)                                -- makes sure that the row of r is there
    if r.grain then return end
    if r.spent > r.charged then readRows() else r.grain, r.oldest, r.newest, r.sums = grainOf(r), 0, -1, '' end
  end

  -- A bucket may give back, of a charge, the least that it lacked before any later one: with more, it would
  -- have been full then, and lost what came. So it keeps what it lacked before a charge while it lacked more
  -- before each later one: pairs of us after "since" and us that it lacked, both rising. Of more than eight the
  -- two oldest become one, which may make a refund smaller.
  local function lacksOf(r)
    local all = {}
    local rest = string.gsub(r.lacks .. ',', '^%-,', '')
    rest = string.gsub(rest, '(%d+):(%d+),', function(at, lack)
      if #at > 16 or #lack > 16 then corrupt('state', stored) end
      all[#all + 1] = { at = at + 0, lack = lack + 0 }
      return ''
    end)
    if rest ~= '' then corrupt('state', stored) end
    return all
  end

  local function writeLacks(r, all)
    local text = ''
    for k = 1, #all do text = text .. format(',%d:%d', all[k].at, all[k].lack) end
    r.lacks = text == '' and '-' or sub(text, 2)
  end

  local function spend(r, cost)                         -- of a bucket or a window
    if not r.burst then
      r.spent, r.charged = r.spent + cost, r.charged + cost
      return
    end
    if r.fullAt <= us then r.fullAt, r.lacks, r.since = us, '-', math.max(r.since, us)
    else
      local all, at = lacksOf(r), us - r.since
      local before = all[1] and all[#all].at or 0
      if at ~= before then                              -- else it is a charge of the same call, before which it lacked more
        while all[1] and all[#all].lack >= r.fullAt - us do all[#all] = nil end
        all[#all + 1] = { at = math.max(at, before + 1), lack = r.fullAt - us } -- later than before, though the clock was set back
        if #all > 8 then
          all[2].lack = all[1].lack
          table.remove(all, 1)
        end
        writeLacks(r, all)
      end
    end
    r.fullAt = math.min(r.fullAt + refill(r, cost), us + CENTURY * 500)
  end

  function tooCostly(costs, weight)                     -- the rate that never lets it in
    for k = 1, #rates do
      if costOf(rates[k], costs, weight) > rates[k].most then return rates[k].word end
    end
  end

  function ratesWait(costs, weight)                     -- for so long the rates do not let it in; 0: they do
    local longest = 0
    for k = 1, #rates do
      local r, wait = rates[k], 0
      local cost = costOf(r, costs, weight) + (r.aside or 0)
      if r.burst then
        local at = math.max(r.fullAt, us) + refill(r, cost) - refill(r, r.burst)
        if at > us then wait = math.ceil(at / 1e3) - now end
      elseif r.spent + cost > r.n then
        local over, at, n = r.spent + cost - r.n, 1, nil
        open(r)
        n = r.oldest
        while over > 0 and n <= r.newest do
          local sum, e = sumAt(r, at)
          over, at, n = over - sum, e, n + 1
        end
        if over > 0 then n = math.max(r.newest, floor(now / r.grain)) + 1 end -- it waits for what was granted in this call
        wait = n * r.grain + r.per - now
      end
      if wait > longest then longest = wait end
    end
    return longest
  end

  local function present()                              -- since when a charge of now counts: it is in all rates
    local since = us
    for k = 1, rates and #rates or 0 do since = math.max(since, rates[k].since) end
    return since == us and stamp or format('%d', since)
  end

  function charge(costs, weight)                        -- of a grant; returns the charges
    local charges, since = '', present()
    for k = 1, #rates do
      local r = rates[k]
      local cost = costOf(r, costs, weight)
      spend(r, cost)
      if r.first then charges = charges .. ',' .. r.unit .. ':' .. format('%d', cost) .. '@' .. since end
    end
    recount = true
    return sub(charges, 2)
  end

  if settles then
    local function refund(r, less, at)                  -- of a charge at this time after "since"
      local all, n = lacksOf(r), 1
      while all[n] and all[n].at <= at do n = n + 1 end
      less = math.min(less, all[n] and all[n].lack or less, math.max(r.fullAt - us, 0))
      for k = n, #all do all[k].lack = all[k].lack - less end
      while n > 1 and all[n] and all[n - 1].lack >= all[n].lack do
        n = n - 1
        table.remove(all, n)
      end
      writeLacks(r, all)
      r.fullAt = r.fullAt - less
    end

    -- Takes so much of what a charge was out of its sum. Where the row was sorted since, or the clock
    -- was set back, that is a later one: the first that can have it, so that a sum which lasts longer keeps too
    -- much rather than too little.
    local function takeBack(r, less, is, ms)
      open(r)
      local n, at = floor(ms / r.grain), 1
      if (n + 1) * r.grain + r.per <= now then return end -- it has left the window
      for k = r.oldest, r.newest do
        local sum, e = sumAt(r, at)
        if k >= n and sum >= is then
          r.spent, r.sums = r.spent - less, sub(r.sums, 1, at) .. format('%d', sum - less) .. sub(r.sums, e)
          return
        end
        at = e
      end
    end

    -- Corrects what a lease has cost in one unit. What it has cost less counts no more, unless it has
    -- left the window, or was charged to another bucket or set of rates; a bucket gets back what it would have
    -- kept. What it has cost more counts whole from now, and what was counted before no more.
    local function correct(unit, is, cost, since)
      local less = cost < is and is - cost or is
      for k = 1, rates and #rates or 0 do
        local r = rates[k]
        if r.unit == unit then
          local counts = less > 0 and since + 0 >= r.since
          if counts and r.burst then refund(r, floor(less * 1e3 * r.per / r.n), since - r.since)
          elseif counts and r.spent > r.charged then takeBack(r, less, is, floor(since / 1e3)) end
          if cost > is then spend(r, cost) end
        end
      end
    end

    function settle(record, costs)                      -- of a lease; returns its record
      local front, charges, owner = match(record, '^([he] %d+ %d+ %d+ %d+ %d+ )(%S+)( .*)$')
      if not owner then corrupt('record', record) end
      local text = ''
      for unit, is, since in string.gmatch(charges .. ',', '([^:,]*):(%d+)@(%d+),') do
        local cost = costs == '0' and '0' or match(',' .. costs, costIn(unit)) or is
        if #is > 10 or #since > 16 then corrupt('record', record) end
        if cost ~= is then
          correct(unit, is + 0, cost + 0, since)
          if cost + 0 > is + 0 then since = present() end
          recount, better = true, true
        end
        text = text .. ',' .. unit .. ':' .. cost .. '@' .. since
      end
      if text == '' and charges ~= '-' then corrupt('record', record) end
      return front .. (text == '' and '-' or sub(text, 2)) .. owner
    end
  end

  if declares then
    -- What counts in a row of another window is sorted into sums of this one. It counts for no longer
    -- than a window from its own time, and from now.
    local function sort(r)
      local grain, sums, first, at, newest = grainOf(r), {}, nil, 1, -1
      for n = r.oldest, r.newest do
        local sum, e = sumAt(r, at)
        local k = floor(math.min((n + 1) * r.grain - 1, now) / grain)
        at = e
        if (k + 1) * grain + r.per <= now then r.spent = r.spent - sum
        elseif sum > 0 then
          first, newest = first or k, k
          sums[k - first + 1] = (sums[k - first + 1] or 0) + sum
        end
      end
      r.grain, r.oldest, r.newest, r.sums = grain, first or 0, newest, ''
      for k = 1, newest - r.oldest + 1 do r.sums = r.sums .. format(' %d', sums[k] or 0) end
    end

    -- Declares another set. What counts for a rate of the same unit, with the window that is nearest,
    -- counts for the new one.
    function declare(list)
      for k = 1, #list do
        local r, from, least = list[k], nil, nil
        for n = 1, rates and #rates or 0 do
          local per = rates[n].per
          local times = per > r.per and per / r.per or r.per / per
          if rates[n].unit == r.unit and (not from or times < least) then from, least = rates[n], times end
        end
        clear(r)
        r.since = math.max(us, seq + 1)                 -- above all charges before
        if from and not r.burst and not from.burst then
          open(from)
          roll(from)
          r.spent, r.charged, r.since = from.spent, from.charged, from.since
          r.grain, r.oldest, r.newest, r.sums = from.grain, from.oldest, from.newest, from.sums
          -- What has left a shorter window is in no longer one that follows, though that would still have it.
          if r.per > from.per then r.since = math.max(r.since, r.oldest <= r.newest and r.oldest * r.grain * 1e3 or us) end
          if r.grain > grainOf(r) or r.grain * 390 < r.per then sort(r) end
          roll(r)
        elseif from and r.burst and from.n == r.n and from.per == r.per and (from.burst == r.burst or from.fullAt - us <= refill(r, r.burst)) then
          r.fullAt, r.lacks, r.since = from.fullAt, from.lacks, from.since
        elseif from then                                -- a bucket has no more than what it lacks
          local spent = from.burst and math.max(from.fullAt - us, 0) * from.n / (1e3 * from.per) or from.spent
          if not r.burst then r.spent, r.charged = math.ceil(spent), math.ceil(spent)
          elseif spent > 0 then r.fullAt = us + refill(r, math.min(spent, r.burst)) end
        end
      end
      rates, recount = list[1] and list, true
    end
  end

  -- Brings "!r" up to date, and the numbers of the rates.
  function recounted()
    local rows, countsUntil = '', 0
    for k = 1, rates and #rates or 0 do
      if not rates[k].burst then open(rates[k]) end
    end
    counting = false
    for k = 1, rates and #rates or 0 do
      local r = rates[k]
      if r.burst then
        if r.fullAt <= now * 1000 then r.fullAt, r.lacks = 0, '-' end
        countsUntil, counting = math.max(countsUntil, floor((r.fullAt + 999) / 1e3)), counting or r.fullAt > 0
      else
        if r.charged > 0 then
          local n = floor(now / r.grain)
          if n <= r.newest then                         -- or the clock was set back
            local front, sum = match(r.sums, '^(.*) (%d+)$')
            r.sums = front .. format(' %d', sum + r.charged)
          else
            if r.oldest > r.newest then r.oldest = n end
            r.sums = r.sums .. string.rep(' 0', n - math.max(r.newest + 1, r.oldest)) .. format(' %d', r.charged)
            r.newest = n
          end
          r.charged = 0
        end
        roll(r)
        while sub(r.sums, -2) == ' 0' do r.sums, r.newest = sub(r.sums, 1, -3), r.newest - 1 end -- it was settled for nothing
        if r.spent > 0 then
          rows = rows .. format('%d %d %d', r.grain, r.oldest, r.newest) .. r.sums
          countsUntil, counting = math.max(countsUntil, (r.newest + 1) * r.grain + r.per), true
        end
      end
      rows = rows .. '|'
    end
    if counting then
      put(SUMS, 'r |' .. rows)
      if countsUntil ~= storedUntil then expire(SUMS, countsUntil) end -- else it has that deadline
    elseif counted then goneIDs[#goneIDs + 1] = SUMS end
    if counting ~= counted then others = others + (counting and 1 or -1) end
  end

  for k = 1, rates and #rates or 0 do                   -- what has left a window by now
    local r = rates[k]
    if r.burst and r.fullAt > 0 and r.fullAt <= now * 1000 or not r.burst and r.fades > 0 and r.fades <= now then recount = true end
    if recount and not r.burst then open(r) end
  end
end

-- ---- operate: those who leave, signs of life, and operators ----
local limitBefore, wantedSet, pausedBefore = limit, set, paused
local got = {}                                          -- the record of ARGV[offset + k] is got[k], or false
if named == 1 then got[1] = call('HGET', STATE, ARGV[offset + 1])
elseif named > 1 then got = call('HMGET', STATE, unpack(ARGV, offset + 1)) end
for k = 1, due and named or 0 do
  local record = changed[ARGV[offset + k]]
  if record ~= nil then got[k] = record end
end
for g = 1, #groups do
  local group = groups[g]
  local verb, param, second = group.verb, group.words[1], group.words[2]
  if verb == 'D' then
    if declared ~= '0' and param ~= declared then changes = changes + 1 end
    declared = param
  elseif verb == 'P' then
    pin = param
  elseif verb == 'Z' then
    paused, weighAll, who = param, true, false          -- limits that were set meanwhile have been compared with nobody's weight
  elseif verb == 'W' then
    local wanted = now + param + 1                      -- "now" is up to a millisecond behind the clock
    local is = who and pauseEnds or paused == '2' and now + remaining(PAUSE) or paused == '1' and wanted or 0
    if wanted > is then paused, who, pauseEnds = '2', second, wanted end
  elseif verb == 'U' then
    pinned = false
  elseif verb == 'Q' and (param == '1' or not pinned) then
    local others = ratesOf(wantedSet)
    pinned, wantedSet = param == '1', group.words[3]
    if second ~= '*' then                               -- those of other units stay; and equal sets are to be equal texts
      local all, words = ratesOf(wantedSet), {}
      for k = 1, #others do
        if others[k].unit .. ':' ~= second then all[#all + 1] = others[k] end
      end
      table.sort(all, function(a, b) return a.unit == b.unit and a.per < b.per or precedes(a.unit, b.unit) end)
      for k = 1, #all do words[k] = all[k].word end
      wantedSet = words[1] and table.concat(words, ',') or '-'
      if not ratesOf(wantedSet) then refuse('rates', wantedSet) end
    end
  end
  local quick = verb == 'L' and param == '0' and not group.settled -- a release, as most are
  local stands                                          -- the place of the waiter who was answered last
  for k = group.first, group.last, verb == 'M' and 2 or 1 do
    local id, record = ARGV[offset + k], got[k]
    local answer, weight, slot
    if quick then weight, slot = match(record or '', '^h (%d+) (%d+) ') end
    local kind = not weight and record and sub(record, 1, 1)
    if weight then                                      -- what "leave" would do, without a tombstone
      local n = slot + 0
      used, holders, answer = used - weight, holders - 1, '9'
      freed[#freed + 1], freedText[n], goneIDs[#goneIDs + 1] = n, slot, id
    elseif verb == 'L' then
      if record and kind ~= 'x' then
        if group.settled and kind ~= 'w' then settle(record, group.settled) end
        answer = leave(id, record, 1, param == '1' and now + LATE or 0)
      else
        answer = absent(record)
        if param == '1' and not record then
          others = others + 1
          put(id, 'x 1')
          expire(id, now + LATE)
        elseif param == '1' and remaining(id) < LATE then -- it answers for older copies, and another may be under way
          expire(id, now + LATE)
        end
      end
    elseif verb == 'M' then
      -- The lease gets another id, with all that it has but the token. The old id keeps a tombstone.
      local new, moved, lasts = ARGV[offset + k + 1], got[k + 1], nil
      if moved then                                     -- a repetition, if it is a lease
        lasts = find(moved, '^h ') and remaining(new)
      elseif kind == 'h' then
        local size, place, ceiling, ttl, charges, owner, label = match(record, '^h (%d+) (%d+) %d+ (%d+) (%d+) (%S+) (%S+) (.*)$')
        if not label then corrupt('record', record) end
        if param ~= '0' then ttl = param end
        lasts = ttl + 0
        if ceiling ~= '0' and ceiling - now < lasts then lasts = ceiling - now end
        owner = second .. (match(owner, ';tenant=.*$') or '')
        moved = 'h ' .. size .. ' ' .. place .. ' ' .. nextNumber() .. ' ' .. ceiling .. ' ' .. ttl .. ' ' .. charges .. ' ' .. owner .. ' ' .. label
        put(new, moved)
        expire(new, now + lasts)
        others = others + 1
        put(id, 'x 5 ' .. second)
        expire(id, now + TOLD)
      end
      local size, place, token, ttl, label = match(moved or '', '^h (%d+) (%d+) (%d+) %d+ (%d+) %S+ %S+ (.*)$')
      answer = label and format('11 %s %s %d %s %s %d ', place, token, lasts, size, ttl, #label) .. label or absent(moved or record)
    elseif not record or kind == 'x' or kind == 'w' and (verb == 'S' or verb == 'R') then
      answer = absent(record)
    elseif verb == 'E' then
      if param == '1' or kind == 'w' then
        tell(id, record, 'x ' .. id .. ' 3')
        answer = leave(id, record, 3, now + TOLD)
      else
        tell(id, record, 'x ' .. id .. ' 6')
        put(id, 'e' .. sub(record, 2))
        answer = '8 0'
      end
    elseif verb == 'S' then
      put(id, settle(record, group.settled))
      answer = '14'
    elseif verb == 'R' then
      local grant, ceiling, ttl = match(record, '^[he] %d+ (%d+ %d+) (%d+) (%d+) ')
      if not grant then corrupt('record', record) end
      if kind == 'e' then
        answer = '8 ' .. format('%d', remaining(id))
      else
        local lasts = (param == '0' and ttl or param) + 0
        if ceiling ~= '0' and ceiling - now < lasts then lasts = ceiling - now end
        expire(id, now + lasts)
        answer = '7 ' .. grant .. ' ' .. format('%d', lasts)
      end
    elseif verb == 'H' and kind == 'w' then
      if param ~= '0' then
        heard = heard or {}
        heard[id] = true
        expire(id, now + param)
      end
      local place, front = -1, 0
      if second == '1' and epoch > 0 then
        local before
        place, before = line.standing(id, record)
        if before then front = math.max(remaining(before), 1) end
      elseif second == '1' then place = call('ZRANK', ORDER, '#' .. id) or -1 end
      if epoch == 0 and place > 0 and place - 1 ~= stands then
        local at = format('%d', place - 1)
        front = math.max(remaining(sub(call('ZRANGE', ORDER, at, at)[1], 2)), 1)
      end
      stands, answer = place, format('2 %d %d', place, front)
    else                                                -- H: it was granted meanwhile
      local grant = match(record, '^[he] %d+ (%d+ %d+) %d+ %d+ ') or corrupt('record', record)
      answer = (kind == 'e' and '8 ' or '1 ' .. grant .. ' ') .. format('%d', remaining(id))
    end
    answered = answered + 1
    answers[answered] = answer
  end
end
if who then
  if pausedBefore ~= '2' then others = others + 1 end
  put(PAUSE, 'p ' .. who)
  expire(PAUSE, pauseEnds)
elseif pausedBefore == '2' and paused ~= '2' then
  others, goneIDs[#goneIDs + 1] = others - 1, PAUSE
end
if used < holders or holders < 0 or waiting < 0 or others < 0 or holders == 0 and used > 0 then corrupt('state', stored) end
for g = 1, #arrivals do                                 -- what newcomers declare counts for those who wait, too
  local group = arrivals[g]
  local wanted = group.words[4]
  if wanted == '0' then wanted = declared ~= '0' and declared or (group.set or '-') ~= '-' and format('%d', COSTLY) or '1' end
  if wanted ~= declared and declared ~= '0' then changes = changes + 1 end
  declared = wanted
  if group.set and group.set ~= '-' and not pinned then wantedSet = group.set end
end
if wantedSet ~= set then
  if set ~= '-' then changes = changes + 1 end
  declare(ratesOf(wantedSet) or refuse('rates', wantedSet))
  set, weighAll = wantedSet, true
end
limit = (pin == '-1' and declared or pin) + 0

-- ---- pump: the head of the queue is granted while it fits, and nobody overtakes it ----
local room = 0                                          -- how many waiters are looked at
better = better or weighAll or limit ~= limitBefore or left > 0 or freed[1] ~= nil
local heads, records                                    -- of the queue, when they have been read
local asking = false                                    -- the head fits, and may be dead: it was asked for a sign of life, now or before
-- With a status of 1 more is due: the head may have expired, and the next call goes on.
if better and status == 0 and waiting > 0 and paused == '0' and limit > 0 then
  room = math.min(waiting, PAGE)
  if not weighAll and limit == limitBefore then         -- after a change others may have become too heavy
    room = math.max(math.min(room, limit - used, rates and LOOKED or PAGE), 0) -- each takes at least one permit
  end
end
if free > 0 and room + newcomers > 0 then               -- the lowest stored free slots, as many as can be given out
  local most, past = room + newcomers, -1
  local stock = call('ZRANGEBYSCORE', ORDER, '0', '2147483648', 'WITHSCORES', 'LIMIT', '0', most)
  for k = 1, #stock, 2 do
    if stock[k] ~= stock[k + 1] then corrupt('free slot', stock[k]) end
    local slot = stock[k] + 0
    if slot <= past or slot % 1 ~= 0 or freedText[slot] then corrupt('free slot', stock[k]) end
    freed[#freed + 1], storedText[slot], past = slot, stock[k], slot
  end
end
if freed[2] then table.sort(freed) end
if freed[1] and freed[#freed] >= slots then corrupt('slot', freed[#freed]) end
if room > 0 then
  changed = changed or {}
  status = 1                                            -- unless the queue is empty, or all is taken, or the head does not fit
  if epoch == 0 then
    heads = call('ZRANGE', ORDER, '0', math.min(room + left, stood - 1)) -- and who left in this call, and who may be the head then
    for k = 1, #heads do heads[k] = sub(heads[k], 2) end
    records = call('HMGET', STATE, unpack(heads))
  end
  local k, aside = 0, 0                                 -- aside: what those who are asked would use
  while true do
    local id, record
    if heads then
      k = k + 1
      id, record = heads[k], records[k]
      if not id then break end
    else
      local first = line.first()
      if not first then break end
      id, record = line.head(first)
      if not id then corrupt('state', stored) end
    end
    local weight, costs, maxhold, ttl, beat, ownerAt = match(record or '', '^w (%d+) (%S+) %d+ (%d+) (%d+) (%d+) ():?%d+/')
    if not ownerAt then corrupt('waiter ' .. id, record) end
    if changed[id] == nil then                          -- else it has just left
      room = room - 1
      local taken = used + aside + weight
      local wait = rates and taken <= limit and ratesWait(costs, weight) or 0
      local fits = taken <= limit and wait == 0
      local age, asked = 0, false                       -- what was heard of it last is so old
      if fits and rates and not (heard and heard[id]) then
        local left
        left, asked = remaining(id)
        age = beat - left
      end
      if weight + 0 > limit or rates and tooCostly(costs, weight) then -- it would block the queue for ever
        if room < 0 or asking then break end            -- it is for the next call
        tell(id, record, 'x ' .. id .. ' 4')
        leave(id, record, 4, now + TOLD)
        changed[id] = 'x 4'                             -- so that a repetition in this call is told
      elseif not fits then
        if wait > 0 and not asking then lookBy(now + wait) end
        status = 0
        break
      elseif room < 0 then break                        -- it is for the next call: no free slot was read for it
      elseif asking or age > LATELY then
        -- What a dead waiter is granted comes back with its permit, but counts for the rates. So who fits
        -- is asked for a sign of life first, and granted in the call that brings it. Those behind are asked
        -- at once, who fit if the ones before them are granted: so that is a round trip for all.
        if not asking then lookBy(now) end              -- the next call is to look again, for it may bring it
        asking, status, aside = true, 0, aside + weight
        for r = 1, #rates do rates[r].aside = (rates[r].aside or 0) + costOf(rates[r], costs, weight) end
        if not heads then line.skip(record, weight + 0, costs) end
        if age > LATELY / 2 and not asked then          -- else it has been told, or still lives when the head answers
          rank(id, format('%d.5', now + beat - age - 1))
          tell(id, record, 'n ' .. id .. ' 0')
        end
      else
        -- A hand-off leaves the deadline that the last heartbeat has set: if the waiter's process
        -- is dead, its permit is free at the time at which its place would have been.
        local slot, ceiling, charges = takeSlot(), '0', '-'
        if maxhold ~= '0' then
          ceiling, caps = lookBy(now + maxhold), caps or {}
          caps[#caps + 1], caps[#caps + 2] = ceiling, id
        end
        used, holders, waiting, gone = used + weight, holders + 1, waiting - 1, gone + 1
        if epoch > 0 then line.grant(record, weight + 0, costs) end
        if rates then charges = charge(costs, weight) end
        record = 'h ' .. weight .. ' ' .. slot .. ' ' .. nextNumber() .. ' ' .. ceiling .. ' ' .. ttl .. ' ' .. charges .. ' ' .. sub(record, ownerAt)
        put(id, record)
        changed[id], goneMembers[#goneMembers + 1] = record, '#' .. id
        tell(id, record, 'g ' .. id .. ' ' .. slot .. ' ' .. last .. ' ' .. (pin == '-1' and declared or pin))
      end
    end
  end
  if asking then
    for r = 1, #rates do rates[r].aside = nil end
    if not heads then line.unskip() end
  end
  if waiting == 0 or used >= limit then status = 0 end
end

-- ---- admit: newcomers are granted, queued or refused ----
for g = 1, #arrivals do
  local group = arrivals[g]
  local wait, weight, maxhold, _, beat, start, qlimit, ttl = unpack(group.words)
  local size, ceiling, lasts, costs = weight + 0, '0', ttl, group.costs
  local costly = rates and tooCostly(costs, weight)
  local score                                           -- the deadline of those who are granted
  if maxhold ~= '0' then
    ceiling = format('%d', now + maxhold)
    if maxhold + 0 < ttl + 0 then lasts = maxhold end
  end
  local lease, terms, lasting = 'h ' .. weight .. ' ', ' ' .. ceiling .. ' ' .. ttl .. ' ', ' ' .. lasts
  for k = group.first, group.last do
    local id, record = ARGV[offset + k], got[k]
    local answer
    if changed and changed[id] ~= nil then record = changed[id] end
    if record then                                      -- a repetition, or a copy that comes late
      local kind, grant, cap = match(record, '^([hew]) %d+ (%S+ %d+) (%d+) ')
      if kind == 'w' then
        mustPass = true                                 -- it is as a heartbeat
        expire(id, now + beat)
        local place = epoch > 0 and line.standing(id, record) or call('ZRANK', ORDER, '#' .. id)
        answer = format('2 %d 0', place or corrupt('not in the queue:', id))
      elseif kind then
        local held = remaining(id)
        if cap ~= '0' and cap - now < held then held = cap - now end -- of a hand-off in this call
        answer = '1 ' .. grant .. ' ' .. format('%d', held)
      else
        answer = absent(record)
      end
    elseif size > limit and limit > 0 then
      answer = '5 ' .. (pin == '-1' and declared or pin)
    elseif costly then
      answer = '13 ' .. costly
    elseif waiting == 0 and used + size <= limit and paused == '0' and (not rates or ratesWait(costs, weight) == 0) then
      local slot, charges = takeSlot(), '- '
      used, holders = used + size, holders + 1
      if rates then charges = charge(costs, weight) .. ' ' end
      if not score then
        score = lookBy(now + lasts)
        if now + lasts > furthest then furthest = now + lasts end
      end
      local f, n = #fields, #scores                     -- "put" and "rank" would be dear: it is what most calls do
      fields[f + 1], fields[f + 2] = id, lease .. slot .. ' ' .. nextNumber() .. terms .. charges .. group.ownerAndLabel
      scores[n + 1], scores[n + 2] = score, id
      answer = '1 ' .. slot .. ' ' .. last .. lasting
    elseif wait == '0' or line and line.tooLong(group.lineName, qlimit + 0) or not line and waiting >= qlimit + 0 then
      answer = (wait == '0' and '3 ' or '4 ') .. (rates and format('%d', ratesWait(costs, weight)) or '0')
    else
      put(id, 'w ' .. weight .. ' ' .. costs .. ' ' .. nextNumber() .. ' ' .. maxhold .. ' ' .. ttl .. ' ' .. beat .. ' ' .. group.ownerAndLabel)
      expire(id, now + beat)
      local own, turn = common, seq - start * 1000 - EXACT
      if line then own, turn = line.come(group.lineName, line.step(size, costs, group.share or 1), start * 1000) end
      local ahead, first, at = waiting, waiting == 0, format('%d', turn)
      rank('#' .. id, at)
      if start ~= '0' then                              -- it may stand before others
        ahead = math.max(call('ZCOUNT', ORDER, own and own.low or '-inf', '(' .. at) - gone, 0) -- or more, if who has left stood behind it
        first = ahead == 0
      end
      local leads = line and line.leads(own, turn, id)
      if line and (not own.lead or turn < own.lead or turn == own.lead and leads) then own.lead, own.leader = turn, id end
      waiting = waiting + 1
      if epoch > 0 then
        if start == '0' then ahead = own.count - 1 else ahead = leads and 0 or math.max(ahead, 1) end
        first = ahead == 0 and line.first() == own
        ahead = line.ahead(ahead, first)
      end
      -- It may be the head, and fit. Others may have come with it and stand before it: the next call grants.
      if first and used + size <= limit and paused == '0' then
        local wait = rates and ratesWait(costs, weight) or 0
        if wait > 0 then lookBy(now + wait) else status = 1 end
      end
      answer = format('2 %d 0', ahead)
    end
    answered = answered + 1
    answers[answered] = answer
  end
end

if epoch > 0 then line.write() end
if recount then recounted() end

-- ---- tell: the head of the queue knows when to look ----
--
-- Time alone lets nobody in before "nearest", and nobody but the head has to look then. It knows a time that
-- is not after "nearest": it is told one when it comes to be the head, and when "nearest" moves to an
-- earlier time than it was told. A newcomer is answered.
if status == 1 then soon, nearest = now, format('%d', now) end -- whoever comes next goes on
if not asking and stood > gone and (gone > 0 or soon < known) then
  local id, record                                      -- of the head, if it is to be told
  if epoch > 0 then
    id, record = line.head(line.first() or corrupt('state', stored)) -- else it has just come, and is answered
  else
    if not heads then
      heads = call('ZRANGE', ORDER, '0', gone)
      for k = 1, #heads do heads[k] = sub(heads[k], 2) end
    end
    local k = 1
    while changed and changed[heads[k]] ~= nil do k = k + 1 end
    local head = heads[k] or corrupt('state', stored)
    if k > 1 or lined or soon < known then
      id, record = head, records and records[k] or call('HGET', STATE, head) or corrupt('no record for', head)
    end
  end
  if id then tell(id, record, 'n ' .. id .. ' ' .. format('%d', math.max(soon - now, 0))) end
end

-- ---- write ----
--
-- Everything was checked, and nothing changed until here, but for what "read" has put right.
local nobody = used + waiting == 0
local sticks = pin ~= '-1' or pinned or paused == '1'   -- a pin, and a pause without end, are not forgotten
local hasOrder = not nobody or others > 0               -- there is to be ORDER
if not sticks and not hasOrder and seq < us then        -- the clock has passed the last token: nothing is to be remembered
  if stored then call('DEL', STATE) end
  if hadOrder then call('DEL', ORDER) end
  stored = false
else
  -- Free slots become members of ORDER, but the highest are forgotten.
  if not hasOrder then slots, nextFree = 0, #freed + 1 end
  for k = #freed, nextFree, -1 do
    local slot = freed[k]
    local member = storedText[slot]
    if slot == slots - 1 then
      slots = slot
      if member then goneMembers[#goneMembers + 1] = member end
    elseif not member then
      rank(freedText[slot], freedText[slot])
    end
  end
  if hasOrder and not hadOrder then rank(NOTE, NOTESCORE) end

  -- The keys have a TTL. Under a policy that evicts first what has one (volatile-*, POLICY 0) they
  -- have it only while their loss would not matter.
  local lapsed, tillBefore = lapses, till
  local matters = not nobody or counting or paused == '2'
  lapses = not sticks and (POLICY == '1' or not matters) and '1' or '0'
  if not matters and till - now > TOLD + GRAIN then till = format('%d', now + TOLD + GRAIN) end -- after a long lease
  -- It is at least a second past every deadline, and moves by more, so that few calls have to set it.
  if furthest > 0 and furthest + 1000 > till + 0 then till = format('%d', furthest + GRAIN) end
  if not hasOrder then
    nearest = '0'
    if lapses == '1' then till = format('%d', now + 1000) end
  end
  if nobody and seq / 1000 + 1000 > till + 0 then till = format('%d', math.ceil(seq / 1000) + 1000) end -- the last token outlives a clock that is behind
  local state = format('3 %s %s %s %s %d %d %d %d %d %s %s %s %s',
    declared, pin, paused, changes, used, holders, waiting, others, slots, last, nearest, till, lapses)
  if pinned then set = '!' .. set end
  if epoch == 0 and set == '-' then state = state .. BARE
  elseif epoch == 0 then state = state .. ' 0 ' .. set
  else state = state .. format(' %d:%d:%d:%d:%d:%d:%d ', epoch, clock, fresh, common.place, common.count, tenants, nextLine) .. set end
  for k = 1, rates and #rates or 0 do
    local r = rates[k]
    if r.burst then state = state .. format(' %d %s %d', r.fullAt, r.lacks, r.since)
    else state = state .. format(' %d %d %d', r.spent, r.fades, r.since) end
  end
  local unchanged = stored
  if state ~= stored then
    put('state', state)
    stored = state
  end

  -- The order of commands is what keeps half a step from happening.
  --  * A server that is out of memory refuses the first write of a script if it could grow, and
  --    none after one that could not. A removal of nobody in front lets releases, renewals and
  --    heartbeats pass; newcomers begin with what such a server refuses.
  --  * A user may lack the right to a command. Each is tried on nobody before the first real
  --    change; the first real one needs no trial. PERSIST does no harm. The errors of PEXPIREAT
  --    are ignored: a lack of TTLs is bearable.
  if lapsed == '1' and lapses == '0' then call('PERSIST', STATE) call('PERSIST', ORDER) end
  local passes, empties = mustPass or due, hadOrder and not hasOrder -- ORDER is to go
  local adds, removes = not empties and (scores[1] or caps), not empties and (goneIDs[1] or goneMembers[1])
  if passes and (fields[1] or adds or removes) then call('ZREM', ORDER, '') end
  if adds then call('ZADD', ORDER, 'XX', '0', '') end
  if removes and not passes then call('ZREM', ORDER, '') end
  if goneIDs[1] then call('HDEL', STATE, '') end
  if empties or due then call('HSET', STATE, 'state', unchanged) end
  if empties then call('DEL', ORDER) end
  for turn = 1, 2 do
    if (turn == 1) == (due ~= nil) then                 -- what was due may have come back
      if goneMembers[1] and removes then call('ZREM', ORDER, unpack(goneMembers)) end
      if goneIDs[1] and removes then call('ZREM', ORDER, unpack(goneIDs)) end
      if goneIDs[1] then call('HDEL', STATE, unpack(goneIDs)) end
    else
      for k = 1, #fields, 4000 do call('HSET', STATE, unpack(fields, k, math.min(k + 3999, #fields))) end -- many if all lines are written
      for k = 1, adds and #scores or 0, 4000 do call('ZADD', ORDER, unpack(scores, k, math.min(k + 3999, #scores))) end
      if caps and adds then call('ZADD', ORDER, 'LT', unpack(caps)) end
    end
  end
  if lapses == '1' then
    local later = lapsed == '0' or till ~= tillBefore
    if later then try('PEXPIREAT', STATE, till) end
    if hasOrder and (later or not hadOrder) then try('PEXPIREAT', ORDER, till) end
  end
end

-- ---- publish ----
--
-- A message is a hint. A user who may not publish must not end in half a step: errors are ignored.
for channel, message in pairs(notes or {}) do
  if sub(channel, 1, 1) == ':' then
    try('SPUBLISH', STATE .. channel, message)
  else
    try('PUBLISH', match(STATE, '^[^{]*') .. 'inbox:' .. channel, message)
  end
end
local pauses = paused == '2' and format(' %d ', pauseEnds or call('ZSCORE', ORDER, PAUSE)) or ' 0 '
return stamp .. format(' %d ', status) .. was .. ' ' .. wasRates .. pauses .. (stored or NOBODY) .. ' ' .. table.concat(answers, ' ')
