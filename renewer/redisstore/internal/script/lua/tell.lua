-- How a script tells those who wait for a lock. It stands in acquire.lua, renew.lua, release.lua
-- and probe.lua, where these name it, and which set its mode:
--
-- ''       there are no lines of waiters
-- 'line'   there are, on one server
-- 'shard'  there are, on a cluster: messages stay in the lock's own shard, as far as the server can
--          do so (Redis 7)
--
-- The line of a lock is a sorted set beside its lease, KEY:waiters. A member of it is a place,
-- which belongs to a process and the lock's name, with the claim that was first made from it:
-- "NUMBER INBOX OWNER TTL", another space if it is to ask, and a line feed and the holder. INBOX is
-- whom to tell, and NUMBER what the place is called there. The score is when it came, by the
-- server's clock in us. A release grants that claim (passon.lua), or keeps the lease for it: for TTL
-- ms.
--
-- In the line of a limit it is "NUMBER INBOX TURN", where TURN is how many ms the place has to claim
-- a slot when its turn comes: see slots.lua.
--
-- INBOX is a channel that one process alone subscribes to: on one server PREFIX{INBOX}:inbox, and
-- on a cluster, where it must be in the lock's slot, KEY:inbox:INBOX. A message there is the number
-- of the place that is to ask now; or "NUMBER WORD TOKEN TOP": its claim has been granted, with that
-- token and those up to TOP. WORD is the first 8 bytes of the owner token: a user who may only
-- publish does not know it, and one who may only listen learns too little to free a lease.
--
-- Who died or hangs with a grant has the lease until its TTL is over. The process that released it
-- looks then.

local mode
local counted = true -- whether the server knows how many hear a message
local publish = 'PUBLISH'

local function setMode(as)
	mode = as
	if mode == 'shard' then
		counted = redis.REDIS_VERSION_NUM ~= nil
		publish = counted and 'SPUBLISH' or 'PUBLISH' -- which Redis 6 does not have
	end
end

-- Tells a place that it may ask, and reports whether its process can hear it.
local function tell(key, place)
	local number, inbox = string.match(place, '^(%d+) ([%w_-]+) ')
	if not number then
		return false -- of none of our making
	end
	local channel = key .. ':inbox:' .. inbox
	if mode == 'line' then
		channel = string.match(key, '^[^{]*{') .. inbox .. '}:inbox'
	end
	local heard = redis.pcall(publish, channel, number)
	return type(heard) == 'number' and (heard > 0 or not counted)
end

-- Tells all who listen on the lock's own channel: those who wait for it without a place, and those
-- who have waited for long in a line, which may be lost. So nothing is told there while a place in
-- the line hears that it may ask.
local function tellAll(key)
	redis.call(publish, key .. ':freed', '')
end

-- Has the first n places in a lock's line ask, one that lives at least, which keep their ranks; or
-- all who wait, if there is none.
local function wake(key, n)
	local heard = false
	for _ = 1, mode ~= '' and 500 or 0 do
		local places = redis.pcall('ZRANGE', key .. ':waiters', 0, n - 1)
		for _, place in ipairs(places) do
			if tell(key, place) then
				heard = true
			else
				redis.pcall('ZREM', key .. ':waiters', place)
			end
		end
		if heard or #places == 0 then
			break
		end
	end
	if not heard or not counted then
		tellAll(key)
	end
end

-- After a grant that has lapsed: the next places may be as dead as that one. Many are told at once,
-- so that several dead ones cost the others one TTL; those who live ask, and get their ranks back.
-- Reports whether one lives.
local function passOver(key)
	local heard = false
	for _ = 1, 5 do
		local places = redis.pcall('ZPOPMIN', key .. ':waiters', 100)
		for p = 1, #places, 2 do
			heard = tell(key, places[p]) or heard
		end
		if heard or #places == 0 then
			break
		end
	end
	return heard and counted
end
