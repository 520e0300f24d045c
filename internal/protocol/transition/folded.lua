-- ---- folded: one lease on a semaphore that nobody else uses ----
--
-- An acquire leaves its semaphore folded if it is the only operation of its call,
-- there are no keys, it is of weight 1, without head start and MaxHold, the limit is
-- not 0, and the eviction policy is known (POLICY is '0' or '1'). Then there is no
-- ORDER, and all that is to be known is in one field, the acquire's terms as they
-- came:
--
--   settings   1 ID last deadline expires terms
--
-- While nobody else comes, its lease is renewed and released here; whatever else
-- happens unfolds it first and for good, and the ways behind know one layout. All
-- this is what they would do, at half the price (docs/decisions). Numbers stay text
-- where they are only copied.

local lone = ARGV[3] and not ARGV[4] -- one operation, on one id
local quick = lone and (POLICY == '1' or POLICY == '0')

local settings                       -- nil: not yet read

if quick and ARGV[2] == 'L0' then
  settings = call('HGET', STATE, 'settings')
  local mine = '1 ' .. ARGV[3] .. ' '
  local last, deadline
  if settings and find(settings, mine, 1, true) == 1 then last, deadline = match(settings, '^(%d+) (%d+) ', #mine + 1) end
  if last and last + 0 < us and deadline + 0 > now then
    call('HDEL', STATE, 'settings') -- and not the key: a field beside it is somebody else's
    return clock[1] .. ' ' .. clock[2] .. NOTHING .. ' 9'
  end
end

local stamp = format('%d', us)                  -- %d is three times as fast as %.0f,
local WHOLE = #stamp > 11 and '%d' or '%.0f'    -- but overflows on a server of 32 bits
if WHOLE ~= '%d' then stamp = format(WHOLE, us) end

if quick and ARGV[2] ~= 'L0' then
  local ttl = match(ARGV[2], '^A[01] 1 (%d+) 0 0 [1-9]')
  if ttl then
    if call('EXISTS', STATE, ORDER) == 0 then
      local till = now + ttl
      local deadline, expires = format(WHOLE, till), POLICY == '1' and format(WHOLE, till + 60000) or '0'
      call('HSET', STATE, 'settings', '1 ' .. ARGV[3] .. ' ' .. stamp .. ' ' .. deadline .. ' ' .. expires .. ' ' .. ARGV[2])
      if expires ~= '0' then call('PEXPIREAT', STATE, expires) end
      return clock[1] .. ' ' .. clock[2] .. ' 2'
    end
  elseif sub(ARGV[2], 1, 1) == 'R' then
    settings = call('HGET', STATE, 'settings')
    local lasts, who = match(ARGV[2], '^R(%d+) ()') -- and a place: where the owner begins
    local mine = '1 ' .. ARGV[3] .. ' '
    local last, deadline, expires, terms, owner
    if settings and find(settings, mine, 1, true) == 1 then
      last, deadline, expires, terms, owner = match(settings, '^(%d+) (%d+) (%d+) ()A[01] 1 %d+ 0 0 %d+ %d+ %d+ ()', #mine + 1)
    end
    if owner and find(settings, sub(ARGV[2], who) .. ' ', owner, true) == owner and deadline + 0 > now
        and (expires ~= '0') == (POLICY == '1') then
      local till, longer = now + lasts, false
      if expires ~= '0' and till + 1000 > expires + 0 then longer, expires = true, format(WHOLE, till + 60000) end
      call('ZREM', ORDER, '') -- so that it passes when memory is short
      call('HSET', STATE, 'settings', mine .. last .. ' ' .. format(WHOLE, till) .. ' ' .. expires .. ' ' .. sub(settings, terms))
      if longer then call('PEXPIREAT', STATE, expires) end
      return clock[1] .. ' ' .. clock[2] .. ' 2'
    end
  end
end

-- ---- read: one HMGET for the state and records ----
--
-- The record got[k] is that of ARGV[k + 1], of a lone operation once it has its number
-- (crowd.lua). Of several operations, only those of releases that come first are read.
-- That the ids of acquires are new is seen when they are written (short.lua); for
-- whatever else comes the general way reads all.

local got, top = nil, 2
local asks, few = 0, true            -- ids of acquires; false: what the short way does not take
if settings then
  got = call('HMGET', STATE, 'counts', ARGV[3])
  got = { settings, got[1], got[2] }
elseif lone then
  got = call('HMGET', STATE, 'settings', 'counts', ARGV[3])
else
  if ARGV[2] and not ARGV[3] then ARGV[3] = '0' end
  local i = 2
  while ARGV[i] do
    local count = ARGV[i + 1] + 0
    if sub(ARGV[i], 1, 1) == 'A' then
      asks = asks + count
    elseif i == 2 and ARGV[2] == 'L0' then
      top = 2 + count
    else
      few = false
    end
    i = i + 2 + count
  end
  few = few and top + asks <= 500    -- nor more than unpack takes at once
  if not few then top = 2 end
  got = call('HMGET', STATE, 'settings', 'counts', unpack(ARGV, 4, top + 1))
end
local counts
settings, counts = got[1], got[2]

if settings and not counts then
  local holder, last, deadline, expires, declared, who =
    match(settings, '^1 (%S+) (%d+) (%d+) (%d+) A[01] 1 %d+ 0 0 (%d+) %d+ %d+ ()%S+ ')
  if holder and deadline + 0 >= 4294967296 and call('HLEN', STATE) == 1 and call('EXISTS', ORDER) == 0 then
    local record = 'h 1 0 ' .. last .. ' 0 0 ' .. sub(settings, who)
    settings = '1 ' .. declared .. ' -1 0 0'
    counts = '1 1 0 0 1 ' .. last .. ' ' .. deadline .. ' ' .. expires
    for k = 3, #got do
      if ARGV[lone and 3 or k + 1] == holder then got[k] = record end
    end
    -- A server that is out of memory refuses a script's first write if it could
    -- grow. This one passes, whatever comes: a newcomer may profit by it, once.
    call('ZREM', ORDER, '')
    call('ZADD', ORDER, PLACE, NOTE, deadline, holder)
    call('HSET', STATE, 'note', LEGEND, 'settings', settings, 'counts', counts, holder, record)
    if expires ~= '0' then call('PEXPIREAT', ORDER, expires) end
  end
end
