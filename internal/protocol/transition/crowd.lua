-- ---- the crowd's way: one acquire that has to wait, or one release that hands on ----
--
-- What the short way would do, without its tables and loops (docs/decisions).

-- A message is a hint, the state is the truth: a user without the right to
-- publish must not end in half a transition, so errors are ignored.
local function publish(channel, message)
  if sub(channel, 1, 1) == ':' and not find(channel, ':', 2, true) then -- a shard channel, and no prefix that begins so
    redis.pcall('SPUBLISH', STATE .. channel, message)
  else
    redis.pcall('PUBLISH', channel, message)
  end
end

-- The channel of the owner of an id that a text begins with; nil where there is none.
-- What a pattern walks over costs 65 instructions a byte, a plain search next to
-- nothing.
local function inbox(text, id)
  local slash = find(text, '/', 1, true)
  local session = slash and sub(text, 1, slash - 1)
  if not session or find(session, ' ', 1, true) then return nil end
  if session == '' or session == ':' then
    session = session .. sub(id, 1, (find(id, '.', 1, true) or 1) - 1)
  end
  return sub(session, 1, 1) == ':' and session or sub(STATE, 1, find(STATE, '{', 1, true) - 1) .. 'inbox:' .. session
end

if quick and settings then
  local id, record = ARGV[3], got[3]
  local limit = match(settings, '^1 (%d+) %-1 0 %d+$')
  local used, holders, waiting, tombs, slots, last, soonest, lapse =
    match(limit and counts or '', '^(%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+)$')
  if not used or last + 0 >= us or soonest + 0 <= now or (lapse ~= '0') ~= (POLICY == '1') then
    -- the general way will see
  elseif ARGV[2] == 'L0' then
    local weight, slot = match(record or '', '^h (%d+) (%d+) ')
    if weight and holders == '1' and waiting == '0' and tombs == '0' then
      call('DEL', STATE, ORDER)
      return clock[1] .. ' ' .. clock[2] .. NOTHING .. ' 9'
    elseif weight and waiting ~= '0' and used == limit and holders == slots then
      local head = call('ZRANGE', ORDER, '0', '0')[1] or ''
      local heir = sub(head, 2)
      local waiter = call('HMGET', STATE, heir)[1] or ''
      local same, at = match(waiter, '^w (%d+) %d+ 0 ()')
      local who = same == weight and sub(waiter, at) -- owner and label
      local channel = who and inbox(who, heir)
      if channel then
        counts = used .. ' ' .. holders .. format(' %d ', waiting - 1) .. tombs .. ' ' .. slots .. ' '
          .. stamp .. ' ' .. soonest .. ' ' .. lapse
        call('ZREM', ORDER, id, head)
        call('HDEL', STATE, id)
        call('HSET', STATE, 'counts', counts, heir, 'h ' .. weight .. ' ' .. slot .. ' ' .. stamp .. ' 0 0 ' .. who)
        publish(channel, STATE .. '\ng ' .. heir .. ' ' .. stamp .. ' ' .. slot .. ' ' .. limit)
        return clock[1] .. ' ' .. clock[2] .. ' 0 ' .. counts .. ' 9'
      end
    end
  elseif not record then
    local weight, maxhold, declared, hb, qlimit, at = match(ARGV[2], '^A1 (%d+) %d+ 0 (%d+) (%d+) (%d+) (%d+) ()')
    local till = now + (hb or 0)
    if declared == limit and weight + 0 <= limit + 0 and (waiting ~= '0' or used + weight > limit + 0)
        and waiting + 0 < qlimit + 0 and (lapse == '0' or till + 1000 <= lapse + 0) then
      local score, queue = format(WHOLE, till), format('%d', waiting + 1)
      if till < soonest + 0 then soonest = score end
      counts = used .. ' ' .. holders .. ' ' .. queue .. ' ' .. tombs .. ' ' .. slots .. ' '
        .. stamp .. ' ' .. soonest .. ' ' .. lapse
      call('ZADD', ORDER, score, id, format(WHOLE, us - FRONT), 'q' .. id)
      call('HSET', STATE, 'counts', counts,
        id, 'w ' .. weight .. ' ' .. sub(stamp, 1, -4) .. ' ' .. maxhold .. ' ' .. sub(ARGV[2], at))
      return clock[1] .. ' ' .. clock[2] .. ' 0 ' .. counts .. ' 2 ' .. waiting .. ' ' .. used .. ' ' .. limit .. ' ' .. queue
    end
  end
end

-- The ways behind know one form of a call.
if lone then
  top = 3
  if sub(ARGV[2], 1, 1) == 'A' then
    asks, few = 1, not got[3]        -- a known id is for the general way
  else
    few = ARGV[2] == 'L0'
  end
  ARGV[3], ARGV[4] = '1', ARGV[3]
end
