-- Which of two calls is newer, of those that give way to newer ones. It stands in begin.lua and in
-- newest.lua.
--
-- A rank is in decimal, without leading zeros, at most 19 digits: more than numbers in Lua hold.
-- "0" is none. KEY:begun is the newest call that has had the lock: its rank, and when it was made
-- in us of the server's clock, a line each.

-- Reports whether a call is older than another.
local function older(rank, since, other, otherSince)
	if rank ~= other and rank ~= '0' and other ~= '0' then
		return #rank < #other or #rank == #other and rank < other
	end
	return since < otherSince
end

-- Reports whether it is older than the last that has had the lock. One of its rank is the same work
-- again.
local function late(rank, since, last, lastSince)
	return (rank == '0' or rank ~= last) and older(rank, since, last, lastSince)
end

-- Reads that one; or returns an error as well. What is in the future is of a clock that was set
-- back since: it is taken for none, so that calls aren't refused until then.
local function lastBegun(lease, now)
	local text = redis.pcall('GET', lease .. ':begun')
	if type(text) == 'table' then
		if not string.find(text.err, 'WRONGTYPE', 1, true) then
			return nil, nil, text
		end
		text = nil -- another program's, which is written over
	end
	local rank, since = string.match(text or '', '^(%d+)\n(%d+)$')
	if not rank or #rank > 19 or #since > 16 then
		return '0', 0
	end
	since = tonumber(since)
	return rank, since <= now and since or 0
end
