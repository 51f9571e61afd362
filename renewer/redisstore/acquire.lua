-- Gives locks to owners, each unless another owner has it.
--
-- KEYS[i]      the leases, n of them, at most 100: PREFIX{name}
-- KEYS[n+i]    their fence counters:               PREFIX{name}:fence
-- KEYS[2n+1]   of one lease, the line of waiters:  PREFIX{name}:line; absent: the owner does not want a place in it
-- ARGV[1]      time to live of the leases, ms
-- ARGV[2]      time to live of the fence counters, ms
-- ARGV[3]      of one lease, the fencing token to be granted, in decimal, below 2^53; otherwise "": pick one
-- ARGV[4]      of one lease, how many further tokens to reserve above it, in decimal; otherwise "0". Fewer are, or none, where the
--              counter would be further than that ahead of the server's clock in us, but for a token that is given (ARGV[3])
-- ARGV[5]      time to live of the line, ms, if there is one; otherwise ""
-- ARGV[4+2i]   owner token of KEYS[i], 22 bytes
-- ARGV[5+2i]   its holder, as text: node, pid, operation and, if there is one, traceparent, a line each
--
-- Returns, of n > 1 leases, an array of the following, and otherwise that itself:
--            the fencing token, an integer, if the owner has the lock now, or had it already; or
--            {token, m} if the owner has it now and the m tokens above it as well; or
--            {value, ms, us} if another owner has it: its value, cut to 300 bytes, its remaining time to live in ms (-1: it
--            has none), and the server's clock in us; and a fourth element, 1, if the owner has a place in the line; or
--            {counter} if nobody else has it, but ARGV[3] is neither above this nor the token that the owner has it with; or
--            an error, and nothing is changed.
--
-- Numbers in Lua are doubles: exact up to 2^53 - 1 = 9007199254740991, which the clock in us reaches in the year 2255. They
-- are never made text by tostring, which keeps 14 digits.

local n = (#ARGV - 5) / 2
local ttl, counterTTL, proposed, reserve, line = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4]), KEYS[2 * n + 1]
-- Values of ours are shorter. A longer one is not sent whole to every caller who is refused.
local mostValue = 300
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000000 + tonumber(time[2])
local nowText = string.format('%.0f', now)

-- Reads a counter, or returns nil. Digits only, since tonumber would take '0x10', '1e9' and 'nan' too.
local function count(text)
	local last = #text <= 16 and string.match(text, '^%d+$') and tonumber(text)
	return last and last < 9007199254740991 and last or nil
end

-- The usual case by fewer commands, since most locks are free when they are asked for: it needs no look at the lease.
local plain = proposed == '' and reserve == 0 and not line
local counters = {}
if plain and n == 1 then
	counters[1] = redis.pcall('GET', KEYS[2])
elseif plain then
	counters = redis.call('MGET', unpack(KEYS, n + 1, 2 * n))
