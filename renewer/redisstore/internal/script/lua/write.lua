-- Replaces the record of a lock, for the holder whose term it is.
--
-- KEYS[1]  the record: PREFIX{name}:record
-- ARGV[1]  the holder's fencing token, in decimal, below 2^53
-- ARGV[2]  the number of this record among the holder's, in decimal, below 2^53
-- ARGV[3]  time to live of the record, ms; or "0": remove the record and its term
-- ARGV[4]  the data
--
-- Returns  1 if this is the record now, be it that it was before, or if it was removed; or, and
--          nothing is changed, 0 if a holder with a higher token has looked since, -1 if the term
--          is not there: it has lapsed, or never began, -2 if the holder has written a record of a
--          higher number, or another one of this number; or
--          an error, and nothing is changed.
--
-- See look.lua for what a record looks like.

local value = redis.pcall('GET', KEYS[1])
if type(value) == 'table' then
	return value -- the error, such as WRONGTYPE, as the server words it
end
if not value then
	return -1
end

local term, fence, seq, rest = string.match(value, '^(%d+) (%d+) (%d+)\n()')
if not term or #term > 16 or #fence > 16 or #seq > 16 then
	return redis.error_reply('LOCKBEAT the record ' .. KEYS[1] .. ' is damaged; delete the key')
end
local mine, number = tonumber(ARGV[1]), tonumber(ARGV[2])
term, fence, seq = tonumber(term), tonumber(fence), tonumber(seq)
if term > mine then
	return 0
elseif term < mine then
	return -1
elseif fence == mine and (seq > number or seq == number and (ARGV[3] == '0' or string.sub(value, rest) ~= ARGV[4])) then
	return -2
end
if ARGV[3] == '0' then
	redis.call('DEL', KEYS[1])
	return 1
end
redis.call('SET', KEYS[1], ARGV[1] .. ' ' .. ARGV[1] .. ' ' .. ARGV[2] .. '\n' .. ARGV[4], 'PX', ARGV[3])
return 1
