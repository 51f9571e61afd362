-- The slots of a limit, and how one that is free is passed on. It stands in slots_acquire.lua,
-- slots_renew.lua and slots_release.lua, behind tell.lua, whose mode they set.
--
-- KEY          PREFIX{name}:slots, a sorted set: who has a slot, and until when, by the server's
--              clock in us. A member is an owner token of 22 bytes, or "NUMBER INBOX", a place
--              whose turn it is: its slot is kept for it for a moment
-- KEY:holders  a hash: what is known of the owners, by token: fencing token, since when, in us, and
--              holder, a line each, as in the value of a lease; and "+", if the limit is waited for
-- KEY:waiters  the line: see tell.lua. One serves all slots
--
-- So a limit is never a number that is counted up and down: who does not renew is gone when its time
-- is over. How many may have a slot is not kept here: each claim brings its own number.

-- Keeps a slot that is free for the first live place in line, and returns how many ms that has to
-- claim it; or nil, if there is none.
local function passOn(key)
	for _ = 1, mode ~= '' and 500 or 0 do
		local first = redis.pcall('ZPOPMIN', key .. ':waiters')[1]
		if not first then
			break
		end
		if tell(key, first) then
			local place, turn = string.match(first, '^(%d+ [%w_-]+) (%d+)$')
			redis.call('ZADD', key, string.format('%.0f', now + turn * 1000), place)
			lives(key, 3 * turn) -- so it shows that the turn has lapsed
			return turn
		end
	end
end

-- Asks the hash for a field, or takes it out; nil if the hash is another program's, or has just been
-- emptied while its slot of a cluster moves.
local function ofHash(command, key, field)
	local answer = redis.pcall(command, key .. ':holders', field)
	if type(answer) ~= 'table' then
		return answer
	elseif not string.find(answer.err, 'WRONGTYPE', 1, true) and
		not string.find(answer.err, 'non local key', 1, true) then
		redis.call(command, key .. ':holders', field) -- says why
	end
end

-- passOn, or tells all who wait without a place. The limit is waited for no more if none does.
local function passOnOrTell(key)
	local turn = passOn(key)
	if not turn then
		local heard = redis.call(publish, key .. ':freed', '')
		if counted and heard == 0 then
			ofHash('HDEL', key, '+')
		end
	end
	return turn
end

-- Frees what a member of the set has, and returns the turn that it has become.
local function free(key, member, holders)
	redis.call('ZREM', key, member)
	ofHash('HDEL', key, member)
	if ofHash('HEXISTS', key, '+') ~= 1 then
		return nil
	end
	local turn = passOnOrTell(key)
	if redis.pcall('EXISTS', key) ~= 1 then
		redis.pcall('DEL', holders)
	end
	return turn
end

-- Passes on the slots whose time is over, some at a time, and returns the last turn.
local function purge(key)
	local turn
	local first = redis.call('ZRANGE', key, 0, 63, 'WITHSCORES')
	for i = 1, #first, 2 do
		if tonumber(first[i + 1]) > now then
			break
		end
		redis.call('ZREM', key, first[i])
		ofHash('HDEL', key, first[i])
		turn = passOnOrTell(key) or turn
	end
	return turn
end
