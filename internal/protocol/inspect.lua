-- Reads a page of one semaphore and changes nothing. Keys and records are as in
-- transition.lua; a compact lease is shown as the record that it stands for.
--
-- KEYS[1]  hash; KEYS[1]:order is the sorted set
-- ARGV[1]  least score of the sorted set to read, -inf at first, and
-- ARGV[2]  how many of that score to leave out. Nobody is missed who holds or waits
--          from page to page: renewals only raise a score, and ranks would shift
-- ARGV[3]  how many members to read, at most 1000; 0: the first of the queue and, if
--          something has run out, the first 250 deadlines, or the first 10 if there are
--          tombstones, whose deadlines are nobody's
-- Returns  { now (ms), state or "", member, score, record or "", ... }: the queue comes
--          first, in its order, then free slots, then deadlines, the earliest first. Where
--          one key was lost and no lease can live any more: a state in which nobody is
--          there and something is due, because the next call removes the other key
-- Errors   BERTHCORRUPT, BERTHHALF as in transition.lua, as far as the two keys show it
-- Cost     O(log n + ARGV[2] + ARGV[3])

local STATE, ORDER = KEYS[1], KEYS[1] .. ':order'
local call, format, match = redis.call, string.format, string.match
local CENTURY = 3e12

local function corrupt(what, value)
  error('BERTHCORRUPT ' .. what .. ' ' .. string.sub(value, 1, 80))
end

local clock = call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local state = call('HGET', STATE, 'state') or ''
local out = { now, state }

if string.sub(state, 1, 10) == '1 compact ' then
  local id, token, deadline, expires, limit, tail =
    match(state, '^1 compact (%S+) (%d+) (%d+) (%d+) A[01] 1 0 (%d+) %d+ %d+ %d+ (%d+ %S+ .*)$')
  if not id or call('EXISTS', ORDER) > 0 or call('HLEN', STATE) > 1 then corrupt('state', state) end
  local till = expires == '0' and format('%d 0', deadline + 60000) or expires .. ' 1'
  out[2] = '1 ' .. limit .. ' -1 0 0 1 1 0 0 1 ' .. token .. ' ' .. deadline .. ' ' .. till
  if ARGV[1] == '-inf' then
    out[3], out[4], out[5] = id, deadline, 'h 1 0 ' .. token .. ' 0 ' .. tail
  end
  return out
end

-- Where one of the keys was lost, the other tells until when leases may live. After that it
-- is as good as gone, but for what operators have set.
local members = call('ZCARD', ORDER)
local declared, pin, paused, changes, used, holders, waiting, tombs, slots, last, nearest, till =
  match(state, '^1 (%d+) (%-?%d+) ([01]) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) [01]$')
local lost
if state == '' then
  if call('EXISTS', STATE) > 0 then corrupt('hash without state:', STATE) end
  if members == 0 then return out end
  lost = call('ZRANGE', ORDER, '-1', '-1', 'WITHSCORES')[2] + 0
elseif till then
  local rows = slots - holders > 0 and call('ZCOUNT', ORDER, '0', '2147483648') or 0
  local content = used + waiting + tombs > 0 and 1 + holders + 2 * waiting + tombs + rows or 0
  if members == 0 and content > 0 then
    lost = used + waiting > 0 and till + 0 or 0
  elseif members ~= content then
    corrupt('state does not match ' .. ORDER .. ':', state)
  end
end
if lost then
  if lost - now > CENTURY then corrupt('state does not match ' .. ORDER .. ':', state) end
  if lost > now then error('BERTHHALF ' .. format('%d', lost - now)) end
  local due = format('%d', lost)
  out[2] = format('1 %s %s %s %s 0 0 0 0 0 %s %s %s 0', declared or '0', pin or '-1', paused or '0', changes or '0',
    last or '0', due, till or due)
  return out
end

local page
if ARGV[3] ~= '0' then
  page = call('ZRANGEBYSCORE', ORDER, ARGV[1], '+inf', 'WITHSCORES', 'LIMIT', ARGV[2], ARGV[3])
else
  page = waiting and waiting ~= '0' and call('ZRANGE', ORDER, '0', '0', 'WITHSCORES') or {}
  local due = nearest and nearest ~= '0' and nearest + 0 <= now
  if due or tombs and tombs ~= '0' then -- else the nearest deadline is that of somebody who is there
    for _, v in ipairs(call('ZRANGEBYSCORE', ORDER, '4294967296', '+inf', 'WITHSCORES', 'LIMIT', '0', due and '250' or '10')) do
      page[#page + 1] = v
    end
  end
end
if #page == 0 then return out end
local ids = {}
for i = 1, #page, 2 do
  -- The score tells a place in the queue; the member does not, for an id may begin with a q too.
  ids[#ids + 1] = string.sub(page[i], string.sub(page[i + 1], 1, 1) == '-' and 2 or 1)
end
local records = call('HMGET', STATE, unpack(ids))
for i = 1, #page, 2 do
  local n = #out
  out[n + 1], out[n + 2], out[n + 3] = page[i], page[i + 1], records[(i + 1) / 2] or ''
end
return out
