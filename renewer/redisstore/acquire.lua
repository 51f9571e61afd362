-- Gives locks to owners, each unless another owner has it.
--
-- KEYS[i]      the leases, n of them, at most 100: PREFIX{name}
-- KEYS[n+1]    the highest fencing token granted on the server, or in the slot: its mark
-- KEYS[n+2...] on a cluster, the other keys of the one lock, so that all or none of them have moved with their slot
-- ARGV[1]      time to live of the leases, ms
-- ARGV[2]      time to live of the mark, and of a counter of tokens that were given, ms
-- ARGV[3]      of one lease, the fencing token to be granted, in decimal, below 2^53; otherwise "": pick one
-- ARGV[4]      of one lease, how many further tokens to reserve above it, in decimal; otherwise "0". Fewer are, or none, where they
--              would be further than that ahead of the server's clock in us, but for a token that is given (ARGV[3])
-- ARGV[5]      mode: see tell.lua
-- ARGV[6]      time to live of the lines, ms
-- ARGV[7]      the inbox of the places: see tell.lua
-- ARGV[5+3i]   owner token of KEYS[i], 22 bytes
-- ARGV[6+3i]   the place from which it asks, or "": its number, a space, and its turn in ms; a space, and when it came in us, if it
--              has heard that
-- ARGV[7+3i]   its holder, as text: node, pid, operation and, if there is one, traceparent, a line each
--
-- Returns, of n > 1 leases, an array of the following, and otherwise that itself:
--            the fencing token, an integer, if the owner has the lock now, or had it already; or
--            {token, m} if the owner has it now and the m tokens above it as well; or
--            {value, ms, us} if another owner has it: its value, cut to 300 bytes ("" while it is another place's turn), its
--            remaining time to live in ms (-1: it has none), and the server's clock in us; and a fourth element, when the place
--            came in us, if the place stands in the line; or
--            {counter} if nobody else has it, but ARGV[3] is neither above this nor the token that the owner has it with; or
--            an error, and nothing is changed.
--
-- A token is above the server's clock in us and above the mark, and so above every earlier one. Beside that there are two counters,
-- each for one name: KEY:ahead, the highest token reserved, while the clock has not reached it; and KEY:fence, of tokens that were
-- given, which come from other servers' clocks: so they don't raise the mark, by which those of other names would be refused.
--
-- Numbers in Lua are doubles: exact up to 2^53 - 1 = 9007199254740991, which the clock in us reaches in the year 2255. They
-- are never made text by tostring, which keeps 14 digits.

local n = (#ARGV - 7) / 3
local ttl, keep, proposed, reserve, lineTTL, inbox = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4]), ARGV[6], ARGV[7]
setMode(ARGV[5])
-- Values of ours are shorter. A longer one is not sent whole to every caller who is refused.
local mostValue = 300
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000000 + tonumber(time[2])
local nowText = string.format('%.0f', now)

local counters = {}
for i = 1, n do
	counters[2 * i - 1] = KEYS[i] .. ':fence'
	counters[2 * i] = KEYS[i] .. ':ahead'
end
counters[2 * n + 1] = KEYS[n + 1]
local last = redis.call('MGET', unpack(counters)) -- what is no text is none of ours, and counts as nothing

-- Reads counter c, 0 if there is none. Digits only, since tonumber would take '0x10', '1e9' and 'nan' too.
local function count(c)
	local text = last[c]
	if not text then
		return 0
	end
	local number = #text <= 16 and string.match(text, '^%d+$') and tonumber(text)
	if number and number < 9007199254740991 then
		return number
	end
	return nil, redis.error_reply('LOCKBEAT the fence counter ' .. counters[c] ..
		' is no number below 2^53-1, so that no token can be sure to rise; delete the key')
end

local mark, damaged = count(2 * n + 1)
if damaged then
	return damaged
end
local granted = false

-- The token for claim i, by what is picked here.
local function pick(i)
	local high = mark
	for c = 2 * i - 1, 2 * i do
		if last[c] then
			local counter, damaged = count(c)
			if damaged then
				return nil, damaged
			end
			high = math.max(high, counter)
		end
	end
	return math.max(now, high + 1)
end

-- Notes the token of a grant.
local function raise(fence)
	mark, granted = math.max(mark, fence), true
end

