-- One call of this script is one atomic step of one semaphore. This header is the specification,
-- in two parts: what is stored and sent, which all clients of a semaphore share; and what is asked
-- and answered, which is between a client and the text that it sends. doc.go, beside this file,
-- gives the reasons, and says what a client owes.
--
-- STORED AND SENT
--
-- KEYS[1]        is PREFIX:{NAME}, a hash. It has the field "state", and by its id a record of each
--   h weight slot token ceiling ttl owner label   lease; no renewal goes beyond ceiling (0: none)
--   e the same                                    lease whose holder was asked to stop
--   w weight cost ticket maxhold ttl owner label  waiter (cost 0: the weight; maxhold 0: none)
--   x reason                                      mark: a tombstone, which answers for an id that has
--                                                 ended; "x 5 owner" for one that was moved to owner
--   p who                                         mark "!p": nobody is granted before its deadline, as who wants
--   r sum until                                   mark "!r" and a number: what grants of one time cost
--                                                 in sum, which counts for the rate until that time (ms)
--   t turn epoch                                mark "!t" and a tenant: where its next waiter stands (us), or
--                                                 behind that; of another epoch, or earlier than now, it counts no more
--                A mark is a record with a deadline that nobody holds or waits for.
-- KEYS[1]:order  is a sorted set in the same slot of a cluster. What its scores mean:
--   below 0        the queue: the member is "#" and the id, the score is turn - 2^53, and a turn is
--                  the ticket, or later by its tenant's "!t", minus the head start
--   from 0         free slots: member and score are the number of the slot
--   4000000000     the member NOTE, for as long as there is the set
--   from 2^32      deadlines: the member is the id of a record, the score is server time in ms
-- "state"        is 1 declared pin paused changes used holders waiting marks slots last nearest till lapses
--   declared       the limit that was declared last; 0: none yet       pin  limit by an operator; -1: none
--   paused         1: nobody is granted; 2: nobody, while there is "!p"
--   changes        of the declared limit, and of the rate
--   used           permits in use: the weights of all holders          holders, waiting, marks  how many
--   slots          numbers given out: those below are held or free     last  token or ticket
--   nearest        before this time (ms) no deadline ends, and the head of the queue does not come to fit
--                  by time alone; 0: there is none
--   till           all deadlines have passed by then (ms)              lapses  1: the keys have a TTL, till then
--                or, where there is a rate, or something counts for one, or paused is 2, or there is an epoch,
--                2, the same numbers, and rate window spent since bucket index epoch
--   rate, window   costs of so much are granted in any time of so long (ms); 0 0: there is no rate
--   spent          the sums of all "!r"                                since  when the newest began (ms); 0: there is none
--   bucket, index  sum and number of the newest "!r"
--   epoch          ticket of the first waiter with a tenant since the queue was empty; 0: there was none
--                or, where one lease is alone, and there is no sorted set and no record,
--                1 compact id token deadline expires HEAD
--   expires        when the key does (ms); 0: never                    HEAD  A..., as the acquire said it
--                Another number in front, or more numbers, are a newer layout: BERTHVERSION.
-- Numbers        are decimal, without leading zeros, and have at most 12 digits; tokens, tickets and
--                times in us 16. Times are of the server's clock, durations are in ms.
-- An id          is CHANNEL.REST. The channel of its process has letters and digits; the rest is
--                anything without spaces and line feeds. An id never means two requests.
-- An owner       is pid/host;client, and may go on with ;key=value. It has no spaces. A ":" in front
--                says that its process hears shard channels. ";tenant=" is the last key: what is
--                behind the first of them is the tenant, 1 to 64 characters without control characters.
-- A label        is the rest of its text, whatever bytes it has; it may be empty.
-- Tickets and    are numbers of one sequence: max(last + 1, now in us).
-- tokens
-- Messages       go to PREFIX:inbox:CHANNEL, or where the owner has ":" in front to the shard channel
--                KEYS[1]:CHANNEL. A message is KEYS[1] and, each on a line of its own,
--   g id slot token limit    the waiter was granted; limit is the one in force
--   x id reason              it has ended, or (6) is asked to stop
--   n id rest                the waiter is the head of the queue, and "nearest" is in so many ms: nobody
--                            else may look then
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
--   head           a verb, and its words behind it with single spaces between. "+": at least 1.
--     A wait weight+ maxhold limit heartbeat+ headstart qlimit ttl+ owner label    acquire
--       wait 1: may be queued, if fewer than qlimit are. limit 0: the declared one, or 1 if there is none
--     B rate window cost A... acquire, with a rate. cost 0: the weight. rate and window 0: declares
--                             none. window from 10 to 30 days, rate and cost up to 2^30
--     T pace A... or B... acquire for the owner's tenant, whose waiters stand as though they had come
--                             weight times pace apart, from 10 to a day
--     H heartbeat places      of a waiter; 0: its place does not last longer. places 1: where it stands is wanted
--     R ttl                   renew; ttl 0: the lease's
--     L tomb                  release, or leave the queue. tomb 1: a copy of the acquire may be under way
--     M ttl owner             move; its ids come in pairs, old and new. ttl 0: the lease's. The tenant stays
--     E force                 evict. force 0: ask the holder to stop
--     D limit    P pin    Z paused    for operators, of no ids: resize, pin, pause. A limit is forgotten
--                             when nobody is there any more, a pin and a pause are not
--     W for+ who              of no ids: pause for so long, unless it is paused for longer; Z ends that
--     Q rate window           for operators, of no ids: declare a rate; 0 0: none
--   count          of the ids of a group. Acquires come last. At most 250 ids in all, each of them once,
--                  which the script does not check: it is for the client to see to
-- Answer         numbers with spaces between: now (us), status (0 done; 1 done, and more is to be done:
--                call again without operations; -1 too late, not done, and the rest is nobody's), the
--                limit that was declared before, "state" (the last two 0 where a lease is alone), behind
--                a "state" of 2 the rate and the window that were declared before and the time until which
--                it is paused (ms; 0: it is not, or without end), and for each id (M: each pair)
--     A  1 slot token remaining | 2 ahead 0 | 3 rest (busy) | 4 rest (queue full)
--        | 5 limit (heavier than that) | 13 rate window (costs more than that) | gone
--        rest: for so long the rate alone does not let it in; 0: it would, or that is not known
--     H  1 slot token remaining | 2 ahead front (-1 0: not asked for) | 8 remaining | gone
--        front: for so long the waiter directly in front of it keeps its place, if it is not heard of;
--        0: that one is directly before it in this call, or there is none
--     R  7 slot token remaining | 8 remaining (asked to stop, not renewed) | gone
--     L  9 released | 10 left the queue | gone
--     M  11 slot token remaining weight ttl bytes label | gone
--     E  9 | 10 | 8 0 | gone
--     gone: 6 reason | 12 bytes owner (moved, to that owner)
-- Errors         BERTHREQUEST word (it does not fit the grammar), BERTHCORRUPT what (berth did not write
--                that), BERTHVERSION (a newer layout), BERTHCLOCK, BERTHHALF ms (one key was lost; what the
--                other tells of ends in so long, and then it heals). Nothing of what was asked was done.
--                A server puts words of its own around them.
-- Cost           O(log n) for each id and each grant. Needs a server of 64 bits (%d), and Lua 5.1 to 5.4.
--
-- Numbers that are only copied stay the text that they were, and others become text by format: making
-- text of a number costs as much as four calls of a function, and Lua 5.1 rounds from 10^14.

local STATE, ARGV = KEYS[1], ARGV
local call, try = redis.call, redis.pcall
local format, match, find, sub = string.format, string.match, string.find, string.sub

local NOBODY = '1 0 -1 0 0 0 0 0 0 0 0 0 0 0'           -- "state" where there are no keys
local ALONE = ' -1 0 0 1 1 0 0 1 '                      -- its numbers from pin to slots, where a lease is alone
local DEADLINES = 4294967296                            -- the least score of a deadline
local GRAIN = 60000                                     -- ms; the keys' TTL moves in steps of this
local ID = '^%w+%.%S+$'                                 -- of a lease that may be alone

local clock = call('TIME')
local micros = clock[2]
if #micros < 6 then micros = sub('00000' .. micros, -6) end
local stamp = clock[1] .. micros                        -- us, as text
local us = stamp + 0
local now = math.floor(us / 1000)
local bound = ARGV[1]
if bound ~= '0' then
  bound = tonumber(bound)
  if not bound or bound < 1 or bound % 1 ~= 0 then error('BERTHREQUEST bound ' .. tostring(ARGV[1])) end
  if now > bound then return stamp .. ' -1 0 ' .. NOBODY end
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
      local limit, beat, start, qlimit, ttl =           -- of weight 1, and without a maxhold
        match(head, '^A[01] 1 0 ([1-9]%d*) ([1-9]%d*) (%d+) (%d+) ([1-9]%d*) :?%d+/%S+ ')
      if ttl and #limit < 13 and #beat < 13 and #start < 13 and #qlimit < 13 and #ttl < 13
        and (start == '0' or start >= '1') and (qlimit == '0' or qlimit >= '1') and find(id, ID)
        and (KEYS[2] == order or call('EXISTS', order) == 0) then
        local deadline, expires = format('%d', now + ttl), '0'
        if POLICY == '1' then expires = format('%d', now + ttl + GRAIN) end
        call('HSET', STATE, 'state', '1 compact ' .. id .. ' ' .. stamp .. ' ' .. deadline .. ' ' .. expires .. ' ' .. head)
        if expires ~= '0' then try('PEXPIREAT', STATE, expires) end
        return stamp .. ' 0 0 1 ' .. limit .. ALONE .. stamp .. ' ' .. deadline .. ' 0 0 1 0 ' .. stamp .. ' ' .. ttl
      end
    end
  else
    local renewal = match(head, '^R([1-9]%d*)$')
    if renewal and #renewal < 13 or head == 'L0' then
      stored = call('HGET', STATE, 'state')
      local owned, token, deadline, expires, at, limit =
        match(stored or '', '^1 compact (%S+) (%d+) (%d+) (%d+) ()A[01] 1 0 (%d+) ')
      if owned == id and deadline + 0 > now then        -- else it is not, or no longer, that lease's alone
        if not renewal and token + 0 < us then          -- the clock has passed the token: nobody needs to remember it
          call('HDEL', STATE, 'state')
          return stamp .. ' 0 ' .. limit .. ' ' .. NOBODY .. ' 9'
        elseif renewal and (expires ~= '0') == (POLICY == '1') then
          local later = expires
          deadline = format('%d', now + renewal)
          if expires ~= '0' and deadline + 1000 > expires + 0 then later = format('%d', now + renewal + GRAIN) end
          call('HDEL', STATE, '')                       -- so that it passes when memory is short: see "write"
          call('HSET', STATE, 'state', '1 compact ' .. id .. ' ' .. token .. ' ' .. deadline .. ' ' .. later .. ' ' .. sub(stored, at))
          if later ~= expires then try('PEXPIREAT', STATE, later) end
          return stamp .. ' 0 ' .. limit .. ' 1 ' .. limit .. ALONE .. token .. ' ' .. deadline .. ' 0 0 7 0 ' .. token .. ' ' .. renewal
        end
      end
    end
  end
end

-- ==== The second tier ====

local floor, unpack = math.floor, table.unpack or unpack
local ORDER = STATE .. ':order'
local NOTE = 'berth: queue < 0 <= free slots < this < deadlines (ms); over 64 bytes, so Redis keeps a skip list'
local PLACE = '4000000000'                              -- the score of NOTE
local FRONT = 9007199254740992                          -- 2^53: up to here doubles are exact
local CENTURY = 3000000000000                           -- ms; no deadline is further away
local MOST = 4000000000000                              -- used + slots + waiting + limit, of 12 digits each, is not above this
local PAGE = 250                                        -- so many are reaped, or looked at in the queue, in one call
local LATE = 10000                                      -- ms; so long after an acquire, at most, a copy of it runs (its "bound" sees to that)
local TOLD = 60000                                      -- ms; for so long a tombstone tells of an eviction or a move
local BUCKET = '!r'                                     -- the names of what counts for the rate; ids begin with no "!"
local COOL = '!p'                                       -- the name of a pause that ends
local TURN = '!t'                                       -- what the names of tenants' turns begin with
local DAY = 86400000000                                 -- us; no turn is further ahead than this
-- A "!t" has a deadline on the next full minute, and for as long as it counts gets another then. So
-- many end in one reaping, and what is left of lost keys heals soon, however far ahead a turn is.
local minute = now - now % GRAIN + GRAIN
local BUCKETS = 204                                     -- there are not more of them, whatever windows were declared in turn
local LOOKED = 25                                       -- so many waiters are looked at in one call, where there is a rate

local function corrupt(what, value) error('BERTHCORRUPT ' .. what .. ' ' .. sub(tostring(value), 1, 80)) end
local function refuse(what, value) error('BERTHREQUEST ' .. what .. ' ' .. sub(tostring(value), 1, 80)) end
local function isRate(rate, window)                     -- or both are 0
  return rate == '0' and window == '0' or window and #rate < 11 and #window < 11 and sub(rate, 1, 1) ~= '0'
    and sub(window, 1, 1) ~= '0' and rate + 0 <= 1073741824 and window + 0 >= 10 and window + 0 <= 2592000000
end

-- ---- The door: what is asked is checked whole, before this tier reads or writes ----

local groups, arrivals = {}, {}                         -- what is asked, and behind it the acquires
local named, offset = 0, 2                              -- how many ids there are, and what is before them in ARGV
local newcomers = 0                                     -- how many of them acquire
local firstHead, lastHead = 2, ARGV[2] and 2 or 0
if ARGV[4] then
  offset = 2 + 2 * (match(ARGV[2], '^%d%d?%d?$') or refuse('number of groups', ARGV[2]))
  firstHead, lastHead = 3, offset
end
for k = firstHead, lastHead, 2 do
  local head, count = ARGV[k] or refuse('number of groups', ARGV[2]), 1
  if ARGV[4] then count = (match(ARGV[k + 1] or '', '^%d%d?%d?$') or refuse('count', ARGV[k + 1])) + 0 end
  local verb = sub(head, 1, 1)
  local rate, window, cost, pace
  if verb == 'T' then                                   -- the rest is a B or an A
    local at
    pace, at = match(head, '^T([1-9]%d*) ()[AB]')
    if not pace or #pace > 8 or pace + 0 < 10 or pace + 0 > 86400000 then refuse('pace', head) end
    head = sub(head, at)
    verb = sub(head, 1, 1)
  end
  if verb == 'B' then                                   -- the rest is an A
    local at
    rate, window, cost, at = match(head, '^B(%d+) (%d+) (%d+) ()A')
    if not isRate(rate, window) or #cost > 10 or cost + 0 > 1073741824 or cost < '1' and cost ~= '0' then refuse('rate', head) end
    head, verb = sub(head, at), 'A'
  end
  local form =                                          -- what it looks like; captured are its words
    verb == 'A' and '^A([01]) ([1-9]%d*) (%d+) (%d+) ([1-9]%d*) (%d+) (%d+) ([1-9]%d*) (:?%d+/%S+ .*)$' or
    verb == 'L' and '^L([01])$' or
    verb == 'R' and '^R(%d+)$' or
    verb == 'H' and '^H(%d+) ([01])$' or
    verb == 'M' and '^M(%d+) (:?%d+/%S+)$' or
    verb == 'E' and '^E([01])$'
  local ofIDs = form and true or false                  -- those of no ids follow
  form = form or
    verb == 'D' and '^D(%d+)$' or
    verb == 'P' and '^P(%-?%d+)$' or
    verb == 'Z' and '^Z([01])$' or
    verb == 'Q' and '^Q(%d+) (%d+)$' or
    verb == 'W' and '^W([1-9]%d*) (.*)$' or refuse('verb', head)
  local words = { match(head, form) }
  if not words[1] then                                  -- which is the first word that does not fit?
    local is, n, fits = {}, 0, ''
    for word in string.gmatch(sub(head, 2), '%S+') do is[#is + 1] = word end
    for part in string.gmatch(form, '%S+') do
      n, fits = n + 1, fits .. string.gsub(part, '[()]', '')
      if not match(head, fits .. ' ') and not match(head, fits .. '$') then refuse('word', (is[n] or 'none') .. ' in ' .. head) end
      fits = fits .. ' '
    end
    refuse('head', head)
  end
  for w = 1, verb == 'A' and 8 or (verb == 'M' or verb == 'W') and 1 or #words do
    local n = words[w]
    if #n > 12 or n < '1' and n ~= '0' and n ~= '-1' then refuse('number', n .. ' in ' .. head) end
  end
  if verb == 'Q' and not isRate(words[1], words[2]) then refuse('rate', head) end
  if arrivals[1] and verb ~= 'A' then refuse('behind an acquire:', head) end
  if ofIDs ~= (count > 0) or verb == 'M' and count % 2 > 0 then refuse('count ' .. count .. ' of', head) end
  -- An id that may come to be stored is looked at whole. Any other only must not be the one field
  -- that is no record: whatever else it is, nothing is known of it.
  local first, last = offset + named + 1, offset + named + count
  if last > #ARGV then refuse('number of ids', #ARGV - offset) end
  if verb == 'A' or verb == 'M' or head == 'L1' then
    local all, channel = table.concat(ARGV, '', first, last), ' '
    if find(all, ' ', 1, true) or find(all, '\n', 1, true) then refuse('id', all) end
    for n = first, last do                              -- mostly of one channel: a pattern for each is dear
      local id = ARGV[n]
      if find(id, channel, 1, true) ~= 1 then channel = match(id, '^%w+%.') or refuse('id', id) end
      if #id == #channel then refuse('id', id) end
    end
  else
    for n = first, last do
      if ARGV[n] == 'state' then refuse('id', ARGV[n]) end
    end
  end
  local group = { verb = verb, words = words, first = named + 1, last = named + count }
  if rate then group.rate, group.window, group.cost = rate + 0, window + 0, cost end
  if pace then
    local tenant = match(words[9], '^%S-;tenant=(%S+) ') or refuse('tenant', 'none in ' .. words[9])
    local _, letters = string.gsub(tenant, '[^\128-\191]', '') -- characters of UTF-8
    if letters > 64 or #tenant > 256 or find(tenant, '%c') then refuse('tenant', tenant) end
    group.mark, group.step = TURN .. tenant, pace * 1e3 * words[2]
  end
  named = named + count
  if verb == 'A' then
    arrivals[#arrivals + 1], newcomers = group, newcomers + count
  else
    groups[#groups + 1] = group
  end
end
if named ~= (ARGV[2] and #ARGV - offset or 0) or named > PAGE then refuse('number of ids', #ARGV - offset) end
local keeps = groups[1] or not arrivals[1]              -- it is to pass when memory is short (see "write"): not all of it is for newcomers

-- ---- A pass has these sections: read, reap, operate, pump, admit, tell, write, publish ----
--
-- There is one pass, or there are two: where something is due, the first takes it out and does
-- nothing else. So operations never find what is past its deadline.
--
-- The numbers of the semaphore are local variables, and what happens once is no function: that is
-- for speed. A closure is made anew in each call, at about 700 instructions of the server and 100 for
-- each variable that it refers to; and a field of a table costs as much as five variables.

local status, was = 0, nil                              -- of the answer
local wasRate                                           -- and the rate and window before, as text
local weighAll = false                                  -- waiters are looked at though nothing is free: they may have become too heavy
local reaped = false                                    -- the first pass was made, or is not needed
local known                                             -- what "nearest" was: the head of the queue knows that
local headless = false                                  -- the first pass took somebody out of the queue, perhaps its head
while true do
  -- ---- read: what is stored, and whether it can be true ----
  stored = stored or call('HGET', STATE, 'state')

  -- A lease that is alone is brought into the general layout. That changes nothing else.
  if sub(stored or '', 1, 10) == '1 compact ' then
    local id, token, deadline, expires, limit, terms =
      match(stored, '^1 compact (%S+) (%d+) (%d+) (%d+) A[01] 1 0 (%d+) %d+ %d+ %d+ ()%d+ %S+ ')
    if not terms or deadline + 0 < DEADLINES or deadline - now > CENTURY or expires - now > CENTURY
      or call('EXISTS', ORDER) > 0 or call('HLEN', STATE) > 1 then corrupt('state', stored) end
    local record = 'h 1 0 ' .. token .. ' 0 ' .. sub(stored, terms)
    local ends = expires == '0' and format('%d 0', deadline + GRAIN) or expires .. ' 1'
    local state = '1 ' .. limit .. ALONE .. token .. ' ' .. deadline .. ' ' .. ends
    if keeps or ARGV[3] == id then call('ZREM', ORDER, '') end -- for the order of writes see "write"
    call('HSET', STATE, 'state', stored)
    call('ZADD', ORDER, PLACE, NOTE, deadline, id)
    call('HSET', STATE, id, record, 'state', state)
    if expires ~= '0' then try('PEXPIREAT', ORDER, expires) end
    stored = state
  end

  local version, declared, pin, paused, changes, used, holders, waiting, marks, slots, last, nearest, till, lapses, more =
    match(stored or NOBODY, '^([12]) (%d+) (%-?%d+) ([012]) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) ([01])(.*)$')
  local rate, window, spent, since, bucket, index, epoch = 0, 0, 0, 0, 0, 0, 0
  if version == '2' then
    rate, window, spent, since, bucket, index, epoch, more = match(more, '^ (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+)(.*)$')
    if not more or #rate > 12 or #window > 12 or #spent > 12 or #since > 13 or #bucket > 12 or #index > 12 or #epoch > 16 then corrupt('state', stored) end
    rate, window, spent, since, bucket, index, epoch = rate + 0, window + 0, spent + 0, since + 0, bucket + 0, index + 0, epoch + 0
    if (rate == 0) ~= (window == 0) or (since == 0) ~= (bucket == 0) or bucket > spent or rate + spent + epoch == 0 and paused ~= '2'
      or marks + 0 == 0 and (spent > 0 or paused == '2') or epoch > 0 and (waiting + 0 == 0 or epoch > last + 0) then
      corrupt('state', stored)
    end
  end
  if more ~= '' then
    if more and find(more, '^ %d') or (match(stored, '^(%d+) ') or 0) + 0 > 2 then error('BERTHVERSION ' .. sub(stored, 1, 80)) end
    corrupt('state', stored)
  end
  used, holders, waiting, marks, slots = used + 0, holders + 0, waiting + 0, marks + 0, slots + 0
  local limit = (pin == '-1' and declared or pin) + 0   -- the one in force
  local seq, soon = last + 0, nearest + 0
  local free = slots - holders                          -- how many slots are members of ORDER
  local ordered = used + waiting + marks > 0            -- there is ORDER
  if free < 0 or holders > used or holders == 0 and used > 0 or limit < 0 or used + slots + waiting + limit > MOST
    or not ordered and slots > 0 or seq >= FRONT or soon - now > CENTURY or paused == '2' and version == '1' or #declared > 12 or #changes > 12 or #till > 14 then
    corrupt('state', stored)
  end

  -- The number of members shows the loss of one of the two keys. What is left tells how long leases
  -- may live. After that it is removed, but for what operators have set.
  local members, holdsUntil = call('ZCARD', ORDER), nil      -- until when somebody may hold
  if members ~= (ordered and 1 + slots + 2 * waiting + marks or 0)
    or free > 0 and call('ZCOUNT', ORDER, '0', '2147483648') ~= free then
    if stored and members == 0 then
      holdsUntil = (used + waiting + spent > 0 or paused == '2') and till + 0 or 0 -- tombstones alone may go: at worst a late copy is granted, and expires
    elseif not stored and (call('ZSCORE', ORDER, NOTE) or 0) + 0 == PLACE + 0 and call('EXISTS', STATE) == 0 then
      holdsUntil = call('ZRANGE', ORDER, '-1', '-1', 'WITHSCORES')[2] + 0
    end
    if not holdsUntil or holdsUntil - now > CENTURY then corrupt('state does not match ' .. ORDER .. ':', stored) end
    if holdsUntil > now then error('BERTHHALF ' .. format('%d', holdsUntil - now)) end
    used, holders, waiting, marks, slots, free, soon, nearest, lapses, ordered = 0, 0, 0, 0, 0, 0, 0, '0', '0', false
    spent, since, bucket, index, epoch = 0, 0, 0, 0, 0
    if paused == '2' then paused = '0' end
    local state = format('%s %s %s %s %s 0 0 0 0 0 %s ', rate > 0 and '2' or '1', declared, pin, paused, changes, last)
    local rates = rate > 0 and format(' %d %d 0 0 0 0 0', rate, window) or ''
    if keeps then call('ZREM', ORDER, '') end           -- for the order of writes see "write"
    if stored then call('HSET', STATE, 'state', stored) end
    call('DEL', STATE, ORDER)                           -- in an open slot a cluster refuses this: one may be elsewhere
    stored = stored and state .. '0 ' .. till .. ' 0' .. rates
    if stored then call('HSET', STATE, 'state', stored) end
  elseif not stored and call('EXISTS', STATE) > 0 then
    if call('HEXISTS', STATE, 'settings') == 1 then corrupt('of an older berth:', STATE) end
    corrupt('hash without state:', STATE)
  end
  if not was then was, wasRate, known = declared, version == '2' and format(' %d %d', rate, window) or ' 0 0', soon end

  -- What is going to be written, told and answered.
  local fields, scores = { nil, nil, nil, nil }, { nil, nil, nil, nil } -- pairs for HSET, and for ZADD
  local caps                                            -- pairs for ZADD LT, which only brings forward
  local goneIDs, goneMembers = {}, {}                   -- who goes from both keys, and members that go
  local notes                                           -- messages, by channel
  local answers, answered = { nil }, 0
  local changed                                         -- waiters' new records, false of those who left
  local left = 0                                        -- how many left
  local freed, nextFree = {}, 1                         -- free slots, and which of them is given out next
  local freedText, storedText = {}, {}                       -- their texts: of those that were freed now, and of those in ORDER
  local furthest = 0                                    -- the latest deadline that was set
  local charged = 0                                     -- what the grants of this pass cost
  local who, ends                                       -- of a pause: who wants it, or false: it ends now; and its end

  -- ---- what several sections need ----
  local function put(id, record)                        -- into the hash
    local n = #fields
    fields[n + 1], fields[n + 2] = id, record
  end

  local function scoreOf(at)                            -- a deadline as a score; it may be the nearest
    if at < DEADLINES or at - now > CENTURY then corrupt('deadline', at) end
    local score = format('%d', at)
    if soon == 0 or at < soon then soon, nearest = at, score end
    return score
  end

  local function expire(id, at)                         -- sets the deadline of id
    local n = #scores
    scores[n + 1], scores[n + 2] = scoreOf(at), id
    if at > furthest then furthest = at end
  end

  local function remaining(id)                          -- what is left until a stored deadline
    local rest = floor(call('ZSCORE', ORDER, id) or corrupt('no deadline for', id)) - now
    if not (rest > -CENTURY and rest < CENTURY) then corrupt('deadline of', id) end
    return rest
  end

  local function nextNumber()                           -- a token or ticket
    if seq < us then
      seq, last = us, stamp
    else
      seq = seq + 1
      last = format('%d', seq)
    end
    return last
  end

  local function tell(id, record, line)                 -- tells the process of a lease or waiter
    local shard = match(record, '^%l %d+ %d+ %d+ %d+ %d+ (:?)%d') or corrupt('record', record)
    local channel = shard .. match(id, '^[^.]*')
    notes = notes or {}
    notes[channel] = (notes[channel] or STATE) .. '\n' .. line
  end

  local function absent(record)                         -- the answer for an id that has no lease, or an evicted one
    local kind = sub(record or '', 1, 1)
    if not record or kind == 'w' then return '6 0' end
    if kind == 'e' then return '6 3' end
    local owner, reason = match(record, '^x 5 (.+)$'), match(record, '^x ([1-4])$')
    if not owner and not reason then corrupt('record', record) end
    return owner and '12 ' .. format('%d', #owner) .. ' ' .. owner or '6 ' .. reason
  end

  -- Ends a lease or a wait. A tombstone tells of it until the time "at", or, if that is nil, until no
  -- copy of the acquire can come any more.
  local function leave(id, record, reason, at)
    local kind, weight, slot, begun = match(record, '^([hew]) (%d+) (%d+) (%d+) ')
    if kind == 'w' then
      changed = changed or {}
      waiting, left, changed[id] = waiting - 1, left + 1, false
      goneMembers[#goneMembers + 1] = '#' .. id
    elseif kind then
      local n = slot + 0
      used, holders = used - weight, holders - 1
      freed[#freed + 1], freedText[n] = n, slot
    else corrupt('record', record) end
    at = at or floor(begun / 1000) + LATE
    if at > now then
      marks = marks + 1
      put(id, 'x ' .. reason)
      expire(id, at)
    else
      goneIDs[#goneIDs + 1] = id
    end
    return kind == 'w' and '10' or '9'
  end

  local function takeSlot()                             -- the lowest that is free, as text
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
  local reaping = not reaped and soon > 0 and soon <= now
  reaped = true
  if reaping then
    local due = call('ZRANGEBYSCORE', ORDER, DEADLINES, now, 'LIMIT', '0', PAGE)
    if #due < PAGE then
      soon = (call('ZRANGEBYSCORE', ORDER, '(' .. format('%d', now), '+inf', 'WITHSCORES', 'LIMIT', '0', '1')[2] or 0) + 0
      if soon - now > CENTURY then corrupt('deadline', soon) end
    else                                                -- more may be due: the next call goes on
      status, soon = 1, now
      local taken = {}
      for k = 1, #due do taken[due[k]] = true end
      for k = offset + 1, #ARGV do                      -- and no id that is named here may stay overdue
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
        tell(id, record, 'x ' .. id .. ' 2')
        leave(id, record, 2)
      else
        local sum, turn, of = match(record, '^r (%d+) %d+$'), nil, nil
        if sum then                                     -- its grants have left the window
          spent = spent - sum
          if id == BUCKET .. format('%d', index) then since, bucket = 0, 0 end
        elseif id == COOL then
          if paused ~= '2' or sub(record, 1, 2) ~= 'p ' then corrupt('record', record) end
          paused, weighAll = '0', true
        else
          turn, of = match(record, '^t (%d+) (%d+)$')
          if not turn then absent(record) end           -- a tombstone, or damage
        end
        if turn and of + 0 == epoch and turn + 0 > us then expire(id, minute)
        else marks, goneIDs[#goneIDs + 1] = marks - 1, id end
      end
    end
  end

  -- ---- operate: those who leave, signs of life, and operators ----
  local limitBefore, wantedRate, wantedWindow, pausedBefore, stood = limit, rate, window, paused, waiting
  local got = {}                                        -- the record of ARGV[offset + k] is got[k], or false
  if named == 1 and not reaping then got[1] = call('HGET', STATE, ARGV[offset + 1])
  elseif named > 1 and not reaping then got = call('HMGET', STATE, unpack(ARGV, offset + 1)) end
  for g = 1, reaping and 0 or #groups do
    local group = groups[g]
    local verb, param, second = group.verb, group.words[1], group.words[2]
    if verb == 'D' then
      if declared ~= '0' and param ~= declared then changes = changes + 1 end
      declared = param
    elseif verb == 'P' then
      pin = param
    elseif verb == 'Z' then
      paused, weighAll, who = param, true, false        -- limits that were set meanwhile have been compared with nobody's weight
    elseif verb == 'W' then
      local wanted = now + param + 1                    -- "now" is up to a millisecond behind the clock
      local is = who and ends or paused == '2' and now + remaining(COOL) or paused == '1' and wanted or 0
      if wanted > is then paused, who, ends = '2', second, wanted end
    elseif verb == 'Q' then
      wantedRate, wantedWindow = param + 0, second + 0
    end
    local plain, stands = verb == 'L' and param == '0', nil -- and the place of the waiter who was answered last
    for k = group.first, group.last, verb == 'M' and 2 or 1 do
      local id, record = ARGV[offset + k], got[k]
      local answer, weight, slot
      if plain then weight, slot = match(record or '', '^h (%d+) (%d+) ') end
      local kind = not weight and record and sub(record, 1, 1)
      if weight then                                    -- a release, as most are: what "leave" would do, without a tombstone
        local n = slot + 0
        used, holders, answer = used - weight, holders - 1, '9'
        freed[#freed + 1], freedText[n], goneIDs[#goneIDs + 1] = n, slot, id
      elseif verb == 'L' then
        if record and kind ~= 'x' then
          answer = leave(id, record, 1, param == '1' and now + LATE or 0)
        else
          answer = absent(record)
          if param == '1' and not record then
            marks = marks + 1
            put(id, 'x 1')
            expire(id, now + LATE)
          elseif param == '1' and remaining(id) < LATE then -- it answers for older copies, and another may be under way
            expire(id, now + LATE)
          end
        end
      elseif verb == 'M' then
        -- The lease gets another id, with all that it has but the token. The old id keeps a tombstone.
        local new, moved, rest = ARGV[offset + k + 1], got[k + 1], nil
        if moved then                                   -- a repetition, if it is a lease
          rest = find(moved, '^h ') and remaining(new)
        elseif kind == 'h' then
          local size, place, ceiling, ttl, owner, label = match(record, '^h (%d+) (%d+) %d+ (%d+) (%d+) (%S+) (.*)$')
          if not label then corrupt('record', record) end
          if param ~= '0' then ttl = param end
          rest = ttl + 0
          if ceiling ~= '0' and ceiling - now < rest then rest = ceiling - now end
          owner = second .. (match(owner, ';tenant=.*$') or '')
          moved = 'h ' .. size .. ' ' .. place .. ' ' .. nextNumber() .. ' ' .. ceiling .. ' ' .. ttl .. ' ' .. owner .. ' ' .. label
          put(new, moved)
          expire(new, now + rest)
          marks = marks + 1
          put(id, 'x 5 ' .. second)
          expire(id, now + TOLD)
        end
        local size, place, token, ttl, label = match(moved or '', '^h (%d+) (%d+) (%d+) %d+ (%d+) %S+ (.*)$')
        answer = label and format('11 %s %s %d %s %s %d ', place, token, rest, size, ttl, #label) .. label or absent(moved or record)
      elseif not record or kind == 'x' or verb == 'R' and kind == 'w' then
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
      elseif kind == 'w' then                           -- a heartbeat
        if param ~= '0' then expire(id, now + param) end
        local place, front = second == '1' and call('ZRANK', ORDER, '#' .. id) or -1, 0
        if place > 0 and place - 1 ~= stands then
          local at = format('%d', place - 1)
          front = math.max(remaining(sub(call('ZRANGE', ORDER, at, at)[1], 2)), 1)
        end
        stands, answer = place, format('2 %d %d', place, front)
      else                                              -- a renewal, or the heartbeat of one who was granted meanwhile
        local grant, ceiling, ttl = match(record, '^[he] %d+ (%d+ %d+) (%d+) (%d+) ')
        if not grant then corrupt('record', record) end
        if kind == 'e' then
          answer = '8 ' .. format('%d', remaining(id))
        elseif verb == 'H' then
          answer = '1 ' .. grant .. ' ' .. format('%d', remaining(id))
        else
          local rest = (param == '0' and ttl or param) + 0
          if ceiling ~= '0' and ceiling - now < rest then rest = ceiling - now end
          expire(id, now + rest)
          answer = '7 ' .. grant .. ' ' .. format('%d', rest)
        end
      end
      answered = answered + 1
      answers[answered] = answer
    end
  end
  if who then
    if pausedBefore ~= '2' then marks = marks + 1 end
    put(COOL, 'p ' .. who)
    expire(COOL, ends)
  elseif pausedBefore == '2' and paused ~= '2' then
    marks, goneIDs[#goneIDs + 1] = marks - 1, COOL
  end
  if used < holders or holders < 0 or waiting < 0 or marks < 0 or spent < 0 or holders == 0 and used > 0 then corrupt('state', stored) end
  for g = 1, reaping and 0 or #arrivals do              -- what newcomers declare counts for those who wait, too
    local group = arrivals[g]
    local wanted = group.words[4]
    if wanted == '0' then wanted = declared == '0' and '1' or declared end
    if wanted ~= declared and declared ~= '0' then changes = changes + 1 end
    declared = wanted
    if group.rate and group.rate > 0 then wantedRate, wantedWindow = group.rate, group.window end
  end
  local counts, count                                   -- names, sums and ends of all "!r", the newest first; nil: not read
  if wantedRate > 0 and not reaping then
    function count()
      counts = {}
      local rest, n = spent - charged, index
      while rest > 0 and n >= 0 and n > index - BUCKETS do
        local names = {}
        for k = n, math.max(n - 50, 0), -1 do names[#names + 1] = BUCKET .. format('%d', k) end
        local records = call('HMGET', STATE, unpack(names))
        for k = 1, #names do
          local sum, ends = match(records[k] or '', '^r (%d+) (%d+)$')
          if sum then
            local c = #counts
            counts[c + 1], counts[c + 2], counts[c + 3] = names[k], sum + 0, ends + 0
            rest = rest - sum
          end
        end
        n = n - #names
      end
    end
  end
  if wantedRate ~= rate or wantedWindow ~= window then
    if rate > 0 then changes = changes + 1 end
    rate, window, weighAll = wantedRate, wantedWindow, true
    if rate > 0 and spent > 0 then                      -- what was granted before counts for at most the new window from now on
      count()
      local ends, sum, name = now + window + 1, 0, nil
      for k = #counts - 2, 1, -3 do
        if counts[k + 2] > ends then                    -- all of them leave at once: the newest keeps their sum
          if name then marks, goneIDs[#goneIDs + 1] = marks - 1, name end
          name, sum, counts[k + 2] = counts[k], sum + counts[k + 1], ends
        end
      end
      if name then
        if name == BUCKET .. format('%d', index) then bucket = sum end
        put(name, format('r %d %d', sum, ends))
        expire(name, ends)
      end
    end
  end
  limit = (pin == '-1' and declared or pin) + 0

  -- ---- pump: the head of the queue is granted while it fits, and nobody overtakes it ----
  local entering = reaping and 0 or newcomers
  local room = 0                                        -- how many waiters are looked at
  local heads, records                                  -- of the queue, when they have been read
  -- With a status of 1 more is due: the head may have expired, and the next call goes on.
  if not reaping and status == 0 and waiting > 0 and paused == '0' and limit > 0 then
    room = waiting
    if not weighAll and limit == limitBefore then       -- after a change others may have become too heavy
      -- Each takes at least one permit. Where there is a rate, the head often does not fit though there are permits.
      if limit - used < room then room = limit - used end
      if rate > 0 then room = math.min(room, rate - spent, LOOKED) end
    end
    if room > PAGE then room = PAGE end
    if room < 0 then room = 0 end
  end
  if free > 0 and room + entering > 0 then              -- the lowest stored free slots, as many as can be given out
    local most, past = room + entering, -1
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
    status = 1                                          -- unless the queue is empty, or all is taken, or the head does not fit
    heads = call('ZRANGE', ORDER, '0', math.min(room + left, stood - 1)) -- and who left in this call, and who may be the head then
    for k = 1, #heads do heads[k] = sub(heads[k], 2) end
    records = call('HMGET', STATE, unpack(heads))
    for k = 1, #heads do
      local id, record = heads[k], records[k]
      local weight, cost, maxhold, terms = match(record or '', '^w (%d+) (%d+) %d+ (%d+) ()%d+ :?%d')
      if not terms then corrupt('waiter ' .. id, record) end
      if cost == '0' then cost = weight end
      if changed[id] ~= false then                      -- else it has just left
        room = room - 1
        if room < 0 then break end                      -- it is for the next call: no free slot was read for it
        if weight + 0 > limit or rate > 0 and cost + 0 > rate then -- it would block the queue for ever
          tell(id, record, 'x ' .. id .. ' 4')
          leave(id, record, 4, now + TOLD)
          changed[id] = 'x 4'
        elseif used + weight > limit or rate > 0 and spent + cost > rate then
          status = 0
          break
        else
          -- A hand-off leaves the deadline that the last heartbeat has set: if the waiter's process
          -- is dead, its permit is free at the time at which its place would have been.
          local slot, ceiling = takeSlot(), '0'
          if maxhold ~= '0' then
            ceiling, caps = scoreOf(now + maxhold), caps or {}
            caps[#caps + 1], caps[#caps + 2] = ceiling, id
          end
          used, holders, waiting = used + weight, holders + 1, waiting - 1
          if rate > 0 then spent, charged = spent + cost, charged + cost end
          record = 'h ' .. weight .. ' ' .. slot .. ' ' .. nextNumber() .. ' ' .. ceiling .. ' ' .. sub(record, terms)
          put(id, record)
          changed[id], goneMembers[#goneMembers + 1] = record, '#' .. id
          tell(id, record, 'g ' .. id .. ' ' .. slot .. ' ' .. last .. ' ' .. (pin == '-1' and declared or pin))
        end
      end
    end
    if waiting == 0 or used >= limit or rate > 0 and spent >= rate then status = 0 end
  end

  -- ---- admit: newcomers are granted, queued or refused ----
  local turns                                           -- of tenants, by the names of their marks: where their next stand
  local gone = stood - waiting                          -- who has left the queue in this call, and is in ORDER still
  local begins = since == 0 or now < since or now - since >= window / 100 -- what is granted now has a "!r" of its own
  for g = 1, reaping and 0 or #arrivals do
    local group = arrivals[g]
    local wait, weight, maxhold, _, beat, start, qlimit, ttl, owner = unpack(group.words)
    local size, ceiling, lasts = weight + 0, '0', ttl
    local cost = group.cost and group.cost ~= '0' and group.cost + 0 or size
    local score                                         -- the deadline of those who are granted
    if maxhold ~= '0' then
      ceiling = format('%d', now + maxhold)
      if maxhold + 0 < ttl + 0 then lasts = maxhold end
    end
    local lease, terms, rest = 'h ' .. weight .. ' ', ' ' .. ceiling .. ' ' .. ttl .. ' ' .. owner, ' ' .. lasts
    for k = group.first, group.last do
      local id, record = ARGV[offset + k], got[k]
      local answer
      if changed and changed[id] ~= nil then record = changed[id] end
      if record then                                    -- a repetition, or a copy that comes late
        local kind, grant, cap = match(record, '^([hew]) %d+ (%d+ %d+) (%d+) ')
        if kind == 'w' then
          keeps = true
          expire(id, now + beat)
          answer = format('2 %d 0', call('ZRANK', ORDER, '#' .. id) or corrupt('not in the queue:', id))
        elseif kind then
          local held = remaining(id)
          if cap ~= '0' and cap - now < held then held = cap - now end -- of a hand-off in this call
          answer = '1 ' .. grant .. ' ' .. format('%d', held)
        else
          answer = absent(record)
        end
      elseif size > limit and limit > 0 then
        answer = '5 ' .. (pin == '-1' and declared or pin)
      elseif rate > 0 and cost > rate then
        answer = format('13 %d %d', rate, window)
      elseif waiting == 0 and used + size <= limit and paused == '0' and (rate == 0 or spent + cost <= rate) then
        local slot = takeSlot()
        used, holders = used + size, holders + 1
        if rate > 0 then spent, charged = spent + cost, charged + cost end
        if not score then
          score = scoreOf(now + lasts)
          if now + lasts > furthest then furthest = now + lasts end
        end
        local f, n = #fields, #scores
        fields[f + 1], fields[f + 2] = id, lease .. slot .. ' ' .. nextNumber() .. terms
        scores[n + 1], scores[n + 2] = score, id
        answer = '1 ' .. slot .. ' ' .. last .. rest
      elseif wait == '0' or waiting >= qlimit + 0 then
        answer = wait == '0' and '3 0' or '4 0'
        if rate > 0 and spent + cost > rate then        -- until when would it not fit, if nobody else came?
          if not counts then count() end
          local over, wanted = spent + cost - rate, window + 1 -- if it has to wait for what was granted in this call
          for k = #counts - 2, (begins or charged == 0) and 1 or 4, -3 do
            if over > 0 then over, wanted = over - counts[k + 1], counts[k + 2] - now end
          end
          if over > 0 then wanted = window + 1 end
          answer = sub(answer, 1, 2) .. format('%d', wanted)
        end
      else
        put(id, 'w ' .. weight .. ' ' .. (group.cost or '0') .. ' ' .. nextNumber() .. ' ' .. maxhold .. ' ' .. ttl .. ' ' .. owner)
        expire(id, now + beat)
        local place, mark = seq, group.mark
        if waiting == 0 then epoch = 0 end              -- the turns of another queue do not count for this one
        if mark then
          if epoch == 0 then epoch = seq end
          turns = turns or {}
          if not turns[mark] then
            local is = call('HGET', STATE, mark)
            local turn, of = match(is or 't 0 0', '^t (%d+) (%d+)$')
            if not turn then corrupt('record', is) end
            if not is then marks = marks + 1 end
            turns[mark] = of + 0 == epoch and turn + 0 or 0
          end
          if turns[mark] > place then place = turns[mark] end
          turns[mark] = math.min(place + group.step, seq + DAY)
        end
        local turn, n = format('%d', place - start * 1000 - FRONT), #scores
        scores[n + 1], scores[n + 2] = turn, '#' .. id
        local ahead = waiting
        if start ~= '0' or epoch > 0 then               -- it may stand before others
          ahead = math.max(call('ZCOUNT', ORDER, '-inf', '(' .. turn) - gone, 0) -- or more, if who has left stood behind it
          if ahead == 0 and used < limit and paused == '0' and (rate == 0 or spent < rate) then status = 1 end -- it may be the head, and fit
        end
        answer = format('2 %d 0', ahead)
        waiting = waiting + 1
      end
      answered = answered + 1
      answers[answered] = answer
    end
  end

  for mark, turn in pairs(turns or {}) do
    put(mark, format('t %d %d', turn, epoch))
    expire(mark, minute)
  end
  if charged > 0 then                                   -- what was granted counts until it has left the window
    if begins then
      since, bucket, index, marks = now, 0, index + 1, marks + 1
    end
    bucket = bucket + charged
    local name, ends = BUCKET .. format('%d', index), now + window + 1 -- "now" is up to a millisecond behind the clock
    put(name, format('r %d %d', bucket, ends))
    expire(name, ends)
  end

  -- ---- tell: the head of the queue knows when to look ----
  --
  -- Time alone lets nobody in before "nearest", and nobody but the head has to look then. When it
  -- came to be the head it heard of a time that is not after "nearest". So it is told when that
  -- comes forward, and another head is told. A newcomer is answered.
  if reaping then
    headless = left > 0
  else
    if status == 1 then soon, nearest = now, format('%d', now) end -- whoever comes next goes on
    if stood > gone and (headless or gone > 0 or soon < known) then
      if not heads then
        heads = call('ZRANGE', ORDER, '0', gone)
        for k = 1, #heads do heads[k] = sub(heads[k], 2) end
      end
      local k = 1
      while changed and changed[heads[k]] ~= nil do k = k + 1 end
      local id = heads[k] or corrupt('state', stored)
      if k > 1 or headless or soon < known then
        local record = records and records[k] or call('HGET', STATE, id) or corrupt('no record for', id)
        tell(id, record, 'n ' .. id .. ' ' .. format('%d', math.max(soon - now, 0)))
      end
    end
  end

  -- ---- write ----
  --
  -- Everything was checked, and nothing changed, until here.
  local nobody = used + waiting == 0
  local kept = pin ~= '-1' or paused == '1'             -- a pin, and a pause without end, are not forgotten
  local full = not nobody or marks > 0                  -- there is to be ORDER
  if not kept and not full and seq < us then            -- the clock has passed the last token: nothing is to be remembered
    if stored then call('DEL', STATE) end
    if ordered then call('DEL', ORDER) end
    stored = false
  else
    -- Free slots become members of ORDER, but the highest are forgotten.
    if not full then slots, nextFree = 0, #freed + 1 end
    for k = #freed, nextFree, -1 do
      local slot = freed[k]
      local member = storedText[slot]
      if slot == slots - 1 then
        slots = slot
        if member then goneMembers[#goneMembers + 1] = member end
      elseif not member then
        local n = #scores
        scores[n + 1], scores[n + 2] = freedText[slot], freedText[slot]
      end
    end
    if full and not ordered then
      local n = #scores
      scores[n + 1], scores[n + 2] = PLACE, NOTE
    end

    -- The keys have a TTL. Under a policy that evicts first what has one (volatile-*, POLICY 0) they
    -- have it only while their loss would not matter.
    local lapsed, tillBefore = lapses, till
    local matters = not nobody or spent > 0 or paused == '2'
    lapses = not kept and (POLICY == '1' or not matters) and '1' or '0'
    if not matters and till - now > TOLD + GRAIN then till = format('%d', now + TOLD + GRAIN) end -- after a long lease
    -- It is at least a second past every deadline, and moves by more, so that few calls have to set it.
    if furthest > 0 and furthest + 1000 > till + 0 then till = format('%d', furthest + GRAIN) end
    if not full then
      nearest = '0'
      if lapses == '1' then till = format('%d', now + 1000) end
    end
    if nobody and seq / 1000 + 1000 > till + 0 then till = format('%d', math.ceil(seq / 1000) + 1000) end -- the last token outlives a clock that is behind
    local state = format('1 %s %s %s %s %d %d %d %d %d %s %s %s %s',
      declared, pin, paused, changes, used, holders, waiting, marks, slots, last, nearest, till, lapses)
    if waiting == 0 then epoch = 0 end
    if rate + spent + epoch > 0 or paused == '2' then
      if spent == 0 then index = 0 end
      state = '2' .. sub(state, 2) .. format(' %d %d %d %d %d %d %d', rate, window, spent, since, bucket, index, epoch)
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
    local passes, ends = keeps or reaping, ordered and not full
    local adds, removes = not ends and (scores[1] or caps), not ends and (goneIDs[1] or goneMembers[1])
    if passes and (fields[1] or adds or removes) then call('ZREM', ORDER, '') end
    if adds then call('ZADD', ORDER, 'XX', '0', '') end
    if removes and not passes then call('ZREM', ORDER, '') end
    if goneIDs[1] then call('HDEL', STATE, '') end
    if ends then
      call('HSET', STATE, 'state', unchanged)
      call('DEL', ORDER)
    end
    if fields[1] then call('HSET', STATE, unpack(fields)) end
    if scores[1] and adds then call('ZADD', ORDER, unpack(scores)) end
    if caps and adds then call('ZADD', ORDER, 'LT', unpack(caps)) end
    if goneMembers[1] and removes then call('ZREM', ORDER, unpack(goneMembers)) end
    if goneIDs[1] and removes then call('ZREM', ORDER, unpack(goneIDs)) end
    if goneIDs[1] then call('HDEL', STATE, unpack(goneIDs)) end
    if lapses == '1' then
      local later = lapsed == '0' or till ~= tillBefore
      if later then try('PEXPIREAT', STATE, till) end
      if full and (later or not ordered) then try('PEXPIREAT', ORDER, till) end
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
  if not reaping then
    local state = stored or NOBODY
    if sub(state, 1, 1) == '2' then
      state = state .. wasRate .. (paused == '2' and format(' %d', ends or call('ZSCORE', ORDER, COOL)) or ' 0')
    end
    return stamp .. ' ' .. format('%d ', status) .. was .. ' ' .. state .. ' ' .. table.concat(answers, ' ')
  end
end
