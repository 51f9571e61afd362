-- Renews the leases that their owners still have. Never shortens a lease, never creates one.
--
-- KEYS[i]    the leases, at most 100, so that the script takes less than a millisecond
-- ARGV[1]    time to live, ms
-- ARGV[1+i]  owner token of KEYS[i], 22 bytes
-- ARGV[2+n]  of n keys: "MODE I CALLERS I=TOKEN ...": the mode, see tell.lua; and for each lease i
--            whose owner tells, how many callers of its process wait for it: see callers.lua; and of
--            one that may have been claimed natively (native.go), its fencing token, which is noted
--
-- Returns    the exceptions only, in order of i, so that the usual reply is an empty array:
--            i if another owner has KEYS[i], or another program, and behind it the key's value, cut
--            to 300 bytes ("" if it is of another type), or of a lease that was broken what
--            break.lua has kept of that; -i if nobody has.
--
-- Has those who wait for each of these ask: nobody has told them that the key was deleted, or
-- overwritten. It is not renewed again.

-- A value that a neighbour has made huge is read whole here, and not sent whole. The answer ends
-- the lease, so that it happens once. STRLEN before each GET would need a further right and slow
-- down every heartbeat, and a neighbour who can write here can stall the server by a script all the
-- same.

local ttl = ARGV[1] -- as text, since to make that of a number for each key costs a seventh of all
local values = redis.call('MGET', unpack(KEYS))
-- PEXPIRE ... GT, which Redis has since 7, is quicker than a look at each TTL.
local longer = redis.REDIS_VERSION_NUM ~= nil
local lost, answers = {}, {}
for i = 1, #KEYS do
	local value, owner = values[i], ARGV[i + 1]
	if not value or string.sub(value, 1, 22) ~= owner then
		lost[#lost + 1] = i
	elseif longer and redis.pcall('PEXPIRE', KEYS[i], ttl, 'GT') == 1 then
		-- done
	elseif redis.call('PTTL', KEYS[i]) < tonumber(ttl) then
		redis.call('PEXPIRE', KEYS[i], ttl)
	end
end
local tells = ARGV[#KEYS + 2]
if string.find(tells, ' ', 1, true) then
	for i, token in string.gmatch(tells, ' (%d+)=(%d+)') do
		i = tonumber(i)
		if string.sub(values[i] or '', 1, 25) == ARGV[i + 1] .. '\n0\n' then
			values[i] = ARGV[i + 1] .. '\n' .. token .. string.sub(values[i], 25)
			redis.pcall('SET', KEYS[i], values[i], 'KEEPTTL')
		end
	end
	-- include callers.lua
	for i, callers in string.gmatch(tells, ' (%d+) (%d+)') do
		i = tonumber(i)
		if string.sub(values[i] or '', 1, 22) == ARGV[i + 1] then
			redis.pcall('SET', KEYS[i], withCallers(values[i], callers), 'KEEPTTL')
		end
	end
end
if #lost > 0 then
	-- include tell.lua
	-- include lost.lua
	setMode(string.match(tells, '^%l*'))
	for _, i in ipairs(lost) do
		if not answerLost(answers, i, KEYS[i], values[i], ARGV[i + 1]) then
			wake(KEYS[i], 1)
		end
	end
end
return answers
