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
-- ARGV[3]  "1": keys may carry a TTL (the server does not evict), else "0";
--          a second character closes the short way (tests)
-- ARGV[4+] groups of operations: verb, its parameters, number of ids, ids
--          A wait weight ttl hb start qlimit maxhold limit label   acquire
--          H hb places                                             heartbeat
--          R ttl                                                   renew
--          L tomb                                                  release, cancel
--          E force                                                 evict
--          D limit | P limit (-1: unpin) | Z paused                operator's, without ids
-- Returns  { now, status, next, results... }: status 0 done, 1 call again at once
--          (work was bounded), -1 too late (nothing done); next is the time at
--          which something may run out, 0 for never; results by operation:
--          A  five numbers: 1 token slot remaining limit | 2 ahead used limit waiting
--             | 3 (busy), 4 (full) used limit waiting paused | 5 (heavy) limit 0 0 0
--             | 6 (gone) 0 0 0 0
--          H  2 ahead used limit waiting (2 -1 where no place was asked for)
--             | 1 token slot remaining limit | 6 reason
--          R  7 remaining | 8 (evicting) remaining | 6 reason
--          L  9 (released) | 10 (cancelled) | 6 reason       E  9 | 10 | 8 | 6 reason
--          reason: 0 unknown, 1 released, 2 expired, 3 evicted, 4 too heavy
-- Errors   a message with BERTHCORRUPT (foreign content), BERTHVERSION (newer
--          layout); nothing was written
-- Cost     O(log n) for each operation and each grant; never O(holders) or
--          O(waiters): what is reaped or granted in one call is bounded by CHUNK.

local STATE, ORDER = KEYS[1], KEYS[2]
local FRONT = 9007199254740992
local call, format, match, sub = redis.call, string.format, string.match, string.sub

local clock = call('TIME')
local us = clock[1] * 1000000 + clock[2]
local now = (us - us % 1000) / 1000
if ARGV[1] ~= '0' and now > ARGV[1] + 0 then return { now, -1, 0 } end

-- ---- read: one HMGET for the state and the records of all ids given ----

