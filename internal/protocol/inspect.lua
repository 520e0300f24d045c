-- Reads a page of one semaphore and changes nothing. Keys and records are as in
-- transition.lua; a compact lease is shown as the record that it stands for.
--
-- KEYS[1]  hash; KEYS[1]:order is the sorted set
-- ARGV[1]  rank of the first member of the sorted set to read
-- ARGV[2]  how many members to read, at most 1000; 0: none
-- Returns  { now (ms), state or "", member, score, record or "", ... }: the queue comes
--          first, in its order, then free slots, then deadlines, the earliest first
-- Errors   BERTHCORRUPT: something lies beside a compact lease
-- Cost     O(log n + ARGV[2])

local STATE, ORDER = KEYS[1], KEYS[1] .. ':order'
local clock = redis.call('TIME')
local state = redis.call('HGET', STATE, 'state') or ''
local out = { clock[1] * 1000 + math.floor(clock[2] / 1000), state }

if string.sub(state, 1, 10) == '1 compact ' then
  local id, token, deadline, expires, limit, tail =
    string.match(state, '^1 compact (%S+) (%d+) (%d+) (%d+) A[01] 1 0 (%d+) %d+ %d+ %d+ (%d+ %S+ .*)$')
  if not id or redis.call('EXISTS', ORDER) > 0 or redis.call('HLEN', STATE) > 1 then
    error('BERTHCORRUPT state ' .. string.sub(state, 1, 80))
  end
  local till = expires == '0' and string.format('%d 0', deadline + 60000) or expires .. ' 1'
  out[2] = '1 ' .. limit .. ' -1 0 0 1 1 0 0 1 ' .. token .. ' ' .. deadline .. ' ' .. till
  if ARGV[1] == '0' and ARGV[2] ~= '0' then
    out[3], out[4], out[5] = id, deadline, 'h 1 0 ' .. token .. ' 0 ' .. tail
  end
  return out
end

if ARGV[2] == '0' then return out end
local page = redis.call('ZRANGE', ORDER, ARGV[1], ARGV[1] + ARGV[2] - 1, 'WITHSCORES')
if #page == 0 then return out end
local ids = {}
for i = 1, #page, 2 do
  -- The score tells a place in the queue; the member does not, for an id may begin with a q too.
  ids[#ids + 1] = string.sub(page[i], string.sub(page[i + 1], 1, 1) == '-' and 2 or 1)
end
local records = redis.call('HMGET', STATE, unpack(ids))
for i = 1, #page, 2 do
  local n = #out
  out[n + 1], out[n + 2], out[n + 3] = page[i], page[i + 1], records[(i + 1) / 2] or ''
end
return out
