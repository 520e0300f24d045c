-- Reads a page of one semaphore; changes nothing.
--
-- KEYS[1]  hash, KEYS[2] zset: see transition/begin.lua
-- ARGV[1]  rank of the first member of the zset to read
-- ARGV[2]  how many members to read, at most 1000; 0: none
-- Returns  { now, settings or "", counts or "", member, score, record or "", ... }:
--          the queue comes first, in its order, then free slots, then deadlines
-- Errors   a message with BERTHCORRUPT: there is more than a folded semaphore's
--          field, and yet there are no counts
-- Cost     O(log n + ARGV[2])

local clock = redis.call('TIME')
local head = redis.call('HMGET', KEYS[1], 'settings', 'counts')
-- Layouts of the future are for Go to refuse; what transition would not unfold is refused here.
if head[1] and not head[2] and string.sub(head[1], 1, 2) == '1 '
    and redis.call('HLEN', KEYS[1]) + redis.call('EXISTS', KEYS[2]) > 1 then
  error('BERTHCORRUPT no counts, but more than a folded semaphore: ' .. KEYS[1])
end
local out = { clock[1] * 1000 + math.floor(clock[2] / 1000), head[1] or '', head[2] or '' }
if ARGV[2] == '0' then return out end
local page = redis.call('ZRANGE', KEYS[2], ARGV[1], ARGV[1] + ARGV[2] - 1, 'WITHSCORES')
if #page == 0 then return out end
local ids = {}
for i = 1, #page, 2 do
  -- The score tells a place in the queue; the member does not, for an id may begin with a q too.
  ids[#ids + 1] = string.sub(page[i], string.sub(page[i + 1], 1, 1) == '-' and 2 or 1)
end
local records = redis.call('HMGET', KEYS[1], unpack(ids))
for i = 1, #page, 2 do
  local n = #out
  out[n + 1], out[n + 2], out[n + 3] = page[i], page[i + 1], records[(i + 1) / 2] or ''
end
return out
