-- ---- the general way: whatever may come, in the order of the specification ----

local CHUNK = 500          -- leases reaped, and waiters granted, at most in one call
local LATE = 10000         -- ms; no copy of a request runs later than this after it (protocol.Late)
local BAND = 4294967296    -- least score of a deadline
local RELEASED, EXPIRED, EVICTED, HEAVY = 1, 2, 3, 4

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
for k = 3, top do rec[ARGV[k + 1]] = got[k] end

-- Reads the records of ids that are not yet known.
local function fetch(ids)
  for from = 1, #ids, 1000 do
    local found = call('HMGET', STATE, unpack(ids, from, math.min(from + 999, #ids)))
    for k = 1, #found do
      local id = ids[from + k - 1]
      if rec[id] == nil then rec[id] = found[k] end
    end
  end
end

do
  local unread, i = {}, 2
  while ARGV[i] do
    local last = i + 1 + ARGV[i + 1]
    for k = i + 2, last do
      if rec[ARGV[k]] == nil then unread[#unread + 1] = ARGV[k] end
    end
    i = last + 1
  end
  fetch(unread)
end

local declared, pin, paused, changes = 0, -1, 0, 0
used, holders, waiting, tombs, slots, last, nearest, expires = 0, 0, 0, 0, 0, 0, 0, 0
local fresh = not settings
if fresh then
  -- A leftover without its other half would be mixed with the new state: free
  -- slots of the past would be given out twice. Only what berth wrote is removed.
  if counts or call('EXISTS', STATE, ORDER) > 0 then
    if call('HLEN', STATE) > 0 then corrupt('hash without settings', STATE) end
    for _, m in ipairs(call('ZRANGE', ORDER, 0, 0)) do
      if not find(m, '^q?[%w_-]+%.%w+$') and not find(m, '^s%d+$') and m ~= NOTE then corrupt('member', m) end
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

local bare = holders + waiting + tombs == 0 -- in ORDER is nothing but NOTE, if it is there
limit = pin >= 0 and pin or declared
local before = { settings = settings, counts = counts, waiting = waiting }

-- ---- changes: gathered here, written at the very end ----

local touched, due = {}, {}       -- ids whose record changes (it is in rec); id -> new deadline, or false
local unqueued = {}               -- "q"..id of stored waiters that leave the queue
local arrivals, arrived = {}, {}  -- waiters that came in this call, by score; id -> entry
local notes = {}                  -- channel -> message
local freed, stored, taken = {}, slots - holders, {}
local out, n, status = {}, 0, 0

local function tell(owner, id, line)
  local channel = inbox(owner .. '/', id)
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
local function grant(id, weight, maxhold, who)
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
  rec[id] = format('h %d %d %.0f %.0f 0 ', weight, slot, last, ceiling) .. who
  return slot, ceiling
end

-- ---- reap: holders, waiters and tombstones whose deadline has come ----

if nearest > 0 and nearest <= now then
  if call('ZCARD', ORDER) ~= 1 + holders + 2 * waiting + tombs + stored then
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
      tell(leave(id, EXPIRED), id, 'x ' .. id .. ' 2')
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

    local weight, maxhold, who, owner = match(rec[id or ''] or '', '^w (%d+) %d+ (%d+) ((%S+) .*)$')
    if not weight then corrupt('waiter', rec[id or '']) end
    weight, maxhold = weight + 0, maxhold + 0
    if granted == CHUNK then
      status = 1
    elseif weight > limit then
      -- It can never fit; left at the head it would block the queue for ever.
      granted = granted + 1
      tell(leave(id, HEAVY, 0), id, format('t %s %d', id, limit))
      if entry then out[entry.out], out[entry.out + 1] = 5, limit end
    elseif used + weight > limit then
      break
    else
      granted = granted + 1
      waiting = waiting - 1
      local slot, ceiling = grant(id, weight, maxhold, who)
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
        tell(owner, id, format('g %s %.0f %d %d', id, last, slot, limit))
      end
    end
  end
  looked = limit
end

