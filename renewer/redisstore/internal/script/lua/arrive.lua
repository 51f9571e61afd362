-- Says what a task does that wants a lock, or a slot of a limit: ask for it, and wait for it in its
-- worker's slot, or go back to its queue.
--
-- KEYS     see parked.lua
-- ARGV[1]  the task: "QUEUE\nID"
-- ARGV[2]  "wait": it may wait in its slot; "ask": it may not; "place": it only wants to know of the
--          place that it has
-- ARGV[3]  time to live of KEYS[3], ms: longer than the task waits in its slot
-- ARGV[4]  time to live of the line, ms
-- ARGV[5]  the task whose place and slot it takes over, or ""
-- ARGV[6]  how many may have the limit; "": it is a lock
-- ARGV[7]  since when it has a place in another line, in us, 0 for none: its place here is that old
--
-- Returns  {-1, since}: the task is to ask for it, and if it may wait, it is the one of all tasks
--          that does; since when it has a place, in us, 0 if it has none; or
--          {-2, since}: it is to ask, and not to wait; or
--          {n, since, value, us, held}: it goes back, and has a place in the line, behind n others;
--          the value of the lease, or of the slot that lapses first, cut to 300 bytes ("" if it is
--          free); the server's clock in us; and how many have the limit

-- include parked.lua

local task, may, before, limit = ARGV[1], ARGV[2], ARGV[5], ARGV[6]
redis.call('HDEL', KEYS[4], task, before)
local since = before ~= '' and redis.call('ZSCORE', KEYS[2], before)
if since then
	redis.call('ZREM', KEYS[2], before)
elseif ARGV[7] ~= '0' then
	since = ARGV[7]
end
if since then
	place(task, since, ARGV[4], true)
end
since = tonumber(redis.call('ZSCORE', KEYS[2], task) or 0)
if may == 'place' then
	return {-2, since}
end

local waits = redis.call('GET', KEYS[3])
local function ask()
	if limit ~= '' and waits and waits ~= task and waits ~= before then
		if since > 0 then
			redis.call('HSET', KEYS[4], task, nowText) -- it is on its way still
			redis.call('PEXPIRE', KEYS[4], ARGV[4])
		end
		return {-2, since}
	elseif may == 'wait' then
		redis.call('SET', KEYS[3], task, 'PX', ARGV[3])
	end
	return {-1, since}
end
if waits == task or waits == before then
	return ask()
end

-- Reports whether so many other tasks have their turn before this one.
local function ahead(most)
	local _, woken, coming, missing = readWoken()
	local found = 0
	each(function(other)
		if other == task then
			return true
		end
		local queue = queueOf(other)
		local stuck = (missing[queue] or 0) > 0 and coming[queue] == 0
		local over = woken[other] == 'missing' or not woken[other] and stuck
		found = found + (over and 0 or 1)
		return found == most
	end, 0, 1000)
	return found == most
end

local room = roomOf(limit)
if (room > 0 or may == 'wait' and not waits) and not ahead(math.max(room, 1)) then
	return ask()
end
park(task, ARGV[4])
local value
if limit == '' then
	value = redis.call('GET', KEYS[1])
else
	local first = redis.call('ZRANGE', KEYS[1], 0, 0)[1]
	value = first and redis.call('HGET', KEYS[1] .. ':holders', first)
	value = value and first .. '\n' .. value
end
return {redis.call('ZRANK', KEYS[2], task), tonumber(redis.call('ZSCORE', KEYS[2], task)),
	string.sub(value or '', 1, 300), now, limit == '' and 0 or limit - room}
