-- The claims that slots_acquire.lua can't answer at once: the limit may be full, or is waited for, or
-- slots have lapsed, or the owner has one. It stands there, and uses its newToken and its ARGV.

local asMode, lines, inbox = string.match(ARGV[4], '^(%l*) (%d+) ([%w_-]*)$')
-- include tell.lua
-- include line.lua
-- include slots.lua
setMode(asMode)

-- Gives a place its rank in the line, and returns that; or returns nil.
local function standInLine(lease, place, turn, since)
	local rank
	if since ~= '' and turn ~= '1000' then
		leaveLine(lease, place) -- claims take longer than when it came: it asks for a longer turn
	end
	place = place .. turn
	-- include stand.lua
	return rank
end

-- How many have a limit, or the error.
local function count(key)
	local all = redis.pcall('ZCARD', key)
	if all == 0 or type(all) == 'table' then
		return all
	end
	if tonumber(redis.call('ZRANGE', key, 0, 0, 'WITHSCORES')[2]) <= now then
		purge(key)
		all = redis.call('ZCOUNT', key, '(' .. nowText, '+inf')
	end
	return all
end

-- Answers one claim on a limit that so many have. again: the one before is on the same limit, and
-- from the same place.
local function claim(i, key, have, again)
	local owner, from = ARGV[1 + 4 * i], ARGV[2 + 4 * i]
	local holders = key .. ':holders'
	local place, turn, since
	if #from > 1 and asMode ~= '' then
		place, turn, since = string.match(from, '^(%d+) (%d+) ?(%d*)$')
		place = place .. ' ' .. inbox
		if again then
			since = '' -- the rank that it had is used up
		elseif redis.call('ZREM', key, place) == 1 then -- its turn
			have = redis.call('ZCOUNT', key, '(' .. nowText, '+inf')
		end
	end
	local has = redis.pcall('HGET', holders, owner)
	if type(has) == 'table' then
		return has, have -- another program's
	elseif has and tonumber(redis.call('ZSCORE', key, owner) or 0) > now then
		redis.call('ZADD', key, 'GT', ends, owner)
		lives(key, ttl)
		return tonumber(string.match(has, '^%d+')), have -- the reply to an earlier try was lost
	end
	-- One that was broken before its owner knew of it: the owner is to release it first.
	local broken = '!' .. string.sub(owner, 2)
	local till = redis.call('ZSCORE', key, broken)
	till = tonumber(till or 0) > now and till
	local before = again and answers[i - 1]
	if not till and have < tonumber(ARGV[4 + 4 * i]) then
		local token, holder = newToken(i)
		redis.call('ZADD', key, ends, owner)
		redis.call('HSET', holders, owner, holder)
		if place and type(before) ~= 'number' then
			redis.call('HSET', holders, '+', '')
			leaveLine(key, place .. ' ')
		end
		lives(key, ttl)
		return token, have + 1
	elseif not till and type(before) == 'table' and before[5] == have then
		return {'', before[2], now, before[4], have}, have -- who has it was said
	end
	local marked = redis.pcall('HSET', holders, '+', '')
	if type(marked) == 'table' then
		return marked, have -- without the mark no release would wake this caller
	elseif marked == 1 then
		lives(key, math.max(redis.call('PTTL', key), 1))
	end
	local first = till and {broken, till} or redis.call('ZRANGE', key, 0, 0, 'WITHSCORES')
	local value = redis.call('HGET', holders, first[1])
	return {value and string.sub(first[1] .. '\n' .. value, 1, 300) or '',
		math.max(math.ceil((tonumber(first[2]) - now) / 1000), 0), now,
		place and standInLine(key, place .. ' ', turn, since) or 0, have}, have
end

-- There may be room for more of those who wait: the number was raised, or several have lapsed.
local function fill(key, have, limit)
	if have < limit and ofHash('HEXISTS', key, '+') == 1 then
		for _ = 1, math.min(limit - have, 32) do
			if not passOn(key) then
				break
			end
			have = have + 1
		end
	end
	return have
end