end
local answers, rest = {}, {}
for i = 1, n do
	local last, owner = counters[i], ARGV[4 + 2 * i]
	if last == false and n > 1 then
		last = redis.pcall('GET', KEYS[n + i]) -- which MGET says of what is no text as well
	end
	local fence, text, usual = now, nowText, plain and #owner == 22
	if usual and last then
		last = type(last) == 'string' and count(last)
		if not last then
			usual = false
		elseif last >= fence then
			fence = last + 1
			text = string.format('%.0f', fence)
		end
	end
	if usual and redis.call('SET', KEYS[i], owner .. '\n' .. text .. '\n' .. nowText .. '\n' .. ARGV[5 + 2 * i], 'NX', 'PX', ttl) then
		redis.call('SET', KEYS[n + i], text, 'PX', counterTTL)
		answers[i] = fence
	else
		rest[#rest + 1] = i
	end
end
if #rest == 0 then
	return n == 1 and answers[1] or answers
end

local function damaged(counter)
	return redis.error_reply('LOCKBEAT the fence counter ' .. counter ..
		' is no number below 2^53-1, so that no token can be sure to rise; delete the key')
end

-- How many of the tokens above fence are to be reserved. Unless the token is given, the counter never gets further ahead of the clock
-- than by what one claim wants, even if the tokens of others before it were never given back.
local function further(fence)
	local most = math.min(reserve, 9007199254740990 - fence) -- so that a token is left for the next one
	if proposed == '' then
		most = math.min(most, now + reserve - fence)
	end
	return math.max(0, most)
end

-- Answers an owner who has the lock already.
local function again(lease, counter, owner, holder, value)
	local fence = string.match(string.sub(value, 23), '^\n(%d+)\n')
	if not fence or #fence > 16 then
		return redis.error_reply('LOCKBEAT the value of ' .. lease .. ' is damaged; delete the key')
	end
	local left = redis.call('PTTL', lease)
	if string.find(value, '^[^\n]*\n[^\n]*\n[^\n]*\n$') then
		-- No holder in it: a release has given it to the first in line, who is here now. It lasts as long as a grant from now on.
		redis.call('SET', lease, value .. holder, 'PX', math.max(left, tonumber(ttl)))
		local last = redis.pcall('GET', counter)
		local more = further(tonumber(fence))
		if more > 0 and (not last or last == fence) then
			redis.call('SET', counter, string.format('%.0f', tonumber(fence) + more), 'PX', counterTTL)
			return {tonumber(fence), more}
		end
		return tonumber(fence)
	end
	if proposed == '' or proposed == fence then
		-- The reply to an earlier try was lost. Same token, so that it is one grant.
		if left < tonumber(ttl) then
			redis.call('PEXPIRE', lease, ttl)
		end
		return tonumber(fence)
	end
	return nil, math.max(left, tonumber(ttl)) -- a new token is wanted; never shortened, though written anew
end

-- Answers one claim, whatever it finds.
local function claim(lease, counter, owner, holder)
	if #owner ~= 22 then
		return redis.error_reply('LOCKBEAT the owner token has ' .. #owner .. ' bytes; give one of 22')
	end
	local value = redis.pcall('GET', lease)
	if type(value) == 'table' then
		return value -- the error, such as WRONGTYPE, as the server words it
	end
	local life = ttl
	if value and string.sub(value, 1, 22) == owner then
		local answer
		answer, life = again(lease, counter, owner, holder, value)
		if answer then
			return answer
		end
	elseif value then
		local left = redis.call('PTTL', lease)
		if not line or type(redis.pcall('ZADD', line, 'NX', now, owner)) == 'table' then
			return {string.sub(value, 1, mostValue), left, now} -- beside a key of another type there is no line
		end
		redis.call('PEXPIRE', line, ARGV[5])
		return {string.sub(value, 1, mostValue), left, now, 1}
	end

	-- Above every earlier token while the counter lives, and, unless it is given, above those of a lost counter by the clock.
	local fence = proposed == '' and now or tonumber(proposed)
	local text = redis.pcall('GET', counter)
	if type(text) == 'table' then
		return text
	end
	if text then
		local last = count(text)
		if not last then
			return damaged(counter)
		end
		if last >= fence and proposed ~= '' then
			return {last}
		end
		fence = math.max(fence, last + 1)
	end
	if line then
		redis.pcall('ZREM', line, owner) -- the one before let it lapse: whoever asks first has it
	end
	local more = further(fence)
	redis.call('SET', counter, string.format('%.0f', fence + more), 'PX', counterTTL)
	redis.call('SET', lease, owner .. '\n' .. string.format('%.0f', fence) .. '\n' .. nowText .. '\n' .. holder, 'PX', life)
	if more > 0 then
		return {fence, more}
	end
	return fence
end

for _, i in ipairs(rest) do
	answers[i] = claim(KEYS[i], KEYS[n + i], ARGV[4 + 2 * i], ARGV[5 + 2 * i])
end
return n == 1 and answers[1] or answers
