-- Renews the slots that their owners still have. Never shortens one, never creates one.
--
-- KEYS[i]    the limit of each slot, n of them, at most 100: see slots.lua; on a cluster, where all
--            are of one limit, its holders as well
-- ARGV[1]    time to live, ms
-- ARGV[1+i]  owner token of slot i, 22 bytes
-- ARGV[2+n]  "MODE I CALLERS ...": see renew.lua
--
-- Returns    the exceptions only, in order of i, as renew.lua does: -i if the owner has no slot; i
--            and "" if the key is another program's, and i and how if it was broken.
--
-- A slot that has lapsed goes to the next in line, also if nobody has asked since.

local ttl, n = tonumber(ARGV[1]), #ARGV - 2
local time = redis.call('TIME')
local now = tonumber(time[1] .. string.sub('00000' .. time[2], -6))
local ends = string.format('%.0f', now + ttl * 1000)
-- include tell.lua
-- include lives.lua
-- include slots.lua
-- include slots_lost.lua
local tells = ARGV[n + 2]
setMode(string.match(tells, '^%l*'))

-- Removes nothing. But after a write that needs no memory a full Redis lets a script's ZADD through.
redis.pcall('ZREM', KEYS[1], '')

local answers, renewed, renewing = {}, {}, nil
local function renewAll()
	if renewed[1] then
		redis.call('ZADD', renewing, 'GT', unpack(renewed))
		lives(renewing, ttl)
		renewed = {}
	end
end
for i = 1, n do
	local key, owner = KEYS[i], ARGV[i + 1]
	local till = redis.pcall('ZSCORE', key, owner)
	if type(till) == 'table' and till.err then
		answers[#answers + 1], answers[#answers + 2] = i, ''
	elseif till and tonumber(till) > now then
		if key ~= renewing then
			renewAll()
			renewing = key
		end
		renewed[#renewed + 1], renewed[#renewed + 2] = ends, owner
	elseif not answerLost(answers, i, key, owner) then
		if till then
			purge(key)
		else
			wake(key, 1)
		end
	end
end
renewAll()
if string.find(tells, ' ', 1, true) then
	-- include callers.lua
	for i, callers in string.gmatch(tells, ' (%d+) (%d+)') do
		i = tonumber(i)
		local holders, owner = KEYS[i] .. ':holders', ARGV[i + 1]
		local known = redis.pcall('HGET', holders, owner)
		if type(known) == 'string' then
			known = withCallers(owner .. '\n' .. known, callers)
			redis.pcall('HSET', holders, owner, string.sub(known, 24))
		end
	end
end
return answers
