-- Reads a page of one semaphore, and changes nothing: the server may run it as a script that only
-- reads. The header of transition.lua, in package protocol, tells what is stored; stored.go, beside
-- this file, tells what follows from the answer.
--
-- KEYS    KEYS[1], and KEYS[1]:order behind it or not, as there
-- ARGV    from skip count
--   count   so many members of the sorted set are a page, at most 1000, of which the first has at least
--           the score "from" ("-inf" at first), and "skip" of that score are left out. 0: the first
--           of the queue, the pause that ends, what counts for rates, and, where they tell more than
--           "state", some of the nearest deadlines
-- Answer  a list: now (ms), "state" or "", the field "settings" of an older berth or "", how many fields
--         and how many members the keys have, how many of those are free slots (0 where "state" says
--         that there are none), where the hash is lost the last deadline, else "", and member, score,
--         record or "" of each member of the page
-- Cost    O(log n), and the page

local STATE, ORDER = KEYS[1], KEYS[1] .. ':order'
local from, skip, count = ARGV[1], ARGV[2], ARGV[3]
local call, match, sub = redis.call, string.match, string.sub

local clock = call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local is = call('HMGET', STATE, 'state', 'settings')
local holders, waiting, others, slots, nearest =
  match(is[1] or '', '^%d+ %d+ %-?%d+ %d %d+ %d+ (%d+) (%d+) (%d+) (%d+) %d+ (%d+) ')
local members = call('ZCARD', ORDER)
local free = slots ~= holders and call('ZCOUNT', ORDER, '0', '2147483648') or 0
local lost = not is[1] and members > 0 and call('ZCOUNT', ORDER, '4000000000', '4000000000') == 1
local ends = lost and call('ZRANGE', ORDER, '-1', '-1', 'WITHSCORES')[2] or ''
local answer = { now, is[1] or '', is[2] or '', call('HLEN', STATE), members, free, ends }

local page = {}                                         -- members and scores
if count ~= '0' then
  page = call('ZRANGEBYSCORE', ORDER, from, '+inf', 'WITHSCORES', 'LIMIT', skip, count)
elseif waiting then
  if waiting ~= '0' then page = call('ZRANGE', ORDER, '0', '0', 'WITHSCORES') end
  for _, name in ipairs(others ~= '0' and { '!p', '!r' } or {}) do
    local at = call('ZSCORE', ORDER, name)
    if at then page[#page + 1], page[#page + 2] = name, at end
  end
  local due = nearest ~= '0' and nearest + 0 <= now
  if due or others ~= '0' or waiting ~= '0' then         -- else the nearest deadline is that of a lease
    local most = due and '250' or waiting ~= '0' and '100' or '10'
    local some = call('ZRANGEBYSCORE', ORDER, '4294967296', '+inf', 'WITHSCORES', 'LIMIT', '0', most)
    for k = 1, #some do page[#page + 1] = some[k] end
  end
end

local ids = {}                                          -- of the records: a place in the queue is "#" and the id
for k = 1, #page, 2 do ids[#ids + 1] = sub(page[k], 1, 1) == '#' and sub(page[k], 2) or page[k] end
local records = ids[1] and call('HMGET', STATE, (table.unpack or unpack)(ids))
for k = 1, #ids do
  local n = #answer
  answer[n + 1], answer[n + 2], answer[n + 3] = page[2 * k - 1], page[2 * k], records[k] or ''
end
return answer
