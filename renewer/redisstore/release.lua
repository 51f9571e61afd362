-- Frees the leases that their owners still have, or lets them lapse after a given time, and tells those who wait for them. A lease
-- with a line of waiters is the turn of the first of them, for a moment in which to claim it: see tell.lua.
--
-- KEYS[i]    the leases, n of them, at most 100
-- ARGV[1]    time that they stay held, ms; 0: none
-- ARGV[2]    mode: see tell.lua
-- ARGV[3]    the inbox of the places: see tell.lua
-- ARGV[4]    the mark: see acquire.lua
-- ARGV[5]    its time to live, ms
-- ARGV[5+i]  owner token of KEYS[i], 22 bytes; if further fencing tokens may have been reserved, right behind it the highest one used,
--            in decimal: those above it, but not the one granted, are given back; and if a place is given up with it, a space, its
--            number, a space, and its turn in ms; what follows is not read
--
-- Returns    the exceptions only, in order of i:
--            i if another owner has KEYS[i], -i if nobody has. Another owner's key is left as it is; one that is gone was deleted
--            or has lapsed, and goes to the next as if it had been freed: nobody else tells them.
--
-- Tells one place that its turn has come, and the next one how long that may take. If there is none, or if the lease stays held, it
-- publishes on KEYS[i]:freed an empty message for all who wait without a place.

local n = #KEYS

-- The usual case first, and by few steps: one lease, for which no place waits.
if n == 1 and ARGV[1] == '0' and #ARGV[6] == 22 then
	local key = KEYS[1]
	local value = redis.call('GET', key)
	if value and string.sub(value, 1, 22) == ARGV[6] and (ARGV[2] == '' or redis.call('EXISTS', key .. ':waiters') == 0) then
		redis.call('DEL', key)
		redis.call(ARGV[2] == 'shard' and redis.REDIS_VERSION_NUM and 'SPUBLISH' or 'PUBLISH', key .. ':freed', '')
		return {}
	end
end

-- include tell.lua

local keep, inbox, mark, markTTL = tonumber(ARGV[1]), ARGV[3], ARGV[4], ARGV[5]
setMode(ARGV[2])

local function number(text)
	return type(text) == 'string' and #text <= 16 and string.match(text, '^%d+$') and tonumber(text) or nil
end

-- Gives back the tokens above used. The mark takes the counter's place, as the clock has reached those that were used. What cannot be
-- done, as the slot is moving, is left to lapse.
local function giveBack(key, value, used)
	local granted = number(string.match(value, '^[^\n]*\n(%d+)\n'))
	if not granted then
		return
	end
	local most = math.max(granted, used)
	local text = string.format('%.0f', most)
	local given, ahead = number(redis.pcall('GET', key .. ':fence')), number(redis.pcall('GET', key .. ':ahead'))
	if given and given > most then
		redis.call('SET', key .. ':fence', text, 'KEEPTTL')
	end
	if ahead then
		local high = most > granted and redis.pcall('GET', mark)
		if high ~= false and type(high) ~= 'string' then
			return
		elseif most > granted and (number(high) or 0) < most and type(redis.pcall('SET', mark, text, 'PX', markTTL)) ~= 'table' then
			return
		end
		redis.pcall('DEL', key .. ':ahead')
	end
end

local values = redis.call('MGET', unpack(KEYS))
local freed, gone, over, lost = {}, {}, {}, {}
for i = 1, n do
	local key, value = KEYS[i], not over[KEYS[i]] and values[i]
	local owner, rest = string.sub(ARGV[i + 5], 1, 22), string.sub(ARGV[i + 5], 23)
	local used, place, turn = string.match(rest, '^(%d*) ?(%d*) ?(%d*)')
	if turn and turn ~= '' and mode ~= '' then
		place = place .. ' ' .. inbox .. ' ' .. turn
		redis.pcall('ZREM', key .. ':waiters', place)
		if value and string.match(value, '^turn\n%d+\n(.*)$') == place then
			freed[#freed + 1] = key
			over[key], value = true, nil
		end
	end
	if value and string.sub(value, 1, 22) == owner then
		if used and used ~= '' then
			giveBack(key, value, tonumber(used))
		end
		if keep > 0 then
			redis.call('PEXPIRE', key, keep)
			wake(key)
		else
			freed[#freed + 1] = key
			over[key] = true -- if it comes again in this call, it is nobody's
		end
	else
		lost[#lost + 1] = value and i or -i
		if not value and not over[key] then
			gone[#gone + 1] = key
			over[key] = true -- once for all who find it gone
		end
	end
end

-- Makes a lease the turn of the first live place, or returns false.
local function pass(key)
	local line = key .. ':waiters'
	for _ = 1, 500 do
		local first = redis.pcall('ZPOPMIN', line)[1]
		if not first then
			return false
		end
		local turn = string.match(first, ' (%d+)$')
		if turn and #turn < 6 and tell(key, first, '') then
			redis.call('SET', key, 'turn\n' .. turn .. '\n' .. first, 'PX', 3 * tonumber(turn))
			local second = redis.pcall('ZRANGE', line, 0, 0)[1]
			if second then
				tell(key, second, ' ' .. turn) -- in case that the first one is dead
			end
			return true
		end
	end
	return false
end

for _, key in ipairs(gone) do
	-- Not if there is one of another type, which MGET does not show.
	if mode == '' or redis.call('EXISTS', key) == 1 or not pass(key) then
		tellAll(key)
	end
end
for _, key in ipairs(freed) do
	if mode == '' or not pass(key) then
		redis.call('DEL', key)
		tellAll(key)
	end
end
return lost
