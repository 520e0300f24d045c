-- One call of this script is one atomic step of one semaphore. This header is the protocol's
-- specification; doc.go, beside it, gives the reasons.
--
-- KEYS[1]  hash PREFIX:{NAME}: "state" (see FORM), and by its id a record of each
--            h weight slot token ceiling ttl owner label    lease (e: its holder is asked to stop)
--            w weight 0 ticket maxhold ttl owner label      waiter
--            x reason                                       tombstone; x 5 owner: of a moved id
--          KEYS[1]:order is a sorted set in the same cluster slot, not declared, because a cluster
--          refuses two keys of which one does not exist while their slot moves. Its scores are
--            below 0       the queue: member "q"..id, score ticket - head start - 2^53
--            from 0        free slots: member is one, "3", or a row, "5-7"; score is the first
--            from 2^32     deadlines: member id, score in ms of server time
--            and NOTE between the last two, for as long as there is the set
--          A lease that nobody else has come near is in "state" alone, without the set:
--            1 compact ID token deadline expires HEAD       HEAD as its acquire sent it
-- Ids      begin with the channel of their process, up to the first dot. An owner is
--          pid/host;client, with ":" in front if it hears shard channels.
-- ARGV     bound head id                   one operation on one id; or
--          bound n head count ... id ...   n groups of operations, then all their ids; or
--          bound                           nothing but what is due
--   bound  the latest server time (ms) at which this call may run; 0: any
--   heads  A wait weight maxhold limit heartbeat headstart qlimit ttl owner label   acquire
--          H heartbeat places (1: the place is wanted)    R ttl    L tomb (release, cancel)
--          M ttl owner (move; ids in pairs: old new)      E force (evict)
--          D limit    P limit (-1: unpin)    Z paused     for operators, in groups of count 0
--          The verb touches its first parameter. Acquires come last. Times are in ms. At most qlimit
--          wait; limit 0 declares none; ttl 0 of R and M is the lease's. At most 250 ids, each once.
-- POLICY   set in front of this line: "1" where the keys may carry a TTL, else "0"
-- Returns  numbers with spaces between: time (us), status (0 done, 1 done: call again without operations, -1 too
--          late: not done; the rest is nobody's then), the limit declared before, "state" as it is now
--          (the last two numbers 0, if the lease is compact), and for each id
--            A  1 slot token remaining | 2 ahead | 3 busy | 4 full | 5 limit (too heavy) | gone
--            H  1 slot token remaining | 2 ahead (-1: not asked for) | 8 remaining | gone
--            R  7 slot token remaining | 8 remaining (asked to stop) | gone
--            L  9 released | 10 cancelled | gone       E  9 | 10 | 8 0 | gone
--            M  11 slot token remaining weight ttl bytes label | gone
--            gone: 6 reason | 12 bytes owner (moved, to that owner)
--          reason  0 unknown, 1 released, 2 expired, 3 evicted, 4 too heavy
-- Messages go to PREFIX:inbox:CHANNEL, or to the shard channel KEYS[1]:CHANNEL if the owner has a
--          ":" in front: KEYS[1], and lines "g id token slot limit" (granted), "x id reason"
-- Errors   BERTHCORRUPT, BERTHVERSION, BERTHCLOCK; BERTHHALF ms: one of the two keys is lost, leases
--          may live for so long, and it heals then. Nothing was changed.
-- Cost     O(log n) for each id and grant. Needs a server of 64 bits (%d).
--
-- Numbers that are only copied stay the text that they were: to convert them would cost a tenth
-- of a step, and Lua itself writes those above 10^14 inexactly.

local STATE, ARGV = KEYS[1], ARGV
local call, try, format, match, sub = redis.call, redis.pcall, string.format, string.match, string.sub
--              declared   pin  paused changes used holders waiting tombs slots last nearest till  lapses
local FORM = '^1 (%d+) (%-?%d+) ([01]) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) ([01])$'
local NOBODY = '1 0 -1 0 0 0 0 0 0 0 0 0 0 0' -- "state" of a semaphore that has no keys
local NOTE = 'berth: queue < 0 <= free slots < this < deadlines (ms); over 64 bytes, so Redis keeps a skip list'
local DEADLINES, FRONT, CENTURY = 4294967296, 9007199254740992, 3e12
local PAGE = 250                                        -- reaped, or granted, at most in one call
local LATE = 10000                                      -- ms; no copy of a request runs later than this after it
local TOLD = 60000                                      -- ms; for so long a tombstone tells of an eviction or a move
local GRAIN = 60000                                     -- ms; the keys' TTL moves in steps of this

local function corrupt(what, value) error('BERTHCORRUPT ' .. what .. ' ' .. sub(tostring(value), 1, 80)) end

local clock = call('TIME')
local stamp = clock[1] .. sub('00000' .. clock[2], -6)  -- us, as text
local us = stamp + 0
local now = (us - us % 1000) / 1000
if ARGV[1] ~= '0' and now > ARGV[1] + 0 then return stamp .. ' -1 0 ' .. NOBODY end
if now < DEADLINES then error('BERTHCLOCK the server says that it is 1970: set its clock') end

-- ---- a compact lease: granted, renewed and released while nobody else comes near it ----
local state                                             -- nil: not read, or not there
if ARGV[3] and not ARGV[4] then
  local head, mine = ARGV[2], '1 compact ' .. ARGV[3] .. ' '
  local verb = sub(head, 1, 1)
  if verb == 'A' and call('EXISTS', STATE) == 0 then
    local limit, ttl = match(head, '^A[01] 1 0 ([1-9]%d*) %d+ %d+ %d+ (%d+) ')
    if limit and call('EXISTS', STATE .. ':order') == 0 then
      local deadline, expires = format('%d', now + ttl), '0'
      if POLICY == '1' then expires = format('%d', now + ttl + GRAIN) end
      call('HSET', STATE, 'state', mine .. stamp .. ' ' .. deadline .. ' ' .. expires .. ' ' .. head)
      if expires ~= '0' then try('PEXPIREAT', STATE, expires) end
      return stamp .. ' 0 0 1 ' .. limit .. ' -1 0 0 1 1 0 0 1 ' .. stamp .. ' ' .. deadline .. ' 0 0 1 0 ' .. stamp .. ' ' .. ttl
    end
  elseif verb == 'R' and head ~= 'R0' or head == 'L0' then
    state = call('HGET', STATE, 'state')
    local token, deadline, expires, at, limit
    if state and sub(state, 1, #mine) == mine then
      token, deadline, expires, at, limit = match(state, '^(%d+) (%d+) (%d+) ()A[01] 1 0 (%d+) ', #mine + 1)
    end
    if not token or deadline + 0 <= now then
      -- it is not, or no longer, that lease's alone
    elseif verb == 'L' and token + 0 < us then
      call('HDEL', STATE, 'state')
      return stamp .. ' 0 ' .. limit .. ' ' .. NOBODY .. ' 9'
    elseif verb == 'R' and (expires ~= '0') == (POLICY == '1') then
      local ttl, lapse = sub(head, 2), expires
      deadline = format('%d', now + ttl)
      if expires ~= '0' and deadline + 1000 > expires + 0 then lapse = format('%d', now + ttl + GRAIN) end
      call('HDEL', STATE, '')                           -- see "write", below, on servers without memory
      call('HSET', STATE, 'state', mine .. token .. ' ' .. deadline .. ' ' .. lapse .. ' ' .. sub(state, at))
      if lapse ~= expires then try('PEXPIREAT', STATE, lapse) end
      return stamp .. ' 0 ' .. limit .. ' 1 ' .. limit .. ' -1 0 0 1 1 0 0 1 ' .. token .. ' ' .. deadline .. ' 0 0 7 0 ' .. token .. ' ' .. ttl
    end
  end
end

-- ---- what is asked: groups of operations ----
local ORDER = STATE .. ':order'
local asked, first = { ARGV[2], ARGV[2] and 1 }, 3      -- head, count, head, count ...; where the ids begin
if ARGV[4] then
  first = 3 + 2 * ARGV[2]
  asked = { unpack(ARGV, 3, first - 1) }
end

-- Where something is due, it is taken out first, in a pass of its own: the operations find
-- nothing that is past its deadline.
local status, was, due, eager = 0, nil, nil, sub(asked[1] or '', 1, 1) ~= 'A' -- eager: passes when memory is short
while true do

-- ---- read ----
state = state or call('HGET', STATE, 'state')
if sub(state or '', 1, 10) == '1 compact ' then
  local id, token, deadline, expires, limit, tail =
    match(state, '^1 compact (%S+) (%d+) (%d+) (%d+) A[01] 1 0 (%d+) %d+ %d+ %d+ ()%d+ %S+ ')
  if not id or deadline + 0 < DEADLINES or deadline - now > CENTURY or expires - now > CENTURY
    or call('EXISTS', ORDER) > 0 or call('HLEN', STATE) > 1 then corrupt('state', state) end
  local record = 'h 1 0 ' .. token .. ' 0 ' .. sub(state, tail)
  local lapses = expires == '0' and '0' or '1'
  if expires == '0' then expires = format('%d', deadline + GRAIN) end
  if eager or ARGV[3] == id then call('ZREM', ORDER, '') end -- see "write", below, on servers without memory
  call('HSET', STATE, 'state', state)                   -- as it is: if the user may not HSET, nothing has happened
  state = '1 ' .. limit .. ' -1 0 0 1 1 0 0 1 ' .. token .. ' ' .. deadline .. ' ' .. expires .. ' ' .. lapses
  call('ZADD', ORDER, '4000000000', NOTE, deadline, id)
  call('HSET', STATE, id, record, 'state', state)
  if lapses == '1' then try('PEXPIREAT', ORDER, expires) end
end

local declared, pin, paused, changes, used, holders, waiting, tombs, slots, last, nearest, till, lapses
local limit, seq, soon, stored, ordered                 -- stored: free slots, in rows in ORDER; ordered: ORDER is there
repeat
  declared, pin, paused, changes, used, holders, waiting, tombs, slots, last, nearest, till, lapses = match(state or NOBODY, FORM)
  if not lapses then
    if (match(state, '^(%d+) ') or 0) + 0 > 1 then error('BERTHVERSION ' .. sub(state, 1, 80)) end
    corrupt('state', state)
  end
  used, holders, waiting, tombs, slots = used + 0, holders + 0, waiting + 0, tombs + 0, slots + 0
  limit, seq, soon = (pin == '-1' and declared or pin) + 0, last + 0, nearest + 0
  stored, ordered = slots - holders, used + waiting + tombs > 0
  if stored < 0 or holders > used or holders == 0 and used + slots > 0 or used + slots + waiting + limit > 1e12 or limit < 0
    or seq >= FRONT or soon - now > CENTURY or #declared > 12 or #changes > 12 or #till > 14 then corrupt('state', state) end
  -- Both keys have what they should have, or the loss of one shows here. What is left tells
  -- until when leases may live; after that it is removed, but for what operators have set.
  local members, lost = call('ZCARD', ORDER), nil
  local rows = stored > 0 and members > 0 and call('ZCOUNT', ORDER, '0', '2147483648') or 0
  if members ~= (ordered and 1 + holders + 2 * waiting + tombs + rows or 0) or rows > stored or rows == 0 and stored > 0 then
    if state and members == 0 then
      lost = used + waiting > 0 and till + 0 or 0       -- tombstones alone may go
    elseif not state and (call('ZSCORE', ORDER, NOTE) or 0) + 0 == 4e9 and call('EXISTS', STATE) == 0 then
      lost = call('ZRANGE', ORDER, '-1', '-1', 'WITHSCORES')[2] + 0
    end
    if not lost or lost - now > CENTURY then corrupt('state does not match ' .. ORDER .. ':', state) end
    if lost > now then error('BERTHHALF ' .. lost - now) end
    call('DEL', STATE, ORDER)                           -- in an open slot a cluster refuses this: one may be elsewhere
    state = state and format('1 %s %s %s %s 0 0 0 0 0 %s 0 %s 0', declared, pin, paused, changes, last, till)
    if state then call('HSET', STATE, 'state', state) end
  elseif not state and call('EXISTS', STATE) > 0 then corrupt('hash without state:', STATE) end
until not lost
was = was or declared

local ids, i, heads, got = ARGV, first, asked, nil      -- i: where the next id is
local reaping = soon > 0 and soon <= now and not due
if reaping then
  due = call('ZRANGEBYSCORE', ORDER, DEADLINES, now, 'LIMIT', 0, PAGE)
  ids, i, heads = due, 1, { 'X', #due }
  status = #due == PAGE and 1 or 0
  soon = status == 1 and now or (call('ZRANGEBYSCORE', ORDER, '(' .. now, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2] or 0) + 0
  if soon - now > CENTURY then corrupt('deadline', soon) end
  nearest = format('%d', soon)
end
if ids[i + 1] then got = call('HMGET', STATE, unpack(ids, i)) else got = { ids[i] and call('HGET', STATE, ids[i]) } end
local from = i - 1                                      -- the record of ids[k] is got[k - from]

-- What is to be written, and told.
local sets, s, adds, a = { nil, nil, nil, nil }, 0, { nil, nil, nil, nil }, 0 -- pairs for HSET and ZADD
local gone, g, others, notes, caps = {}, 0, nil, nil, nil -- ids that go from both keys, members that go; for ZADD LT
local out, n = { nil }, 0                               -- the answers
local free, f, known, ends, names = {}, 1, {}, {}, {}   -- free slots, place of the next, rows in ORDER, where rows end, as text
local passed, furthest = nil, 0                         -- waiter that was granted or left: its record, or false; last deadline

local function tell(id, shard, line)                    -- tells the process of id; shard: ":" for a shard channel
  notes = notes or {}
  local channel = shard .. match(id, '^[^.]*')
  notes[channel] = (notes[channel] or STATE) .. '\n' .. line
end

local function number()                                 -- the next token or ticket
  if seq < us then seq, last = us, stamp else seq = seq + 1 last = format('%d', seq) end
  return last
end

local function deadline(at, ceiling, cap)               -- as a score, no later than the ceiling; cap: it puts nothing off
  if ceiling and ceiling ~= '0' and ceiling + 0 < at then at = ceiling + 0 end
  if at < DEADLINES or at - now > CENTURY then corrupt('deadline', at) end
  if at > furthest and not cap then furthest = at end
  local score = format('%d', at)
  if soon == 0 or at < soon then soon, nearest = at, score end
  return score
end

local function remaining(id)                            -- what is left of a stored deadline
  local left = math.floor(call('ZSCORE', ORDER, id) or corrupt('no deadline for', id)) - now
  if not (left > -CENTURY and left < CENTURY) then corrupt('deadline of', id) end
  return left
end

local function absent(record)                           -- the answer for an id that has no lease, or must give it up
  local kind = sub(record or '', 1, 1)
  if not record or kind == 'w' then return '6 0' elseif kind == 'e' then return '6 3' end
  local owner, reason = match(record, '^x 5 (.+)$'), match(record, '^x ([1-4])$')
  if not owner and not reason then corrupt('record', record) end
  return owner and '12 ' .. #owner .. ' ' .. owner or '6 ' .. reason
end

-- ---- those who leave, and signs of life ----
local h, verb = 1, sub(heads[1] or '', 1, 1)
while verb ~= '' and verb ~= 'A' do
  local param, ttl, more = sub(heads[h], 2), nil, nil
  if verb == 'D' then
    if declared ~= '0' and param ~= declared then changes = changes + 1 end
    declared = param
  elseif verb == 'P' then pin = param
  elseif verb == 'Z' then paused, limit = param, -1       -- a pin while it was paused has weighed nobody
  elseif verb == 'H' or verb == 'R' or verb == 'M' then ttl, more = match(param, '^(%d+) ?(.*)$') end
  for k = i, i + heads[h + 1] - 1, verb == 'M' and 2 or 1 do
    local id, record = ids[k], got[k - from]
    local kind = record and sub(record, 1, 1)
    local buried, reason = 0, 1                         -- until when a tombstone answers, and what
    n = n + 1
    if verb == 'L' and kind == 'h' and param == '0' then -- a release, as most are
      local weight, slot = match(record, '^h (%d+) (%d+) ')
      if not weight then corrupt('record', record) end
      used, holders, g, out[n] = used - weight, holders - 1, g + 1, '9'
      local at = slot + 0
      free[#free + 1], names[at], gone[g] = at, slot, id
    elseif verb == 'M' then
      local new, moved, left = ids[k + 1], got[k + 1 - from], nil
      if moved then                                     -- a repetition
        left = remaining(new)
      elseif kind == 'h' then
        local weight, slot, ceiling, lasts, label = match(record, '^h (%d+) (%d+) %d+ (%d+) (%d+) %S+ (.*)$')
        if not weight then corrupt('record', record) end
        if ttl ~= '0' then lasts = ttl end
        moved = 'h ' .. weight .. ' ' .. slot .. ' ' .. number() .. ' ' .. ceiling .. ' ' .. lasts .. ' ' .. more .. ' ' .. label
        sets[s + 1], sets[s + 2], s = new, moved, s + 2
        adds[a + 1], adds[a + 2], a = deadline(now + lasts, ceiling), new, a + 2
        left, buried, reason = adds[a - 1] - now, now + TOLD, '5 ' .. more
      end
      local weight, slot, token, lasts, label = match(moved or '', '^h (%d+) (%d+) (%d+) %d+ (%d+) %S+ (.*)$')
      out[n] = not weight and absent(moved or record)
        or '11 ' .. slot .. ' ' .. token .. ' ' .. left .. ' ' .. weight .. ' ' .. lasts .. ' ' .. #label .. ' ' .. label
    elseif not record or kind == 'x' or verb == 'R' and kind == 'w' then
      out[n] = absent(record)
      if verb == 'X' then
        if not record then corrupt('no record for', id) end
        tombs, g, gone[g + 1] = tombs - 1, g + 1, id
      elseif verb == 'L' and param == '1' then
        if not record then buried = now + LATE
        elseif remaining(id) < LATE then                -- it answers for earlier copies; another one may be under way
          adds[a + 1], adds[a + 2], a = deadline(now + LATE), id, a + 2
        end
      end
    elseif verb == 'H' and kind == 'w' then
      adds[a + 1], adds[a + 2], a = deadline(now + ttl), id, a + 2
      out[n] = '2 ' .. (more == '1' and call('ZRANK', ORDER, 'q' .. id) or -1)
    elseif verb == 'R' and kind == 'h' then
      local grant, ceiling, lasts = match(record, '^h %d+ (%d+ %d+) (%d+) (%d+) ')
      if not lasts then corrupt('record', record) end
      adds[a + 1], adds[a + 2], a = deadline(now + (ttl == '0' and lasts or ttl), ceiling), id, a + 2
      out[n] = '7 ' .. grant .. ' ' .. adds[a - 1] - now
    elseif verb == 'R' or verb == 'H' then
      local grant = match(record, '^[he] %d+ (%d+ %d+) ') or corrupt('record', record)
      out[n] = (kind == 'e' and '8 ' or '1 ' .. grant .. ' ') .. remaining(id)
    elseif verb == 'E' and param == '0' and kind ~= 'w' then
      tell(id, match(record, '^[he] %d+ %d+ %d+ %d+ %d+ (:?)%d') or corrupt('record', record), 'x ' .. id .. ' 3')
      sets[s + 1], sets[s + 2], s = id, 'e' .. sub(record, 2), s + 2
      out[n] = '8 0'
    else
      local weight, slot, since, shard = match(record, '^[hew] (%d+) (%d+) (%d+) %d+ %d+ (:?)%d')
      if not weight then corrupt('record', record) end
      if kind == 'w' then
        waiting, others, passed, out[n] = waiting - 1, others or {}, passed or {}, '10'
        others[#others + 1], passed[id] = 'q' .. id, false
      else
        used, holders, out[n] = used - weight, holders - 1, '9'
        free[#free + 1] = slot + 0
      end
      if verb == 'L' then
        buried = param == '1' and now + LATE or 0
      else
        reason = verb == 'E' and 3 or 2
        buried = verb == 'E' and now + TOLD or math.floor(since / 1000) + LATE
        tell(id, shard, 'x ' .. id .. ' ' .. reason)
      end
      if buried <= now then g = g + 1 gone[g] = id end
    end
    if buried > now then
      tombs = tombs + 1
      sets[s + 1], sets[s + 2], s = id, 'x ' .. reason, s + 2
      adds[a + 1], adds[a + 2], a = deadline(buried), id, a + 2
    end
  end
  i, h = i + heads[h + 1], h + 2
  verb = sub(heads[h] or '', 1, 1)
end
if used < holders or holders < 0 or waiting < 0 or tombs < 0 or holders == 0 and used > 0 then corrupt('state', state) end
for k = h, #heads, 2 do                                 -- what newcomers declare counts for those who wait, too
  local wanted = match(heads[k], '^A[01] %d+ %d+ (%d+) ')
  if wanted == '0' then wanted = declared == '0' and '1' or declared end
  if wanted ~= declared and declared ~= '0' then changes = changes + 1 end
  declared = wanted
end
-- ---- hand-offs: grant the head of the queue while it fits ----
local room, before = 0, limit                           -- room: how many waiters are looked at
limit = (pin == '-1' and declared or pin) + 0
if not reaping and status == 0 and waiting > 0 and paused == '0' and limit > 0 then
  room = math.max(math.min(limit == before and limit - used or waiting, waiting, PAGE), 0)
end
if stored > 0 and (verb == 'A' or room > 0) then
  local most, count, past = room, 0, -1
  for k = h + 1, #heads, 2 do most = most + heads[k] end
  local rows, wanted = call('ZRANGEBYSCORE', ORDER, '0', '2147483648', 'LIMIT', '0', most), most
  for _, row in ipairs(rows) do
    local from, to = match(row, '^(%d+)%-?(%d*)$')
    from = (from or corrupt('free slots', row)) + 0
    to = to == '' and from or to + 0
    if from <= past or to < from or to >= slots then corrupt('free slots', row) end
    local till = math.min(to, from + wanted - 1)        -- what nobody can want stays together
    for slot = from, till do free[#free + 1] = slot end
    if till < to then free[#free + 1], ends[till + 1] = till + 1, to end
    past, count, wanted, known[row] = to, count + to - from + 1, wanted - (till - from + 1), true
  end
  if count > stored or #rows < most and count < stored then corrupt('free slots: state', state) end
end
if free[2] then table.sort(free) end

if room > 0 then
  local heirs = call('ZRANGE', ORDER, '0', room - 1 + (others and #others or 0))
  for k = 1, #heirs do heirs[k] = sub(heirs[k], 2) end
  local records = call('HMGET', STATE, unpack(heirs))
  passed, others, status = passed or {}, others or {}, 1
  for k = 1, #heirs do
    local id = heirs[k]
    local weight, maxhold, at, shard = match(records[k] or '', '^w (%d+) 0 %d+ (%d+) ()%d+ (:?)%d')
    if not weight then corrupt('waiter ' .. id, records[k]) end
    if passed[id] ~= false then room = room - 1 end
    if passed[id] == false or room < 0 then             -- it has just left, or is for the next call: free has no slot
    elseif weight + 0 > limit then                      -- it would block the queue for ever
      waiting, tombs, others[#others + 1], passed[id] = waiting - 1, tombs + 1, 'q' .. id, 'x 4'
      sets[s + 1], sets[s + 2], s = id, 'x 4', s + 2
      adds[a + 1], adds[a + 2], a = deadline(now + TOLD), id, a + 2
      tell(id, shard, 'x ' .. id .. ' 4')
    elseif used + weight > limit then
      status = 0                                        -- nobody overtakes it
      break
    else
      -- A hand-off leaves the deadline as it is: a dead waiter costs those behind it
      -- nothing beyond the time at which it would have been dropped.
      local slot, ceiling = free[f], '0'
      if slot then f = f + 1 else slot, slots = slots, slots + 1 end
      slot = format('%d', slot)
      if maxhold ~= '0' then
        ceiling, caps = format('%d', now + maxhold), caps or {}
        caps[#caps + 1], caps[#caps + 2] = deadline(now + maxhold, nil, true), id
      end
      used, holders, waiting = used + weight, holders + 1, waiting - 1
      passed[id] = 'h ' .. weight .. ' ' .. slot .. ' ' .. number() .. ' ' .. ceiling .. ' ' .. sub(records[k], at)
      others[#others + 1] = 'q' .. id
      sets[s + 1], sets[s + 2], s = id, passed[id], s + 2
      tell(id, shard, 'g ' .. id .. ' ' .. last .. ' ' .. slot .. ' ' .. (pin == '-1' and declared or pin))
    end
  end
  if waiting == 0 or used >= limit then status = 0 end
end

-- ---- newcomers: granted, queued or refused ----
while heads[h] do
  local wait, weight, maxhold, heartbeat, start, qlimit, at, ttl =
    match(heads[h], '^A([01]) (%d+) (%d+) %d+ (%d+) (%d+) (%d+) ()(%d+) ')
  local ceiling, tail, left, score = '0', sub(heads[h], at), ttl, nil
  if maxhold ~= '0' then ceiling, left = format('%d', now + maxhold), math.min(ttl + 0, maxhold + 0) end
  local w = weight + 0
  local head, terms = 'h ' .. weight .. ' ', ' ' .. ceiling .. ' ' .. tail
  for k = i, i + heads[h + 1] - 1 do
    local id = ids[k]
    local record = passed and passed[id]
    if record == nil then record = got[k - from] end
    n = n + 1
    if record then                                      -- a repetition, or a copy that comes late
      local kind, grant, cap = match(record, '^([hew]) %d+ (%d+ %d+) (%d+) ')
      if kind == 'w' then
        out[n], eager = '2 ' .. (call('ZRANK', ORDER, 'q' .. id) or corrupt('not in the queue:', id)), true
        adds[a + 1], adds[a + 2], a = deadline(now + heartbeat), id, a + 2
      elseif kind then
        local rest = remaining(id)
        if cap ~= '0' then rest = math.min(rest, cap - now) end -- of a hand-off in this call
        out[n] = '1 ' .. grant .. ' ' .. rest
      else
        out[n] = absent(record)
      end
    elseif w > limit and limit > 0 then
      out[n] = '5 ' .. limit
    elseif waiting == 0 and used + w <= limit and paused == '0' then
      local slot = free[f]
      if slot then f = f + 1 else slot, slots = slots, slots + 1 end
      slot = names[slot] or format('%d', slot)
      used, holders, score = used + w, holders + 1, score or deadline(now + left)
      sets[s + 1], sets[s + 2], s = id, head .. slot .. ' ' .. number() .. terms, s + 2
      adds[a + 1], adds[a + 2], a = score, id, a + 2
      out[n] = '1 ' .. slot .. ' ' .. last .. ' ' .. left
    elseif wait == '0' or waiting >= qlimit + 0 then
      out[n] = wait == '0' and '3' or '4'
    else
      sets[s + 1], sets[s + 2], s = id, 'w ' .. weight .. ' 0 ' .. number() .. ' ' .. maxhold .. ' ' .. tail, s + 2
      local turn = format('%d', seq - start * 1000 - FRONT)
      adds[a + 1], adds[a + 2], adds[a + 3], adds[a + 4], a = deadline(now + heartbeat), id, turn, 'q' .. id, a + 4
      out[n] = '2 ' .. (start == '0' and waiting or call('ZCOUNT', ORDER, '-inf', '(' .. turn))
      waiting = waiting + 1
      if start ~= '0' and used < limit and paused == '0' then status = 1 end -- it may be the head, and fit
    end
  end
  i, h = i + heads[h + 1], h + 2
end

-- ---- write ----
--
-- Everything was checked, and nothing changed, until here. A server that is out of memory
-- refuses the first write of a script if it could grow, and none after one that could not:
-- a removal of nobody in front lets releases, renewals and heartbeats pass. ZADD comes
-- before other removals, and PERSIST before all: if the user may not do that, nothing has
-- happened. PEXPIREAT comes last, and its errors are ignored: a lack of TTLs is bearable.

local kept, full = pin ~= '-1' or paused == '1', used + waiting + tombs > 0 -- full: ORDER is to be there
if not kept and not full and seq < us then
  -- The last token need not be remembered: the server's clock is past it.
  if state then call('DEL', STATE) end
  if ordered then call('DEL', ORDER) end
  state = nil
else
  if used == 0 then slots, free, known = 0, {}, {} end -- which are free is not worth a member
  local k = #free
  while k >= f do                                       -- what is left is stored in rows
    local high = ends[free[k]] or free[k]
    while k > f and (ends[free[k - 1]] or free[k - 1]) == free[k] - 1 do k = k - 1 end
    local low = names[free[k]] or format('%d', free[k])
    local row = high > free[k] and low .. '-' .. format('%d', high) or low
    if high >= slots then corrupt('slot', high)
    elseif high == slots - 1 then slots = free[k]
    elseif known[row] then known[row] = nil             -- it stays
    else adds[a + 1], adds[a + 2], a = low, row, a + 2 end
    k = k - 1
  end
  for row in pairs(known) do others = others or {} others[#others + 1] = row end
  if full and not ordered then adds[a + 1], adds[a + 2], a = '4000000000', NOTE, a + 2 end

  -- The keys carry a TTL, but not where what has one is evicted first, while their loss would matter.
  local was_till, lapse = till, not kept and (POLICY == '1' or used + waiting == 0) and '1' or '0'
  if used + waiting == 0 and till - now > TOLD + GRAIN then till = format('%d', now + TOLD + GRAIN) end -- after a long lease
  if furthest > 0 and furthest + 1000 > till + 0 then till = format('%d', furthest + GRAIN) end
  if not full then nearest, till = '0', lapse == '1' and format('%d', now + 1000) or till end
  if used + waiting == 0 and seq / 1000 + 1000 > till + 0 then till = format('%d', math.ceil(seq / 1000) + 1000) end
  local text = format('1 %s %s %s %s %d %d %d %d %d %s %s %s %s',
    declared, pin, paused, changes, used, holders, waiting, tombs, slots, last, nearest, till, lapse)
  if text ~= state then sets[s + 1], sets[s + 2], s, state = 'state', text, s + 2, text end

  if lapses == '1' and lapse == '0' then call('PERSIST', STATE) call('PERSIST', ORDER) end
  local leavers = others or gone                        -- from ORDER
  if others then for k = 1, g do others[#others + 1] = gone[k] end end
  if (eager or reaping) and (a > 0 or caps or s > 0 and #leavers == 0) then call('ZREM', ORDER, '') end
  if a > 0 then call('ZADD', ORDER, unpack(adds, 1, a)) end
  if caps then call('ZADD', ORDER, 'LT', unpack(caps)) end
  if ordered and not full then
    call('DEL', ORDER)
  elseif ordered then
    if #leavers > 0 then call('ZREM', ORDER, unpack(leavers)) end
    if used == 0 and stored > 0 then call('ZREMRANGEBYSCORE', ORDER, '0', '2147483648') end
  end
  if s > 0 then call('HSET', STATE, unpack(sets, 1, s)) end
  if g > 0 then call('HDEL', STATE, unpack(gone, 1, g)) end
  if lapse == '1' then
    local later = lapses == '0' or till ~= was_till
    if later then try('PEXPIREAT', STATE, till) end
    if full and (later or not ordered) then try('PEXPIREAT', ORDER, till) end
  end
end

-- ---- tell, and answer ----
if notes then
  -- A message is a hint. A user who may not publish must not end in half a step: errors are ignored.
  for channel, message in pairs(notes) do
    local shard = sub(channel, 1, 1) == ':'
    try(shard and 'SPUBLISH' or 'PUBLISH', (shard and STATE or match(STATE, '^[^{]*') .. 'inbox:') .. channel, message)
  end
end
if not reaping then return stamp .. ' ' .. status .. ' ' .. was .. ' ' .. (state or NOBODY) .. ' ' .. table.concat(out, ' ', 1, n) end
end
