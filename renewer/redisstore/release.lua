-- Frees the leases that their owners still have, or lets them lapse after a given time, and tells those who wait for them. A lease
-- with a line of waiters goes to the first of them, for a moment in which to claim it: see acquire.lua.
--
-- KEYS[i]    the leases, at most 100
-- ARGV[1]    time that they stay held, ms; 0: none
-- ARGV[1+i]  owner token of KEYS[i], 22 bytes; if further fencing tokens may have been reserved, right behind it the highest one used,
--            in decimal: the counter KEYS[i]:fence goes back to it, but not below the one granted
-- ARGV[2+n]  of n keys: "shard" if there is a cluster, of which only the key's own shard is to be bothered with the message, as far as
--            the server can do so (Redis 7); "line" if there may be lines of waiters, at KEYS[i]:line; otherwise absent
-- ARGV[3+n]  with lines, time to live of a fence counter, ms
-- ARGV[4+n]  with lines, time that the first in line has to claim a lease, ms
--
-- Returns    the exceptions only, in order of i:
--            i if another owner has KEYS[i], -i if nobody has. A place in the line is given up. Another owner's key is left as it is;
--            one that is gone was deleted or has lapsed, and goes to the next as if it had been freed: nobody else tells them.
--
-- Publishes on KEYS[i]:freed an empty message for each key that it frees, or finds gone, or whose
-- time it sets: who waits may ask how long. For one that it gives to a waiter, the SHA-1 in hex of
-- the owner token of that one, a space, and that of the next in line, if there is one: a user who may
-- only listen learns no token by which a lease could be freed. (Programs of earlier versions take it
-- for a message to all, as they do not find the line feed that was there.)

local n = #KEYS
local keep, mode = tonumber(ARGV[1]), ARGV[n + 2]
local publish = 'PUBLISH'
if mode == 'shard' and redis.REDIS_VERSION_NUM then -- which Redis 6 does not have
	publish = 'SPUBLISH'
end

-- While the owner has the lease, the counter is its own: no later grant has been made.
local function giveBack(counter, value, used)
	local granted, last = tonumber(string.match(value, '^[^\n]*\n(%d+)\n')), redis.pcall('GET', counter)
	if granted and type(last) == 'string' and string.match(last, '^%d+$') and tonumber(last) > math.max(granted, used) then
		redis.call('SET', counter, string.format('%.0f', math.max(granted, used)), 'KEEPTTL')
	end
end

local values = redis.call('MGET', unpack(KEYS))
local ours, gone, over, lost = {}, {}, {}, {}
for i = 1, n do
	local key, value, owner = KEYS[i], values[i], ARGV[i + 1]
	local used = #owner > 22 and tonumber(string.sub(owner, 23))
	if used then
		owner = string.sub(owner, 1, 22)
	end
	if value and not over[key] and string.sub(value, 1, 22) == owner then
		ours[#ours + 1] = key
		if used then
			giveBack(key .. ':fence', value, used)
		end
		over[key] = keep == 0 -- if it comes again in this call, it is nobody's
	else
		lost[#lost + 1] = (value and not over[key]) and i or -i
		if mode == 'line' then
			redis.pcall('ZREM', key .. ':line', owner)
		end
		if not value and not over[key] then
			gone[#gone + 1] = key
			over[key] = true -- once for all who find it gone
		end
	end
end
if keep > 0 then
	for _, key in ipairs(ours) do
		redis.call('PEXPIRE', key, keep)
		redis.call(publish, key .. ':freed', '')
	end
	ours = {}
end
local held = #ours
for _, key in ipairs(gone) do
	ours[#ours + 1] = key
end
if #ours == 0 then
	return lost
end

local waiting = 0
if mode == 'line' then
	local lines = {}
	for i, key in ipairs(ours) do
		lines[i] = key .. ':line'
	end
	waiting = redis.call('EXISTS', unpack(lines))
end
if waiting == 0 then
	if held > 0 then
		redis.call('DEL', unpack(ours, 1, held))
	end
	for _, key in ipairs(ours) do
		redis.call(publish, key .. ':freed', '')
	end
	return lost
end

-- Gives a lease to the first in line, or returns false. A key of another type is no line.
local function pass(key)
	local first
	for _ = 1, 100 do
		first = redis.pcall('ZPOPMIN', key .. ':line')[1]
		if not first then
			return false
		elseif #first == 22 then
			break
		end
	end
	if #first ~= 22 then -- none of our making: nobody would know it, and a long one would go to all who listen
		return false
	end
	local time = redis.call('TIME')
	local now = tonumber(time[1]) * 1000000 + tonumber(time[2])
	local fence = now
	local counter = redis.pcall('GET', key .. ':fence')
	if counter then
		local last = type(counter) == 'string' and #counter <= 16 and string.match(counter, '^%d+$') and tonumber(counter)
		if not last or last >= 9007199254740991 then
			return false -- whoever asks hears what is wrong with it
		end
		fence = math.max(fence, last + 1)
	end
	local text = string.format('%.0f', fence)
	redis.call('SET', key .. ':fence', text, 'PX', ARGV[n + 3])
	redis.call('SET', key, first .. '\n' .. text .. '\n' .. string.format('%.0f', now) .. '\n', 'PX', ARGV[n + 4])
	local second = redis.call('ZRANGE', key .. ':line', 0, 0)[1]
	second = second and #second == 22 and redis.sha1hex(second) or ''
	redis.call(publish, key .. ':freed', redis.sha1hex(first) .. ' ' .. second)
	return true
end

for i, key in ipairs(ours) do
	local foreign = i > held and redis.call('EXISTS', key) == 1 -- of another type, so that MGET does not show it
	if foreign or not pass(key) then
		if i <= held then
			redis.call('DEL', key)
		end
		redis.call(publish, key .. ':freed', '')
	end
end
return lost
