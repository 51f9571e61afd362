-- Who may have a lock, whatever is there: answers one claim, of lease, owner, from and holder. It
-- stands in acquire.lua, propose.lua and begin.lua, and makes a function only where few claims come
-- by: each that a script makes costs as much as a short command.
--
-- Returns:
--   token           the owner has the lock
--   {token, m}      the same, and it has the m tokens above that as well
--   {value, ms, us} another owner has it: its value, cut to 300 bytes, its remaining time to live
--                   in ms (-1: it has none), and the server's clock in us; and a fourth element,
--                   when the place came in us, if the place stands in the line
--   {counter}       propose.lua: its token is not above this
--   an error        nothing is changed
--
-- A lease whose value ends with a line "+" is waited for: an owner was refused while it was held,
-- or those in its line may be. release.lua looks for waiters of such a lease only.

if #owner ~= 22 then
	return redis.error_reply('LOCKBEAT the owner token has ' .. #owner ..
		' bytes; give one of 22')
end
local value = redis.pcall('GET', lease)
if type(value) == 'table' then
	return value -- the error, such as WRONGTYPE, as the server words it
end
local since, place
if #from > 1 then
	local ends = string.find(from, ' ', 1, true)
	since, place = string.sub(from, 1, ends - 1), string.sub(from, ends + 1)
end

local free, life, waitedFor = not value, ttl, value or place
if free then
	-- who asks first has it
elseif string.sub(value, 1, 22) == owner then
	local fence = string.match(string.sub(value, 23), '^\n(%d+)\n')
	if not fence or #fence > 16 then
		return redis.error_reply('LOCKBEAT the value of ' .. lease ..
			' is damaged; delete the key')
	end
	life = math.max(redis.call('PTTL', lease), tonumber(ttl)) -- never shortened
	if proposed and proposed == fence or not proposed and fence ~= '0' then
		-- The reply to an earlier try was lost: it is one grant. The time is written also if that
		-- changes nothing: a WAIT behind this goes by the last write of the connection, and the
		-- earlier try may have been on another one.
		redis.call('PEXPIRE', lease, life)
		local before = place and string.match(value, '^[^\n]+\n%d+\n%d+\n')
		if before and not string.find(value .. '\n', '\n' .. holder .. '\n', 24, true) then
			-- Another caller of the process goes on from the place whose claim was granted.
			redis.pcall('SET', lease, before .. holder .. '\n+', 'XX', 'KEEPTTL')
		end
		return tonumber(fence)
	end
	-- A native claim (native.go) whose answer was lost, or came to nothing, or a lease that is kept
	-- for the place (passon.lua): it has no token yet.
	free = true
end

if not free then
	-- Marks it as waited for. Without that its release would wake no caller, so that none may be
	-- told to wait for it.
	if string.sub(value, -2) ~= '\n+' and #value < 300 and
		string.find(value, '^[!%w_-]+\n%d+\n%d+\n') then
		-- XX: in miniredis keys lapse during a script.
		local marked = redis.pcall('SET', lease, value .. '\n+', 'XX', 'KEEPTTL')
		if marked and marked.err then
			-- A server whose memory is full refuses what would take more of it to a script that
			-- has written nothing; so this writes what changes nothing first. It is a channel's
			-- name, and no key's.
			redis.pcall('DEL', lease .. ':freed')
			marked = redis.pcall('SET', lease, value .. '\n+', 'XX', 'KEEPTTL')
		end
		if marked and marked.err then
			return marked
		end
	end
	local rank
	if place then
		local lines = string.match(ARGV[4], ' (%d+)')
		-- include stand.lua
	end
	-- A value that is longer than ours are is not sent whole to every caller who is refused.
	return {#value < 300 and value or string.sub(value, 1, 300), redis.call('PTTL', lease), now, rank}
end

-- include grant.lua
if place and since ~= '' then -- it may be in the line
	redis.pcall('ZREM', lease .. ':waiters', place)
	local first = not value and redis.pcall('ZRANGE', lease .. ':waiters', 0, 0, 'WITHSCORES')[2]
	if first and tonumber(first) < tonumber(since) then
		-- a lease has lapsed, and who stands before it may be dead
		-- include tell.lua
		setMode(string.match(ARGV[4], '^%l*'))
		passOver(lease)
	end
end
return top > token and {token, top - token} or token