local answers, rest = {}, {}
-- The usual case by fewer commands, since most locks are free when they are asked for: it needs no look at the lease.
local plain = proposed == '' and reserve == 0
for i = 1, n do
	local owner = ARGV[5 + 3 * i]
	local fence = plain and #owner == 22 and pick(i)
	if fence and redis.call('SET', KEYS[i], owner .. '\n' .. string.format('%.0f', fence) .. '\n' .. nowText .. '\n' ..
		ARGV[7 + 3 * i], 'NX', 'PX', ttl) then
		raise(fence)
		answers[i] = fence
	else
		rest[#rest + 1] = i
	end
end

-- Answers an owner who has the lock already; or returns nil, and for how long it is to have it with a new token.
local function again(lease, value)
	local fence = string.match(string.sub(value, 23), '^\n(%d+)\n')
	if not fence or #fence > 16 then
		return redis.error_reply('LOCKBEAT the value of ' .. lease .. ' is damaged; delete the key')
	end
	local left = redis.call('PTTL', lease)
	if proposed == '' or proposed == fence then
		-- The reply to an earlier try was lost. Same token, so that it is one grant.
		if left < tonumber(ttl) then
			redis.call('PEXPIRE', lease, ttl)
		end
		return tonumber(fence)
	end
	return nil, math.max(left, tonumber(ttl)) -- never shortened, though written anew
end

-- Gives a place its rank in the line, by when it came first, and returns that; or returns nil.
local function queue(lease, place, since)
	local line = lease .. ':waiters'
	if not since then
		-- Behind all who are there, also if the clock was set back since they came.
		local tail = redis.pcall('ZRANGE', line, -1, -1, 'WITHSCORES')
		since = string.format('%.0f', math.max(now, tail[2] and tonumber(tail[2]) + 1 or 0))
	end
	local added = redis.pcall('ZADD', line, 'NX', since, place)
	if type(added) == 'table' then
		return nil -- beside a key of another type there is no line
	end
	redis.call('PEXPIRE', line, lineTTL)
	return tonumber(added == 1 and since or redis.call('ZSCORE', line, place))
end

-- After a turn that lapsed: the next places may be as dead as that one. They are all told at once, so that several dead ones cost
-- the others one turn; those who live ask, and get their ranks back.
local function passOver(lease)
	local places = redis.pcall('ZPOPMIN', lease .. ':waiters', 32)
	for p = 1, #places, 2 do
		tell(lease, places[p], '')
	end
end

-- How many of the tokens above fence are to be reserved. Unless the token is given, they never get further ahead of the clock than by
-- what one claim wants, even if the tokens of others before it were never given back.
local function further(fence)
	local most = math.min(reserve, 9007199254740990 - fence) -- so that a token is left for the next one
	if proposed == '' then
		most = math.min(most, now + reserve - fence)
	end
	return math.max(0, most)
end

-- Gives claim i the lease for some ms.
local function grant(i, life)
	local lease, fence = KEYS[i], tonumber(proposed)
	if fence then
		local counter, damaged = count(2 * i - 1)
		if damaged then
			return damaged
		end
		local high = last[2 * i - 1] and counter or mark
		if high >= fence then
			return {high}
		end
	else
		local damaged
		fence, damaged = pick(i)
		if damaged then
			return damaged
		end
		raise(fence)
	end
	local more = further(fence)
	if proposed ~= '' then
		redis.call('SET', lease .. ':fence', string.format('%.0f', fence + more), 'PX', math.max(tonumber(keep), life))
	elseif more > 0 then
		-- For a second longer than until the clock is there.
		redis.call('SET', lease .. ':ahead', string.format('%.0f', fence + more), 'PX',
			string.format('%.0f', math.ceil((fence + more - now) / 1000) + 1000))
	end
	redis.call('SET', lease, ARGV[5 + 3 * i] .. '\n' .. string.format('%.0f', fence) .. '\n' .. nowText .. '\n' .. ARGV[7 + 3 * i], 'PX', life)
	if more > 0 then
		return {fence, more}
	end
	return fence
end

-- Answers claim i, whatever it finds.
local function claim(i)
	local lease, owner = KEYS[i], ARGV[5 + 3 * i]
	if #owner ~= 22 then
		return redis.error_reply('LOCKBEAT the owner token has ' .. #owner .. ' bytes; give one of 22')
	end
	local value = redis.pcall('GET', lease)
	if type(value) == 'table' then
		return value -- the error, such as WRONGTYPE, as the server words it
	end
	local number, turn, since = string.match(ARGV[6 + 3 * i], '^(%d+) (%d+) ?(%d*)$')
	local place = number and mode ~= '' and number .. ' ' .. inbox .. ' ' .. turn
	if not value then
		local answer = grant(i, tonumber(ttl))
		if place then
			redis.pcall('ZREM', lease .. ':waiters', place) -- the one before let it lapse: whoever asks first has it
		end
		return answer
	elseif string.sub(value, 1, 22) == owner then
		local answer, life = again(lease, value)
		return answer or grant(i, life)
	end

	local left = redis.call('PTTL', lease)
	local lasts, whose = string.match(value, '^turn\n(%d+)\n(.*)$')
	if lasts then
		if whose == place then
			return grant(i, tonumber(ttl))
		end
		left = left - 2 * tonumber(lasts)
		if left <= 0 then
			local answer = grant(i, tonumber(ttl))
			if place then
				redis.pcall('ZREM', lease .. ':waiters', place)
			end
			passOver(lease)
			return answer
		end
		value = ''
	end
	local came = place and queue(lease, place, since ~= '' and since or nil)
	return {string.sub(value, 1, mostValue), left, now, came}
end

for _, i in ipairs(rest) do
	answers[i] = claim(i)
end
if granted then
	-- It lasts longer than the clock may have been set back since.
	redis.call('SET', KEYS[n + 1], string.format('%.0f', mark), 'PX',
		string.format('%.0f', tonumber(keep) + math.max(0, math.ceil((mark - now) / 1000))))
end
return n == 1 and answers[1] or answers
