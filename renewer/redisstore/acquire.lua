-- Gives locks to owners, each unless another owner has it.
--
-- KEYS[i]      the leases, n of them, at most 100: PREFIX{name}
-- KEYS[n+1]    on a cluster, with a place, the line: so that none is made in a slot that is only
--              arriving, beside the one to come
-- ARGV[1]      time to live of the leases, ms
-- ARGV[2]      time to live of the mark, and of a counter of tokens that were given, ms
-- ARGV[3]      the key of the highest fencing token granted on the server, or in the slot: its mark
-- ARGV[4]      "MODE LINES INBOX": the mode, see tell.lua; the time to live of the lines in ms; and
--              the inbox of the places, see tell.lua
-- ARGV[2+3i]   owner token of KEYS[i], 22 bytes
-- ARGV[3+3i]   the place from which it asks, or "": its number, a space, and its turn in ms; a
--              space, and when it came in us, if it has heard that
-- ARGV[4+3i]   its holder, as text: node, pid, operation and, if there is one, traceparent, a line
--              each
-- And behind these, of one lease, two more, or none:
-- ARGV[8]      the fencing token to be granted, in decimal, below 2^53; or "": pick one
-- ARGV[9]      how many further tokens to reserve above it, in decimal. Fewer are, or none, where
--              they would be further than that ahead of the server's clock in us, but for a token
--              that is given (ARGV[8])
--
-- Returns, of n > 1 leases, an array of the following, and otherwise that itself:
--            the fencing token, an integer, if the owner has the lock now, or had it already; or
--            {token, m} if the owner has it now and the m tokens above it as well; or
--            {value, ms, us} if another owner has it: its value, cut to 300 bytes ("" while it is
--            another place's turn), its remaining time to live in ms (-1: it has none), and the
--            server's clock in us; and a fourth element, when the place came in us, if the place
--            stands in the line; or
--            {counter} if nobody else has it, but ARGV[8] is neither above this nor the token that
--            the owner has it with; or
--            an error, and nothing is changed.
--
-- A lease whose value ends with a line "+" is waited for: an owner was refused while it was held,
-- or those in its line may be. release.lua looks for waiters of such a lease only.
--
-- A token is above the server's clock in us and above the mark, and so above every earlier one.
-- Beside that there are two counters, each for one name: KEY:ahead, the highest token reserved,
-- while the clock has not reached it; and KEY:fence, of tokens that were given, which come from
-- other servers' clocks: so they don't raise the mark, by which those of other names would be
-- refused. MARK:own is no less than any of these counters that is above the mark: while the clock
-- is above both, it is above all counters, and they need not be read.
--
-- Numbers in Lua are doubles: exact up to 2^53 - 1 = 9007199254740991, which the clock in us
-- reaches in the year 2255. They are never made text by tostring, which keeps 14 digits.

local ttl, keep, markKey = ARGV[1], ARGV[2], ARGV[3]
local plain = (#ARGV - 4) % 3 == 0 -- no token is given, and none is to be reserved
local time = redis.call('TIME')
local nowText = time[1] .. string.sub('00000' .. time[2], -6) -- 16 digits until the year 2286
local now = tonumber(nowText)

local n = (#ARGV - (plain and 4 or 6)) / 3

-- The usual cases first, and by few steps; the rest of this script says the same at length. One
-- lock, which another owner has, that is waited for:
local value, place, turn, since, turned
if #ARGV == 7 and ARGV[6] ~= '' then
	local lease = KEYS[1]
	turn, since = string.match(ARGV[6], ' (%d+) ?(%d*)$')
	place = string.match(ARGV[6], '^%d+ ') .. string.match(ARGV[4], '[%w_-]*$') .. ' '
	value = redis.pcall('GET', lease)
	if type(value) == 'string' then
		turned = string.sub(value, 1, 5) == 'turn\n'
		if not turned and since == '' and string.sub(value, -2) == '\n+' and
			string.sub(value, 1, 22) ~= ARGV[5] then
			local line = lease .. ':waiters'
			local tail = redis.pcall('ZRANGE', line, -1, -1, 'WITHSCORES')[2]
			if (not tail or (tonumber(tail) or now) < now) and
				redis.pcall('ZADD', line, 'NX', nowText, place .. turn) == 1 then
				redis.call('PEXPIRE', line, string.match(ARGV[4], ' (%d+) '))
				return {string.sub(value, 1, 300), redis.call('PTTL', lease), now, now}
			end
		end
	end
end

-- Whether the clock is above the mark and all counters of these leases, and so may be their token.
local usual = false
if plain then
	local high = redis.pcall('MGET', markKey, markKey .. ':own')
	usual = not high.err and (not high[1] or #high[1] == 16 and high[1] < nowText)
	if usual and high[2] and not (#high[2] == 16 and high[2] < nowText) then
		for i = 1, n do
			local counters = redis.pcall('MGET', KEYS[i] .. ':fence', KEYS[i] .. ':ahead')
			usual = usual and not counters.err -- on a cluster, while the slot is moving
			for c = 1, 2 do
				if counters[c] and not (#counters[c] == 16 and counters[c] < nowText) then
					usual = false
				end
			end
		end
	end
end

-- One lock, which is free, or which is the turn of the place.
if usual and n == 1 and #ARGV[5] == 22 then
	local lease = KEYS[1]
	local text = ARGV[5] .. '\n' .. nowText .. '\n' .. nowText .. '\n' .. ARGV[7]
	local got
	if not value then
		got = redis.pcall('SET', lease, place and text .. '\n+' or text, 'NX', 'PX', ttl)
		got = got and got.ok -- what the server refuses may be another owner's: see below
		if got and place then
			redis.pcall('ZREM', lease .. ':waiters', place .. turn) -- the one before let it lapse
		end
	elseif turned and string.find(value, '\n' .. place, 6, true) then
		got = redis.call('SET', lease, text .. '\n+', 'PX', ttl)
	end
	if got then
		redis.call('SET', markKey, nowText, 'PX', keep)
		return now
	end
end

local answers, rest = {}, {}
local mark, own -- the highest token granted, and MARK:own; read when they are needed
local raised = false

-- Many, most of which are free. A place needs more, as it must leave the line.
if n > 1 then
	local token, text = now, nowText
	for i = 1, n do
		local owner = ARGV[2 + 3 * i]
		local free = owner .. '\n' .. text .. '\n' .. nowText .. '\n' .. ARGV[4 + 3 * i]
		if usual and #owner == 22 and ARGV[3 + 3 * i] == '' and
			redis.call('SET', KEYS[i], free, 'NX', 'PX', ttl) then
			answers[i], mark, raised = token, token, true
			token = token + 1
			text = string.format('%.0f', token)
		else
			rest[#rest + 1] = i
		end
	end
	if #rest == 0 then
		redis.call('SET', markKey, string.format('%.0f', mark), 'PX', keep)
		return answers
	end
else
	rest[1] = 1
end

local proposed, reserve = '', '0'
if not plain then
	proposed, reserve = ARGV[8], ARGV[9]
end
local asMode, lines, inbox = string.match(ARGV[4], '^(%l*) (%d+) ([%w_-]*)$')
local ownLife -- for how many ms MARK:own is to live, if it is to be raised

-- include tell.lua

-- Reads a counter, 0 if there is none. What is no text is none of ours, and counts as nothing.
-- Digits only, since tonumber would take '0x10', '1e9' and 'nan' too.
local function count(text, key)
	if not text then
		return 0
	end
	local number = #text <= 16 and string.match(text, '^%d+$') and tonumber(text)
	if number and number < 9007199254740991 then
		return number
	end
	return nil, redis.error_reply('LOCKBEAT the fence counter ' .. key ..
		' is no number below 2^53-1, so that no token can be sure to rise; delete the key')
end

-- The next token above the clock and the mark, which is raised to it, and its text.
local function pick()
	mark, raised = math.max(now, mark + 1), true
	return mark, mark == now and nowText or string.format('%.0f', mark)
end

-- Notes that a lease has a counter of its own, which lives for some ms.
local function note(counter, life)
	if counter > own then
		own, ownLife = counter, math.max(ownLife or 0, life)
	end
end

-- The same for a lease with counters of its own: above these too. If that is above the mark, the
-- higher counter notes it: the tokens of other names must not follow those of one that has run
-- ahead.
local function pickAbove(lease, fence, ahead)
	local given, damaged = count(fence, lease .. ':fence')
	if damaged then
		return nil, damaged
	end
	local reserved
	reserved, damaged = count(ahead, lease .. ':ahead')
	if damaged then
		return nil, damaged
	end
	local high = math.max(given, reserved)
	if high <= mark or high < now then
		return pick()
	end
	local text = string.format('%.0f', high + 1)
	redis.call('SET', lease .. (given == high and ':fence' or ':ahead'), text, 'KEEPTTL')
	note(high + 1, tonumber(keep))
	return high + 1, text
end

-- Answers an owner who has the lock already; or returns nil, and for how long it is to have it with
-- a new token.
local function again(lease, value)
	local fence = string.match(string.sub(value, 23), '^\n(%d+)\n')
	if not fence or #fence > 16 then
		return redis.error_reply('LOCKBEAT the value of ' .. lease .. ' is damaged; delete the key')
	end
	local left = redis.call('PTTL', lease)
	if proposed == '' or proposed == fence then
		-- The reply to an earlier try was lost. Same token, so that it is one grant. It is written
		-- also if that changes nothing: a WAIT behind this goes by the last write of the
		-- connection, and the earlier try may have been on another one.
		redis.call('PEXPIRE', lease, math.max(left, tonumber(ttl)))
		return tonumber(fence)
	end
	return nil, math.max(left, tonumber(ttl)) -- never shortened, though written anew
end

-- Gives a place its rank in the line, by when it came first, and returns that; or returns nil.
local function queue(lease, place, turn, since)
	local line = lease .. ':waiters'
	if since == '' then
		-- Behind all who are there, also if the clock was set back since they came.
		local tail = redis.pcall('ZRANGE', line, -1, -1, 'WITHSCORES')[2]
		tail = tail and tonumber(tail) or 0
		local follows = tail >= now and tail < 9007199254740990
		since = follows and string.format('%.0f', tail + 1) or nowText
	elseif turn ~= '1000' then
		leaveLine(lease, place) -- claims take longer than when it came: it asks for a longer turn
	end
	place = place .. turn
	local added = redis.pcall('ZADD', line, 'NX', since, place)
	if type(added) == 'table' then
		return nil -- beside a key of another type there is no line
	end
	redis.call('PEXPIRE', line, lines)
	return tonumber(added == 1 and since or redis.call('ZSCORE', line, place))
end

-- How many of the tokens above fence are to be reserved. Unless the token is given, they never get
-- further ahead of the clock than by what one claim wants, even if the tokens of others before it
-- were never given back.
local function further(fence)
	-- so that a token is left for the next one
	local most = math.min(tonumber(reserve), 9007199254740990 - fence)
	if proposed == '' then
		most = math.min(most, now + tonumber(reserve) - fence)
	end
	return math.max(0, most)
end

-- Gives a lease to an owner for some ms. It may be waited for.
local function grant(lease, owner, holder, life, waitedFor)
	local last, damaged = redis.pcall('MGET', markKey, lease .. ':fence', lease .. ':ahead',
		markKey .. ':own')
	if last.err then -- on a cluster, while the slot is moving: some keys are on another server
		return redis.error_reply('TRYAGAIN the keys of ' .. lease .. ' are moving')
	end
	if not mark then
		mark, damaged = count(last[1], markKey)
		if damaged then
			return damaged
		end
	end
	own = own or count(last[4], markKey .. ':own') or 0
	local fence, text
	if proposed == '' then
		if last[2] or last[3] then
			fence, text = pickAbove(lease, last[2], last[3])
		else
			fence, text = pick()
		end
		if not fence then
			return text
		end
	else
		local counter, damaged = count(last[2], lease .. ':fence')
		if damaged then
			return damaged
		end
		local high = last[2] and counter or mark
		high = math.max(high, last[3] and count(last[3], lease .. ':ahead') or 0)
		fence, text = tonumber(proposed), proposed
		if high >= fence then
			return {high}
		end
	end
	local more = plain and 0 or further(fence)
	if proposed ~= '' then
		local lives = math.max(tonumber(keep), tonumber(life))
		redis.call('SET', lease .. ':fence', string.format('%.0f', fence + more), 'PX', lives)
		note(fence + more, lives)
	elseif more > 0 then
		-- For a second longer than until the clock is there.
		redis.call('SET', lease .. ':ahead', string.format('%.0f', fence + more), 'PX',
			string.format('%.0f', math.ceil((fence + more - now) / 1000) + 1000))
		note(fence + more, tonumber(keep))
	end
	redis.call('SET', lease, owner .. '\n' .. text .. '\n' .. nowText .. '\n' .. holder ..
		(waitedFor and '\n+' or ''), 'PX', life)
	if more > 0 then
		return {fence, more}
	end
	return fence
end

-- Marks a lease as one that is waited for, or returns why the server refuses that: without the mark
-- its release would wake no caller, so that none may be told to wait for it. A server whose memory
-- is full refuses what would take more of it to a script that has written nothing; so this writes
-- what changes nothing first.
local function markWaitedFor(lease, value)
	local marked = redis.pcall('SET', lease, value .. '\n+', 'KEEPTTL')
	if marked.err then
		redis.pcall('DEL', lease .. ':freed') -- which is a channel, and no key
		marked = redis.pcall('SET', lease, value .. '\n+', 'KEEPTTL')
	end
	return marked.err and marked
end

-- Answers one claim, whatever it finds.
local function claim(lease, owner, from, holder)
	if #owner ~= 22 then
		return redis.error_reply('LOCKBEAT the owner token has ' .. #owner ..
			' bytes; give one of 22')
	end
	local value = redis.pcall('GET', lease)
	if type(value) == 'table' then
		return value -- the error, such as WRONGTYPE, as the server words it
	end
	local place, turn, since
	if from ~= '' and mode ~= '' then
		place, turn, since = string.match(from, '^(%d+) (%d+) ?(%d*)$')
		place = place .. ' ' .. inbox .. ' '
		if value and hasTurn(value, place) then
			return grant(lease, owner, holder, ttl, true)
		end
	end
	if value and string.sub(value, 1, 22) == owner then
		local answer, life = again(lease, value)
		return answer or grant(lease, owner, holder, life, true)
	end
	local over, left = not value
	if value and string.sub(value, 1, 5) == 'turn\n' then
		over, left = lapsed(lease, value)
		value = left and '' or value
	end
	if over then
		-- who asks first has it
		local answer = grant(lease, owner, holder, ttl, value or place)
		if place then
			leaveLine(lease, place)
		end
		if value then
			passOver(lease)
		end
		return answer
	end
	if #value < 300 and string.sub(value, -2) ~= '\n+' and
		string.find(value, '^[%w_-]+\n%d+\n%d+\n') then
		local refused = markWaitedFor(lease, value)
		if refused then
			return refused
		end
	end
	-- Values of ours are shorter than 300 bytes. A longer one is not sent whole to every caller who
	-- is refused.
	return {string.sub(value, 1, 300), left or redis.call('PTTL', lease), now,
		place and queue(lease, place, turn, since)}
end

setMode(asMode)
for _, i in ipairs(rest) do
	answers[i] = claim(KEYS[i], ARGV[2 + 3 * i], ARGV[3 + 3 * i], ARGV[4 + 3 * i])
end

-- Raises a counter of the server's, which lives for some ms longer than the clock may have been set
-- back since.
local function raise(key, counter, life)
	local ahead = counter > now and math.ceil((counter - now) / 1000) or 0
	redis.call('SET', key, string.format('%.0f', counter), 'PX',
		string.format('%.0f', life + ahead))
end

if raised then
	raise(markKey, mark, tonumber(keep))
end
if ownLife then
	raise(markKey .. ':own', own, ownLife)
end
return n == 1 and answers[1] or answers
