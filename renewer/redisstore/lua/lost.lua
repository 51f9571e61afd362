-- How a script answers for a lease that is not its owner's any more. It stands in renew.lua and
-- release.lua, where these name it.

-- Answers for lease i, whose value MGET has shown: -i if the key is gone; otherwise i, and what is
-- there. Values of ours are shorter than 300 bytes.
local function answerLost(answers, i, key, value)
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
