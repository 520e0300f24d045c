-- One call of this script is one atomic step of one semaphore: reap what has
-- run out, apply the operations given, pump the queue. The package comment of
-- internal/protocol is its specification.
--
-- KEYS[1]  hash  "settings", "counts", and one record for each lease, waiter
--                and tombstone
-- KEYS[2]  zset  three bands of scores, so that one variadic command serves all:
--                [-2^53, 0)    queue      member "q"..id    score ticket - head start - 2^53
--                [0, 2^31)     free slot  member "s"..slot  score slot
--                [2^32, ...)   deadline   member id         score milliseconds
-- ARGV[1]  latest server time (ms) at which this call may still run; 0: no bound
-- ARGV[2]  owner of the operations: channel/pid/host; a channel that begins with
--          ":" is a shard channel, to be put behind KEYS[1]
-- ARGV[3]  "1": keys may carry a TTL (the server does not evict); "0": they must
--          not; "?": not known, leave it as it is. A second character closes
--          the short way (tests)
-- ARGV[4+] groups of operations: head, number of ids, ids. A head is a verb with
--          its parameters, in one argument because arguments cost more than bytes:
--          A wait weight ttl hb start qlimit maxhold limit label   acquire
--          H hb places                                             heartbeat
--          R ttl                                                   renew
--          L tomb                                                  release, cancel
--          E force                                                 evict
--          D limit | P limit (-1: unpin) | Z paused                operator's, without ids
--          The verb touches its first parameter, others have a space in between.
-- Returns  numbers in one string, which costs a third of a list: the time in
--          microseconds; 0 done, 1 call again at once (work was bounded), -1 too
--          late (nothing done); counts as they now are, eight zeros where nothing is
--          left; results by operation:
--          A  five numbers: 1 token slot remaining limit | 2 ahead used limit waiting
--             | 3 (busy), 4 (full) used limit waiting paused | 5 (heavy) limit 0 0 0
--             | 6 (gone) 0 0 0 0
--          H  2 ahead used limit waiting (2 -1 where no place was asked for)
--             | 1 token slot remaining limit | 6 reason
--          R  7 remaining | 8 (evicting) remaining | 6 reason
--          L  9 (released) | 10 (cancelled) | 6 reason       E  9 | 10 | 8 | 6 reason
--          reason: 0 unknown, 1 released, 2 expired, 3 evicted, 4 too heavy
-- Errors   a message with BERTHCORRUPT (foreign content), BERTHVERSION (newer
--          layout), BERTHCLOCK (deadlines would be in the band of slots);
--          nothing was written
-- Cost     O(log n) for each operation and each grant; never O(holders) or
--          O(waiters): what is reaped or granted in one call is bounded by CHUNK.

local STATE, ORDER, ARGV = KEYS[1], KEYS[2], ARGV
local FRONT = 9007199254740992
local TERMS = '^A([01]) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (.*)$'
local call, format, match, sub = redis.call, string.format, string.match, string.sub

local clock = call('TIME')
local us = clock[1] * 1000000 + clock[2]
local now = (us - us % 1000) / 1000
if ARGV[1] ~= '0' and now > ARGV[1] + 0 then return format('%.0f -1 0 0 0 0 0 0 0 0', us) end
if now < 4294967296 then error('BERTHCLOCK the server says that it is 1970: set its clock') end
local stamp = format('%d', us)                  -- %d is three times as fast as %.0f,
local WHOLE = #stamp > 11 and '%d' or '%.0f'    -- but overflows on a server of 32 bits
local NOTHING = ' 0 0 0 0 0 0 0 0 0'            -- status and counts, when the keys are gone

-- ---- read: one HMGET for the state and the records of all ids given ----

local fields, top, i = { 'settings', 'counts', nil }, 2, 4
while ARGV[i] do
  local last = i + 1 + ARGV[i + 1]
  for k = i + 2, last do
    top = top + 1
    fields[top] = ARGV[k]
  end
  i = last + 1
end
local got
if top <= 1000 then
  got = call('HMGET', STATE, unpack(fields, 1, top))
else
  got = {}
  for from = 1, top, 1000 do
    local part = call('HMGET', STATE, unpack(fields, from, math.min(from + 999, top)))
    for k = 1, #part do got[from + k - 1] = part[k] end
  end
end
local settings, counts = got[1], got[2]

-- A message is a hint, the state is the truth: a user without the right to
-- publish must not end in half a transition, so errors are ignored.
local function publish(channel, message)
  if sub(channel, 1, 1) == ':' then
    redis.pcall('SPUBLISH', STATE .. channel, message)
  else
    redis.pcall('PUBLISH', channel, message)
  end
end

-- ---- the lone way: one operation, and nothing out of the ordinary ----
--
-- An acquire on a semaphore that is not in use, or one that has to wait; the
-- release of the only lease, or one that hands its permits and its slot to the
-- first in line. This is what the short way would do, without its tables and
-- loops (docs/decisions). Numbers stay text where they are only copied.

