-- Gives a lock to an owner if its record is still the one that the owner names, and begins the
-- owner's term as the holder in the same step: look.lua without a token, acquire.lua for one lease,
-- and look.lua with the fencing token that was granted.
--
-- KEYS     those of acquire.lua, and behind them the record: PREFIX{name}:record
-- ARGV     those of acquire.lua, and behind them ARGV[2] to ARGV[5] of look.lua. The record that
--          ARGV[4] and ARGV[5] name is also the one that the lock depends on
--
-- Returns  {false, seen} with what look.lua returns, if the record is another one, and not one that
--          the owner has written under the lease that it has: nothing is changed; or
--          {answer} with what acquire.lua returns, if the owner does not have the lock, or if a
--          holder with a higher token has looked: then no term begins; or
--          {answer, seen} with what acquire.lua and look.lua return; or
--          an error, and nothing is changed.

local last = #ARGV
local term = {'0', ARGV[last - 3], ARGV[last - 2], ARGV[last - 1], ARGV[last]}
local record = {table.remove(KEYS)}
for _ = 1, 4 do
	table.remove(ARGV)
end

local function acquire()
-- include acquire.lua
end

local function look(KEYS, ARGV)
-- include look.lua
end

if tonumber(term[2]) < 1 or #term[3] > 16777216 then
	return redis.error_reply('LOCKBEAT the term of ' .. KEYS[1] .. ' lives for ' .. term[2] ..
		' ms and has ' .. #term[3] .. ' bytes; give it at least 1 ms and at most 16 MiB')
end
local seen = look(record, {'0', term[2], '', '0', '0'})
if seen.err then
	return seen
end
if seen[1] ~= tonumber(term[4]) or seen[2] ~= tonumber(term[5]) then
	-- It is as good if the reply to an earlier try was lost.
	local value = redis.pcall('GET', KEYS[1])
	local fence = type(value) == 'string' and string.sub(value, 1, 22) == ARGV[5] and
		string.match(string.sub(value, 23), '^\n(%d+)\n')
	if not fence or tonumber(fence) ~= seen[1] then
		return {false, seen}
	end
end

local answer = acquire()
if type(answer) == 'table' and answer.err then
	return answer
end
local fence = answer
if type(answer) == 'table' then
	fence = #answer == 2 and answer[1] -- with how many more tokens are the owner's
end
if not fence then
	return {answer}
end
term[1] = string.format('%.0f', fence)
seen = look(record, term)
return {answer, #seen == 5 and seen or nil}
