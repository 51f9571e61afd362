-- Notes what became of a task, and says which ones of the line are to be woken, so that they are
-- there when the lock, or a slot of the limit, is free.
--
-- KEYS     see parked.lua
-- ARGV[1]  the task, or "": "QUEUE\nID"
-- ARGV[2]  "granted": it has the lock; "gone": it does not come any more; "moved": it stands in
--          another line now, and nobody is woken for it; "left": it went back without the lock,
--          and has a place now; "missing": its queue did not have it when it was
--          to be told to come; "over": a holder has released the lock; "look": some time has passed
-- ARGV[3]  time to live of the line, ms
-- ARGV[4]  how many may have the limit; "": it is a lock
--
-- Returns  {n, {task, ...}, {task, ...}}: the first are to be woken, and are noted as woken; n tasks
--          are in the line; and up to eight were woken and have not come at once, if no task was
--          given, and none is to be woken or some time has passed; or
--          {n}: none of those looked at is to be woken: call again, with "over" and no task, to look
--          at the next thousand.

if ARGV[2] == 'granted' and redis.call('EXISTS', KEYS[2], KEYS[3], KEYS[4]) == 0 then
	return {0, {}, {}} -- as a rule: no tasks have met
end

-- include parked.lua

local task, what = ARGV[1], ARGV[2]
local told = task ~= '' and redis.call('HDEL', KEYS[4], task) == 1
local stale = what == 'missing' and not told -- it has come since, or gone back
local removed = 0
if what == 'left' then
	park(task, ARGV[3], 'first')
elseif task ~= '' and not stale then
	removed = redis.call('ZREM', KEYS[2], task)
end
local waits = redis.call('GET', KEYS[3])
if waits and waits == task and not stale then
	redis.call('DEL', KEYS[3])
	waits = nil
end
local n = redis.call('ZCARD', KEYS[2])
if n == 0 then
	redis.call('HDEL', KEYS[4], 'from')
	if removed == 1 then
		redis.call('ZREM', KEYS[5], home)
	end
	return {0, {}, {}}
elseif what == 'moved' then
	return {n, {}, {}}
end

-- One more is on its way than there is room for where the lock was found free: those before took
-- longer to come than the lock was held.
local limit = ARGV[4]
local room = math.max(roomOf(limit), 0)
local most = math.min(room + 1, 32)
local over = what == 'over' or what == 'look' or limit ~= ''
if waits and (not over or room == 0) then
	return {n, {}, {}}
end
local total, woken, _, missing, last, from = readWoken()
local late = {}
for other, how in pairs(task == '' and woken or {}) do
	if how ~= 'comes' and #late < 8 and #other <= longest then
		late[#late + 1] = other
	end
end
-- To a lock that is held the next one comes at its release: the holder is a task, or a process
-- waits. A task that went back behind others wakes nobody: two absent ones would wake each other for
-- ever.
local behind = what == 'left' and redis.call('ZRANK', KEYS[2], task) ~= 0
if total >= most or behind or room == 0 and (what == 'left' or what == 'look') then
	return {n, {}, late}
end
local wanted = limit == '' and 1 or most - total
local found, tried, missed = {}, {}, nil
local function look(other)
	local queue = queueOf(other)
	local lost = missing[queue] or 0
	-- One that does not move is looked at again, less and less often, and by one task.
	local patient = lost == 0 or now - last[queue] > lost * second and not tried[queue]
	if other == waits then
		return false -- it has come
	elseif not woken[other] and (other ~= task or what == 'left') and patient then
		found[#found + 1], tried[queue] = other, true
	elseif woken[other] == 'missing' and now - last[queue] > 10 * second then
		missed = missed or other
	end
	return #found == wanted
end
-- The very first are always looked at, so that a queue that moves again is noticed.
if each(look, 0, 4) then
	local on = each(look, from, from + 1000)
	if on and not found[1] then
		redis.call('HSET', KEYS[4], 'from', on)
		redis.call('PEXPIRE', KEYS[4], ARGV[3])
		return {n}
	elseif not found[1] then
		redis.call('HDEL', KEYS[4], 'from')
	elseif (missing[queueOf(found[1])] or 0) > 0 then
		-- Its queue is tried again: by the first of it, if that is among the first thousand.
		local one = found
		found, tried = {}, {}
		redis.call('HDEL', KEYS[4], 'from')
		each(look, 4, 1004)
		found = found[1] and found or one
	end
end
-- If there is no other, one that did not come is told again, as it may be gone. No task waits for
-- it: it is noted as one that was told a second ago.
local at = nowText
if not found[1] then
	if not missed then
		return {n, {}, late}
	end
	found[1], at = missed, string.format('%.0f', now - second)
end
for _, other in ipairs(found) do
	redis.call('HSET', KEYS[4], other, at)
end
redis.call('PEXPIRE', KEYS[4], ARGV[3])
return {n, found, what == 'look' and late or {}}