if top == 3 and not ARGV[7] and (ARGV[3] == '1' or ARGV[3] == '0') then
  local id, record = ARGV[6], got[3]
  if not settings then
    local weight, ttl, declared, label = match(ARGV[4], '^A[01] (%d+) (%d+) %d+ %d+ %d+ 0 (%d+) (.*)$')
    if weight and weight + 0 <= declared + 0 and call('EXISTS', STATE, ORDER) == 0 then
      local till = now + ttl
      local score, lapse = format(WHOLE, till), ARGV[3] == '1' and format(WHOLE, till + 60000) or '0'
      counts = weight .. ' 1 0 0 1 ' .. stamp .. ' ' .. score .. ' ' .. lapse
      call('ZADD', ORDER, score, id)
      call('HSET', STATE, 'settings', '1 ' .. declared .. ' -1 0 0', 'counts', counts,
        id, 'h ' .. weight .. ' 0 ' .. stamp .. ' 0 0 ' .. ARGV[2] .. ' ' .. label)
      if lapse ~= '0' then
        call('PEXPIREAT', STATE, lapse)
        call('PEXPIREAT', ORDER, lapse)
      end
      return stamp .. ' 0 ' .. counts .. ' 1 ' .. stamp .. ' 0 ' .. ttl .. ' ' .. declared
    end
  else
    local limit = match(settings, '^1 (%d+) %-1 0 %d+$')
    local used, holders, waiting, tombs, slots, last, soonest, lapse =
      match(limit and counts or '', '^(%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+)$')
    if not used or last + 0 >= us or soonest + 0 <= now or (lapse ~= '0') ~= (ARGV[3] == '1') then
      -- the general way will see
    elseif ARGV[4] == 'L0' then
      local weight, slot = match(record or '', '^h (%d+) (%d+) ')
      if weight and holders == '1' and waiting == '0' and tombs == '0' then
        call('DEL', STATE, ORDER)
        return stamp .. NOTHING .. ' 9'
      elseif weight and waiting ~= '0' and used == limit and holders == slots then
        local head = call('ZRANGE', ORDER, '0', '0')[1] or ''
        local heir = sub(head, 2)
        local same, owner, label = match(call('HMGET', STATE, heir)[1] or '', '^w (%d+) %d+ 0 (%S+)(.*)$')
        if same == weight then
          counts = used .. ' ' .. holders .. format(' %d ', waiting - 1) .. tombs .. ' ' .. slots .. ' '
            .. stamp .. ' ' .. soonest .. ' ' .. lapse
          call('ZREM', ORDER, id, head)
          call('HDEL', STATE, id)
          call('HSET', STATE, 'counts', counts, heir, 'h ' .. weight .. ' ' .. slot .. ' ' .. stamp .. ' 0 0 ' .. owner .. label)
          publish(match(owner, '^[^/]+'), STATE .. '\ng ' .. heir .. ' ' .. stamp .. ' ' .. slot .. ' ' .. limit)
          return stamp .. ' 0 ' .. counts .. ' 9'
        end
      end
    elseif not record then
      local weight, hb, qlimit, maxhold, declared, label = match(ARGV[4], '^A1 (%d+) %d+ (%d+) 0 (%d+) (%d+) (%d+) (.*)$')
      local till = now + (hb or 0)
      if declared == limit and weight + 0 <= limit + 0 and (waiting ~= '0' or used + weight > limit + 0)
          and waiting + 0 < qlimit + 0 and (lapse == '0' or till + 1000 <= lapse + 0) then
        local score, queue = format(WHOLE, till), format('%d', waiting + 1)
        if till < soonest + 0 then soonest = score end
        counts = used .. ' ' .. holders .. ' ' .. queue .. ' ' .. tombs .. ' ' .. slots .. ' '
          .. stamp .. ' ' .. soonest .. ' ' .. lapse
        call('ZADD', ORDER, score, id, format(WHOLE, us - FRONT), 'q' .. id)
        call('HSET', STATE, 'counts', counts,
          id, 'w ' .. weight .. ' ' .. sub(stamp, 1, -4) .. ' ' .. maxhold .. ' ' .. ARGV[2] .. ' ' .. label)
        return stamp .. ' 0 ' .. counts .. ' 2 ' .. waiting .. ' ' .. used .. ' ' .. limit .. ' ' .. queue
      end
    end
  end
end

-- ---- the short way: releases, hand-offs, grants and places in the queue ----
--
-- While nothing is due, pinned or paused, this does what the general way below
-- does, without building the general way's functions and tables, which cost more
-- than the work itself (docs/decisions). Whatever is out of the ordinary clears
-- plain before anything was written, and the general way starts afresh. Numbers
-- become text once; tables are made with room for one operation.

local plain = (ARGV[3] == '1' or ARGV[3] == '0') and top <= 500
if top > 3 then -- an id that is named twice changes its own record on the way
  local seen = {}
  for k = 3, top do
    if seen[fields[k]] then plain = false end
    seen[fields[k]] = true
  end
end
local limit, used, holders, waiting, tombs, slots, last, nearest, expires, soonest, lapse
if not settings then
  used, holders, waiting, tombs, slots, last, nearest, expires = 0, 0, 0, '0', 0, 0, 0, 0
  soonest, lapse = '0', '0'