local WIDTH = { A = 9, H = 2, R = 1, L = 1, E = 1, D = 1, P = 1, Z = 1 }
local fields, i = { 'settings', 'counts' }, 4
while ARGV[i] do
  i = i + WIDTH[ARGV[i]] + 1
  local last = i + ARGV[i]
  for k = i + 1, last do fields[#fields + 1] = ARGV[k] end
  i = last + 1
end
local got
if #fields <= 1000 then
  got = call('HMGET', STATE, unpack(fields))
else
  got = {}
  for from = 1, #fields, 1000 do
    local part = call('HMGET', STATE, unpack(fields, from, math.min(from + 999, #fields)))
    for k = 1, #part do got[from + k - 1] = part[k] end
  end
end
local settings, counts = got[1], got[2]

-- ---- the short way: releases and grants while nobody waits and nothing is due ----
--
-- It does what the general way below does, without building the general way's
-- tables and functions, which cost more than the work itself (docs/decisions).
-- Whatever is out of the ordinary clears plain before anything was written.

local plain = #ARGV[3] == 1 and #fields <= 500
local limit, used, holders, tombs, slots, last, nearest, expires
if settings and plain then
  limit = match(settings, '^1 (%d+) %-1 0 %d+$')
  used, holders, tombs, slots, last, nearest, expires =
    match(counts or '', '^(%d+) (%d+) 0 (%d+) (%d+) (%d+) (%d+) (%d+)$')
  if limit and used then
    used, slots, last, nearest, expires = used + 0, slots + 0, last + 0, nearest + 0, expires + 0
    -- Free slots in the zset are the general way's; so are counts that cannot be.
    plain = holders + 0 == slots and slots <= used and slots <= 2147483648 and last < FRONT and nearest > now
  else
    plain = false
  end
else
  used, tombs, slots, last, nearest, expires = 0, '0', 0, 0, 0, 0
end

if plain then
  local out, n, field, holders = { now, 0, 0 }, 3, 2, slots
  local freed, removed, adds, sets, changed, furthest = {}, nil, nil, {}, 0, 0
  i = 4
  while plain and ARGV[i] do
    local verb = ARGV[i]
    local first = i + WIDTH[verb] + 1
    local count = ARGV[first] + 0
    if verb == 'L' and ARGV[i + 1] == '0' then
      removed = removed or {}
      for k = 1, count do
        local weight, slot = match(got[field + k] or '', '^h (%d+) (%d+) ')
        if not weight then plain = false break end
        used, holders = used - weight, holders - 1
        freed[#freed + 1] = slot + 0
        removed[#removed + 1] = ARGV[first + k]
        n = n + 1
        out[n] = 9
      end
    elseif verb == 'A' then
      local weight, till, cap, declared = ARGV[i + 2], now + ARGV[i + 3], '0', ARGV[i + 8]
      limit = limit or declared
      if declared ~= limit or used + weight * count > limit + 0 then plain = false break end
      if ARGV[i + 7] ~= '0' then
        cap = now + ARGV[i + 7]
        if cap < till then till = cap end
        cap = format('%.0f', cap)
      end
      if till > furthest then furthest = till end
      if nearest == 0 or till < nearest then nearest = till end
      if freed[2] then table.sort(freed, function(a, b) return a > b end) end
      adds = adds or {}
      local score, left, ceiling = format('%.0f', till), till - now, limit + 0
      local head, tail = 'h ' .. weight .. ' ', ' ' .. cap .. ' 0 ' .. ARGV[2] .. ' ' .. ARGV[i + 9]
      for k = 1, count do
        if got[field + k] then plain = false break end
        last = last < us and us or last + 1
        local slot = freed[#freed]
        if slot then freed[#freed] = nil else slot, slots = slots, slots + 1 end
        local id, a = ARGV[first + k], changed
        changed = a + 2
        adds[a + 1], adds[a + 2] = score, id
        sets[a + 1], sets[a + 2] = id, head .. format('%d %.0f', slot, last) .. tail
        out[n + 1], out[n + 2], out[n + 3], out[n + 4], out[n + 5] = 1, last, slot, left, ceiling
        n = n + 5
      end
      used, holders = used + weight * count, holders + count
    else
      plain = false
    end
    field, i = field + count, first + count + 1
  end

  out[3] = nearest
  if not plain then
    -- fall through to the general way
  elseif holders == 0 then
    if settings and tombs == '0' and last < us then
      call('DEL', STATE, ORDER)
      return out
    end
  elseif settings or call('EXISTS', STATE, ORDER) == 0 then
    if freed[1] then
      adds = adds or {}
      table.sort(freed, function(a, b) return a > b end)
      for k = 1, #freed do
        local a = #adds
        if freed[k] == slots - 1 then slots = slots - 1 else adds[a + 1], adds[a + 2] = freed[k], 's' .. freed[k] end
      end
    end
    if removed then
      call('ZREM', ORDER, unpack(removed))
      call('HDEL', STATE, unpack(removed))
    end
    if adds and adds[1] then call('ZADD', ORDER, unpack(adds)) end
    local lapse = '0'
    if ARGV[3] == '1' then
      if furthest + 1000 > expires then
        if expires == 0 and settings then
          furthest = math.max(furthest, call('ZRANGE', ORDER, -1, -1, 'WITHSCORES')[2])
        end
        lapse = format('%.0f', furthest + 60000)
      else
        lapse = format('%.0f', expires)
      end
    end
    sets[changed + 1] = 'counts'
    sets[changed + 2] = format('%d %d 0 %s %d %.0f %.0f ', used, holders, tombs, slots, last, nearest) .. lapse
    if not settings then
      sets[changed + 3], sets[changed + 4] = 'settings', '1 ' .. limit .. ' -1 0 0'
    end
    call('HSET', STATE, unpack(sets))
    if lapse + 0 ~= expires then
      if lapse == '0' then
        call('PERSIST', STATE)
        call('PERSIST', ORDER)
      else
        call('PEXPIREAT', STATE, lapse)
        call('PEXPIREAT', ORDER, lapse)
      end
    end
    return out
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
for k = 3, #fields do rec[fields[k]] = got[k] end

local function fetch(ids)
  local missing = {}
  for k = 1, #ids do
    if rec[ids[k]] == nil then missing[#missing + 1] = ids[k] end
  end
  if #missing == 0 then return end
  local found = call('HMGET', STATE, unpack(missing))
  for k = 1, #missing do rec[missing[k]] = found[k] end
end

local declared, pin, paused, changes, waiting = 0, -1, 0, 0, 0
used, holders, tombs, slots, last, nearest, expires = 0, 0, 0, 0, 0, 0, 0
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
  if declared > 2147483648 or pin > 2147483648 or pin < -1 or used > FRONT or holders > used
      or slots < holders or slots > 2147483648 or last >= FRONT or nearest >= FRONT then
    corrupt('counts', settings .. ' / ' .. counts)
  end
end

limit = pin >= 0 and pin or declared
local was = { settings = settings, counts = counts, idle = holders + waiting + tombs == 0, waiting = waiting }
local status = 0

-- ---- changes: gathered here, written at the very end ----

local dirty, touched = {}, {}     -- ids whose record changes; set of them
local due, timed = {}, {}         -- id -> new deadline or false; ids in it
local unqueued = {}               -- "q"..id of stored waiters that leave the queue
local arrivals, arrived = {}, {}  -- waiters that came in this call, by score; id -> entry
local notes = {}                  -- channel -> message
local furthest = 0                -- the latest deadline set in this call
local freed, sorted, stored, taken = {}, true, slots - holders, {}
local out = { now, 0, 0 }
local n = 3

local function put(id, record)
  rec[id] = record
  if not touched[id] then
    touched[id] = true
    dirty[#dirty + 1] = id
  end
end

local function deadline(id, at)
  if due[id] == nil then timed[#timed + 1] = id end
  due[id] = at
  if at then
    if nearest == 0 or at < nearest then nearest = at end
    if at > furthest then furthest = at end
  end
end

local function remaining(id)
  local at = due[id] or tonumber(call('ZSCORE', ORDER, id) or '') or corrupt('no deadline for', id)
  return at - now
end

local function tell(owner, line)
  local channel = match(owner, '^[^/]+')
  notes[channel] = (notes[channel] or STATE) .. '\n' .. line
end

local function holder(r)
  local weight, slot, token, most, evicting, owner, label =
    match(r, '^h (%d+) (%d+) (%d+) (%d+) ([01]) (%S+) (.*)$')
  if not weight then corrupt('record', r) end
  return weight, slot, token, most, evicting, owner, label
end

local function waiter(r)
  local weight, since, maxhold, owner, label = match(r, '^w (%d+) (%d+) (%d+) (%S+) (.*)$')
  if not weight then corrupt('record', r) end
  return tonumber(weight), since, tonumber(maxhold), owner, label
end

-- The lowest free number. Slots freed in this call are in freed, those freed
-- earlier in the zset; where there are none, slots is the next new one.
local function slot()
  if not sorted then
    table.sort(freed, function(a, b) return a > b end)
    sorted = true
  end
  local here, there = freed[#freed], nil
  if stored > #taken then
    local m = call('ZRANGEBYSCORE', ORDER, 0, 2147483648, 'LIMIT', #taken, 1)[1]
    there = tonumber(match(m or '', '^s(%d+)$') or corrupt('free slot', m))
  end
  if here and (not there or here < there) then
    freed[#freed] = nil
    return here
  end
  if there then
    taken[#taken + 1] = 's' .. there
    return there
  end
  slots = slots + 1
  return slots - 1
end

local function grant(id, weight, maxhold, owner, label)
  last = last < us and us or last + 1
  local number = slot()
  used, holders = used + weight, holders + 1
  local most = maxhold > 0 and now + maxhold or 0
  put(id, format('h %d %d %.0f %.0f 0 %s %s', weight, number, last, most, owner, label))
  return number, most
end

local function tombstone(id, reason, till)
  tombs = tombs + 1
  put(id, 'x ' .. reason)
  deadline(id, till)
end

-- Takes a holder or a waiter out. A late copy of its acquire finds the tombstone
-- where till lies ahead. Returns what it was.
local function leave(id, reason, till)
  local r = rec[id]
  local kind = sub(r, 1, 1)
  local since, owner
  if kind == 'h' then
    local weight, number, token, _
    weight, number, token, _, _, owner = holder(r)
    since = token / 1000 -- a token is the time of its grant in microseconds, or a little more
    used, holders = used - weight, holders - 1
    freed[#freed + 1] = tonumber(number)
    sorted = false
  else
    local _
    _, since, _, owner = waiter(r)
    waiting = waiting - 1
    if not arrived[id] then unqueued[#unqueued + 1] = 'q' .. id end
  end
  till = till or since + LATE
  if till > now then
    tombstone(id, reason, till)
  else
    put(id, false)
    deadline(id, false)
  end
  return kind, owner
end

-- ---- reap: holders, waiters and tombstones whose deadline has come ----

if nearest > 0 and nearest <= now then
  if call('ZCARD', ORDER) ~= holders + 2 * waiting + tombs + stored then
    corrupt('counts do not match ' .. ORDER .. ':', counts)
  end
  local ids = call('ZRANGEBYSCORE', ORDER, BAND, now, 'LIMIT', 0, CHUNK)
  fetch(ids)
  for _, id in ipairs(ids) do
    local kind = sub(rec[id] or corrupt('no record for', id), 1, 1)
    if kind == 'x' then
      tombs = tombs - 1
      put(id, false)
      deadline(id, false)
    else
      local _, owner = leave(id, EXPIRED)
      tell(owner, 'x ' .. id .. ' 2')
    end
  end
  if #ids == CHUNK then
    status, nearest = 1, now
  else
    local ahead = call('ZRANGEBYSCORE', ORDER, '(' .. now, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
    local at = tonumber(ahead[2] or '0')
    if not at or at ~= math.floor(at) or at >= FRONT then corrupt('deadline of', ahead[1]) end
    nearest = at
    if furthest > 0 and (at == 0 or furthest < at) then
      for _, id in ipairs(timed) do
        if due[id] and (nearest == 0 or due[id] < nearest) then nearest = due[id] end
      end
    end
  end
end

-- ---- pump: grant the head of the queue while it fits ----

local heads, at, seen = {}, 0, 0   -- a page of the stored queue, place in it, members read so far
local granted, looked = 0, limit   -- looked: the limit under which the head was last weighed

-- The first live waiter: of the stored queue, or one that came in this call.
local function head()
  local id, score
  while seen < was.waiting or at < #heads do
    if at >= #heads then
      local room = math.max(1, math.min(limit - used, 100))
      heads = call('ZRANGEBYSCORE', ORDER, '-inf', '(0', 'WITHSCORES', 'LIMIT', seen, room)
      if #heads == 0 then corrupt('queue is shorter than its count:', counts) end
      at, seen = 0, seen + #heads / 2
      local ids = {}
      for k = 1, #heads, 2 do ids[#ids + 1] = sub(heads[k], 2) end
      fetch(ids)
    end
    id, score = sub(heads[at + 1], 2), tonumber(heads[at + 2])
    if not rec[id] and not touched[id] then corrupt('no record for', id) end
    if rec[id] and sub(rec[id], 1, 1) == 'w' and not arrived[id] then break end
    at, id, score = at + 2, nil, nil
  end
  while arrivals[1] and sub(rec[arrivals[1].id] or 'x', 1, 1) ~= 'w' do table.remove(arrivals, 1) end
  local a = arrivals[1]
  if a and (not score or a.score < score) then return a.id end
  return id
end

-- A waiter that came in this call learns of its grant by the reply and gets its
-- full TTL. A stored one is told by message and keeps its heartbeat deadline:
-- the hand-off leaves the deadline as it is, so a dead waiter costs those behind
-- it nothing beyond the time at which it would have been dropped anyway.
local function handoff(id, weight, maxhold, owner, label)
  local a = arrived[id]
  local number, most = grant(id, weight, maxhold, owner, label)
  waiting = waiting - 1
  if a then
    local till = now + a.ttl
    if most > 0 and most < till then till = most end
    deadline(id, till)
    out[a.out], out[a.out + 1], out[a.out + 2], out[a.out + 3], out[a.out + 4] = 1, last, number, till - now, limit
    return
  end
  unqueued[#unqueued + 1] = 'q' .. id
  if most > 0 and now + remaining(id) > most then deadline(id, most) end
  tell(owner, format('g %s %.0f %d %d', id, last, number, limit))
end

local function pump()
  if paused == 1 or limit == 0 or status == 1 then return end
  while waiting > 0 and (used < limit or looked ~= limit) do
    local id = head()
    if not id then corrupt('queue is shorter than its count:', counts) end
    local weight, _, maxhold, owner, label = waiter(rec[id])
    if granted == CHUNK then
      status = 1
      break
    elseif weight > limit then
      -- It can never fit; left at the head it would block the queue for ever.
      granted = granted + 1
      leave(id, HEAVY, 0)
      tell(owner, format('t %s %d', id, limit))
      local a = arrived[id]
      if a then out[a.out], out[a.out + 1] = 5, limit end
    elseif used + weight > limit then
      break
    else
      granted = granted + 1
      handoff(id, weight, maxhold, owner, label)
    end
  end
  looked = limit
end

-- ---- operations ----

local function declare(to)
  if to == declared then return end
  if declared > 0 then changes = changes + 1 end
  declared = to
  limit = pin >= 0 and pin or declared
  pump()
end

local function answer(a, b, c, d, e)
  out[n + 1], out[n + 2], out[n + 3], out[n + 4], out[n + 5] = a, b, c, d, e
  n = n + 5
end

local function place(id)
  return call('ZRANK', ORDER, 'q' .. id) or 0
end

local function holds(id)
  local _, number, token = holder(rec[id])
  answer(1, tonumber(token), tonumber(number), remaining(id), limit)
end

local function acquire(id, wait, weight, ttl, hb, start, qlimit, maxhold, label)
  local r = rec[id]
  if r then
    local kind = sub(r, 1, 1)
    if kind == 'h' then return holds(id) end
    if kind ~= 'w' then return answer(6, 0, 0, 0, 0) end
    deadline(id, now + hb)
    return answer(2, place(id), used, limit, waiting)
  end
  if weight > limit and limit > 0 then return answer(5, limit, 0, 0, 0) end
  if waiting > 0 then pump() end
  if waiting == 0 and paused == 0 and used + weight <= limit then
    local number, most = grant(id, weight, maxhold, ARGV[2], label)
    local till = now + ttl
    if most > 0 and most < till then till = most end
    deadline(id, till)
    return answer(1, last, number, till - now, limit)
  end
  if not wait then return answer(3, used, limit, waiting, paused) end
  if waiting >= qlimit then return answer(4, used, limit, waiting, paused) end
  last = last < us and us or last + 1
  local entry = { id = id, score = last - start - FRONT, ttl = ttl, out = n + 1, start = start }
  local k = #arrivals + 1
  while k > 1 and arrivals[k - 1].score > entry.score do k = k - 1 end
  table.insert(arrivals, k, entry)
  arrived[id] = entry
  answer(2, waiting, used, limit, waiting + 1)
  waiting = waiting + 1
  put(id, format('w %d %.0f %.0f %s %s', weight, now, maxhold, ARGV[2], label))
  deadline(id, now + hb)
end

local function gone(id)
  local r = rec[id]
  n = n + 2
  out[n - 1], out[n] = 6, r and tonumber(match(r, '^x (%d)$') or corrupt('record', r)) or 0
end

local function heartbeat(id, hb, places)
  local kind = sub(rec[id] or 'x', 1, 1)
  if kind == 'h' then return holds(id) end
  if kind ~= 'w' then return gone(id) end
  waiter(rec[id])
  deadline(id, now + hb)
  if places then return answer(2, place(id), used, limit, waiting) end
  n = n + 2
  out[n - 1], out[n] = 2, -1
end

local function renew(id, ttl)
  if sub(rec[id] or 'x', 1, 1) ~= 'h' then return gone(id) end
  local weight, number, token, most, evicting, owner, label = holder(rec[id])
  n = n + 2
  if evicting == '1' then
    out[n - 1], out[n] = 8, remaining(id)
    return
  end
  local till, cap = now + ttl, tonumber(most)
  if cap > 0 and cap < till then till = cap end
  deadline(id, till)
  if owner ~= ARGV[2] then -- adopted: messages go to the new process
    put(id, table.concat({ 'h', weight, number, token, most, 0, ARGV[2], label }, ' '))
  end
  out[n - 1], out[n] = 7, till - now
end

local function release(id, tomb)
  local kind = sub(rec[id] or 'x', 1, 1)
  if kind == 'h' or kind == 'w' then
    leave(id, RELEASED, tomb and now + LATE or 0)
    n = n + 1
    out[n] = kind == 'h' and 9 or 10
    return
  end
  gone(id)
  if tomb and not rec[id] then tombstone(id, RELEASED, now + LATE) end
end

local function evict(id, force)
  local kind = sub(rec[id] or 'x', 1, 1)
  if kind ~= 'h' and kind ~= 'w' then return gone(id) end
  n = n + 1
  local owner
  if kind == 'w' or force then
    -- The tombstone tells a process that missed the message, when it next asks.
    kind, owner = leave(id, EVICTED, now + 60000)
    out[n] = kind == 'h' and 9 or 10
  else
    local weight, number, token, most, _, whose, label = holder(rec[id])
    owner = whose
    put(id, table.concat({ 'h', weight, number, token, most, 1, owner, label }, ' '))
    out[n] = 8
  end
  tell(owner, 'x ' .. id .. ' 3')
end

local eager = false       -- renewals and heartbeats given: they must pass when memory is short
local p = 4
while ARGV[p] do
  local v = ARGV[p]
  local from = p + WIDTH[v] + 2
  local to = from + ARGV[from - 1] - 1
  if v == 'A' then
    local wait, weight, ttl, hb = ARGV[p + 1] == '1', tonumber(ARGV[p + 2]), tonumber(ARGV[p + 3]), tonumber(ARGV[p + 4])
    local start, qlimit, maxhold = ARGV[p + 5] * 1000, tonumber(ARGV[p + 6]), tonumber(ARGV[p + 7])
    declare(tonumber(ARGV[p + 8]))
    for k = from, to do acquire(ARGV[k], wait, weight, ttl, hb, start, qlimit, maxhold, ARGV[p + 9]) end
  elseif v == 'L' then
    for k = from, to do release(ARGV[k], ARGV[p + 1] == '1') end
  elseif v == 'H' then
    eager = true
    for k = from, to do heartbeat(ARGV[k], ARGV[p + 1], ARGV[p + 2] == '1') end
  elseif v == 'R' then
    eager = true
    for k = from, to do renew(ARGV[k], ARGV[p + 1]) end
  elseif v == 'E' then
    for k = from, to do evict(ARGV[k], ARGV[p + 1] == '1') end
  elseif v == 'D' then
    declare(tonumber(ARGV[p + 1]))
  elseif v == 'P' then
    pin = tonumber(ARGV[p + 1])
    limit = pin >= 0 and pin or declared
  else
    paused = tonumber(ARGV[p + 1])
  end
  p = to + 1
end
pump()

-- ---- write ----

out[2], out[3] = status, nearest
local live, kept = holders + waiting > 0, pin >= 0 or paused == 1

-- A message is a hint, the state is the truth: a user without the right to
-- publish must not end in half a transition, so errors are ignored.
local function publish()
  for channel, message in pairs(notes) do
    if sub(channel, 1, 1) == ':' then
      redis.pcall('SPUBLISH', STATE .. channel, message)
    else
      redis.pcall('PUBLISH', channel, message)
    end
  end
end

-- The last token outlives the keys only in the server's clock. While that clock
-- is not past it (it stepped back, or it stands still in a test), it is kept.
if not live and tombs == 0 and not kept and last < us then
  if not fresh then call('DEL', STATE, ORDER) end
  publish()
  return out
end

if holders == 0 then
  if stored > #taken then call('ZREMRANGEBYSCORE', ORDER, 0, 2147483648) else many('ZREM', ORDER, taken) end
  slots, freed = 0, {}
elseif #taken > 0 then
  many('ZREM', ORDER, taken)
end

-- Removals come first: a server that is out of memory refuses a script's first
-- write if it could grow, and none after one that cannot. So releases pass.
local adds, removals = {}, unqueued
for _, id in ipairs(timed) do
  if due[id] then
    adds[#adds + 1] = format('%.0f', due[id])
    adds[#adds + 1] = id
  else
    removals[#removals + 1] = id
  end
end
if #removals > 0 then
  many('ZREM', ORDER, removals)
elseif eager then
  call('ZREM', ORDER, '')
end

table.sort(freed, function(a, b) return a > b end)
local f = 1
while freed[f] and freed[f] == slots - 1 do
  slots = slots - 1
  f = f + 1
end
for k = f, #freed do
  adds[#adds + 1] = freed[k]
  adds[#adds + 1] = 's' .. freed[k]
end
for _, a in ipairs(arrivals) do
  if sub(rec[a.id] or 'x', 1, 1) == 'w' then
    adds[#adds + 1] = format('%.0f', a.score)
    adds[#adds + 1] = 'q' .. a.id
  end
end
if #adds > 0 then many('ZADD', ORDER, adds) end

-- A TTL only while the loss of the keys is harmless, or where nothing is evicted.
local lapse = 0
if not live and not kept then
  lapse = math.max(tombs > 0 and now + 60000 or 0, math.ceil(last / 1000)) + 1000
elseif live and not kept and sub(ARGV[3], 1, 1) == '1' then
  lapse = expires
  if furthest + 1000 > expires then
    -- No lease may outlive its keys: when they had no TTL, look for the latest.
    local latest = expires == 0 and call('ZRANGE', ORDER, -1, -1, 'WITHSCORES')[2] or 0
    lapse = math.max(furthest, tonumber(latest)) + 60000
  end
end

local sets, gones = {}, {}
settings = format('1 %d %d %d %d', declared, pin, paused, changes)
if settings ~= was.settings then
  sets[1], sets[2] = 'settings', settings
end
counts = format('%d %d %d %d %d %.0f %.0f %.0f', used, holders, waiting, tombs, slots, last, nearest, lapse)
if counts ~= was.counts then
  sets[#sets + 1] = 'counts'
  sets[#sets + 1] = counts
end
for _, id in ipairs(dirty) do
  if rec[id] then
    sets[#sets + 1] = id
    sets[#sets + 1] = rec[id]
  else
    gones[#gones + 1] = id
  end
end
if #gones > 0 then many('HDEL', STATE, gones) end
if #sets > 0 then many('HSET', STATE, sets) end

if lapse ~= expires or (lapse > 0 and was.idle) then
  local command = lapse > 0 and 'PEXPIREAT' or 'PERSIST'
  local when = lapse > 0 and { format('%.0f', lapse) } or {}
  call(command, STATE, unpack(when))
  call(command, ORDER, unpack(when))
end
for _, a in ipairs(arrivals) do
  if a.start > 0 and out[a.out] == 2 then out[a.out + 1] = place(a.id) end
end
publish()
return out
