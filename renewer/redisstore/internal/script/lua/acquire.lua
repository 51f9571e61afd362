-- Gives locks to owners, each unless another owner has it, with fencing tokens that rise.
--
-- KEYS[i]    the leases, n of them, at most 100: PREFIX{name}
-- KEYS[n+1]  on a cluster, with a place, the line: so that none is made in a slot that is only
--            arriving, beside the one to come
-- ARGV[1]    time to live of the leases, ms
-- ARGV[2]    time to live of the mark and of other counters of tokens, ms
-- ARGV[3]    the key of the mark
-- ARGV[4]    "MODE LINES INBOX": the mode, see tell.lua; the time to live of the lines in ms; and
--            the inbox of the places, for slots_acquire.lua
-- ARGV[2+3i] owner token of KEYS[i], 22 bytes
-- ARGV[3+3i] the place from which it asks: when it came, in us; "0" if it was presented, and has
--            not heard that; "" before; a space, and the place as it stands in the line, see
--            tell.lua. "+", if it has no place yet; or "" if it does not wait
-- ARGV[4+3i] its holder, as text: node, pid, operation and, if there is one, traceparent, a line
--            each
--
-- Returns, of n > 1 leases, an array of what rule.lua answers, and otherwise that itself.
--
-- A token is above the server's clock in us and above the mark, and so above every earlier one. The
-- mark is the highest token granted or reserved on the server, or in the slot. Tokens are reserved
-- for an owner who waits, up to 10 ms ahead of the clock: as many as microseconds since the last
-- grant. Where tokens are given too (propose.lua), the mark begins with "g", and a name may have a
-- counter of its own.
--
-- Numbers in Lua are doubles: exact up to 2^53 - 1 = 9007199254740991, which the clock in us
-- reaches in the year 2255; it has 16 digits until 2286. They are never made text by tostring, which
-- keeps 14 digits.

local ttl, markKey, n = ARGV[1], ARGV[3], (#ARGV - 4) / 3
local time = redis.call('TIME')
local nowText = time[1] .. (#time[2] == 6 and time[2] or string.sub('00000' .. time[2], -6))
local now = tonumber(nowText)
local proposed, reserve -- of propose.lua alone

if n == 1 then
	local lease, owner, from, holder = KEYS[1], ARGV[5], ARGV[6], ARGV[7]
	-- The usual case: nobody has the lease, and the mark is not far ahead. It is as rule.lua has it.
	if from == '' and #owner == 22 then
		local there = redis.pcall('MGET', lease, markKey, lease .. ':fence')
		local mark = there[1] == false and not there[3] and (there[2] or '0000000000000000')
		if mark and #mark == 16 and string.find(mark, '^%d+$') then
			local token, text = now, nowText
			if mark >= nowText then
				token = mark + 1
				text = string.format('%.0f', token)
			end
			local got = token < now + 10000 and redis.pcall('SET', lease, owner .. '\n' .. text ..
				'\n' .. nowText .. '\n' .. holder, 'NX', 'PX', ttl)
			if got and got.ok then -- what the server refuses may be another owner's: see rule.lua
				redis.call('SET', markKey, text, 'PX', ARGV[2])
				return token
			end
		end
	end
	-- include rule.lua
end

-- The usual cases of several: nobody has the lease, and no place is in its line.
local mark = redis.pcall('MGET', markKey)[1] -- without it, a name may still have a counter
mark = mark and #mark <= 16 and string.find(mark, '^%d+$') and tonumber(mark)
mark = mark and mark < 9007199254740990 and mark -- else rule.lua says what is wrong
local answers, rest = {}, {}
for i = 1, n do
	local owner, from = ARGV[2 + 3 * i], ARGV[3 + 3 * i]
	if mark and #from < 2 and #owner == 22 then
		local token, text = now, nowText
		if mark >= now then
			token = mark + 1
			text = string.format('%.0f', token)
		end
		local got = redis.pcall('SET', KEYS[i], owner .. '\n' .. text .. '\n' .. nowText .. '\n' ..
			ARGV[4 + 3 * i], 'NX', 'PX', ttl)
		if got and got.ok then -- what the server refuses may be another owner's: see rule.lua
			mark = from == '' and token or math.max(token, now + 10000)
			answers[i] = mark > token and {token, mark - token} or token
		end
	end
	if not answers[i] then
		rest[#rest + 1] = i
	end
end
if #rest < n then
	-- It lives longer than the clock may have been set back since.
	local ahead = mark > now + 10000 and math.ceil((mark - now) / 1000)
	redis.call('SET', markKey, mark == now and nowText or string.format('%.0f', mark), 'PX',
		ahead and ARGV[2] + ahead or ARGV[2])
end
if #rest > 0 then
	local function claim(lease, owner, from, holder)
		-- include rule.lua
	end
	for _, i in ipairs(rest) do
		answers[i] = claim(KEYS[i], ARGV[2 + 3 * i], ARGV[3 + 3 * i], ARGV[4 + 3 * i])
	end
end
return answers
