-- Places in a lock's line: see tell.lua.

-- Takes a place, "NUMBER INBOX ", out of a lock's line, however long a turn it asked for when it
-- came.
local function leaveLine(key, place)
	redis.pcall('ZREM', key .. ':waiters', place .. '1000', place .. '2000', place .. '4000',
		place .. '8000', place .. '16000', place .. '32000')
end

-- Reports whether a lease is a turn that has lapsed, and how many ms of a turn are left; nil for
-- any other value.
local function lapsed(key, value)
	local turn = string.match(value, '^turn\n(%d+)\n')
	local left = turn and redis.call('PTTL', key) - 2 * tonumber(turn)
	return left and left <= 0, left
end

-- Gives a place its rank, by when it came first, and returns that; or returns nil. For rule.lua.
local function standInLine(lease, place, turn, since)
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
	local added = redis.pcall('ZADD', line, 'NX', since, place .. turn)
	if type(added) == 'table' then
		if string.find(added.err, 'READONLY', 1, true) then
			redis.call('ZADD', line, 'NX', since, place .. turn) -- a replica: who waits must hear it
		end
		return nil -- beside a key of another type there is no line
	end
	redis.call('PEXPIRE', line, lines)
	return tonumber(added == 1 and since or redis.call('ZSCORE', line, place .. turn))
end
