-- ---- folded: one lease on a semaphore that nobody else uses ----
--
-- An acquire leaves its semaphore folded if it is the only operation of its call,
-- there are no keys, its weight fits, it has no MaxHold, and the eviction policy is
-- known (ARGV[3] is '0' or '1'). Then there is no ORDER, and all that is to be known
-- is in one field:
--
--   settings   1 ID last deadline expires limit used owner label
--
-- While nobody else comes, its lease is renewed and released here; whatever else
-- happens unfolds it first and for good, and the ways behind know one layout. All
-- this is what they would do, at two thirds of the price (docs/decisions). Numbers
-- stay text where they are only copied.

local lone = not fields -- one operation, on one id
local quick = lone and (ARGV[3] == '1' or ARGV[3] == '0')

if quick then
  local id = ARGV[5]
  if not settings then
    local weight, ttl, declared, label = match(ARGV[4], '^A[01] (%d+) (%d+) %d+ %d+ %d+ 0 (%d+) (.*)$')
    if weight and weight + 0 <= declared + 0 and call('EXISTS', STATE, ORDER) == 0 then
      local till = now + ttl
      local deadline, expires = format(WHOLE, till), ARGV[3] == '1' and format(WHOLE, till + 60000) or '0'
      call('HSET', STATE, 'settings', '1 ' .. id .. ' ' .. stamp .. ' ' .. deadline .. ' ' .. expires .. ' '
        .. declared .. ' ' .. weight .. ' ' .. ARGV[2] .. ' ' .. label)
      if expires ~= '0' then call('PEXPIREAT', STATE, expires) end
      return stamp .. ' 0 ' .. weight .. ' 1 0 0 1 ' .. stamp .. ' ' .. deadline .. ' ' .. expires
        .. ' 1 ' .. stamp .. ' 0 ' .. ttl .. ' ' .. declared
    end
  elseif not counts and ARGV[4] == 'L0' then
    local holder, last, deadline = match(settings, '^1 (%S+) (%d+) (%d+) ')
    if holder == id and last + 0 < us and deadline + 0 > now then
      call('DEL', STATE)
      return stamp .. NOTHING .. ' 9'
    end
  elseif not counts then
    local ttl = match(ARGV[4], '^R(%d+)$')
    local holder, last, deadline, expires, tail, used, owner =
      match(ttl and settings or '', '^1 (%S+) (%d+) (%d+) (%d+)( %d+ (%d+) (%S+) .*)$')
    if holder == id and owner == ARGV[2] and deadline + 0 > now and (expires ~= '0') == (ARGV[3] == '1') then
      local till, longer = now + ttl, false
      deadline = format(WHOLE, till)
      if expires ~= '0' and till + 1000 > expires + 0 then longer, expires = true, format(WHOLE, till + 60000) end
      call('ZREM', ORDER, '') -- so that it passes when memory is short
      call('HSET', STATE, 'settings', '1 ' .. id .. ' ' .. last .. ' ' .. deadline .. ' ' .. expires .. tail)
      if longer then call('PEXPIREAT', STATE, expires) end
      return stamp .. ' 0 ' .. used .. ' 1 0 0 1 ' .. last .. ' ' .. deadline .. ' ' .. expires .. ' 7 ' .. ttl
    end
  end
end

if settings and not counts then
  local holder, last, deadline, expires, declared, used, owner, label =
    match(settings, '^1 (%S+) (%d+) (%d+) (%d+) (%d+) (%d+) (%S+) (.*)$')
  if holder and deadline + 0 >= 4294967296 and call('HLEN', STATE) == 1 and call('EXISTS', ORDER) == 0 then
    settings = '1 ' .. declared .. ' -1 0 0'
    counts = used .. ' 1 0 0 1 ' .. last .. ' ' .. deadline .. ' ' .. expires
    local record = 'h ' .. used .. ' 0 ' .. last .. ' 0 0 ' .. owner .. ' ' .. label
    for k = 3, #got do
      if (lone and ARGV[5] or fields[k]) == holder then got[k] = record end
    end
    -- A server that is out of memory refuses a script's first write if it could
    -- grow. This one passes, whatever comes: a newcomer may profit by it, once.
    call('ZREM', ORDER, '')
    call('ZADD', ORDER, deadline, holder)
    call('HSET', STATE, 'settings', settings, 'counts', counts, holder, record)
    if expires ~= '0' then call('PEXPIREAT', ORDER, expires) end
  end
end
