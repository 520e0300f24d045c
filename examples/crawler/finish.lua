-- Notes what became of a page and adds the pages that it links to, in one step:
-- a process that dies has either done all of it or nothing. A page that somebody
-- else has finished meanwhile changes nothing.
--
-- KEYS[1]  what the names of this crawl's keys begin with, hash tag included
-- ARGV[1]  the page's host
-- ARGV[2]  the page as claimed, "" for none (seeds)
-- ARGV[3]  what became of it
-- ARGV[4]  its size in bytes
-- ARGV[5]  most pages of one host
-- ARGV[6…] HOST, DEPTH, URL of each link
-- Returns  1, or 0 if the page was finished before
local base = KEYS[1]
if ARGV[2] ~= '' then
	if redis.call('ZREM', base .. 'busy:' .. ARGV[1], ARGV[2]) == 0 then
		return 0
	end
	redis.call('HINCRBY', base .. 'host:' .. ARGV[1], ARGV[3], 1)
	redis.call('HINCRBY', base .. 'host:' .. ARGV[1], 'bytes', ARGV[4])
	redis.call('HINCRBY', base .. 'all', 'pending', -1)
	redis.call('HINCRBY', base .. 'all', ARGV[3], 1)
end
for i = 6, #ARGV, 3 do
	local host, depth, url = ARGV[i], ARGV[i + 1], ARGV[i + 2]
	if redis.call('SADD', base .. 'seen', url) == 1 then
		redis.call('SADD', base .. 'hosts', host)
		if redis.call('HINCRBY', base .. 'host:' .. host, 'known', 1) > tonumber(ARGV[5]) then
			redis.call('HINCRBY', base .. 'host:' .. host, 'beyond', 1)
		else
			redis.call('RPUSH', base .. 'todo:' .. host, depth .. ' ' .. url)
			redis.call('HINCRBY', base .. 'all', 'pending', 1)
		end
	end
end
return 1
