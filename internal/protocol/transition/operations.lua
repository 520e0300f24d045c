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
local p = 2
while ARGV[p] do
  local verb, param = sub(ARGV[p], 1, 1), sub(ARGV[p], 2)
  local from, to = p + 2, p + 1 + ARGV[p + 1]

  if verb == 'A' then
    local wait, weight, ttl, start, maxhold, wanted, hb, qlimit, at = match(ARGV[p], TERMS)
    local who = sub(ARGV[p], at)
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
        local slot, ceiling = grant(id, weight, maxhold, who)
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
        rec[id] = format('w %d %.0f %.0f ', weight, now, maxhold) .. who
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
    local ttl, renewer = match(param, '^(%d+) (.*)$')
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
          local till = now + ttl
          if ceiling ~= '0' and ceiling + 0 < till then till = ceiling + 0 end
          due[id] = till
          if owner ~= renewer then -- adopted: messages go to the new process
            touched[id] = true
            rec[id] = head .. ceiling .. ' 0 ' .. renewer .. ' ' .. label
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
        tell(owner, id, 'x ' .. id .. ' 3')
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
  local text = clock[1] .. ' ' .. clock[2] .. format(' %d ', status) .. state
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

local adds, removals, furthest = bare and { PLACE, NOTE } or {}, unqueued, 0
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
if tombs + waiting + holders == 1 and furthest > 0 then nearest = furthest end -- the only deadline there is

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
if fresh or adds[bare and 3 or 1] then many('ZADD', ORDER, adds) end

-- A TTL only while the loss of the keys is harmless, or where nothing is evicted.
local lapse = 0
if not live and not kept then
  lapse = math.max(tombs > 0 and now + 60000 or 0, math.ceil(last / 1000)) + 1000
elseif live and not kept and (sub(POLICY, 1, 1) == '1' or sub(POLICY, 1, 1) == '?' and expires > 0) then
  lapse = expires
  if furthest + 1000 > expires then
    -- No lease may outlive its keys: when they had no TTL, look for the latest.
    local latest = expires == 0 and call('ZRANGE', ORDER, -1, -1, 'WITHSCORES')[2] or 0
    lapse = math.max(furthest, latest + 0) + 60000
  end
end

local sets, gones = fresh and { 'note', LEGEND } or {}, {}
settings = format('1 %d %d %d %d', declared, pin, paused, changes)
if settings ~= before.settings then sets[#sets + 1], sets[#sets + 2] = 'settings', settings end
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

if lapse ~= expires or lapse > 0 and bare then
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
