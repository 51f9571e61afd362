-- Who may have a lock, whatever is there: answers one claim, of lease, owner, from and holder. It
-- stands in acquire.lua, propose.lua and begin.lua, and makes a function only where few claims come
-- by: each that a script makes costs as much as a short command.
--
-- Returns:
--   token           the owner has the lock
--   {token, m}      the same, and it has the m tokens above that as well
--   {value, ms, us} another owner has it: its value, cut to 300 bytes ("" while it is another
--                   place's turn), its remaining time to live in ms (-1: it has none), and the
--                   server's clock in us; and a fourth element, when the place came in us, if the
--                   place stands in the line
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
local place, turn, since, lines
if #from > 1 then
	local inbox
	lines, inbox = string.match(ARGV[4], '^%l+ (%d+) (.*)$')
	if lines then
		place, turn, since = string.match(from, '^(%d+) (%d+) ?(%d*)$')
		place = place .. ' ' .. inbox .. ' '
	end
end

local free, life, waitedFor, left = not value, ttl, value or place, nil
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
		return tonumber(fence)
	end
	-- A native claim (native.go) whose answer was lost, or came to nothing: it has no token yet.
	free = true
elseif string.sub(value, 1, 5) == 'turn\n' then
	if place and string.find(value, '\n' .. place, 6, true) then
		free, place = true, nil -- it is in the line no more
	else
		local ms = string.match(value, '^turn\n(%d+)\n')
		left = ms and redis.call('PTTL', lease) - 2 * ms
		free = left and left <= 0 -- it has lapsed: who asks first has it
	end
end

if not free then
	-- Marks it as waited for. Without that its release would wake no caller, so that none may be
	-- told to wait for it.
	if not left and string.sub(value, -2) ~= '\n+' and #value < 300 and
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
		-- include stand.lua
	end
	-- A value that is longer than ours are is not sent whole to every caller who is refused.
	return {left and '' or string.sub(value, 1, 300), left or redis.call('PTTL', lease), now, rank}
end

-- include grant.lua
if place then
	-- include line.lua
	leaveLine(lease, place)
end
if left then
	-- include tell.lua
	setMode(string.match(ARGV[4], '^%l*'))
	passOver(lease)
end
return top > token and {token, top - token} or token
