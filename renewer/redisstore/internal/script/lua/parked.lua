-- The line of tasks of a lock, or of a limit: those that went back to their queue, which wait in no process. It
-- stands in arrive.lua and next.lua.
--
-- KEYS[1]  the lease: PREFIX{name}; or the slots of a limit: PREFIX{name}:slots, see slots.lua
-- KEYS[2]  KEY:tasks:HOME, a sorted set of the tasks of a home that have a place: "QUEUE\nID", by
--          when they came, by the server's clock in us; without ":HOME" if they have none
-- KEYS[3]  KEY:slot:HOME, the task that waits for the lock in a worker's slot, if one does
-- KEYS[4]  KEY:woken:HOME, a hash of those in the line that were told to come and have not come
--          yet, and when they were told, in us; and at "from", from which rank on next.lua looks
--          for others, if a thousand or more of the first don't move
-- KEYS[5]  KEY:homes, a sorted set of the homes that have a line here, ":HOME" or "", by when that
--          was noted last, in us: for those who look at the lock
--
-- A woken task that has not come within a second is passed over. If no other one of its queue is on
-- its way, its whole queue is: it is paused, or has no server, or is full of other tasks.

local time = redis.call('TIME')
local nowText = time[1] .. string.sub('00000' .. time[2], -6)
local now = tonumber(nowText)
local second = 1000000 -- us
local longest = 4096 -- bytes; another program has written what is longer, and it is not sent

-- How many more may have it now: less than one if it is full. limit: how many may in all, "" of a
-- lock.
local function roomOf(limit)
	if limit == '' then
		return 1 - redis.call('EXISTS', KEYS[1])
	end
	return tonumber(limit) - redis.call('ZCOUNT', KEYS[1], '(' .. nowText, '+inf')
end

local function queueOf(task)
	return string.match(task, '^[^\n]*')
end

-- Reads who was woken. It returns how many are on their way in all, and, of each queue, how many
-- are, how many have not come, and when the last was woken; and from which rank on to look. A woken
-- task "comes" at first, is "late" after a tenth of a second, and "missing" after a second.
local function readWoken()
	local all, total = redis.call('HGETALL', KEYS[4]), 0
	local woken, coming, missing, last, from = {}, {}, {}, {}, 4
	for i = 1, #all, 2 do
		local queue, at = queueOf(all[i]), tonumber(all[i + 1])
		if all[i] == 'from' then
			from = at
		else
			local comes = now - at < second
			total = total + (comes and 1 or 0)
			woken[all[i]] = not comes and 'missing' or now - at < second / 10 and 'comes' or 'late'
			coming[queue] = (coming[queue] or 0) + (comes and 1 or 0)
			missing[queue] = (missing[queue] or 0) + (comes and 0 or 1)
			last[queue] = math.max(last[queue] or 0, at)
		end
	end
	return total, woken, coming, missing, last, from
end

-- Calls see with the tasks of some ranks, in order, until it returns true. Usually a few are looked
-- at. Returns to if there are as many in the line and none was the one.
local function each(see, from, to)
	local n = 4
	while from < to do
		local tasks = redis.call('ZRANGE', KEYS[2], from, from + n - 1)
		for _, task in ipairs(tasks) do
			if #task <= longest and see(task) then
				return nil
			end
		end
		if #tasks < n then
			return nil
		end
		from = from + n
		n = math.min(4 * n, to - from, 200)
	end
	return to
end

local home = string.sub(KEYS[2], #KEYS[1] + 7)

-- Gives a task a place in the line that is so old, unless it has one. The home is noted with the
-- first task of a line, and again now and then: not with each of many that come.
local function place(task, since, ttl, first)
	local added = redis.call('ZADD', KEYS[2], 'NX', since, task)
	redis.call('PEXPIRE', KEYS[2], ttl)
	if (first or added == 0 or now % 16 == 0) and
		now - tonumber(redis.call('ZSCORE', KEYS[5], home) or 0) > 60 * second then
		redis.call('ZADD', KEYS[5], nowText, home)
		redis.call('PEXPIRE', KEYS[5], ttl)
	end
end

-- Gives a task a place in the line, unless it has one: the last, or the first.
local function park(task, ttl, first)
	local rank = first and 0 or -1
	local other = tonumber(redis.call('ZRANGE', KEYS[2], rank, rank, 'WITHSCORES')[2])
	local since = nowText
	if first and other and other <= now then
		since = string.format('%.0f', other - 1)
	elseif not first and other and other >= now then
		since = string.format('%.0f', other + 1)
	end
	place(task, since, ttl, not other)
end
