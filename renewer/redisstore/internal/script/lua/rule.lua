-- Who may have a lock, whatever is there. It stands in acquire.lua, propose.lua and begin.lua.
--
-- Answers:
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

local asMode, lines, inbox = string.match(ARGV[4], '^(%l*) (%d+) ([%w_-]*)$')

-- include line.lua
-- include grant.lua

-- Marks a lease as one that is waited for, or returns why the server refuses that: without the mark
-- its release would wake no caller, so that none may be told to wait for it. A server whose memory
-- is full refuses what would take more of it to a script that has written nothing; so this writes
-- what changes nothing first.
local function markWaitedFor(lease, value)
	local marked = redis.pcall('SET', lease, value .. '\n+', 'KEEPTTL')
	if marked.err then
		redis.pcall('DEL', lease .. ':freed') -- which is a channel, and no key
		marked = redis.pcall('SET', lease, value .. '\n+', 'KEEPTTL')
	end
	return marked.err and marked
end

-- Answers one claim.
local function claim(lease, owner, from, holder)
	if #owner ~= 22 then
		return redis.error_reply('LOCKBEAT the owner token has ' .. #owner ..
			' bytes; give one of 22')
	end
	local value = redis.pcall('GET', lease)
	if type(value) == 'table' then
		return value -- the error, such as WRONGTYPE, as the server words it
	end
	local place, turn, since
	if #from > 1 and asMode ~= '' then
		place, turn, since = string.match(from, '^(%d+) (%d+) ?(%d*)$')
		place = place .. ' ' .. inbox .. ' '
	end

	if value and string.sub(value, 1, 22) == owner then
		local fence = string.match(string.sub(value, 23), '^\n(%d+)\n')
		if not fence or #fence > 16 then
			return redis.error_reply('LOCKBEAT the value of ' .. lease ..
				' is damaged; delete the key')
		end
		local life = math.max(redis.call('PTTL', lease), tonumber(ttl)) -- never shortened
		if proposed and proposed ~= fence then
			return grant(lease, owner, '', holder, life, true)
		end
		-- The reply to an earlier try was lost: it is one grant. The time is written also if that
		-- changes nothing: a WAIT behind this goes by the last write of the connection, and the
		-- earlier try may have been on another one.
		redis.call('PEXPIRE', lease, life)
		return tonumber(fence)
	end

	local over, left = not value, nil
	if value and string.sub(value, 1, 5) == 'turn\n' then
		if place and string.find(value, '\n' .. place, 6, true) then
			return grant(lease, owner, from, holder, ttl, true)
		end
		over, left = lapsed(lease, value)
	end
	if over then -- who asks first has it
		local answer = grant(lease, owner, from, holder, ttl, value or place)
		if place then
			leaveLine(lease, place)
		end
		if value then
			-- include tell.lua
			setMode(asMode)
			passOver(lease)
		end
		return answer
	end

	if not left and string.sub(value, -2) ~= '\n+' and #value < 300 and
		string.find(value, '^[!%w_-]+\n%d+\n%d+\n') then
		local refused = markWaitedFor(lease, value)
		if refused then
			return refused
		end
	end
	-- A value that is longer than ours are is not sent whole to every caller who is refused.
	return {left and '' or string.sub(value, 1, 300), left or redis.call('PTTL', lease), now,
		place and standInLine(lease, place, turn, since)}
end