elseif plain then
  limit = match(settings, '^1 (%d+) %-1 0 %d+$')
  used, holders, waiting, tombs, slots, last, soonest, lapse =
    match(counts or '', '^(%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+)$')
  if limit and used then
    limit, used, holders, waiting = limit + 0, used + 0, holders + 0, waiting + 0
    slots, last, nearest, expires = slots + 0, last + 0, soonest + 0, lapse + 0
    plain = holders <= slots and holders <= used and slots <= 2147483648 and last < FRONT and nearest > now
      and used <= 2147483648 and waiting <= 2147483648 and nearest < FRONT and expires < FRONT
  else
    plain = false
  end
end

if plain then
  local out, n, field, count = { nil }, 0, 2, nil
  local freed, freeds, removed, notes = { nil }, 0, { nil, nil }, nil
  local sets, s, adds, a = { nil, nil, nil, nil, nil, nil }, 0, { nil, nil, nil, nil }, 0
  local furthest, members, stored = 0, holders + 2 * waiting + tombs, slots - holders
  local token -- last, as text; nil where that is not known
  i = 4

  while ARGV[i] == 'L0' do
    count = ARGV[i + 1] + 0
    for k = 1, count do
      local weight, slot = match(got[field + k] or '', '^h (%d+) (%d+) ')
      used, holders, freeds = used - (weight or FRONT), holders - 1, freeds + 1
      if used < 0 then plain = false break end
      freed[freeds], removed[freeds] = slot + 0, ARGV[i + 1 + k]
      out[n + k] = ' 9'
    end
    n, field, i = n + count, field + count, i + 2 + count
  end
  -- Slots to give out, lowest first: those freed now, and of the stored ones those
  -- that may come before. What is in removed beyond freeds is in ORDER alone.
  if freeds > 1 then table.sort(freed) end
  local unqueued, free, vacant, stock = freeds, 1, freeds, nil
  local grants = top - 2 - freeds + math.min(waiting, 100) -- at most
  if plain and stored > 0 and grants > 0 then
    local bound, most = freed[grants], math.min(stored, grants)
    local found = call('ZRANGEBYSCORE', ORDER, '0', bound or '2147483648', 'LIMIT', '0', most)
    plain, vacant, stock = bound ~= nil or #found == most, freeds + #found, {}
    for k = 1, #found do
      local slot = match(found[k], '^s(%d+)$')
      if not slot then plain = false break end
      freed[freeds + k], stock[slot + 0] = slot + 0, found[k]
    end
    if plain and vacant > 1 and found[1] then table.sort(freed) end
  end

  if plain and waiting > 0 and used < limit then
    local room = math.min(limit - used, waiting, 100)
    local heads, ids = call('ZRANGE', ORDER, 0, room - 1), {}
    for k = 1, #heads do ids[k] = sub(heads[k], 2) end
    local records = heads[1] and call('HMGET', STATE, unpack(ids)) or {}
    plain = #heads == room
    for k = 1, #heads do
      local weight, cap, owner, label = match(records[k] or '', '^w (%d+) %d+ (%d+) (%S+)(.*)$')
      if not weight or cap ~= '0' or weight + 0 > limit then plain = false break end
      if used + weight > limit then room = 0 break end
      if last < us then last, token = us, stamp else last = last + 1 token = format(WHOLE, last) end
      local slot = freed[free]
      if slot then free = free + 1 else slot, slots = slots, slots + 1 end
      used, holders, waiting, unqueued = used + weight, holders + 1, waiting - 1, unqueued + 1
      removed[unqueued] = heads[k]
      if stock and stock[slot] then
        unqueued = unqueued + 1
        removed[unqueued] = stock[slot]
      end
      sets[s + 1], sets[s + 2] = ids[k], 'h ' .. weight .. ' ' .. slot .. ' ' .. token .. ' 0 0 ' .. owner .. label
      s = s + 2
      local channel = match(owner, '^[^/]+')
      notes = notes or {}
      notes[channel] = (notes[channel] or STATE) .. '\ng ' .. ids[k] .. ' ' .. token .. ' ' .. slot .. ' ' .. limit
    end
    if room > 0 and waiting > 0 and used < limit then plain = false end -- more than a page
  end

  while plain and ARGV[i] do
    local wait, weight, ttl, hb, start, qlimit, maxhold, declared, label = match(ARGV[i], TERMS)
    if not wait then plain = false break end
    count, declared = ARGV[i + 1] + 0, declared + 0
    limit = limit or declared
    local wanted = weight * count
    if declared ~= limit then
      plain = false
    elseif waiting == 0 and used + wanted <= limit then
      local left, cap = ttl, '0'
      if maxhold ~= '0' then
        cap = format(WHOLE, now + maxhold)
        if maxhold + 0 < ttl + 0 then left = maxhold end
      end
      local till = now + left
      local score, rest = format(WHOLE, till), ' ' .. left .. format(' %d', limit)
      local lead, tail = 'h ' .. weight .. ' ', ' ' .. cap .. ' 0 ' .. ARGV[2] .. ' ' .. label
      if till > furthest then furthest = till end
      if nearest == 0 or till < nearest then nearest, soonest = till, score end
      for k = 1, count do
        if got[field + k] then plain = false break end
        if last < us then last, token = us, stamp else last = last + 1 token = format(WHOLE, last) end
        local id, slot = ARGV[i + 1 + k], freed[free]
        if slot then free = free + 1 else slot, slots = slots, slots + 1 end
        if stock and stock[slot] then
          unqueued = unqueued + 1
          removed[unqueued] = stock[slot]
        end
        slot = format('%d', slot)
        sets[s + 1], sets[s + 2] = id, lead .. slot .. ' ' .. token .. tail
        adds[a + 1], adds[a + 2] = score, id
        out[n + k] = ' 1 ' .. token .. ' ' .. slot .. rest
        s, a = s + 2, a + 2
      end
      used, holders = used + wanted, holders + count
    elseif wait == '1' and start == '0' and weight + 0 <= limit
        and (waiting > 0 or used + weight > limit) and waiting + count <= qlimit + 0 then
      local till = now + hb
      local score = format(WHOLE, till)
      local record = 'w ' .. weight .. format(' ' .. WHOLE .. ' ', now) .. maxhold .. ' ' .. ARGV[2] .. ' ' .. label
      if till > furthest then furthest = till end
      if nearest == 0 or till < nearest then nearest, soonest = till, score end
      for k = 1, count do
        if got[field + k] then plain = false break end
        if last < us then last, token = us, stamp else last, token = last + 1, nil end
        local id = ARGV[i + 1 + k]
        sets[s + 1], sets[s + 2] = id, record
        adds[a + 1], adds[a + 2], adds[a + 3], adds[a + 4] = score, id, format(WHOLE, last - FRONT), 'q' .. id
        s, a = s + 2, a + 4
        out[n + k] = format(' 2 %d %d %d %d', waiting, used, limit, waiting + 1)
        waiting = waiting + 1
      end
    else
      plain = false
    end
    n, field, i = n + count, field + count, i + 2 + count
  end

  if plain and holders + waiting == 0 then
    plain = settings and tombs == '0' and last < us
    if plain then
      call('DEL', STATE, ORDER)
      return stamp .. NOTHING .. table.concat(out)
    end
  elseif plain and (settings or call('EXISTS', STATE, ORDER) == 0) then
    for k = vacant, free, -1 do
      if stock and stock[freed[k]] then
        -- it stays stored
      elseif freed[k] == slots - 1 then
        slots = slots - 1
      else
        local number = format('%d', freed[k])
        adds[a + 1], adds[a + 2] = number, 's' .. number
        a = a + 2
      end
    end
    plain = holders > 0 or a == 0 and stored == 0 or not settings -- else free slots of nobody would be kept
  else
    plain = false
  end

  if plain then
    if unqueued > 0 then call('ZREM', ORDER, unpack(removed, 1, unqueued)) end
    if a > 0 then call('ZADD', ORDER, unpack(adds, 1, a)) end
    if freeds > 0 then call('HDEL', STATE, unpack(removed, 1, freeds)) end
    local lapsed = lapse
    if ARGV[3] == '0' then
      lapse = '0'
    elseif furthest + 1000 > expires then
      if expires == 0 and settings then
        furthest = math.max(furthest, call('ZRANGE', ORDER, -1, -1, 'WITHSCORES')[2])
      end
      lapse = format(WHOLE, furthest + 60000)
    end
    counts = format('%d %d %d %s %d %s %s %s', used, holders, waiting, tombs, slots,
      token or format(WHOLE, last), soonest, lapse)
    sets[s + 1], sets[s + 2] = 'counts', counts
    if settings then
      call('HSET', STATE, unpack(sets, 1, s + 2))
    else
      call('HSET', STATE, 'settings', format('1 %d -1 0 0', limit), unpack(sets, 1, s + 2))
    end
    if lapse ~= lapsed or lapse ~= '0' and unqueued >= members then -- ZREM may have emptied ORDER
      if lapse == '0' then
        call('PERSIST', STATE)
        call('PERSIST', ORDER)
      else
        call('PEXPIREAT', STATE, lapse)
        call('PEXPIREAT', ORDER, lapse)
      end
    end
    if notes then
      for channel, message in pairs(notes) do publish(channel, message) end
    end
    return stamp .. ' 0 ' .. counts .. table.concat(out)
  end
