-- Takes the page of a host that has been due for longest. It is due again, for somebody
-- else, unless it is finished in time: whoever took it has died or lost Redis.
--
-- KEYS[1]  the host's pages, see frontier.go
-- ARGV[1]  milliseconds to finish the page
-- Returns  its URL, or nil for none
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local page = redis.call('ZRANGEBYSCORE', KEYS[1], 0, now, 'LIMIT', 0, 1)[1]
if page then
	redis.call('ZADD', KEYS[1], string.format('%.0f', now + ARGV[1]), page)
end
return page
