-- A Redis for one semaphore, as far as transition.lua needs one, for Lua without Redis.
--
-- usage: lua redis.lua SCRIPT <CALLS
-- A line of CALLS is the server's time in us and the arguments, all in hex with spaces between;
-- "-" is an empty text. For each it prints what the script answers, in hex; and at the
-- end what is stored. A number that the script writes must be text without a point or an
-- exponent: Lua 5.4 makes both where 5.1 makes neither.

local hash, set, time = {}, {}, 0
local ORDER = 'berth:{name}:order'

local function exact(value)
  local text = tostring(value)
  if type(value) == 'number' and (text:find('[.e]') or value % 1 ~= 0) then error('a number is written as ' .. text, 3) end
  return text
end

local function texts(...)
  local out = {}
  for k = 1, select('#', ...) do out[k] = exact((select(k, ...))) end
  return out
end

local function sorted()
  local all = {}
  for member, score in pairs(set) do all[#all + 1] = { member = member, score = score } end
  table.sort(all, function(a, b) return a.score < b.score or a.score == b.score and a.member < b.member end)
  return all
end

local function within(score, least, most)
  local function bound(text)
    if text == '-inf' then return -math.huge elseif text == '+inf' then return math.huge end
    return tonumber((text:gsub('^%(', '')))
  end
  local low, high = bound(least), bound(most)
  return (score > low or score == low and least:sub(1, 1) ~= '(') and (score < high or score == high and most:sub(1, 1) ~= '(')
end

local function list(all, args, from)
  local out, offset, limit, scores = {}, 0, #all, false
  for k = from, #args do
    if args[k] == 'WITHSCORES' then scores = true end
    if args[k] == 'LIMIT' then offset, limit = tonumber(args[k + 1]), tonumber(args[k + 2]) end
  end
  for k = offset + 1, math.min(offset + limit, #all) do
    out[#out + 1] = all[k].member
    if scores then out[#out + 1] = string.format('%.17g', all[k].score) end
  end
  return out
end

local function count(t)
  local n = 0
  for _ in pairs(t) do n = n + 1 end
  return n
end

local function of(key) return key == ORDER and set or hash end

local commands = {
  TIME = function() return { string.format('%d', math.floor(time / 1000000)), string.format('%d', time % 1000000) } end,
  EXISTS = function(a)
    local n = 0
    for _, key in ipairs(a) do n = n + (next(of(key)) and 1 or 0) end
    return n
  end,
  HLEN = function() return count(hash) end,
  HGET = function(a) return hash[a[2]] or false end,
  HMGET = function(a) local out = {} for k = 2, #a do out[k - 1] = hash[a[k]] or false end return out end,
  HSET = function(a) for k = 2, #a, 2 do hash[a[k]] = a[k + 1] end end,
  HDEL = function(a) for k = 2, #a do hash[a[k]] = nil end end,
  DEL = function(a) for k = 1, #a do local t = of(a[k]) for name in pairs(t) do t[name] = nil end end end,
  ZCARD = function() return count(set) end,
  ZSCORE = function(a) return set[a[2]] and string.format('%.17g', set[a[2]]) or false end,
  ZREM = function(a) for k = 2, #a do set[a[k]] = nil end end,
  ZCOUNT = function(a)
    local n = 0
    for _, score in pairs(set) do if within(score, a[2], a[3]) then n = n + 1 end end
    return n
  end,
  ZRANK = function(a)
    for k, one in ipairs(sorted()) do if one.member == a[2] then return k - 1 end end
    return false
  end,
  ZADD = function(a)
    local flag = (a[2] == 'XX' or a[2] == 'LT') and a[2]
    for k = flag and 3 or 2, #a, 2 do
      local score, member = tonumber(a[k]), a[k + 1]
      local old = set[member]
      if not flag or flag == 'XX' and old or flag == 'LT' and (not old or score < old) then set[member] = score end
    end
  end,
  ZRANGE = function(a)
    local all, from, to = sorted(), tonumber(a[2]), tonumber(a[3])
    if from < 0 then from, to = #all + from, #all + to end
    local some = {}
    for k = from + 1, math.min(to + 1, #all) do some[#some + 1] = all[k] end
    return list(some, a, 4)
  end,
  ZRANGEBYSCORE = function(a)
    local some = {}
    for _, one in ipairs(sorted()) do if within(one.score, a[2], a[3]) then some[#some + 1] = one end end
    return list(some, a, 4)
  end,
  ZREVRANGEBYSCORE = function(a)
    local some = {}
    for _, one in ipairs(sorted()) do if within(one.score, a[3], a[2]) then table.insert(some, 1, one) end end
    return list(some, a, 4)
  end,
  PEXPIREAT = function() end, PERSIST = function() end, PUBLISH = function() end, SPUBLISH = function() end,
}

redis = { call = function(command, ...) return commands[command](texts(...)) end }
redis.pcall = redis.call

local file = assert(io.open(arg[1]))
local script = assert((loadstring or load)("local POLICY = '1' " .. file:read('*a'), '@script'))
file:close()

local function unhex(text)
  if text == '-' then return '' end
  return (text:gsub('%x%x', function(two) return string.char(tonumber(two, 16)) end))
end
local function hex(text)
  if text == '' then return '-' end
  return (text:gsub('.', function(c) return string.format('%02x', c:byte()) end))
end

KEYS = { 'berth:{name}' }
for line in io.lines() do
  ARGV = {}
  for word in line:gmatch('%S+') do ARGV[#ARGV + 1] = unhex(word) end
  time = tonumber(table.remove(ARGV, 1))
  local ok, answer = pcall(script)
  if not ok then answer = tostring(answer):match('BERTH%u+') or answer end
  print(hex(answer))
end
local stored = {}
for field, value in pairs(hash) do stored[#stored + 1] = field .. ' = ' .. value end
for member, score in pairs(set) do stored[#stored + 1] = member .. ' @ ' .. string.format('%.17g', score) end
table.sort(stored)
print(hex(table.concat(stored, '\n')))
