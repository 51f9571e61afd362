-- Frees the slots that their owners still have, or lets them lapse after a given time, and passes
-- each on to the first in line.
--
-- KEYS[i]    the limit of each slot, n of them, at most 100: see slots.lua; on a cluster, where all
--            are of one limit, its holders as well
-- ARGV[1]    time that they stay held, ms; 0: none
-- ARGV[2]    "MODE INBOX": see release.lua
-- ARGV[2+i]  owner token of slot i, 22 bytes, and a place that is given up, as for release.lua; 22
--            spaces are no owner's: they pass on the turns, and the slots, that have lapsed
--
-- Returns    as release.lua does: -i if the owner has no slot, i and "" if the key is another
--            program's, i and how if it was broken by force; and behind these "i TURN" for each slot that is kept for a place now.

local keep = tonumber(ARGV[1])
local time = redis.call('TIME')
local nowText = time[1] .. string.sub('00000' .. time[2], -6)
local now = tonumber(nowText)

-- The usual case: the slot is its owner's, who frees it, none has lapsed, and nobody waits.
local rest, usual = {}, {}
for i = 1, #ARGV - 2 do
	local key, owner = KEYS[i], ARGV[2 + i]
	local holders = key .. ':holders'
	if usual[key] == nil then
		usual[key] = keep == 0 and redis.pcall('ZCOUNT', key, '-inf', nowText) == 0 and
			redis.pcall('HEXISTS', holders, '+') == 0
	end
	if usual[key] and #owner == 22 and redis.call('ZREM', key, owner) == 1 then
		redis.call('HDEL', holders, owner)
	else
		usual[key], rest[#rest + 1] = false, i
	end
end
if not rest[1] then
	return rest
end

local asMode, inbox = string.match(ARGV[2], '^(%l*) ([%w_-]*) ')
-- include tell.lua
-- include line.lua
-- include lives.lua
-- include slots.lua
-- include slots_lost.lua
setMode(asMode)

local answers, turns = {}, {}
for _, i in ipairs(rest) do
	local key, owner, place = KEYS[i], string.sub(ARGV[2 + i], 1, 22), string.sub(ARGV[2 + i], 24)
	local holders, turn = key .. ':holders', nil
	if place ~= '' and asMode ~= '' then
		place = place .. ' ' .. inbox
		leaveLine(key, place .. ' ')
		if redis.pcall('ZREM', key, place) == 1 then
			turn = free(key, place, holders)
		end
	end
	local till = redis.pcall('ZSCORE', key, owner)
	local broken = not till and '!' .. string.sub(owner, 2)
	if type(till) == 'table' and till.err then
		answers[#answers + 1], answers[#answers + 2] = i, ''
	elseif broken and redis.call('ZSCORE', key, broken) then -- its operation has returned
		turn = free(key, broken, holders) or turn
		redis.call('DEL', key .. ':broken:' .. broken)
	elseif till and tonumber(till) > now then
		if keep == 0 then
			turn = free(key, owner, holders) or turn
		else
			redis.pcall('ZREM', key, '') -- see slots_renew.lua
			redis.call('ZADD', key, string.format('%.0f', now + keep * 1000), owner)
			lives(key, keep)
			wake(key, 32) -- who leaves the line before then tells none of the others
		end
	else
		answerLost(answers, i, key, owner)
		turn = redis.call('EXISTS', key) == 1 and purge(key) or turn
		if not till and owner ~= string.rep(' ', 22) then
			wake(key, 1) -- nobody else tells them
		end
	end
	if turn then
		turns[#turns + 1] = i .. ' ' .. turn
	end
end
for _, turn in ipairs(turns) do
	answers[#answers + 1] = turn
end
return answers
