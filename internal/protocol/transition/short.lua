-- ---- the short way: releases, hand-offs, grants and places in the queue ----
--
-- While nothing is due, pinned or paused, this does what the general way below
-- does, without building the general way's functions and tables, which cost more
-- than the work itself (docs/decisions). Whatever is out of the ordinary clears
-- plain before anything that stays was written, and the general way starts afresh. Numbers
-- become text once, and stay text where they are only copied.

-- All numbers of two digits: to cut one out costs a third of what format does.
local DIGITS = '0001020304050607080910111213141516171819202122232425262728293031323334353637383940414243444546474849'
  .. '5051525354555657585960616263646566676869707172737475767778798081828384858687888990919293949596979899'
local plain = ARGV[2] and (POLICY == '1' or POLICY == '0') and few
local limit, quota, used, holders, waiting, tombs, slots, last, nearest, expires, soonest, lapse
if not settings then
  used, holders, waiting, tombs, slots, last, nearest, expires = 0, 0, 0, '0', 0, 0, 0, 0
  soonest, lapse = '0', '0'
elseif plain then
  quota = match(settings, '^1 (%d+) %-1 0 %d+$') -- limit as text
  used, holders, waiting, tombs, slots, last, soonest, lapse =
    match(counts or '', '^(%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+)$')
  if quota and used then
    limit, used, holders, waiting = quota + 0, used + 0, holders + 0, waiting + 0
    slots, last, nearest, expires = slots + 0, last + 0, soonest + 0, lapse + 0
    plain = holders <= slots and holders <= used and slots <= 2147483648 and last < FRONT and nearest > now
      and used <= 2147483648 and waiting <= 2147483648 and nearest < FRONT and expires < FRONT
  else
    plain = false
  end
end

