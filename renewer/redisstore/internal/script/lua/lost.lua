-- How a script answers for a lease that is not its owner's any more. It stands in renew.lua and
-- release.lua, where these name it.

-- Answers for lease i, whose value MGET has shown: -i if the key is gone; otherwise i, and what is
-- there, or, if it was broken (break.lua), how, and by whom and why. Values of ours are shorter than
-- 300 bytes. Reports whether it is broken and not freed yet.
local function answerLost(answers, i, key, value, owner)
	local token = '!' .. string.sub(owner, 2, 22)
	local how = redis.pcall('GET', key .. ':broken:' .. token)
	local broken = value and string.sub(value, 1, 22) == token
	if type(how) == 'string' or broken then
		how = type(how) == 'string' and how or 'broken\n\n' -- it may have been deleted
		answers[#answers + 1], answers[#answers + 2] = i, string.sub(how, 1, 300)
		-- include told.lua
		return broken
	end
	if not value then
		local reply = redis.pcall('GET', key)
		if type(reply) == 'table' and string.find(reply.err, 'WRONGTYPE', 1, true) then
			value = '' -- MGET shows nothing of a key of another type
		end
	end
	answers[#answers + 1] = value and i or -i
	if value then
		answers[#answers + 1] = string.sub(value, 1, 300)
	end
end
