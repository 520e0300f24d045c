-- Takes the next page of a host: one that a process took and did not finish in
-- time, or else the oldest of those still to do.
--
-- KEYS[1]  what the names of this crawl's keys begin with, hash tag included
-- ARGV[1]  the host
-- ARGV[2]  milliseconds until the page counts as not finished
-- Returns  "DEPTH URL", "" for none
local busy = KEYS[1] .. 'busy:' .. ARGV[1]
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local page = redis.call('ZRANGEBYSCORE', busy, '-inf', now, 'LIMIT', 0, 1)[1]
	or redis.call('LPOP', KEYS[1] .. 'todo:' .. ARGV[1])
if not page then
	return ''
end
redis.call('ZADD', busy, string.format('%.0f', now + ARGV[2]), page)
return page
