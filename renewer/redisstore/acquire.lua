-- Gives a lock to an owner, unless another owner has it.
--
-- KEYS[1]  the lease:          PREFIX{name}
-- KEYS[2]  the fence counter:  PREFIX{name}:fence
-- KEYS[3]  the line of waiters: PREFIX{name}:line; absent: the owner does not want a place in it
-- ARGV[1]  owner token, 22 bytes
-- ARGV[2]  time to live of the lease, ms
-- ARGV[3]  time to live of the fence counter, ms
-- ARGV[4]  the holder, as text: node, pid, operation and, if there is one, traceparent, a line each
-- ARGV[5]  the fencing token to be granted, in decimal, below 2^53; or "": pick one
-- ARGV[6]  how many further tokens to reserve above it, in decimal; absent: none
-- ARGV[7]  time to live of the line, ms, if there is KEYS[3]
--
-- Returns  the fencing token, an integer, if the owner has the lock now, or had it already; or
--          {token, n} if the owner has it now and the n tokens above it as well; or
--          {value, ms, us} if another owner has it: its value, its remaining time to live in ms (-1: it has none),
--          and the server's clock in us; and a fourth element, 1, if the owner has a place in the line; or
--          {counter} if nobody else has it, but ARGV[5] is neither above this nor the token that the owner has it with; or
--          an error, and nothing is changed.
--
-- Numbers in Lua are doubles: exact up to 2^53 - 1 = 9007199254740991, which the clock in us reaches in the year 2255. They
-- are never made text by tostring, which keeps 14 digits.

if #ARGV[1] ~= 22 then
	return redis.error_reply('LOCKBEAT the owner token has ' .. #ARGV[1] .. ' bytes; give one of 22')
end

local value = redis.pcall('GET', KEYS[1])
if type(value) == 'table' then
	return value -- the error, such as WRONGTYPE, as the server words it
end

local ttl = ARGV[2]
local ours = value and string.sub(value, 1, 22) == ARGV[1]
if ours then
	local fence = string.match(string.sub(value, 23), '^\n(%d+)\n')
	if not fence or #fence > 16 then
		return redis.error_reply('LOCKBEAT the value of ' .. KEYS[1] .. ' is damaged; delete the key')
	end
	local left = redis.call('PTTL', KEYS[1])
	if string.find(value, '^[^\n]*\n[^\n]*\n[^\n]*\n$') then
		-- No holder in it: a release has given it to the first in line, who is here now. It lasts as long as a grant from now on.
		if left > tonumber(ttl) then
			ttl = left
		end
		redis.call('SET', KEYS[1], value .. ARGV[4], 'PX', ttl)
		local reserved = tonumber(ARGV[6] or '0')
		local counter = redis.pcall('GET', KEYS[2])
		if reserved > 0 and tonumber(fence) + reserved < 9007199254740991 and (not counter or counter == fence) then
			redis.call('SET', KEYS[2], string.format('%.0f', tonumber(fence) + reserved), 'PX', ARGV[3])
			return {tonumber(fence), reserved}
		end
		return tonumber(fence)
	end
	if ARGV[5] == '' or ARGV[5] == fence then
		-- Ours already: the reply to an earlier try was lost. Same token, so that it is one grant.
		if left < tonumber(ttl) then
			redis.call('PEXPIRE', KEYS[1], ttl)
		end
		return tonumber(fence)
	end
	if left > tonumber(ttl) then
		ttl = left -- never shortened, though written anew below
	end
end

local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000000 + tonumber(time[2])
if value and not ours then
	local left = redis.call('PTTL', KEYS[1])
	if not KEYS[3] then
		return {value, left, now}
	end
	redis.call('ZADD', KEYS[3], 'NX', now, ARGV[1])
	redis.call('PEXPIRE', KEYS[3], ARGV[7])
	return {value, left, now, 1}
end

-- Above every earlier token while the counter lives, and, unless it is given, above those of a lost counter by the clock.
local fence = now
if ARGV[5] ~= '' then
	fence = tonumber(ARGV[5])
end
local counter = redis.pcall('GET', KEYS[2])
if type(counter) == 'table' then
	return counter
end
if counter then
	-- Digits only, since tonumber would take '0x10', '1e9' and 'nan' too.
	local last = #counter <= 16 and string.match(counter, '^%d+$') and tonumber(counter)
	if not last or last >= 9007199254740991 then
		return redis.error_reply('LOCKBEAT the fence counter ' .. KEYS[2] ..
			' is no number below 2^53-1, so that no token can be sure to rise; delete the key')
	end
	if last >= fence then
		if ARGV[5] ~= '' then
			return {last}
		end
		fence = last + 1
	end
end

if KEYS[3] then
	redis.call('ZREM', KEYS[3], ARGV[1]) -- the one before let it lapse: whoever asks first has it
end
local text = string.format('%.0f', fence)
local top, reserved = text, tonumber(ARGV[6] or '0')
if reserved > 0 then
	reserved = math.max(0, math.min(reserved, 9007199254740990 - fence)) -- so that a token is left for the next one
	top = string.format('%.0f', fence + reserved)
end
redis.call('SET', KEYS[2], top, 'PX', ARGV[3])
redis.call('SET', KEYS[1], ARGV[1] .. '\n' .. text .. '\n' .. string.format('%.0f', now) .. '\n' .. ARGV[4], 'PX', ttl)
if reserved > 0 then
	return {fence, reserved}
end
return fence
