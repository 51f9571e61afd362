-- Breaks one slot of a limit, as break.lua does a lease.
--
-- KEYS[1]  the limit: see slots.lua; on a cluster, its holders as well
-- ARGV     those of break.lua, and behind them
-- ARGV[4]  the owner token of the slot, 22 bytes
--
-- Returns  as break.lua does. It has lapsed, or another owner has a slot: 0.

local key, how, owner = KEYS[1], ARGV[2], ARGV[4]
local holders = key .. ':holders'
local time = redis.call('TIME')
local nowText = time[1] .. string.sub('00000' .. time[2], -6)
local now = tonumber(nowText)
local token = '!' .. string.sub(owner, 2)

local ends = redis.pcall('ZSCORE', key, owner)
if not ends then
	owner = token
	ends = redis.call('ZSCORE', key, owner)
end
local value = type(ends) == 'string' and tonumber(ends) > now and
	redis.call('HGET', holders, owner)
if not value then
	return type(ends) == 'table' and ends or 0
end
local text = string.sub(owner .. '\n' .. value, 1, 300)
if string.match(value, '^%d+') ~= ARGV[1] then
	return {text, 0}
end
local forced = string.sub(how, 1, 7) == 'forced\n'
local note = key .. ':broken:' .. token
if forced and owner == token and redis.pcall('MGET', key, note).err then
	return redis.error_reply('TRYAGAIN the keys of ' .. key .. ' are moving')
end
if forced or owner ~= token then
	redis.call('SET', note, how, 'PX', math.ceil((ends - now) / 1000))
end
local answers = {text, 1}
if forced then
	local asMode = string.match(ARGV[3], '^%l*')
	-- include tell.lua
	-- include lives.lua
	-- include slots.lua
	setMode(asMode)
	local turn = free(key, owner, holders)
	answers[3] = turn and '1 ' .. turn
elseif owner ~= token then
	redis.call('ZADD', key, ends, token)
	redis.call('HSET', holders, token, value, '+', '') -- by "+" its owner's next claim finds it
	redis.call('ZREM', key, owner)
	redis.call('HDEL', holders, owner)
end
return answers