if plain then
  -- Tables with the room that acquires need: what they are made of is overwritten.
  local out, n, count = { unpack(ARGV, 1, asks + 2) }, 0, nil
  local freed, freeds, notes = { nil }, 0, nil
  local gone, goes = { nil, nil }, 0 -- what leaves ORDER, besides deadlines
  local sets, s, adds, a = { unpack(ARGV, 1, 2 * asks + 4) }, 0, { unpack(ARGV, 1, 2 * asks + 2) }, 0
  local furthest, vacant = 0, slots - holders
  local token -- last, as text; nil where that is not known
  adds[1], adds[2], a = PLACE, NOTE, 2 -- if that is new, though the hash is not, the sorted set was lost
  local i = 2

  if ARGV[2] == 'L0' then
    freeds = ARGV[3] + 0
    i = 4 + freeds
    local byte = string.byte
    for k = 1, freeds do
      local record = got[2 + k] or ''
      -- h 1 SLOT, of one or two digits: to look at the bytes costs a third of a pattern.
      local weight, slot = 1, nil
      local h, space, one, gap, d, e, f = byte(record, 1, 7)
      if f and h == 104 and space == 32 and one == 49 and gap == 32 and d > 47 and d < 58 then
        if e == 32 then
          slot = d - 48
        elseif f == 32 and e > 47 and e < 58 then
          slot = 10 * d + e - 528
        end
      end
      if not slot then
        local number
        weight, number = match(record, '^h (%d+) (%d+) ')
        if not weight then plain = false break end
        slot = number + 0
      end
      used = used - weight
      if used < 0 then plain = false break end
      freed[k] = slot
    end
    table.sort(freed)
    for k = 2, #freed do
      if freed[k] == freed[k - 1] then plain = false end -- an id that is named twice
    end
    holders, n = holders - freeds, 1
    out[1] = '9' .. string.rep(' 9', freeds - 1)
  end

  -- Slots are given out lowest first: those freed now, and of the stored ones those
  -- that may come before, whose members of ORDER are in stored, at the same place.
  local free, open, stored = 1, freeds, {}
  local grants = asks + math.min(waiting, 100) -- at most
  if plain and vacant > 0 and grants > 0 then
    local bound, most = freed[grants], math.min(vacant, grants)
    local found = call('ZRANGEBYSCORE', ORDER, '0', bound or '2147483648', 'LIMIT', '0', most)
    plain = bound ~= nil or #found == most
    local fresh, place = freed, 1
    freed, open = {}, 0
    for k = 1, #found do
      local number = match(found[k], '^s(%d+)$')
      local slot = (number or FRONT) + 0
      while place <= freeds and fresh[place] < slot do
        freed[open + 1] = fresh[place]
        open, place = open + 1, place + 1
      end
      if not number or fresh[place] == slot then plain = false break end -- foreign
      open = open + 1
      freed[open], stored[open] = slot, found[k]
    end
    for k = place, freeds do
      open = open + 1
      freed[open] = fresh[k]
    end
  end

  if plain and waiting > 0 and used < limit then
    local room = math.min(limit - used, waiting, 100)
    local heads, ids = call('ZRANGE', ORDER, 0, room - 1), {}
    for k = 1, #heads do ids[k] = sub(heads[k], 2) end
    local records = heads[1] and call('HMGET', STATE, unpack(ids)) or {}
    plain = #heads == room
    for k = 1, #heads do
      local weight, cap, at = match(records[k] or '', '^w (%d+) %d+ (%d+) ()')
      local who = weight and sub(records[k], at) -- owner and label
      local channel = who and inbox(who, ids[k])
      if not channel or cap ~= '0' or weight + 0 > limit then plain = false break end
      if used + weight > limit then room = 0 break end
      if last < us then last, token = us, stamp else last = last + 1 token = format(WHOLE, last) end
      local slot = freed[free]
      if slot then free = free + 1 else slot, slots = slots, slots + 1 end
      used, holders, waiting, goes = used + weight, holders + 1, waiting - 1, goes + 1
      gone[goes], slot = heads[k], format('%d', slot)
      sets[s + 1], sets[s + 2] = ids[k], 'h ' .. weight .. ' ' .. slot .. ' ' .. token .. ' 0 0 ' .. who
      s = s + 2
      notes = notes or {}
      notes[channel] = (notes[channel] or STATE) .. '\ng ' .. ids[k] .. ' ' .. token .. ' ' .. slot .. ' ' .. quota
    end
    if room > 0 and waiting > 0 and used < limit then plain = false end -- more than a page
  end

  while plain and ARGV[i] do
    local wait, weight, ttl, start, maxhold, most, hb, qlimit, at = match(ARGV[i], TERMS)
    if not wait then plain = false break end
    local many, declared = ARGV[i + 1], most + 0
    count = many + 0
    if not quota then quota, limit = most, declared end
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
      local score, lead, tail = format(WHOLE, till), 'h ' .. weight .. ' ', ' ' .. cap .. ' 0 ' .. sub(ARGV[i], at)
      if till > furthest then furthest = till end
      if nearest == 0 or till < nearest then nearest, soonest = till, score end
      local first = last < us and us or last + 1
      local digits = first == us and stamp or format(WHOLE, first)
      local unit, hundreds = first % 100, sub(digits, 1, -3)
      n = n + 1
      out[n] = '11 ' .. many .. ' ' .. digits .. ' ' .. left .. ' ' .. quota
      for k = 1, count do
        local id, slot = ARGV[i + 1 + k], freed[free]
        if slot then free = free + 1 else slot, slots = slots, slots + 1 end
        slot = slot > 99 and format('%d', slot) or sub(DIGITS, slot > 9 and 2 * slot + 1 or 2 * slot + 2, 2 * slot + 2)
        sets[s + 1] = id
        sets[s + 2] = lead .. slot .. ' ' .. hundreds .. sub(DIGITS, 2 * unit + 1, 2 * unit + 2) .. tail
        adds[a + 1], adds[a + 2] = score, id
        out[n + k] = slot
        s, a, unit = s + 2, a + 2, unit + 1
        if unit > 99 then unit, hundreds = 0, format(WHOLE, (first + k) / 100) end
      end
      last, token = first + count - 1, nil
      n, used, holders = n + count, used + wanted, holders + count
    elseif wait == '1' and start == '0' and weight + 0 <= limit
        and (waiting > 0 or used + weight > limit) and waiting + count <= qlimit + 0 then
      local till = now + hb
      local score = format(WHOLE, till)
      local record = 'w ' .. weight .. format(' ' .. WHOLE .. ' ', now) .. maxhold .. ' ' .. sub(ARGV[i], at)
      if till > furthest then furthest = till end
      if nearest == 0 or till < nearest then nearest, soonest = till, score end
      local tail, ahead = ' ' .. format('%d ', used) .. quota .. ' ', format('%d', waiting)
      for k = 1, count do
        if last < us then last, token = us, stamp else last, token = last + 1, nil end
        local id = ARGV[i + 1 + k]
        sets[s + 1], sets[s + 2] = id, record
        adds[a + 1], adds[a + 2], adds[a + 3], adds[a + 4] = score, id, format(WHOLE, last - FRONT), 'q' .. id
        s, a = s + 2, a + 4
        waiting = waiting + 1
        local behind = format('%d', waiting)
        out[n + k], ahead = '2 ' .. ahead .. tail .. behind, behind
      end
      n = n + count
    else
      plain = false
    end
    i = i + 2 + count
  end

  if plain and holders + waiting == 0 then
    plain = settings and tombs == '0' and last < us
    if plain then
      call('DEL', STATE, ORDER)
      return clock[1] .. ' ' .. clock[2] .. NOTHING .. ' ' .. table.concat(out, ' ', 1, n)
    end
  elseif plain and (settings or call('EXISTS', STATE, ORDER) == 0) then
    for k = 1, free - 1 do
      if stored[k] then
        goes = goes + 1
        gone[goes] = stored[k]
      end
    end
    for k = open, free, -1 do
      if stored[k] then
        -- it stays there
      elseif freed[k] == slots - 1 then
        slots = slots - 1
      else
        local number = format('%d', freed[k])
        adds[a + 1], adds[a + 2] = number, 's' .. number
        a = a + 2
      end
    end
    plain = holders > 0 or not settings -- else free slots of nobody would be kept
  else
    plain = false
  end

  if plain then
    local added, want = 0, settings and a / 2 - 1 or a / 2
    if a > 2 then
      if freeds + goes > 0 then call('ZREM', ORDER, '') end -- so that releases pass when memory is short
      added = call('ZADD', ORDER, 'NX', unpack(adds, 1, a))
    end
    if added ~= want then
      -- Whoever has a record has a deadline: an acquire's id is known already, or
      -- named twice. What was added goes again, and the general way will see. It is what
      -- has no record; of a lost set, all. (In keys that somebody else wrote into, a
      -- deadline too many or too few may be left.)
      plain = false
      local ids, new = {}, {}
      for k = 1, a / 2 do
        local member = adds[2 * k]
        ids[k] = sub(adds[2 * k - 1], 1, 1) == '-' and sub(member, 2) or member -- a place in the queue, or a deadline
      end
      local records = call('HMGET', STATE, unpack(ids))
      for k = settings and added < want and 2 or 1, a / 2 do
        local queues = ids[k] ~= adds[2 * k]
        if added > want or not records[k] or queues and sub(records[k], 1, 1) ~= 'w' then new[#new + 1] = adds[2 * k] end
      end
      if new[1] then call('ZREM', ORDER, unpack(new)) end
    end
  end

  if plain then
    if goes > 0 then call('ZREM', ORDER, unpack(gone, 1, goes)) end
    if freeds > 0 then
      call('ZREM', ORDER, unpack(ARGV, 4, 3 + freeds))
      call('HDEL', STATE, unpack(ARGV, 4, 3 + freeds))
    end
    if furthest > nearest and holders + waiting == 1 and tombs == '0' then soonest = format(WHOLE, furthest) end
    local lapsed = lapse
    if POLICY == '0' then
      lapse = '0'
    elseif furthest + 1000 > expires then
      if expires == 0 and settings then
        furthest = math.max(furthest, call('ZRANGE', ORDER, -1, -1, 'WITHSCORES')[2])
      end
      lapse = format(WHOLE, furthest + 60000)
    end
    counts = format('%d %d %d ', used, holders, waiting) .. tombs .. format(' %d ', slots)
      .. (token or format(WHOLE, last)) .. ' ' .. soonest .. ' ' .. lapse
    sets[s + 1], sets[s + 2] = 'counts', counts
    if settings then
      call('HSET', STATE, unpack(sets, 1, s + 2))
    else
      call('HSET', STATE, 'note', LEGEND, 'settings', '1 ' .. quota .. ' -1 0 0', unpack(sets, 1, s + 2))
    end
    if lapse ~= lapsed then
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
    return clock[1] .. ' ' .. clock[2] .. ' 0 ' .. counts .. ' ' .. table.concat(out, ' ', 1, n)
  end
end