end

-- ---- the general way ----

local CHUNK = 500          -- leases reaped, and waiters granted, at most in one call
local LATE = 10000         -- ms; no copy of a request runs later than this after it (protocol.Late)
local BAND = 4294967296    -- least score of a deadline
local RELEASED, EXPIRED, EVICTED, HEAVY = 1, 2, 3, 4
local find = string.find

local function corrupt(what, value)
  error('BERTHCORRUPT ' .. what .. ' ' .. sub(tostring(value), 1, 80))
end

-- Variadic commands in pieces that Lua's stack can take.
local function many(command, key, args)
  for i = 1, #args, 1000 do
    call(command, key, unpack(args, i, math.min(i + 999, #args)))
  end
end

local rec = {}             -- id -> record, false when there is none
for k = 3, top do rec[fields[k]] = got[k] end

local declared, pin, paused, changes = 0, -1, 0, 0
used, holders, waiting, tombs, slots, last, nearest, expires = 0, 0, 0, 0, 0, 0, 0, 0
local fresh = not settings
if fresh then
  -- A leftover without its other half would be mixed with the new state: free
  -- slots of the past would be given out twice. Only what berth wrote is removed.
  if counts or call('EXISTS', STATE, ORDER) > 0 then
    if call('HLEN', STATE) > 0 then corrupt('hash without settings', STATE) end
    for _, m in ipairs(call('ZRANGE', ORDER, 0, 0)) do
      if not find(m, '^q?[%w_-]+%.%w+$') and not find(m, '^s%d+$') then corrupt('member', m) end
    end
    call('DEL', ORDER)
  end
else
  local version, a, b, c, d = match(settings, '^(%d+) (%d+) (%-?%d+) ([01]) (%d+)$')
  if version ~= '1' then
    if find(settings, '^%d+ ') and tonumber(match(settings, '^%d+')) > 1 then
      error('BERTHVERSION ' .. sub(settings, 1, 80))
    end
    corrupt('settings', settings)
  end
  declared, pin, paused, changes = a + 0, b + 0, c + 0, d + 0
  local e, f, g, h, j, k, l, m =
    match(counts or '', '^(%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+)$')
  if not e then corrupt('counts', counts) end
  used, holders, waiting, tombs, slots, last, nearest, expires = e + 0, f + 0, g + 0, h + 0, j + 0, k + 0, l + 0, m + 0
  if declared > 2147483648 or pin > 2147483648 or pin < -1 or holders > used or slots < holders or slots > 2147483648
      or math.max(used, waiting, tombs, changes, last, nearest, expires) >= FRONT then
    corrupt('counts', settings .. ' / ' .. counts)
  end
end

limit = pin >= 0 and pin or declared
local before = { settings = settings, counts = counts, members = holders + 2 * waiting + tombs, waiting = waiting }

-- ---- changes: gathered here, written at the very end ----

local touched, due = {}, {}       -- ids whose record changes (it is in rec); id -> new deadline, or false
local unqueued = {}               -- "q"..id of stored waiters that leave the queue
local arrivals, arrived = {}, {}  -- waiters that came in this call, by score; id -> entry
local notes = {}                  -- channel -> message
local freed, stored, taken = {}, slots - holders, {}
local out, n, status = {}, 0, 0

local function fetch(ids)
  local found = call('HMGET', STATE, unpack(ids))
  for k = 1, #ids do
    if rec[ids[k]] == nil then rec[ids[k]] = found[k] end
  end
end

local function tell(owner, line)
  local channel = match(owner, '^[^/]+')
  notes[channel] = (notes[channel] or STATE) .. '\n' .. line
end

local function remaining(id)
  local till = due[id] or tonumber(call('ZSCORE', ORDER, id) or '')
  if not till or till < BAND or till - now > 3e12 then corrupt('no deadline for', id) end -- 3e12 ms: 95 years
  return till - now
end

-- Takes a holder or a waiter out, and returns its owner. A late copy of its
-- acquire finds a tombstone while till, by default the time by which no copy can
-- be executed any more, lies ahead.
local function leave(id, reason, till)
  local r, owner, since = rec[id], nil, nil
  if sub(r, 1, 1) == 'h' then
    local weight, slot, token
    weight, slot, token, owner = match(r, '^h (%d+) (%d+) (%d+) %d+ [01] (%S+) ')
    if not weight then corrupt('record', r) end
    used, holders = used - weight, holders - 1
    if used < 0 then corrupt('record', r) end
    freed[#freed + 1] = slot + 0
    since = token / 1000 -- a token is the time of its grant in microseconds, or a little more
  else
    since, owner = match(r, '^w %d+ (%d+) %d+ (%S+) ')
    if not since then corrupt('record', r) end
    waiting = waiting - 1
    if not arrived[id] then unqueued[#unqueued + 1] = 'q' .. id end
  end
  till = till or since + LATE
  touched[id] = true
  if till > now then
    tombs = tombs + 1
    rec[id], due[id] = 'x ' .. reason, till
  else
    rec[id], due[id] = false, false
  end
  return owner
end

-- Makes id a holder; its deadline is the caller's business. The slot is the
-- lowest free number: one freed in this call, one freed earlier, or a new one.
local function grant(id, weight, maxhold, owner, label)
  last = last < us and us or last + 1
  used, holders = used + weight, holders + 1
  local slot, place = nil, nil
  for k = 1, #freed do
    if not slot or freed[k] < slot then slot, place = freed[k], k end
  end
  if stored > #taken then
    local m = call('ZRANGEBYSCORE', ORDER, 0, 2147483648, 'LIMIT', #taken, 1)[1]
    local there = tonumber(match(m or '', '^s(%d+)$') or corrupt('free slot', m))
    if not slot or there < slot then
      slot, place = there, nil
      taken[#taken + 1] = m
    end
  end
  if place then
    freed[place] = freed[#freed]
    table.remove(freed) -- not = nil: the embedded store's Lua would still sort the nil
  elseif not slot then
    slot = slots
    slots = slots + 1
  end
  local ceiling = maxhold > 0 and now + maxhold or 0
  touched[id] = true
  rec[id] = format('h %d %d %.0f %.0f 0 ', weight, slot, last, ceiling) .. owner .. ' ' .. label
  return slot, ceiling
end

-- ---- reap: holders, waiters and tombstones whose deadline has come ----

if nearest > 0 and nearest <= now then
  if call('ZCARD', ORDER) ~= holders + 2 * waiting + tombs + stored then
    corrupt('counts do not match ' .. ORDER .. ':', counts)
  end
  local ids = call('ZRANGEBYSCORE', ORDER, BAND, now, 'LIMIT', 0, CHUNK)
  if ids[1] then fetch(ids) end
  for _, id in ipairs(ids) do
    if sub(rec[id] or corrupt('no record for', id), 1, 1) == 'x' then
      tombs = tombs - 1
      touched[id] = true
      rec[id], due[id] = false, false
    else
      tell(leave(id, EXPIRED), 'x ' .. id .. ' 2')
    end
  end
  if #ids == CHUNK then
    status, nearest = 1, now
  else
    local ahead = call('ZRANGEBYSCORE', ORDER, '(' .. now, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
    nearest = tonumber(ahead[2] or '0')
    if not nearest or nearest ~= math.floor(nearest) or nearest >= FRONT then corrupt('deadline of', ahead[1]) end
  end
end

-- ---- pump: grant the head of the queue while it fits ----

local heads, at, seen = {}, 0, 0   -- a page of the stored queue, place in it, members read so far
local granted, looked = 0, limit   -- looked: the limit under which the head was last weighed

local function pump()
  while waiting > 0 and paused == 0 and limit > 0 and status == 0 and (used < limit or looked ~= limit) do
    -- The first live waiter: a stored one, or one that came in this call.
    local id, score
    while not id and (heads[at + 1] or seen < before.waiting) do
      if not heads[at + 1] then
        local room = math.max(1, math.min(limit - used, 100, before.waiting - seen))
        heads = call('ZRANGE', ORDER, seen, seen + room - 1, 'WITHSCORES')
        at, seen = 0, seen + room
        local ids = {}
        for k = 1, #heads, 2 do ids[#ids + 1] = match(heads[k], '^q(.+)$') or corrupt('in the queue:', heads[k]) end
        if #ids ~= room then corrupt('queue is shorter than its count:', counts) end
        fetch(ids)
      end
      id, score = sub(heads[at + 1], 2), heads[at + 2] + 0
      if not rec[id] and not touched[id] then corrupt('no record for', id) end
      if sub(rec[id] or 'x', 1, 1) ~= 'w' or arrived[id] then id, at = nil, at + 2 end
    end
    while arrivals[1] and sub(rec[arrivals[1].id] or 'x', 1, 1) ~= 'w' do table.remove(arrivals, 1) end
    local entry = arrivals[1]
    if entry and id and entry.score >= score then entry = nil end
    if entry then id = entry.id end

    local weight, maxhold, owner, label = match(rec[id or ''] or '', '^w (%d+) %d+ (%d+) (%S+) (.*)$')
    if not weight then corrupt('waiter', rec[id or '']) end
    weight, maxhold = weight + 0, maxhold + 0
    if granted == CHUNK then
      status = 1
    elseif weight > limit then
      -- It can never fit; left at the head it would block the queue for ever.
      granted = granted + 1
      tell(leave(id, HEAVY, 0), format('t %s %d', id, limit))
      if entry then out[entry.out], out[entry.out + 1] = 5, limit end
    elseif used + weight > limit then
      break
    else
      granted = granted + 1
      waiting = waiting - 1
      local slot, ceiling = grant(id, weight, maxhold, owner, label)
      if entry then
        -- It learns of the grant by the reply, and has its full TTL.
        local till = now + entry.ttl
        if ceiling > 0 and ceiling < till then till = ceiling end
        due[id] = till
        local o = entry.out
        out[o], out[o + 1], out[o + 2], out[o + 3], out[o + 4] = 1, last, slot, till - now, limit
      else
        -- A hand-off leaves the deadline as it is: a dead waiter costs those
        -- behind it nothing beyond the time at which it would have been dropped.
        unqueued[#unqueued + 1] = 'q' .. id
        if ceiling > 0 and now + remaining(id) > ceiling then due[id] = ceiling end
        tell(owner, format('g %s %.0f %d %d', id, last, slot, limit))
      end
    end
  end
  looked = limit
end

-- ---- operations ----

local function holds(id)
  local slot, token = match(rec[id], '^h %d+ (%d+) (%d+) ')
  if not slot then corrupt('record', rec[id]) end
  out[n + 1], out[n + 2], out[n + 3], out[n + 4], out[n + 5] = 1, token + 0, slot + 0, remaining(id), limit
  n = n + 5
end

local function place(id)
  out[n + 1], out[n + 2], out[n + 3], out[n + 4], out[n + 5] =
    2, call('ZRANK', ORDER, 'q' .. id) or 0, used, limit, waiting
  n = n + 5
end

local function gone(id)
  local r = rec[id]
  local reason = r and sub(r, 1, 1) ~= 'w' and (match(r, '^x (%d)$') or corrupt('record', r)) or 0
  out[n + 1], out[n + 2] = 6, reason + 0
  n = n + 2
end

local eager = false       -- renewals and heartbeats given: they must pass when memory is short
local p = 4
while ARGV[p] do
  local verb, param = sub(ARGV[p], 1, 1), sub(ARGV[p], 2)
  local from, to = p + 2, p + 1 + ARGV[p + 1]

  if verb == 'A' then
    local wait, weight, ttl, hb, start, qlimit, maxhold, wanted, label = match(ARGV[p], TERMS)
    weight, ttl, hb, start = weight + 0, ttl + 0, hb + 0, start * 1000
    qlimit, maxhold, wanted = qlimit + 0, maxhold + 0, wanted + 0
    if wanted ~= declared then
      if declared > 0 then changes = changes + 1 end
      declared = wanted
      limit = pin >= 0 and pin or declared
    end
    for k = from, to do
      local id = ARGV[k]
      if waiting > 0 then pump() end
      local r = rec[id]
      if r then
        local kind = sub(r, 1, 1)
        if kind == 'h' then
          holds(id)
        elseif kind == 'w' then
          due[id] = now + hb
          place(id)
        else
          out[n + 1], out[n + 2], out[n + 3], out[n + 4], out[n + 5] = 6, 0, 0, 0, 0
          n = n + 5
        end
      elseif weight > limit and limit > 0 then
        out[n + 1], out[n + 2], out[n + 3], out[n + 4], out[n + 5] = 5, limit, 0, 0, 0
        n = n + 5
      elseif waiting == 0 and paused == 0 and used + weight <= limit then
        local slot, ceiling = grant(id, weight, maxhold, ARGV[2], label)
        local till = now + ttl
        if ceiling > 0 and ceiling < till then till = ceiling end
        due[id] = till
        out[n + 1], out[n + 2], out[n + 3], out[n + 4], out[n + 5] = 1, last, slot, till - now, limit
        n = n + 5
      elseif wait == '0' or waiting >= qlimit then
        out[n + 1], out[n + 2], out[n + 3], out[n + 4], out[n + 5] = wait == '0' and 3 or 4, used, limit, waiting, paused
        n = n + 5
      else
        last = last < us and us or last + 1
        local entry = { id = id, score = last - start - FRONT, ttl = ttl, out = n + 1, start = start }
        local spot = #arrivals + 1
        while spot > 1 and arrivals[spot - 1].score > entry.score do spot = spot - 1 end
        table.insert(arrivals, spot, entry)
        if arrived[id] then arrived[id].id = '' end -- it came, left and came again in this call
        arrived[id], touched[id], due[id] = entry, true, now + hb
        rec[id] = format('w %d %.0f %.0f ', weight, now, maxhold) .. ARGV[2] .. ' ' .. label
        out[n + 1], out[n + 2], out[n + 3], out[n + 4], out[n + 5] = 2, waiting, used, limit, waiting + 1
        n = n + 5
        waiting = waiting + 1
      end
    end

  elseif verb == 'L' then
    for k = from, to do
      local id = ARGV[k]
      local kind = sub(rec[id] or 'x', 1, 1)
      if kind == 'x' then
        gone(id)
        if param == '1' and not rec[id] then
          tombs = tombs + 1
          touched[id], rec[id], due[id] = true, 'x ' .. RELEASED, now + LATE
        end
      else
        leave(id, RELEASED, param == '1' and now + LATE or 0)
        n = n + 1
        out[n] = kind == 'h' and 9 or 10
      end
    end

  elseif verb == 'H' then
    eager = true
    local hb, places = match(param, '^(%d+) ([01])$')
    for k = from, to do
      local id = ARGV[k]
      local kind = sub(rec[id] or 'x', 1, 1)
      if kind == 'h' then
        holds(id)
      elseif kind ~= 'w' then
        gone(id)
      else
        due[id] = now + hb
        if places == '1' then
          place(id)
        else
          out[n + 1], out[n + 2] = 2, -1
          n = n + 2
        end
      end
    end

  elseif verb == 'R' then
    eager = true
    for k = from, to do
      local id = ARGV[k]
      if sub(rec[id] or 'x', 1, 1) ~= 'h' then
        gone(id)
      else
        local head, ceiling, evicting, owner, label = match(rec[id], '^(h %d+ %d+ %d+ )(%d+) ([01]) (%S+) (.*)$')
        if not head then corrupt('record', rec[id]) end
        if evicting == '1' then
          out[n + 1], out[n + 2] = 8, remaining(id)
        else
          local till = now + param
          if ceiling ~= '0' and ceiling + 0 < till then till = ceiling + 0 end
          due[id] = till
          if owner ~= ARGV[2] then -- adopted: messages go to the new process
            touched[id] = true
            rec[id] = head .. ceiling .. ' 0 ' .. ARGV[2] .. ' ' .. label
          end
          out[n + 1], out[n + 2] = 7, till - now
        end
        n = n + 2
      end
    end

  elseif verb == 'E' then
    for k = from, to do
      local id = ARGV[k]
      local kind = sub(rec[id] or 'x', 1, 1)
      if kind == 'x' then
        gone(id)
      else
        local owner
        n = n + 1
        if kind == 'w' or param == '1' then
          -- The tombstone tells a process that missed the message, when it next asks.
          owner = leave(id, EVICTED, now + 60000)
          out[n] = kind == 'h' and 9 or 10
        else
          local head, tail
          head, owner, tail = match(rec[id], '^(h %d+ %d+ %d+ %d+ )[01] (%S+)( .*)$')
          if not head then corrupt('record', rec[id]) end
          touched[id] = true
          rec[id] = head .. '1 ' .. owner .. tail
          out[n] = 8
        end
        tell(owner, 'x ' .. id .. ' 3')
      end
    end

  elseif verb == 'Z' then
    paused = param + 0
  else
    if verb == 'P' then
      pin = param + 0
    elseif param + 0 ~= declared then
      if declared > 0 then changes = changes + 1 end
      declared = param + 0
    end
    limit = pin >= 0 and pin or declared
  end
  p = to + 1
end
pump()

-- ---- write ----

local function publishAll()
  for channel, message in pairs(notes) do publish(channel, message) end
end

local live, kept = holders + waiting > 0, pin >= 0 or paused == 1

local function reply(state)
  local text = format('%.0f %d ', us, status) .. state
  for from = 1, n, 500 do -- more at once is too much for the embedded store's Lua
    local to = math.min(from + 499, n)
    for k = from, to do out[k] = format(' %.0f', out[k]) end
    text = text .. table.concat(out, '', from, to)
  end
  return text
end

-- The last token outlives the keys only in the server's clock. While that clock
-- is not past it (it stepped back, or it stands still in a test), it is kept.
if not live and tombs == 0 and not kept and last < us then
  if not fresh then call('DEL', STATE, ORDER) end
  publishAll()
  return reply('0 0 0 0 0 0 0 0')
end

local adds, removals, furthest = {}, unqueued, 0
for id, till in pairs(due) do
  if till then
    adds[#adds + 1] = format('%.0f', till)
    adds[#adds + 1] = id
    if till > furthest then furthest = till end
    if nearest == 0 or till < nearest then nearest = till end
  else
    removals[#removals + 1] = id
  end
end
if tombs + waiting + holders == 0 then nearest = 0 end

for k = 1, #taken do removals[#removals + 1] = taken[k] end
if holders == 0 then
  if stored > #taken then call('ZREMRANGEBYSCORE', ORDER, 0, 2147483648) end
  slots, freed = 0, {}
elseif freed[1] then
  table.sort(freed, function(a, b) return a > b end)
  for k = 1, #freed do
    if freed[k] == slots - 1 then
      slots = slots - 1
    else
      adds[#adds + 1] = freed[k]
      adds[#adds + 1] = 's' .. freed[k]
    end
  end
end

-- Removals come first: a server that is out of memory refuses a script's first
-- write if it could grow, and none after one that cannot. So releases pass.
if removals[1] then
  many('ZREM', ORDER, removals)
elseif eager then
  call('ZREM', ORDER, '')
end
for _, a in ipairs(arrivals) do
  if sub(rec[a.id] or 'x', 1, 1) == 'w' then
    adds[#adds + 1] = format('%.0f', a.score)
    adds[#adds + 1] = 'q' .. a.id
  end
end
if adds[1] then many('ZADD', ORDER, adds) end

-- A TTL only while the loss of the keys is harmless, or where nothing is evicted.
local lapse = 0
if not live and not kept then
  lapse = math.max(tombs > 0 and now + 60000 or 0, math.ceil(last / 1000)) + 1000
elseif live and not kept and (sub(ARGV[3], 1, 1) == '1' or sub(ARGV[3], 1, 1) == '?' and expires > 0) then
  lapse = expires
  if furthest + 1000 > expires then
    -- No lease may outlive its keys: when they had no TTL, look for the latest.
    local latest = expires == 0 and call('ZRANGE', ORDER, -1, -1, 'WITHSCORES')[2] or 0
    lapse = math.max(furthest, latest + 0) + 60000
  end
end

local sets, gones = {}, {}
settings = format('1 %d %d %d %d', declared, pin, paused, changes)
if settings ~= before.settings then sets[1], sets[2] = 'settings', settings end
counts = format('%d %d %d %d %d %.0f %.0f %.0f', used, holders, waiting, tombs, slots, last, nearest, lapse)
if counts ~= before.counts then sets[#sets + 1], sets[#sets + 2] = 'counts', counts end
for id in pairs(touched) do
  if rec[id] then
    sets[#sets + 1] = id
    sets[#sets + 1] = rec[id]
  else
    gones[#gones + 1] = id
  end
end
if gones[1] then many('HDEL', STATE, gones) end
if sets[1] then many('HSET', STATE, sets) end

if lapse ~= expires or (lapse > 0 and #removals >= before.members) then -- ZREM may have emptied ORDER
  if lapse > 0 then
    lapse = format('%.0f', lapse)
    call('PEXPIREAT', STATE, lapse)
    call('PEXPIREAT', ORDER, lapse)
  else
    call('PERSIST', STATE)
    call('PERSIST', ORDER)
  end
end
for _, a in ipairs(arrivals) do
  if a.start > 0 and out[a.out] == 2 then out[a.out + 1] = call('ZRANK', ORDER, 'q' .. a.id) or 0 end
end
publishAll()
return reply(counts)
