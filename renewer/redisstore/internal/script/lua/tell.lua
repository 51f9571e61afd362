-- How a script tells those who wait for a lock. It stands in acquire.lua, renew.lua, release.lua
-- and probe.lua, where these name it, and which set its mode:
--
-- ''       there are no lines of waiters
-- 'line'   there are, on one server
-- 'shard'  there are, on a cluster: messages stay in the lock's own shard, as far as the server can
--          do so (Redis 7)
--
-- The line of a lock is a sorted set beside its lease, KEY:waiters. A member of it is a place,
-- which belongs to a process and the lock's name: "NUMBER INBOX TURN", where INBOX is whom to tell,
-- NUMBER is what the place is called there, and TURN is how many ms the place has to claim the
-- lease when its turn comes. The score is when it came, by the server's clock in us.
--
-- INBOX is a channel that one process alone subscribes to: on one server PREFIX{INBOX}:inbox, and
-- on a cluster, where it must be in the lock's slot, KEY:inbox:INBOX. A message there is the number
-- of the place that is to ask for the lock now. It is no owner token: a user who may only listen
-- learns nothing by which a lease could be freed.
--
-- While a place has its turn, the lease is "turn", TURN and the place, a line each, and lives three
-- times as long as the turn: so it shows that the turn has lapsed, for as long as that takes to be
-- noticed. The process that released the lease looks.

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
	local number, inbox = string.match(place, '^(%d+) ([%w_-]+) [1-9]%d?000$')
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

-- After a turn that has lapsed: the next places may be as dead as that one. Many are told at once,
-- so that several dead ones cost the others one turn; those who live ask, and get their ranks back.
-- Reports whether one lives.
local function passOver(key)
	local heard = false
	for _ = 1, 16 do
		local places = redis.pcall('ZPOPMIN', key .. ':waiters', 32)
		for p = 1, #places, 2 do
			heard = tell(key, places[p]) or heard
		end
		if heard or #places == 0 then
			break
		end
	end
	return heard and counted
end
