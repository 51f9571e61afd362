-- Answers for slot i, which its owner has not: i, and how it was broken, if it was; or -i. Reports
-- whether it is broken and not freed yet. It stands in slots_renew.lua and slots_release.lua.
local function answerLost(answers, i, key, owner)
	local token = '!' .. string.sub(owner, 2, 22)
	local how = redis.pcall('GET', key .. ':broken:' .. token)
	local broken = redis.call('ZSCORE', key, token)
	if type(how) == 'string' or broken then
		how = type(how) == 'string' and how or 'broken\n\n' -- it may have been deleted
		answers[#answers + 1], answers[#answers + 2] = i, string.sub(how, 1, 300)
		-- include told.lua
	else
		answers[#answers + 1] = -i
	end
	return broken
end
