-- Frees the leases that their owners still have, or lets them lapse after a given time, and tells
-- those who wait for them. One that was broken (break.lua) is freed at once. A lease with a line of
-- waiters is granted to the first of them: see tell.lua.
--
-- KEYS[i]    the leases, n of them, at most 100
-- ARGV[1]    time that they stay held, ms; 0: none
-- ARGV[2]    "MODE INBOX MARKTTL MARK": the mode, and the inbox of the places, see tell.lua; the
--            time to live of the mark, ms, and its key, see acquire.lua
-- ARGV[2+i]  owner token of KEYS[i], 22 bytes; of one that is kept, and may have been claimed
--            natively (native.go), "=" and its fencing token, which is noted; and if a place is
--            given up with it, a space and the place, as it stands in the line or up to its second
--            space. 22 spaces are no owner's: they look for the next if a lease has lapsed
--
-- Returns    the exceptions, in order of i: i if another owner has KEYS[i], or another program, and
--            behind it the key's value, as renew.lua does; -i if nobody has. Another owner's key is
--            left as it is; one that is gone goes to the next as if it had been freed: nobody else
--            tells them. Behind these, "i MS" for each lease that was granted on, for so long.
--
-- Tells the place that is granted one; if the lease stays held, the first 32. If there is none, it
-- publishes on KEYS[i]:freed an empty message for all who wait without one. A lease that is not
-- waited for (rule.lua) is freed without a look for waiters.

-- The usual case: one lease, and its owner frees it.
if #KEYS == 1 and ARGV[1] == '0' then
	local value = redis.pcall('GET', KEYS[1])
	if type(value) == 'string' and string.sub(value, 1, 22) == ARGV[3] then
		if string.sub(value, -2) ~= '\n+' then
			redis.call('DEL', KEYS[1])
			return {}
		end
		local values, freed, answers, terms = {value}, {1}, {}, ARGV[2]
		-- include passon.lua
		return answers
	end
end

local values = redis.call('MGET', unpack(KEYS))
local keep = tonumber(ARGV[1])
local over, rest, freed = {}, {}, {} -- freed: those to pass on

-- The usual cases of several: the lease is its owner's, who frees it.
for i = 1, #KEYS do
	local key, value = KEYS[i], values[i]
	if value and keep == 0 and string.sub(value, 1, 22) == ARGV[2 + i] and not over[key] then
		over[key] = true -- if it comes again in this call, it is nobody's
		if string.sub(value, -2) == '\n+' then
			freed[#freed + 1] = i
		else
			redis.call('DEL', key)
		end
	else
		rest[#rest + 1] = i
	end
end

if not rest[1] and not freed[1] then
	return rest
end

local answers, terms = {}, ARGV[2]
if rest[1] then
	-- include tell.lua
	-- include lost.lua
	setMode(string.match(terms, '^%l*'))
	for _, i in ipairs(rest) do
		local key, value = KEYS[i], not over[KEYS[i]] and values[i]
		local owner = string.sub(ARGV[2 + i], 1, 22)
		local token, place = string.match(ARGV[2 + i], '^=?(%d*) ?(.*)$', 23)
		if place ~= '' then
			redis.pcall('ZREM', key .. ':waiters', place)
			if string.sub(place, -1) == ' ' then
				for _, other in ipairs(redis.pcall('ZRANGE', key .. ':waiters', 0, -1)) do
					if string.sub(other, 1, #place) == place then
						redis.pcall('ZREM', key .. ':waiters', other)
					end
				end
			end
		end
		if value and string.sub(value, 1, 22) == owner then
			if keep > 0 then
				redis.call('PEXPIRE', key, keep)
				if token ~= '' and string.sub(value, 23, 25) == '\n0\n' then
					redis.call('SET', key, owner .. '\n' .. token .. string.sub(value, 25), 'KEEPTTL')
				end
				wake(key, 32) -- who leaves the line before then tells none of the others
			else
				over[key] = true
				freed[#freed + 1] = i
			end
		elseif value and string.sub(value, 1, 22) == '!' .. string.sub(owner, 2) then
			over[key] = true -- it was broken, and its operation has returned
			redis.call('DEL', key .. ':broken:!' .. string.sub(owner, 2))
			freed[#freed + 1] = i
		elseif over[key] then
			answers[#answers + 1] = -i
		else
			answerLost(answers, i, key, value, owner)
			if not value then
				over[key] = true -- once for all who find it gone
				-- What MGET does not show may be another program's key.
				local owned = string.sub(owner, 1, 1) ~= ' '
				if owned and redis.pcall('EXISTS', key) == 0 then
					freed[#freed + 1] = i
				elseif owned or not passOver(key) then
					tellAll(key)
				end
			end
		end
	end
end

-- include passon.lua
return answers
