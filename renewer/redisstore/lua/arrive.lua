-- Says what a task does that wants a lock: ask for it, and wait for it in its worker's slot, or go
-- back to its queue.
--
-- KEYS     see parked.lua
-- ARGV[1]  the task: "QUEUE\nID"
-- ARGV[2]  "wait": it may wait in its slot; "ask": it may not
-- ARGV[3]  time to live of KEYS[3], ms: longer than the task waits in its slot
-- ARGV[4]  time to live of the line, ms
-- ARGV[5]  the task whose place and slot it takes over, or ""
--
-- Returns  -1: the task is to ask for the lock, and if it may wait, it is the one of all tasks that
--          does; or
--          {n, value, us}: it goes back, and has a place in the line, behind n others; the value of
--          the lease, cut to 300 bytes ("" if it is free), and the server's clock in us

-- include parked.lua

local task, may, before = ARGV[1], ARGV[2], ARGV[5]
redis.call('HDEL', KEYS[4], task, before)
local since = before ~= '' and redis.call('ZSCORE', KEYS[2], before)
if since then
	redis.call('ZREM', KEYS[2], before)
	redis.call('ZADD', KEYS[2], 'NX', since, task)
end

local function ask()
	if may ~= 'ask' then
		redis.call('SET', KEYS[3], task, 'PX', ARGV[3])
	end
	return -1
end

local waits = redis.call('GET', KEYS[3])
if waits == task or waits == before then
	return ask()
end

-- Reports whether another task has its turn before this one.
local function ahead()
	local _, woken, coming, missing = readWoken()
	local found = false
	each(function(other)
		if other == task then
			return true
		end
		local queue = queueOf(other)
		local stuck = (missing[queue] or 0) > 0 and coming[queue] == 0
		local over = woken[other] == 'missing' or not woken[other] and stuck
		found = not over
		return found
	end, 0, 1000)
	return found
end

local value = redis.call('GET', KEYS[1])
if (not value or may == 'wait' and not waits) and not ahead() then
	return ask()
end
park(task, ARGV[4])
return {redis.call('ZRANK', KEYS[2], task), string.sub(value or '', 1, 300), now}
